//! The address under which callers reach the API. It ends in `/v1`; links are written below it.

use std::fmt;
use std::str::FromStr;

use hyper::Uri;

/// A base address such as `https://animals.example/v1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl(String);

/// A text that is no base address.
#[derive(Debug, thiserror::Error)]
#[error("takes an http or https address such as https://animals.example/v1")]
pub struct NotABaseUrl;

impl BaseUrl {
    /// The API's own address.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The address of what lies beside `/v1`: the docs, the document.
    pub fn root(&self) -> &str {
        self.0.strip_suffix("/v1").unwrap_or(&self.0)
    }

    /// Scheme, host and port: what a browser calls the origin.
    pub fn origin(&self) -> &str {
        let host = self.0.find("://").map_or(0, |place| place + 3);
        match self.0[host..].find('/') {
            Some(path) => &self.0[..host + path],
            None => &self.0,
        }
    }
}

impl FromStr for BaseUrl {
    type Err = NotABaseUrl;

    /// `/v1` is added where it is missing: it is part of every address of ours.
    fn from_str(text: &str) -> Result<Self, NotABaseUrl> {
        let uri: Uri = text.parse().map_err(|_| NotABaseUrl)?;
        let known = matches!(uri.scheme_str(), Some("http" | "https"));
        // An address ends up between < and > in a Link header.
        let plain = text
            .bytes()
            .all(|byte| byte.is_ascii_graphic() && !b"<>\"'\\;@".contains(&byte));
        if !known
            || !plain
            || uri.host().is_none_or(str::is_empty)
            || uri.query().is_some()
            || text.contains('#')
        {
            return Err(NotABaseUrl);
        }
        let text = text.trim_end_matches('/');
        Ok(Self(if text.ends_with("/v1") {
            text.to_owned()
        } else {
            format!("{text}/v1")
        }))
    }
}

impl fmt::Display for BaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_ends_in_v1_and_knows_its_root_and_origin() {
        for text in [
            "https://a.example/api/v1",
            "https://a.example/api",
            "https://a.example/api/v1/",
        ] {
            let url: BaseUrl = text.parse().unwrap();
            assert_eq!(
                (url.as_str(), url.root(), url.origin()),
                (
                    "https://a.example/api/v1",
                    "https://a.example/api",
                    "https://a.example"
                )
            );
        }
        let url: BaseUrl = "http://127.0.0.1:8080".parse().unwrap();
        assert_eq!(
            (url.root(), url.origin()),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080")
        );
    }

    #[test]
    fn what_is_no_http_address_is_refused() {
        for bad in [
            "",
            "animals.example",
            "/v1",
            "ftp://a/v1",
            "http://",
            "http://a/v1?x=1",
            "http://a/v1#x",
            "http://a b",
            "http://u@a",
        ] {
            assert!(bad.parse::<BaseUrl>().is_err(), "{bad}");
        }
    }
}
