//! Examples of a request, in each language.

use serde_json::Value;

use crate::ORIGIN;
use crate::code::KEY;
use crate::document::{Document, Operation, items, members, text};
use crate::field::plain;

pub(crate) struct Sample<'a> {
    method: &'static str,
    url: String,
    body: Option<&'a Value>,
    /// Headers besides `Authorization` and `Content-Type`.
    headers: Vec<(&'a str, &'static str)>,
}

impl<'a> Sample<'a> {
    pub(crate) fn new(operation: Operation<'a>, document: &Document<'a>) -> Self {
        let mut path = operation.path.to_owned();
        let mut query = Vec::new();
        let mut headers = Vec::new();
        for parameter in items(&operation.value["parameters"]) {
            let parameter = document.resolve(parameter);
            let (name, example) = (text(&parameter["name"]), plain(&parameter["example"]));
            match text(&parameter["in"]) {
                "path" => path = path.replace(&format!("{{{name}}}"), &example),
                "query" if !example.is_empty() => query.push(format!("{name}={example}")),
                "header" if name == "Idempotency-Key" => headers.push((name, "rex-1")),
                _ => {}
            }
        }
        let mark = if query.is_empty() { "" } else { "?" };
        let examples = &operation.value["requestBody"]["content"]["application/json"]["examples"];
        let body = members(examples).next();
        Self {
            method: operation.method,
            url: format!("{ORIGIN}/v1{path}{mark}{}", query.join("&")),
            body: body.map(|(_, example)| &document.resolve(example)["value"]),
            headers,
        }
    }

    pub(crate) fn in_all_languages(&self) -> [(&'static str, String); 4] {
        [
            ("sh", self.curl()),
            ("python", self.python()),
            ("javascript", self.javascript()),
            ("rust", self.rust()),
        ]
    }

    pub(crate) fn curl(&self) -> String {
        let quote = if self.url.contains('?') { "'" } else { "" };
        let mut lines = vec![
            format!("curl {quote}{}{quote}", self.url),
            format!("-H 'Authorization: Bearer {KEY}'"),
        ];
        lines.extend(
            self.headers
                .iter()
                .map(|(name, value)| format!("-H '{name}: {value}'")),
        );
        if let Some(body) = self.body {
            lines.push("-H 'Content-Type: application/json'".to_owned());
            lines.push(format!("-d '{}'", spaced(body)));
        }
        lines.join(" \\\n  ")
    }

    fn python(&self) -> String {
        let mut headers = format!("\"Authorization\": \"Bearer {KEY}\"");
        for (name, value) in &self.headers {
            headers += &format!(", \"{name}\": \"{value}\"");
        }
        let body = self.body.map_or(String::new(), |body| {
            format!("    json={},\n", spaced(body))
        });
        format!(
            "import requests\n\nresponse = requests.{}(\n    \"{}\",\n    headers={{{headers}}},\n{body})\n\
             print(response.status_code, response.json())\n",
            self.method.to_lowercase(),
            self.url
        )
    }

    fn javascript(&self) -> String {
        let mut headers = vec![format!("Authorization: \"Bearer {KEY}\"")];
        headers.extend(
            self.headers
                .iter()
                .map(|(name, value)| format!("\"{name}\": \"{value}\"")),
        );
        let (mut method, mut body) = (String::new(), String::new());
        if let Some(value) = self.body {
            headers.push("\"Content-Type\": \"application/json\"".to_owned());
            method = format!("  method: \"{}\",\n", self.method);
            body = format!("  body: JSON.stringify({}),\n", spaced(value));
        }
        let headers: String = headers
            .iter()
            .map(|header| format!("    {header},\n"))
            .collect();
        format!(
            "const response = await fetch(\"{}\", {{\n{method}  headers: {{\n{headers}  }},\n{body}}});\n\
             console.log(response.status, await response.json());\n",
            self.url
        )
    }

    fn rust(&self) -> String {
        let mut headers = vec![("Authorization", format!("Bearer {KEY}"))];
        headers.extend(
            self.headers
                .iter()
                .map(|(name, value)| (*name, (*value).to_owned())),
        );
        let mut send = ".call()?".to_owned();
        if let Some(body) = self.body {
            headers.push(("Content-Type", "application/json".to_owned()));
            send = format!(".send(r#\"{}\"#)?", spaced(body));
        }
        let headers: String = headers
            .iter()
            .map(|(name, value)| format!("        .header(\"{name}\", \"{value}\")\n"))
            .collect();
        format!(
            "// cargo add ureq\nfn main() -> Result<(), ureq::Error> {{\n    let mut response = ureq::{}(\"{}\")\n{headers}        {send};\n    \
             println!(\"{{}} {{}}\", response.status(), response.body_mut().read_to_string()?);\n    Ok(())\n}}\n",
            self.method.to_lowercase(),
            self.url
        )
    }
}

/// An object on one line, with spaces, as people write it.
fn spaced(value: &Value) -> String {
    let fields: Vec<_> = members(value)
        .map(|(name, value)| format!("\"{name}\": {value}"))
        .collect();
    format!("{{{}}}", fields.join(", "))
}
