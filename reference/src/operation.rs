//! An operation: what it does and takes and returns, beside it examples and a form to try it.

use serde_json::Value;

use crate::document::{Document, Operation, items, members, text};
use crate::field::{self, plain};
use crate::html::{escape, heading, row};
use crate::sample::Sample;
use crate::{Part, code, guide};

pub(crate) fn parts(document: &Document<'_>) -> Vec<Part> {
    let operations = document.operations().into_iter();
    operations
        .map(|operation| part(operation, document))
        .collect()
}

fn part(operation: Operation<'_>, document: &Document<'_>) -> Part {
    let (id, value) = (operation.id(), operation.value);
    let method = method(operation.method);
    let path = escape(&format!("/v1{}", operation.path));
    let title = escape(text(&value["summary"]));
    let mut about = heading(2, id, &format!("{title}{}", badge(value)));
    about += &format!("<p class=\"endpoint\">{method} <code>{path}</code></p>\n");
    about += &guide::html(text(&value["description"]), document);
    about += &heading(3, &format!("{id}-parameters"), "Parameters");
    about += &field::list(id, &field::parameters(value, document), document);
    if let Some(body) = body(value, document) {
        about += &heading(3, &format!("{id}-body"), "Body");
        about += &guide::html(text(&value["requestBody"]["description"]), document);
        about += &guide::html(text(&body["description"]), document);
        let fields = field::of_object(body, document);
        about += &field::list(&format!("{id}-body"), &fields, document);
    }
    about += &heading(3, &format!("{id}-responses"), "Responses");
    about += &list(id, &responses(value, document), document);

    let samples = Sample::new(operation, document).in_all_languages();
    let mut beside = code::group(
        &format!("{id}-example"),
        &format!("Language of the example for {id}"),
        &samples,
    );
    beside += &success(value, document);
    beside += &form(operation, document);
    Part {
        id: id.to_owned(),
        label: format!("{method} {title}{}", badge(value)),
        html: format!(
            "<section aria-labelledby=\"{id}\" class=\"operation\">\n{}</section>\n",
            row(&about, &beside, "")
        ),
    }
}

fn method(method: &str) -> String {
    format!(
        "<span class=\"method {}\">{method}</span>",
        method.to_lowercase()
    )
}

/// Marks an operation that is not stable.
fn badge(operation: &Value) -> String {
    let word = match (&operation["deprecated"], text(&operation["x-stability"])) {
        (Value::Bool(true), _) => "deprecated",
        (_, stability) => stability,
    };
    match word {
        "" => String::new(),
        word => format!(" <span class=\"badge {word}\">{word}</span>"),
    }
}

/// The schema of the body, if there is one.
pub(crate) fn body<'a>(operation: &'a Value, document: &Document<'a>) -> Option<&'a Value> {
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    (!schema.is_null()).then(|| document.resolve(schema))
}

/// A response of an operation. Its texts are Markdown.
pub(crate) struct Response<'a> {
    pub status: &'a str,
    /// The type of the body of a success, or the codes of an error.
    pub returns: Vec<String>,
    pub description: &'a str,
}

pub(crate) fn responses<'a>(operation: &'a Value, document: &Document<'a>) -> Vec<Response<'a>> {
    let responses = members(&operation["responses"]);
    responses
        .map(|(status, response)| {
            let response = document.resolve(response);
            let content = &response["content"]["application/json"];
            let mut returns = Vec::new();
            if status.starts_with('2') {
                returns.push(field::kind(&content["schema"], document));
            } else {
                for (_, example) in members(&content["examples"]) {
                    let code = format!("`{}`", text(&document.resolve(example)["value"]["code"]));
                    if !returns.contains(&code) {
                        returns.push(code);
                    }
                }
            }
            Response {
                status,
                returns,
                description: text(&response["description"]),
            }
        })
        .collect()
}

fn list(id: &str, responses: &[Response<'_>], document: &Document<'_>) -> String {
    let mut entries = String::new();
    for response in responses {
        let status = response.status;
        let returns = response.returns.join(" ");
        let (class, returns) = match status.starts_with('2') {
            true => ("status ok", format!("Returns {returns}.")),
            false => ("status", returns),
        };
        let description = guide::html(response.description, document);
        let returns = guide::html(&returns, document);
        entries += &format!(
            "<div id=\"{id}-{status}\"><dt><span class=\"{class}\">{status}</span></dt><dd>{description}{returns}</dd></div>\n"
        );
    }
    format!("<dl class=\"responses\">\n{entries}</dl>\n")
}

/// The body of a success.
fn success(operation: &Value, document: &Document<'_>) -> String {
    let success = members(&operation["responses"]).find(|(status, _)| status.starts_with('2'));
    let Some((status, response)) = success else {
        return String::new();
    };
    let examples = &document.resolve(response)["content"]["application/json"]["examples"];
    let Some((_, example)) = members(examples).next() else {
        return String::new();
    };
    let value = &document.resolve(example)["value"];
    code::block("json", &format!("Response {status}"), &format!("{value:#}"))
}

/// The form to send the operation. Without JavaScript it is not shown.
fn form(operation: Operation<'_>, document: &Document<'_>) -> String {
    let id = operation.id();
    let mut fields = String::new();
    for parameter in items(&operation.value["parameters"]) {
        let parameter = document.resolve(parameter);
        let schema = document.resolve(&parameter["schema"]);
        let (name, place) = (text(&parameter["name"]), text(&parameter["in"]));
        let attributes = format!("id=\"try-{id}-{name}\" name=\"{name}\" data-in=\"{place}\"");
        let allowed = items(&schema["enum"]);
        let control = if allowed.is_empty() {
            let value = match place {
                "path" => format!(" value=\"{}\" required", plain(&parameter["example"])),
                _ => format!(" placeholder=\"{}\"", plain(&schema["default"])),
            };
            format!("<input {attributes}{value} autocomplete=\"off\" spellcheck=\"false\">")
        } else {
            let options: String = allowed
                .iter()
                .map(|value| format!("<option>{}</option>", escape(text(value))))
                .collect();
            format!("<select {attributes}><option value=\"\">any</option>{options}</select>")
        };
        fields += &format!("<label for=\"try-{id}-{name}\">{name}</label>{control}\n");
    }
    let example =
        members(&operation.value["requestBody"]["content"]["application/json"]["examples"]).next();
    if let Some((_, example)) = example {
        let value = &document.resolve(example)["value"];
        fields += &format!(
            "<label for=\"try-{id}-body\">body</label>\
             <textarea id=\"try-{id}-body\" name=\"body\" data-in=\"body\" rows=\"4\" spellcheck=\"false\">{}</textarea>\n",
            escape(&format!("{value:#}"))
        );
    }
    format!(
        "<details class=\"try\"><summary>Try it</summary>\n\
         <form data-method=\"{method}\" data-path=\"{path}\"><p class=\"needs-key\">Enter your API key <a href=\"#key\">at the top</a> first.</p>\n\
         <div class=\"inputs\">{fields}</div>\n\
         <button type=\"submit\" aria-label=\"Send {id}\">Send</button></form>\n\
         <p class=\"line\" role=\"status\"></p><div class=\"result\"></div></details>\n",
        method = operation.method,
        path = escape(operation.path),
    )
}
