//! The OpenAPI document, and what code in a sentence may refer to.

use serde_json::Value;

use crate::code;
use crate::html::escape;

/// The objects of responses, each with the example that shows it.
pub(crate) const OBJECTS: [(&str, &str); 3] = [
    ("Pet", "pet"),
    ("Order", "orders"),
    ("Error", "rate_limited"),
];

pub(crate) struct Document<'a>(&'a Value);

/// An operation, with its method and path.
#[derive(Clone, Copy)]
pub(crate) struct Operation<'a> {
    pub path: &'a str,
    /// In upper case.
    pub method: &'static str,
    pub value: &'a Value,
}

impl<'a> Operation<'a> {
    pub(crate) fn id(&self) -> &'a str {
        text(&self.value["operationId"])
    }
}

/// A text of the document; empty if there is none.
pub(crate) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The members of an object of the document; none if there is no object.
pub(crate) fn members(value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let members = value.as_object().into_iter().flatten();
    members.map(|(name, value)| (name.as_str(), value))
}

/// The items of a list of the document; none if there is no list.
pub(crate) fn items(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

impl<'a> Document<'a> {
    pub(crate) const fn new(value: &'a Value) -> Self {
        Self(value)
    }

    pub(crate) fn version(&self) -> &'a str {
        text(&self.0["info"]["version"])
    }

    pub(crate) fn component(&self, kind: &str) -> &'a Value {
        &self.0["components"][kind]
    }

    /// The value itself, or the component that it refers to.
    pub(crate) fn resolve(&self, value: &'a Value) -> &'a Value {
        match self.reference(value) {
            Some((kind, name)) => &self.0["components"][kind][name],
            None => value,
        }
    }

    /// The kind and the name of the component that a value refers to.
    pub(crate) fn reference(&self, value: &'a Value) -> Option<(&'a str, &'a str)> {
        let path = value["$ref"].as_str()?;
        path.strip_prefix("#/components/")?.split_once('/')
    }

    pub(crate) fn operations(&self) -> Vec<Operation<'a>> {
        let mut found = Vec::new();
        for (path, methods) in members(&self.0["paths"]) {
            for (method, key) in [("GET", "get"), ("POST", "post")] {
                if let Some(value) = methods.get(key) {
                    found.push(Operation {
                        path,
                        method,
                        value,
                    });
                }
            }
        }
        found
    }

    /// The codes of errors.
    pub(crate) fn codes(&self) -> impl Iterator<Item = &'a str> {
        let code = &self.0["components"]["schemas"]["Error"]["properties"]["code"];
        items(&code["x-extensible-enum"]).iter().map(text)
    }

    /// The headers of responses that have a description. One that means different things occurs once for each.
    pub(crate) fn headers(&self) -> Vec<(&'a str, &'a Value)> {
        let mut found: Vec<(&str, &Value)> = Vec::new();
        for operation in self.operations() {
            for (_, response) in members(&operation.value["responses"]) {
                for (name, header) in members(&self.resolve(response)["headers"]) {
                    let header = self.resolve(header);
                    let is_new = !found.iter().any(|(_, known)| known == &header);
                    if is_new && !text(&header["description"]).is_empty() {
                        found.push((name, header));
                    }
                }
            }
        }
        found
    }

    /// The anchor of what this code in a sentence names: an operation, an error, a header or an object.
    pub(crate) fn anchor(&self, code: &str) -> Option<String> {
        let operation = self.operations().into_iter().find(|operation| {
            code == operation.id() || code == format!("{} {}", operation.method, operation.path)
        });
        if let Some(operation) = operation {
            return Some(operation.id().to_owned());
        }
        if self.codes().any(|known| known == code) {
            return Some(format!("errors-{code}"));
        }
        if self.headers().iter().any(|(name, _)| *name == code) {
            return Some(header_id(code));
        }
        let takes = |operation: &Operation<'_>| {
            let mut parameters = items(&operation.value["parameters"]).iter();
            parameters.any(|one| {
                let parameter = self.resolve(one);
                parameter["in"] == "header" && parameter["name"] == code
            })
        };
        if let Some(operation) = self.operations().iter().find(|operation| takes(operation)) {
            return Some(format!("{}-{code}", operation.id()));
        }
        let is_object = OBJECTS.iter().any(|(name, _)| *name == code);
        is_object.then(|| format!("object-{code}"))
    }

    /// Code in a sentence, with a link to what it names.
    pub(crate) fn inline_code(&self, code: &str) -> String {
        // A hyphen must not break the name of a header.
        let class = if code.len() <= 24 {
            " class=\"short\""
        } else {
            ""
        };
        let html = code::filled(&format!("<code{class}>{}</code>", escape(code)));
        match self.anchor(code) {
            Some(anchor) => format!("<a href=\"#{anchor}\">{html}</a>"),
            None => html,
        }
    }
}

/// The anchor of a header.
pub(crate) fn header_id(name: &str) -> String {
    format!("header-{}", name.to_lowercase())
}
