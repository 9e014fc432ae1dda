//! A response, and what every response must have.

use std::fmt;

use animal_store::percent::decode_path;
use serde_json::Value;

/// A response.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The headers in their order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    pub(crate) request_line: String,
}

impl Response {
    /// The value of a header that is sent at most once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(other, _)| other == name);
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} is sent twice: {self}");
        value
    }

    /// The value of a header as a number.
    pub fn number(&self, name: &str) -> i64 {
        let value = self
            .header(name)
            .unwrap_or_else(|| panic!("no {name}: {self}"));
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is not a number: {self}"))
    }

    /// Limit, remaining and reset, from the rate limit headers.
    pub fn rate(&self) -> (i64, i64, i64) {
        (
            self.number("x-ratelimit-limit"),
            self.number("x-ratelimit-remaining"),
            self.number("x-ratelimit-reset"),
        )
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {self}"))
    }

    /// The `code` of an error.
    pub fn code(&self) -> String {
        self.json()["code"]
            .as_str()
            .unwrap_or_else(|| panic!("no code: {self}"))
            .to_owned()
    }

    /// The `message` of an error.
    pub fn message(&self) -> String {
        self.json()["message"]
            .as_str()
            .unwrap_or_else(|| panic!("no message: {self}"))
            .to_owned()
    }

    /// The IDs in a list.
    pub fn ids(&self) -> Vec<i64> {
        let list = self.json();
        let list = list
            .as_array()
            .unwrap_or_else(|| panic!("not a list: {self}"));
        list.iter()
            .map(|pet| pet["id"].as_i64().expect("an id"))
            .collect()
    }

    /// The target of the link with `rel="next"`.
    pub fn next(&self) -> Option<String> {
        let link = self.header("link")?;
        let url = link.strip_prefix('<')?.strip_suffix(">; rel=\"next\"")?;
        Some(url.to_owned())
    }

    /// Panics unless the status and the error code are these.
    #[track_caller]
    pub fn is_error(&self, status: u16, code: &str) -> &Self {
        assert_eq!(
            (self.status, self.code().as_str()),
            (status, code),
            "{self}"
        );
        self
    }

    /// Checks what every response must have.
    #[track_caller]
    pub(crate) fn check(&self, target: &str) {
        let has = |name: &str| self.header(name).is_some();
        assert!(has("x-request-id") && has("date"), "{self}");
        assert_eq!(
            self.header("x-content-type-options"),
            Some("nosniff"),
            "{self}"
        );
        let path = decode_path(target.split('?').next().unwrap_or_default());
        let is_api = path == "/v1" || path.starts_with("/v1/");
        if is_api {
            assert_eq!(self.header("cache-control"), Some("no-store"), "{self}");
        }
        // Only a preflight has this status.
        if is_api && self.status != 204 {
            let (limit, remaining, reset) = self.rate();
            assert!(
                limit > 0 && (0..=limit).contains(&remaining) && reset > 0,
                "{self}"
            );
        } else {
            for name in ["limit", "remaining", "reset"] {
                assert!(!has(&format!("x-ratelimit-{name}")), "{self}");
            }
        }
        if self.status >= 400 && !self.request_line.starts_with("HEAD ") {
            let error = self.json();
            let fields: Vec<_> = error
                .as_object()
                .expect("an object")
                .keys()
                .map(String::as_str)
                .collect();
            assert_eq!(fields, ["code", "message", "status"], "{self}");
            assert_eq!(error["status"], self.status, "{self}");
            assert_eq!(
                self.header("content-type"),
                Some("application/json"),
                "{self}"
            );
        }
        assert_eq!(has("www-authenticate"), self.status == 401, "{self}");
        assert_eq!(has("allow"), self.status == 405, "{self}");
        // A conflict is temporary, except for one with a rule of the admin API.
        let is_temporary = [429, 503].contains(&self.status)
            || (self.status == 409 && !target.starts_with("/api/"));
        assert_eq!(has("retry-after"), is_temporary, "{self}");
    }
}

impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}", self.request_line, self.status)?;
        for (name, value) in &self.headers {
            writeln!(f, "{name}: {value}")?;
        }
        write!(f, "\n{}", String::from_utf8_lossy(&self.body))
    }
}
