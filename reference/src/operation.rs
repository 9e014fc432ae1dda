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
    about += &parameters(id, value, document);
    if let Some(body) = body(value, document) {
        about += &heading(3, &format!("{id}-body"), "Body");
        about += &guide::html(text(&value["requestBody"]["description"]), document);
        about += &guide::html(text(&body["description"]), document);
        about += &field::of_object(&format!("{id}-body"), body, document);
    }
    about += &responses(id, value, document);

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
fn body<'a>(operation: &'a Value, document: &Document<'a>) -> Option<&'a Value> {
    let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
    (!schema.is_null()).then(|| document.resolve(schema))
}

fn parameters(id: &str, operation: &Value, document: &Document<'_>) -> String {
    let entries: Vec<_> = items(&operation["parameters"])
        .iter()
        .map(|parameter| {
            let parameter = document.resolve(parameter);
            let name = text(&parameter["name"]);
            let mut marks = field::marks(&parameter["schema"], document);
            marks.push(text(&parameter["in"]).to_owned());
            if parameter["required"] == true {
                marks.push("required".to_owned());
            }
            let description = guide::html(text(&parameter["description"]), document);
            field::entry(&format!("{id}-{name}"), name, &marks, &description)
        })
        .collect();
    heading(3, &format!("{id}-parameters"), "Parameters") + &field::list(&entries)
}

fn responses(id: &str, operation: &Value, document: &Document<'_>) -> String {
    let mut entries = String::new();
    for (status, response) in members(&operation["responses"]) {
        let response = document.resolve(response);
        let content = &response["content"]["application/json"];
        let mut description = guide::html(text(&response["description"]), document);
        let schema = &content["schema"];
        let class = if status.starts_with('2') {
            let [kind, ..] = &field::marks(schema, document)[..] else {
                continue;
            };
            let returned = match document.reference(schema) {
                Some((_, name)) if kind == "object" => field::object(name),
                _ => kind.clone(),
            };
            description += &format!("<p>Returns {}.</p>", returned);
            "ok"
        } else {
            let mut codes: Vec<&str> = Vec::new();
            for (_, example) in members(&content["examples"]) {
                let code = text(&document.resolve(example)["value"]["code"]);
                if !codes.contains(&code) {
                    codes.push(code);
                }
            }
            let codes: Vec<_> = codes
                .iter()
                .map(|code| document.inline_code(code))
                .collect();
            description += &format!("<p>{}</p>", codes.join(" "));
            "error"
        };
        entries += &format!(
            "<div id=\"{id}-{status}\"><dt><span class=\"status {class}\">{status}</span></dt><dd>{description}</dd></div>\n"
        );
    }
    heading(3, &format!("{id}-responses"), "Responses")
        + &format!("<dl class=\"responses\">\n{entries}</dl>\n")
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
