//! The guide, `docs/api.md`: sections of text, with the code of each paragraph beside it.

use std::collections::VecDeque;
use std::ops::Range;

use pulldown_cmark::{
    CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd, html::push_html,
};

use crate::document::Document;
use crate::html::{escape, heading, row, slug};
use crate::{Part, code};

type Events<'a> = VecDeque<(Event<'a>, Range<usize>)>;

fn events<'a>(markdown: &'a str, document: &Document<'_>) -> Events<'a> {
    let parser = Parser::new_ext(markdown, Options::ENABLE_TABLES).into_offset_iter();
    let mut in_link = false;
    let linked = parser.map(|(event, range)| {
        match &event {
            Event::Start(Tag::Link { .. }) => in_link = true,
            Event::End(TagEnd::Link) => in_link = false,
            Event::Code(code) if !in_link => {
                return (Event::InlineHtml(document.inline_code(code).into()), range);
            }
            _ => {}
        }
        (event, range)
    });
    linked.collect()
}

/// Markdown as HTML, such as a description in the document.
pub(crate) fn html(markdown: &str, document: &Document<'_>) -> String {
    let mut html = String::new();
    let events = events(markdown, document);
    push_html(&mut html, events.into_iter().map(|(event, _)| event));
    html.trim_end().to_owned()
}

/// The same for one paragraph, without its tag.
pub(crate) fn sentence(markdown: &str, document: &Document<'_>) -> String {
    let html = html(markdown.trim(), document);
    let inner = html
        .strip_prefix("<p>")
        .and_then(|html| html.strip_suffix("</p>"));
    inner.unwrap_or(&html).to_owned()
}

/// The sections of the guide, one for each heading of the first two levels. What is before the first heading is left out.
pub(crate) fn parts(markdown: &str, document: &Document<'_>) -> Vec<Part> {
    let mut sections: Vec<Section> = Vec::new();
    let mut events = events(markdown, document);
    while let Some((event, range)) = events.pop_front() {
        match event {
            Event::Start(Tag::Heading { level, .. }) => {
                let title = inner(&mut events, |end| matches!(end, TagEnd::Heading(_)));
                if level <= HeadingLevel::H2 {
                    sections.push(Section::new(level, &title));
                } else if let Some(section) = sections.last_mut() {
                    section.end_row();
                    let id = format!("{}-{}", section.id, slug(&title));
                    section.text += &heading(3, &id, &title);
                }
            }
            Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(kind))) => {
                let code = verbatim(&mut events);
                if let Some(section) = sections.last_mut() {
                    section.codes.push((kind.to_string(), code));
                }
            }
            Event::Start(Tag::Table(_))
                if &markdown[range.clone()]
                    .lines()
                    .next()
                    .unwrap_or_default()
                    .replace(' ', "")
                    == "|status|code|cause|whattodo|" =>
            {
                while !matches!(
                    events.pop_front(),
                    None | Some((Event::End(TagEnd::Table), _))
                ) {}
                if let Some(section) = sections.last_mut() {
                    section.entries = errors(&markdown[range], document);
                }
            }
            Event::Start(tag) => {
                let end = tag.to_end();
                let is_table = matches!(tag, Tag::Table(_));
                let mut block = vec![Event::Start(tag)];
                let mut depth = 1;
                while depth > 0
                    && let Some((event, _)) = events.pop_front()
                {
                    match &event {
                        Event::Start(tag) if tag.to_end() == end => depth += 1,
                        Event::End(tag) if *tag == end => depth -= 1,
                        _ => {}
                    }
                    block.push(event);
                }
                if let Some(section) = sections.last_mut() {
                    if !section.codes.is_empty() {
                        section.end_row();
                    }
                    let mut html = String::new();
                    push_html(&mut html, block.into_iter());
                    section.text += &if is_table { table(&html) } else { html };
                }
            }
            _ => {}
        }
    }
    sections.into_iter().map(Section::finish).collect()
}

