//! Renders the reference of the API, ahead of time, from its two sources: `openapi.yaml` describes the operations, and
//! `docs/api.md` explains the rest. The result is committed (`src/api/docs/`), and a test of the service compares it with its
//! sources, so that neither the binary nor its build needs this package.

mod code;
mod document;
mod field;
mod guide;
mod html;
mod operation;
mod plain;
mod sample;

use document::Document;
use html::escape;
use serde_json::Value;

/// The server in the examples of the sources. Its address is replaced by the real one when the reference is served.
pub const ORIGIN: &str = "http://127.0.0.1:8080";

/// The place in the guide where the operations belong.
const MARK: &str = "<!-- reference -->";

/// The reference in both of its forms.
#[derive(Debug)]
pub struct Reference {
    /// The page.
    pub html: String,
    /// The same text as Markdown.
    pub markdown: String,
}

/// Renders the reference.
pub fn render(openapi: &Value, guide: &str) -> Reference {
    let document = Document::new(openapi);
    let (before, after) = guide.split_once(MARK).unwrap_or((guide, ""));
    let mut parts = guide::parts(before, &document);
    let introduction = parts.remove(0);
    let after = guide::parts(after, &document);
    let mut objects = field::objects(&document);
    objects.push(field::headers_part(&document));
    let groups = [
        ("Guide", parts),
        ("Operations", operation::parts(&document)),
        ("Objects and headers", objects),
        ("Errors and changes", after),
    ];
    let mut contents = String::new();
    // Beside the introduction is the form for the key.
    let form = "</div><div class=\"beside\"><!-- key --></div></div>\n</section>";
    let mut text = introduction.html.replace("</div></div>\n</section>", form);
    for (title, parts) in groups {
        let id = html::slug(title);
        contents += &format!(
            "<li><p id=\"contents-{id}\">{title}</p><ul aria-labelledby=\"contents-{id}\">"
        );
        for part in parts {
            contents += &format!("<li><a href=\"#{}\">{}</a></li>", part.id, part.label);
            text += &part.html;
        }
        contents += "</ul></li>\n";
    }
    let html = include_str!("page.html")
        .replace("<!-- version -->", &escape(document.version()))
        .replace("<!-- contents -->", &contents)
        .replace("<!-- text -->", &text)
        .replace("<!-- key -->", include_str!("key.html").trim_end());
    Reference {
        html,
        markdown: plain::reference(guide, &document),
    }
}

/// A part of the reference that the contents name.
struct Part {
    id: String,
    /// Its name in the contents, as HTML.
    label: String,
    html: String,
}
