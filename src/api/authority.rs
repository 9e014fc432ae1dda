//! The host that a request is addressed to: from its target, or from its `Host`.

use std::net::Ipv6Addr;

use hyper::header::HOST;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Version};

/// The longest host with its port. A name in the DNS has at most 253 characters.
const LONGEST: usize = 255;

/// A host and perhaps a port, checked, so that it can stand in a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority<'a>(&'a str);

/// Why a request is addressed to nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAuthority {
    /// HTTP/1.1 demands one `Host`; RFC 9112 demands the 400.
    #[error("must be given, once")]
    NotOnce,
    /// Neither a name nor an address.
    #[error("must be a host name or an IP address, with or without a port, of at most 255 bytes")]
    Malformed,
}

impl<'a> Authority<'a> {
    /// The authority of a request: of its target, where that is in absolute form, or its `Host`. Only HTTP/1.0 may have none.
    pub fn of(head: &'a Parts) -> Result<Option<Self>, InvalidAuthority> {
        let host = Self::in_headers(&head.headers)?;
        if host.is_none() && head.version == Version::HTTP_11 {
            return Err(InvalidAuthority::NotOnce);
        }
        match head.uri.authority() {
            Some(target) => Self::parse(target.as_str().as_bytes()).map(Some),
            None => Ok(host),
        }
    }

    fn in_headers(headers: &'a HeaderMap) -> Result<Option<Self>, InvalidAuthority> {
        let mut hosts = headers.get_all(HOST).iter();
        match (hosts.next(), hosts.next()) {
            (Some(host), None) => Self::parse(host.as_bytes()).map(Some),
            (None, _) => Ok(None),
            _ => Err(InvalidAuthority::NotOnce),
        }
    }

    /// Reads `host [":" port]` of RFC 3986, without user information.
    fn parse(bytes: &'a [u8]) -> Result<Self, InvalidAuthority> {
        let text = std::str::from_utf8(bytes).map_err(|_| InvalidAuthority::Malformed)?;
        let is_valid = match text.strip_prefix('[') {
            Some(rest) => rest.split_once(']').is_some_and(|(address, port)| {
                address.parse::<Ipv6Addr>().is_ok()
                    && (port.is_empty() || port.strip_prefix(':').is_some_and(is_port))
            }),
            None => {
                let end = name_length(bytes);
                end > 0 && (end == bytes.len() || (bytes[end] == b':' && is_port(&text[end + 1..])))
            }
        };
        if is_valid && bytes.len() <= LONGEST {
            Ok(Self(text))
        } else {
            Err(InvalidAuthority::Malformed)
        }
    }

    /// As text.
    pub const fn as_str(self) -> &'a str {
        self.0
    }
}

/// How many bytes at the beginning are those of a name or an IPv4 address.
fn name_length(bytes: &[u8]) -> usize {
    let mut length = 0;
    while let Some(byte) = bytes.get(length) {
        length += match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b'~' => 1,
            b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'=' => 1,
            b'%' => match bytes.get(length + 1..length + 3) {
                Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => 3,
                _ => break,
            },
            _ => break,
        };
    }
    length
}

/// Digits that are a port. RFC 3986 allows for none.
fn is_port(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_digit())
        && (text.is_empty() || text.parse::<u16>().is_ok())
}
