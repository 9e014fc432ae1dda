//! Parameters, fields and headers: each with its type, its rules and an anchor.

use serde_json::Value;

use crate::document::{Document, header_id, items, members, text};
use crate::html::{escape, heading, row};
use crate::{Part, code, guide};

/// A list of fields.
pub(crate) fn list(fields: &[String]) -> String {
    format!("<dl class=\"fields\">\n{}</dl>\n", fields.concat())
}

/// One entry of a list: `marks` are short words beside its name, as HTML.
pub(crate) fn entry(id: &str, name: &str, marks: &[String], description: &str) -> String {
    let marks: Vec<_> = marks
        .iter()
        .map(|mark| format!("<span>{mark}</span>"))
        .collect();
    format!(
        "<div id=\"{id}\"><dt><code>{}</code> {} <a class=\"anchor\" href=\"#{id}\" aria-label=\"Link to {0}\">#</a></dt><dd>{description}</dd></div>\n",
        escape(name),
        marks.join(" ")
    )
}

/// The type and the rules of a schema, in short.
pub(crate) fn marks(schema: &Value, document: &Document<'_>) -> Vec<String> {
    let resolved = document.resolve(schema);
    let mut marks = vec![kind(resolved, document)];
    let range = |low: &str, high: &str| match (&resolved[low], &resolved[high]) {
        (Value::Null, Value::Null) => None,
        (low, Value::Null) => Some(format!("at least {low}")),
        (Value::Null, high) => Some(format!("at most {high}")),
        (low, high) if low == high => Some(low.to_string()),
        (low, high) => Some(format!("{low} to {high}")),
    };
    // The limits of an int64 say nothing that its type does not say.
    if resolved["maximum"] != i64::MAX {
        marks.extend(range("minimum", "maximum"));
    }
    if !resolved["maxLength"].is_null() {
        marks.extend(range("minLength", "maxLength").map(|range| format!("{range} characters")));
    }
    for (name, word) in [("default", "default"), ("const", "always")] {
        let value = match &schema[name] {
            Value::Null => &resolved[name],
            value => value,
        };
        if !value.is_null() {
            marks.push(format!("{word} <code>{}</code>", escape(&plain(value))));
        }
    }
    marks
}

/// The type of a schema: its allowed values, if they are listed.
fn kind(schema: &Value, document: &Document<'_>) -> String {
    let allowed: Vec<_> = items(&schema["enum"])
        .iter()
        .map(|value| format!("<code>{}</code>", escape(text(value))))
        .collect();
    match (text(&schema["type"]), text(&schema["format"])) {
        _ if !allowed.is_empty() => allowed.join(" | "),
        ("array", _) => {
            let item = document
                .reference(&schema["items"])
                .map_or("", |(_, name)| name);
            format!("array of {}", object(item))
        }
        (kind, "") => kind.to_owned(),
        (_, format) => format.to_owned(),
    }
}

/// A link to an object.
pub(crate) fn object(name: &str) -> String {
    format!("<a href=\"#object-{name}\">{name}</a>")
}

/// The fields of an object, with anchors below this one.
pub(crate) fn of_object(id: &str, schema: &Value, document: &Document<'_>) -> String {
    let required = items(&schema["required"]);
    let fields: Vec<_> = members(&schema["properties"])
        .map(|(name, field)| {
            let mut marks = marks(field, document);
            if required.iter().any(|one| one == name) {
                marks.push("required".to_owned());
            }
            let description = text(&document.resolve(field)["description"]);
            entry(
                &format!("{id}-{name}"),
                name,
                &marks,
                &guide::html(description, document),
            )
        })
        .collect();
    list(&fields)
}

/// The objects of responses.
pub(crate) fn objects(document: &Document<'_>) -> Vec<Part> {
    let examples = document.component("examples");
    [
        ("Pet", "pet"),
        ("Order", "orders"),
        ("Error", "rate_limited"),
    ]
    .map(|(name, example)| {
        let schema = &document.component("schemas")[name];
        let id = format!("object-{name}");
        let text = format!(
            "{}{}{}",
            heading(2, &id, name),
            guide::html(text(&schema["description"]), document),
            of_object(&id, schema, document)
        );
        let value = &examples[example]["value"];
        // The list has two orders: the one with all fields is the better example.
        let value = items(value).last().unwrap_or(value);
        let beside = code::block("json", name, &format!("{value:#}"));
        Part {
            label: name.to_owned(),
            html: format!(
                "<section aria-labelledby=\"{id}\">\n{}</section>\n",
                row(&text, &beside, "")
            ),
            id,
        }
    })
    .into()
}

/// The headers of responses.
pub(crate) fn headers(document: &Document<'_>) -> Part {
    let mut known = Vec::new();
    let mut entries = Vec::new();
    for (name, header) in document.headers() {
        // One header can mean different things: only the first entry has the anchor.
        let id = match known.contains(&name) {
            true => format!("{}-2", header_id(name)),
            false => header_id(name),
        };
        known.push(name);
        let mut description = guide::html(text(&header["description"]), document);
        let mut marks = marks(&header["schema"], document);
        let example = escape(&plain(&header["example"]));
        match example.len() {
            0 => {}
            1..=24 => marks.push(format!("such as <code>{example}</code>")),
            _ => description += &format!("\n<p class=\"example\"><code>{example}</code></p>"),
        }
        entries.push(entry(&id, name, &marks, &description));
    }
    let text = heading(2, "headers", "Response headers") + &list(&entries);
    Part {
        id: "headers".to_owned(),
        label: "Response headers".to_owned(),
        html: format!(
            "<section aria-labelledby=\"headers\">\n{}</section>\n",
            row(&text, "", "")
        ),
    }
}

/// A value as a reader would write it: a text without quotation marks.
pub(crate) fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
