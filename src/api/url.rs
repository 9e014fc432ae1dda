//! The base URLs that the operator configures, which end in `/v1`, and the root of the links in a response, which does not.

use std::fmt;
use std::str::FromStr;

use super::authority::{is_authority, is_name};

/// A base URL such as `https://animals.example/v1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl(String);

const INVALID_BASE_URL: &str =
    "must be an http or https URL that ends in /v1, such as https://animals.example/v1";

/// The beginning of the links in a response, before `/v1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LinkRoot<'a> {
    pub(super) https: bool,
    /// Host, port and the path before `/v1`.
    pub(super) host_and_path: &'a [u8],
}

impl<'a> From<&'a BaseUrl> for LinkRoot<'a> {
    fn from(url: &'a BaseUrl) -> Self {
        let root = url.root();
        let (https, host_and_path) = match root.strip_prefix("https://") {
            Some(host_and_path) => (true, host_and_path),
            None => (false, root.strip_prefix("http://").unwrap_or(root)),
        };
        Self {
            https,
            host_and_path: host_and_path.as_bytes(),
        }
    }
}

impl fmt::Display for LinkRoot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.https { "https://" } else { "http://" })?;
        // It is always ASCII.
        f.write_str(std::str::from_utf8(self.host_and_path).unwrap_or_default())
    }
}

impl BaseUrl {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The URL without `/v1`, below which the docs and the OpenAPI document are.
    pub fn root(&self) -> &str {
        self.0.strip_suffix("/v1").unwrap_or(&self.0)
    }

    /// Its origin: scheme, host and port.
    pub fn origin(&self) -> &str {
        let host = self.0.find("://").map_or(0, |end| end + 3);
        match self.0[host..].find('/') {
            Some(path) => &self.0[..host + path],
            None => &self.0,
        }
    }
}

impl FromStr for BaseUrl {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = text.split_once("://").ok_or(INVALID_BASE_URL)?;
        let path = rest.find('/').ok_or(INVALID_BASE_URL)?;
        let (authority, path) = rest.split_at(path);
        let mut parts = path.split(['/', ':']);
        // In lower case, so that it can be compared.
        let scheme = scheme.to_ascii_lowercase();
        if !matches!(&*scheme, "http" | "https")
            || !is_authority(authority.as_bytes())
            || !parts.all(|part| part.is_empty() || is_name(part.as_bytes()))
            // The docs quote it in examples, and their Content-Security-Policy contains it.
            || rest.contains(['\'', ';'])
            || !path.ends_with("/v1")
        {
            return Err(INVALID_BASE_URL);
        }
        Ok(Self(format!("{scheme}://{rest}")))
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
    fn a_base_url_ends_in_v1_and_has_a_root_and_an_origin() {
        for (root, origin) in [
            ("https://a.example/api", "https://a.example"),
            ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
            ("http://a", "http://a"),
            ("http://[::1]:80/a:b//%C3%A9", "http://[::1]:80"),
        ] {
            let url: BaseUrl = format!("{root}/v1").parse().unwrap();
            assert_eq!((url.root(), url.origin()), (root, origin));
            assert_eq!(LinkRoot::from(&url).to_string(), root);
            assert_eq!(
                (url.as_str(), url.to_string()),
                (&*format!("{root}/v1"), format!("{root}/v1"))
            );
        }
        let url: BaseUrl = "HTTPS://a.example/v1".parse().unwrap();
        assert_eq!(LinkRoot::from(&url).to_string(), "https://a.example");
    }

    #[test]
    fn an_invalid_base_url_is_rejected() {
        for bad in [
            "",
            "animals.example",
            "/v1",
            "ftp://a/v1",
            "http://",
            "http://a/v1?x=1",
            "http://a/v1#x",
            "http://a/?/v1",
            "http://a/#/v1",
            "http://a b/v1",
            "http://u@a/v1",
            "http://a",
            "http://a/",
            "http://a/v1/",
            "http://a/v2",
            "http:///v1",
            "http://a:99999/v1",
            "http://[zz]/v1",
            "http://a/{x}/v1",
            "http://a/%zz/v1",
            "http://a/b|c/v1",
            "http://a/<b>/v1",
            "http://a/b;c/v1",
            "http://a/b'c/v1",
        ] {
            assert!(bad.parse::<BaseUrl>().is_err(), "{bad}");
        }
    }
}
