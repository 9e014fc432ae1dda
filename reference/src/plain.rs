//! The reference as Markdown: the guide as it is, with the operations in their place.

use crate::MARK;
use crate::document::{Document, OBJECTS, Operation, text};
use crate::field::{self, Field};
use crate::operation::{body, responses};
use crate::sample::Sample;

pub(crate) fn reference(guide: &str, document: &Document<'_>) -> String {
    let mut markdown = String::from("## Operations\n");
    for operation in document.operations() {
        markdown += &self::operation(operation, document);
    }
    markdown += "\n## Objects\n";
    for (name, _) in OBJECTS {
        let schema = &document.component("schemas")[name];
        markdown += &format!(
            "\n### {name}\n\n{}\n\n{}",
            text(&schema["description"]).trim_end(),
            list(field::of_object(schema, document))
        );
    }
    markdown += "\n## Response headers\n\n";
    markdown += &list(field::headers(document));
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
    markdown += &list(field::parameters(value, document));
    if let Some(body) = body(value, document) {
        markdown += &format!(
            "\nBody: {}\n\n{}\n\n{}",
            text(&value["requestBody"]["description"]).trim_end(),
            text(&body["description"]).trim_end(),
            list(field::of_object(body, document))
        );
    }
    markdown += "\nResponses:\n\n";
    for response in responses(value, document) {
        let returns = response.returns.join(", ");
        markdown += &item(response.status, &returns, response.description);
    }
    markdown
}

fn list(fields: Vec<Field<'_>>) -> String {
    let fields = fields.into_iter();
    fields
        .map(|mut field| {
            if !field.example.is_empty() {
                field.marks.push(format!("such as `{}`", field.example));
            }
            let name = format!("`{}`", field.name);
            item(&name, &field.marks.join("; "), field.description)
        })
        .collect()
}

/// An item of a list. The further lines of its description are indented, so that they belong to it.
fn item(name: &str, marks: &str, description: &str) -> String {
    let description = description.trim_end().replace('\n', "\n  ");
    format!(
        "- {name} ({marks}): {}\n",
        description.replace("\n  \n", "\n\n")
    )
}
