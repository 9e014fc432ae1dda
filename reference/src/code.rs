//! Blocks of code: colours, and the groups of one example in several languages.

use crate::ORIGIN;
use crate::html::escape;

/// A language of examples: its name in Markdown, and the one that readers see.
pub(crate) const LANGUAGES: [(&str, &str); 4] = [
    ("sh", "curl"),
    ("python", "Python"),
    ("javascript", "JavaScript"),
    ("rust", "Rust"),
];

/// What the reader replaces with a key, unless the page does it.
pub(crate) const KEY: &str = "YOUR_API_KEY";

/// One block with its title.
pub(crate) fn block(language: &str, title: &str, code: &str) -> String {
    figure("", title, language, code)
}

/// One example in several languages, of which the page shows one at a time. Without JavaScript it shows all.
pub(crate) fn group(id: &str, label: &str, samples: &[(&str, String)]) -> String {
    let mut tabs = String::new();
    let mut panels = String::new();
    for (number, (language, code)) in samples.iter().enumerate() {
        let names = LANGUAGES.iter().find(|(name, _)| name == language);
        let title = names.map_or(*language, |(_, title)| title);
        let (selected, stop) = match number {
            0 => ("true", ""),
            _ => ("false", " tabindex=\"-1\""),
        };
        tabs += &format!(
            "<button type=\"button\" role=\"tab\" id=\"{id}-{language}-tab\" aria-controls=\"{id}-{language}\" \
             aria-selected=\"{selected}\"{stop} data-language=\"{language}\">{title}</button>"
        );
        let on = if number == 0 { " data-on" } else { "" };
        let attributes = format!(
            " id=\"{id}-{language}\" role=\"tabpanel\" aria-labelledby=\"{id}-{language}-tab\" data-language=\"{language}\"{on}"
        );
        panels += &figure(&attributes, title, language, code);
    }
    format!(
        "<div class=\"group\"><div class=\"tabs\" role=\"tablist\" aria-label=\"{label}\">{tabs}</div>{panels}</div>\n"
    )
}

fn figure(attributes: &str, title: &str, language: &str, code: &str) -> String {
    let wrap = if language == "json" {
        " class=\"wrap\""
    } else {
        ""
    };
    let code = filled(&highlight(language, code.trim_end()));
    format!(
        "<div class=\"code\"{attributes}><div class=\"bar\"><span class=\"title\">{title}</span>\
         <button type=\"button\" class=\"copy\">Copy</button></div>\
         <pre{wrap} tabindex=\"0\" role=\"group\" aria-label=\"{title}\"><code>{code}</code></pre></div>\n"
    )
}

/// Marks what the page replaces: the address of the server, and the key.
pub(crate) fn filled(html: &str) -> String {
    let origin = html.replace(ORIGIN, &format!("<b class=\"origin\">{ORIGIN}</b>"));
    [KEY, "$KEY"].iter().fold(origin, |html, key| {
        html.replace(key, &format!("<b class=\"key\">{key}</b>"))
    })
}

const KEYWORDS: [&str; 41] = [
    "Err", "None", "Ok", "Some", "as", "async", "await", "break", "catch", "const", "def", "do",
    "done", "elif", "else", "except", "false", "fn", "for", "from", "function", "if", "import",
    "in", "let", "loop", "match", "mut", "new", "not", "null", "of", "raise", "return", "then",
    "throw", "true", "try", "use", "while", "with",
];

/// Code as HTML, with strings, comments, numbers and keywords marked. It knows no grammar: it is for the examples of this reference.
fn highlight(language: &str, code: &str) -> String {
    let comments: &[&str] = match language {
        "sh" | "python" => &["#"],
        "json" => &[],
        _ => &["//", "/**"],
    };
    let mut html = String::new();
    let mut rest = code;
    let mut before = '\n';
    while let Some(first) = rest.chars().next() {
        let is_comment =
            before.is_whitespace() && comments.iter().any(|start| rest.starts_with(start));
        let (class, length) = if rest.starts_with(ORIGIN) {
            ("", ORIGIN.len())
        } else if is_comment {
            ("c", rest.find('\n').unwrap_or(rest.len()))
        } else if matches!(first, '"' | '\'' | '`') && !is_lifetime(language, rest) {
            let length = string(rest, first);
            let is_name = language == "json" && rest[length..].starts_with(':');
            (if is_name { "k" } else { "s" }, length)
        } else if first.is_ascii_digit() && !before.is_alphanumeric() {
            ("n", word(rest))
        } else if first.is_alphabetic() {
            let length = word(rest);
            let is_keyword = KEYWORDS.contains(&&rest[..length]) && before != '-' && before != '/';
            (if is_keyword { "k" } else { "" }, length)
        } else {
            ("", first.len_utf8())
        };
        let (token, after) = rest.split_at(length);
        match class {
            "" => html += &escape(token),
            _ => html += &format!("<i class=\"{class}\">{}</i>", escape(token)),
        }
        before = token.chars().next_back().unwrap_or(before);
        rest = after;
    }
    html
}

/// Whether an apostrophe begins a lifetime, not a character literal such as `'<'`.
fn is_lifetime(language: &str, rest: &str) -> bool {
    language == "rust" && rest.starts_with('\'') && rest.chars().nth(2) != Some('\'')
}

/// The length of a word or a number.
fn word(rest: &str) -> usize {
    let is_other = |character: char| !character.is_alphanumeric() && character != '_';
    rest.find(is_other).unwrap_or(rest.len())
}

/// The length of a string with its quotation marks.
fn string(rest: &str, mark: char) -> usize {
    let mut escaped = false;
    for (place, character) in rest.char_indices().skip(1) {
        match character {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if character == mark => return place + 1,
            _ => {}
        }
    }
    rest.len()
}