/// A table that scrolls within itself where it is too wide.
pub(crate) fn table(html: &str) -> String {
    format!(
        "<div class=\"table\" tabindex=\"0\" role=\"group\" aria-label=\"Table\">{html}</div>\n"
    )
}

/// The events up to an end, as HTML.
fn inner(events: &mut Events<'_>, is_end: impl Fn(&TagEnd) -> bool) -> String {
    let mut inside = Vec::new();
    while let Some((event, _)) = events.pop_front() {
        match event {
            Event::End(tag) if is_end(&tag) => break,
            event => inside.push(event),
        }
    }
    let mut html = String::new();
    push_html(&mut html, inside.into_iter());
    html
}

/// The text of a block of code.
fn verbatim(events: &mut Events<'_>) -> String {
    let mut code = String::new();
    while let Some((event, _)) = events.pop_front() {
        match event {
            Event::Text(text) => code += &text,
            Event::End(TagEnd::CodeBlock) => break,
            _ => {}
        }
    }
    code
}

struct Section {
    id: String,
    title: String,
    /// Text, and what is next to it, as HTML.
    rows: Vec<(String, String)>,
    /// The entries of a table of errors.
    entries: String,
    /// The text of the current row.
    text: String,
    /// The blocks of code beside it: their kind, and the code.
    codes: Vec<(String, String)>,
}

impl Section {
    fn new(level: HeadingLevel, title: &str) -> Self {
        let (id, text) = match level {
            HeadingLevel::H1 => (
                "introduction".to_owned(),
                format!("<h1 id=\"introduction\">{title}</h1>\n"),
            ),
            _ => (slug(title), heading(2, &slug(title), title)),
        };
        Self {
            id,
            title: title.to_owned(),
            rows: Vec::new(),
            entries: String::new(),
            text,
            codes: Vec::new(),
        }
    }

    fn end_row(&mut self) {
        let codes = std::mem::take(&mut self.codes);
        let clients: Vec<_> = codes
            .iter()
            .filter_map(|(kind, code)| Some((kind.strip_suffix(" client")?, code.clone())))
            .collect();
        let beside = if clients.is_empty() {
            let titled = |(kind, code): &(String, String)| match kind.as_str() {
                "json" | "text" => code::block("json", "Response", code),
                _ => code::block("sh", "Shell", code),
            };
            codes.iter().map(titled).collect()
        } else {
            let id = format!("{}-client", self.id);
            code::group(&id, "Language of the client", &clients)
        };
        self.rows.push((std::mem::take(&mut self.text), beside));
    }

    fn finish(mut self) -> Part {
        self.end_row();
        // Text after the last code continues next to it.
        let mut more = String::new();
        while let [_, .., (text, beside)] = &self.rows[..]
            && beside.is_empty()
        {
            more.insert_str(0, text);
            self.rows.pop();
        }
        let last = self.rows.len() - 1;
        let rows = self
            .rows
            .iter()
            .enumerate()
            .map(|(number, (text, beside))| {
                let more = if number == last { more.as_str() } else { "" };
                row(text, beside, more)
            });
        let rows: String = rows.collect();
        let html = format!(
            "<section aria-labelledby=\"{}\">\n{rows}{}</section>\n",
            self.id, self.entries
        );
        Part {
            id: self.id,
            label: self.title,
            html,
        }
    }
}

/// The table of errors as one entry for each code, with an example of its body.
fn errors(table: &str, document: &Document<'_>) -> String {
    let mut html = String::new();
    for line in table.lines().skip(2) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [status, code, cause, fix] = cells[..] else {
            continue;
        };
        let code = code.trim_matches('`');
        let title = format!(
            "<code>{}</code> <span class=\"status\">{status}</span>",
            escape(code)
        );
        let text = format!(
            "{}<p>{}</p>\n<p><strong>What to do:</strong> {}</p>\n",
            heading(3, &format!("errors-{code}"), &title),
            sentence(cause, document),
            sentence(fix, document)
        );
        let example = &document.component("examples")[code]["value"];
        let body = code::block("json", status, &format!("{example:#}"));
        html += &row(&text, &body, "");
    }
    html
}
