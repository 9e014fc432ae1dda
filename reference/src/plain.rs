//! The reference as Markdown: the guide as it is, with the operations in their place.

use serde_json::Value;

use crate::MARK;
use crate::document::{Document, Operation, items, members, text};
use crate::field::plain;
use crate::sample::Sample;

pub(crate) fn reference(guide: &str, document: &Document<'_>) -> String {
    let mut markdown = String::from("## Operations\n");
    for operation in document.operations() {
        markdown += &self::operation(operation, document);
    }
    markdown += "\n## Objects\n";
    for name in ["Pet", "Order", "Error"] {
        let schema = &document.component("schemas")[name];
        markdown += &format!(
            "\n### {name}\n\n{}\n\n{}",
            one_line(&schema["description"]),
            fields(schema, document)
        );
    }
    markdown += "\n## Response headers\n\n";
    for (name, header) in document.headers() {
        markdown += &format!("- `{name}`: {}\n", one_line(&header["description"]));
    }
    guide.replace(MARK, markdown.trim_end())
}

fn operation(operation: Operation<'_>, document: &Document<'_>) -> String {
    let value = operation.value;
    let mut markdown = format!(
        "\n### {}\n\n`{} /v1{}` ({})\n\n{}\n",
        text(&value["summary"]),
        operation.method,
        operation.path,
        operation.id(),
        text(&value["description"])
    );
    markdown += &format!(
        "```sh sample\n{}\n```\n\nParameters:\n\n",
        Sample::new(operation, document).curl()
    );
    for parameter in items(&value["parameters"]) {
        let parameter = document.resolve(parameter);
        markdown += &item(
            text(&parameter["name"]),
            &parameter["schema"],
            &parameter["description"],
            document,
        );
    }
    let body = &value["requestBody"]["content"]["application/json"]["schema"];
    if !body.is_null() {
        let schema = document.resolve(body);
        markdown += &format!(
            "\nBody: {} {}\n\n",
            one_line(&value["requestBody"]["description"]),
            one_line(&schema["description"])
        );
        markdown += &fields(schema, document);
    }
    markdown += "\nResponses:\n\n";
    for (status, response) in members(&value["responses"]) {
        markdown += &format!(
            "- {status}: {}\n",
            one_line(&document.resolve(response)["description"])
        );
    }
    markdown
}

fn fields(schema: &Value, document: &Document<'_>) -> String {
    let fields = members(&schema["properties"]);
    fields
        .map(|(name, field)| {
            let description = &document.resolve(field)["description"];
            item(name, field, description, document)
        })
        .collect()
}

fn item(name: &str, schema: &Value, description: &Value, document: &Document<'_>) -> String {
    let resolved = document.resolve(schema);
    let mut kind = match items(&resolved["enum"]) {
        [] => text(&resolved["type"]).to_owned(),
        allowed => allowed.iter().map(plain).collect::<Vec<_>>().join(", "),
    };
    for name in ["minimum", "maximum", "minLength", "maxLength", "default"] {
        let value = match &schema[name] {
            Value::Null => &resolved[name],
            value => value,
        };
        if !value.is_null() {
            kind += &format!("; {name} {}", plain(value));
        }
    }
    format!("- `{name}` ({kind}): {}\n", one_line(description))
}

/// A description on one line: its paragraphs and lists run together.
fn one_line(description: &Value) -> String {
    let words: Vec<&str> = text(description).split_whitespace().collect();
    words.join(" ")
}
