//! Parameters, fields and headers, each with its type and its rules, for both forms of the reference. All texts are Markdown.

use serde_json::Value;

use crate::document::{Document, OBJECTS, header_id, items, members, text};
use crate::html::{escape, heading, row};
use crate::{Part, code, guide};

/// A parameter, a field or a header.
pub(crate) struct Field<'a> {
    pub name: &'a str,
    /// Its type and its rules, in short.
    pub marks: Vec<String>,
    pub description: &'a str,
    /// Empty if there is none.
    pub example: String,
}

impl<'a> Field<'a> {
    /// `more` are marks that its schema does not have.
    fn new(
        name: &'a str,
        schema: &'a Value,
        more: &[&str],
        description: &'a Value,
        document: &Document<'a>,
    ) -> Self {
        let mut marks = marks(schema, document);
        marks.extend(more.iter().map(|&mark| mark.to_owned()));
        Self {
            name,
            marks,
            description: text(description),
            example: String::new(),
        }
    }

    /// As an entry of a list, with its anchor.
    fn html(&self, id: &str, document: &Document<'_>) -> String {
        let mut marks = self.marks.clone();
        let mut description = guide::html(self.description, document);
        let example = &self.example;
        match example.len() {
            0 => {}
            1..=24 => marks.push(format!("such as `{example}`")),
            _ => {
                let example = escape(example);
                description += &format!("\n<p class=\"example\"><code>{example}</code></p>");
            }
        }
        let marks: Vec<_> = marks
            .iter()
            .map(|mark| format!("<span>{}</span>", guide::sentence(mark, document)))
            .collect();
        format!(
            "<div id=\"{id}\"><dt><code>{}</code> {} <a class=\"anchor\" href=\"#{id}\" aria-label=\"Link to {0}\">#</a></dt><dd>{description}</dd></div>\n",
            escape(self.name),
            marks.join(" ")
        )
    }
}

/// A list of fields, with anchors below this one.
pub(crate) fn list(id: &str, fields: &[Field<'_>], document: &Document<'_>) -> String {
    let entries = fields
        .iter()
        .map(|field| field.html(&format!("{id}-{}", field.name), document));
    html_list(entries)
}

fn html_list(entries: impl Iterator<Item = String>) -> String {
    format!(
        "<dl class=\"fields\">\n{}</dl>\n",
        entries.collect::<String>()
    )
}

/// The type and the rules of a schema, in short.
fn marks(schema: &Value, document: &Document<'_>) -> Vec<String> {
    let resolved = document.resolve(schema);
    let mut marks = vec![kind(schema, document)];
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
            marks.push(format!("{word} `{}`", plain(value)));
        }
    }
    marks
}

/// The type of a schema: the name of an object, and the allowed values if they are listed.
pub(crate) fn kind(schema: &Value, document: &Document<'_>) -> String {
    let resolved = document.resolve(schema);
    let allowed: Vec<_> = items(&resolved["enum"])
        .iter()
        .map(|value| format!("`{}`", text(value)))
        .collect();
    match (text(&resolved["type"]), text(&resolved["format"])) {
        _ if !allowed.is_empty() => allowed.join(" | "),
        ("array", _) => format!("array of {}", kind(&resolved["items"], document)),
        ("object", _) => {
            let (_, name) = document.reference(schema).unwrap_or_default();
            format!("`{name}`")
        }
        (kind, "") => kind.to_owned(),
        (_, format) => format.to_owned(),
    }
}

/// The parameters of an operation.
pub(crate) fn parameters<'a>(operation: &'a Value, document: &Document<'a>) -> Vec<Field<'a>> {
    let parameters = items(&operation["parameters"]).iter();
    parameters
        .map(|parameter| {
            let parameter = document.resolve(parameter);
            let place = text(&parameter["in"]);
            let more = match parameter["required"] == true {
                true => &[place, "required"][..],
                false => &[place],
            };
            Field::new(
                text(&parameter["name"]),
                &parameter["schema"],
                more,
                &parameter["description"],
                document,
            )
        })
        .collect()
}

/// The fields of an object.
pub(crate) fn of_object<'a>(schema: &'a Value, document: &Document<'a>) -> Vec<Field<'a>> {
    let required = items(&schema["required"]);
    members(&schema["properties"])
        .map(|(name, field)| {
            let more: &[&str] = match required.iter().any(|one| one == name) {
                true => &["required"],
                false => &[],
            };
            let description = &document.resolve(field)["description"];
            Field::new(name, field, more, description, document)
        })
        .collect()
}

/// The headers of responses.
pub(crate) fn headers<'a>(document: &Document<'a>) -> Vec<Field<'a>> {
    let headers = document.headers().into_iter();
    headers
        .map(|(name, header)| Field {
            example: plain(&header["example"]),
            ..Field::new(
                name,
                &header["schema"],
                &[],
                &header["description"],
                document,
            )
        })
        .collect()
}

/// The objects of responses.
pub(crate) fn objects(document: &Document<'_>) -> Vec<Part> {
    let examples = document.component("examples");
    OBJECTS
        .map(|(name, example)| {
            let schema = &document.component("schemas")[name];
            let id = format!("object-{name}");
            let text = format!(
                "{}{}{}",
                heading(2, &id, name),
                guide::html(text(&schema["description"]), document),
                list(&id, &of_object(schema, document), document)
            );
            let value = &examples[example]["value"];
            // The example of a list has two objects: the last one has all fields, so it is the better example.
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

/// The section of the headers of responses.
pub(crate) fn headers_part(document: &Document<'_>) -> Part {
    let mut headers = headers(document);
    // One header can mean different things: its entries follow the first, which has the anchor.
    let names: Vec<_> = headers.iter().map(|header| header.name).collect();
    headers.sort_by_key(|header| names.iter().position(|name| *name == header.name));
    let mut known = Vec::new();
    let entries = headers.into_iter().map(|header| {
        let id = match known.contains(&header.name) {
            true => format!("{}-2", header_id(header.name)),
            false => header_id(header.name),
        };
        known.push(header.name);
        header.html(&id, document)
    });
    let text = heading(2, "headers", "Response headers") + &html_list(entries);
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
