//! The host that a request is addressed to: from its target, or from its `Host`.

use std::net::Ipv6Addr;

use hyper::header::HOST;
use hyper::http::request::Parts;
use hyper::{HeaderMap, Version};

/// The longest host with its port. A name in the DNS has at most 253 characters.
const LONGEST: usize = 255;

/// A host and perhaps a port, checked, so that it can stand in a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Authority<'a>(&'a [u8]);

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
        let is_valid = match bytes {
            [b'[', rest @ ..] => is_ipv6(rest),
            _ => match bytes.split_at(name_length(bytes)) {
                ([], _) => false,
                (_, port) => is_port(port),
            },
        };
        if is_valid && bytes.len() <= LONGEST {
            Ok(Self(bytes))
        } else {
            Err(InvalidAuthority::Malformed)
        }
    }

    /// Its bytes, all of them visible ASCII.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

/// What a name or an IPv4 address consists of, besides percent-encoded bytes: what RFC 3986 calls unreserved characters and delimiters.
const NAME: [bool; 256] = {
    let mut allowed = [false; 256];
    let all = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~!$&'()*+,;=";
    let mut place = 0;
    while place < all.len() {
        allowed[all[place] as usize] = true;
        place += 1;
    }
    allowed
};

/// How many bytes at the beginning are those of a name or an IPv4 address.
fn name_length(bytes: &[u8]) -> usize {
    let mut length = 0;
    loop {
        let rest = &bytes[length..];
        let is_other = |byte: &u8| !NAME[usize::from(*byte)];
        length += rest.iter().position(is_other).unwrap_or(rest.len());
        match bytes[length..] {
            [b'%', high, low, ..] if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                length += 3;
            }
            _ => return length,
        }
    }
}

/// Nothing, or a colon and a port. RFC 3986 allows for a port without digits.
fn is_port(bytes: &[u8]) -> bool {
    let [b':', digits @ ..] = bytes else {
        return bytes.is_empty();
    };
    let value = digits.iter().try_fold(0_u32, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10 && value <= 0xffff).then(|| value * 10 + u32::from(digit))
    });
    value.is_some_and(|value| value <= 0xffff)
}

/// An IPv6 address behind its opening bracket, and perhaps a port.
fn is_ipv6(bytes: &[u8]) -> bool {
    let mut parts = bytes.splitn(2, |byte| *byte == b']');
    let (Some(address), Some(port)) = (parts.next(), parts.next()) else {
        return false;
    };
    let address = std::str::from_utf8(address).unwrap_or_default();
    address.parse::<Ipv6Addr>().is_ok() && is_port(port)
}
