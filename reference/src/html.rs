//! Text as HTML, and the anchors of headings.

/// Text in which nothing is markup.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// The anchor of a heading, as GitHub forms it.
pub(crate) fn slug(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept
        .chars()
        .filter(|character| character.is_alphanumeric() || " -_".contains(*character));
    kept.map(|character| if character == ' ' { '-' } else { character })
        .collect()
}

/// A heading with its anchor.
pub(crate) fn heading(level: usize, id: &str, inner: &str) -> String {
    format!(
        "<h{level} id=\"{id}\">{inner} <a class=\"anchor\" href=\"#{id}\" aria-label=\"Link to this section\">#</a></h{level}>\n"
    )
}

/// A row of the page: text, what is next to it, and more text. A narrow screen shows them in this order.
pub(crate) fn row(text: &str, beside: &str, more: &str) -> String {
    let beside = match beside {
        "" => String::new(),
        _ => format!("<div class=\"beside\">{beside}</div>"),
    };
    let more = match more {
        "" => String::new(),
        _ => format!("<div class=\"text more\">{more}</div>"),
    };
    format!("<div class=\"row\"><div class=\"text\">{text}</div>{beside}{more}</div>\n")
}
