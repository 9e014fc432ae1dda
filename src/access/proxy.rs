//! Whose address counts when a proxy stands in front: the last one that no trusted proxy wrote.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

static FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
static FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");

/// A range of addresses, as in `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    base: u128,
    mask: u128,
}

/// A text that is no range of addresses.
#[derive(Debug, thiserror::Error)]
#[error("takes an address or a range such as 10.0.0.0/8 or fd00::/8")]
pub struct NotACidr;

/// Every address as a number: IPv4 in its place within IPv6.
fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl FromStr for Cidr {
    type Err = NotACidr;

    fn from_str(text: &str) -> Result<Self, NotACidr> {
        let (address, bits) = text
            .split_once('/')
            .map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| NotACidr)?;
        let width: u32 = if address.is_ipv4() { 32 } else { 128 };
        let fixed = bits.map_or(Ok(width), str::parse).map_err(|_| NotACidr)?;
        let open = width.checked_sub(fixed).ok_or(NotACidr)?;
        let mask = u128::MAX.checked_shl(open).unwrap_or(0);
        Ok(Self {
            base: number(address) & mask,
            mask,
        })
    }
}

/// Who sent a request, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    /// Where it is.
    pub address: IpAddr,
    /// Whether it spoke HTTPS to the nearest trusted proxy.
    pub https: bool,
}

/// The proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Vec<Cidr>);

impl TrustedProxies {
    /// These ranges.
    pub const fn new(ranges: Vec<Cidr>) -> Self {
        Self(ranges)
    }

    /// Who sent a request, and how: the peer itself, or what the nearest trusted proxies say.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> Client {
        let mut client = Client {
            address: peer,
            https: false,
        };
        if !self.trusts(peer) {
            return client;
        }
        // One walk over all headers costs less than two look-ups, which hash both names; and most requests have none of the two.
        let (mut has_addresses, mut protocol) = (false, None);
        for (name, value) in headers {
            if *name == FORWARDED_FOR {
                has_addresses = true;
            } else if *name == FORWARDED_PROTO {
                protocol = Some(value);
            }
        }
        if has_addresses {
            client.address = self.first_stranger(peer, headers);
        }
        client.https = protocol.is_some_and(is_https);
        client
    }

    /// The last address that no trusted proxy wrote, or the first that one did.
    fn first_stranger(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut nearest = peer;
        let lines = headers.get_all(&FORWARDED_FOR).iter().rev();
        for entry in lines.flat_map(|line| line.as_bytes().rsplit(|byte| *byte == b',')) {
            match address(entry) {
                Some(address) if self.trusts(address) => nearest = address,
                Some(address) => return address,
                // What is no address was not written by a trusted proxy, and neither was anything before it.
                None => return nearest,
            }
        }
        nearest
    }

    /// Whether this is one of them.
    pub fn trusts(&self, address: IpAddr) -> bool {
        let address = number(address);
        self.0
            .iter()
            .any(|range| address & range.mask == range.base)
    }
}

/// Whether the last entry of `X-Forwarded-Proto` is HTTPS: the one that the nearest proxy wrote. What stands before it may be anyone's.
fn is_https(line: &HeaderValue) -> bool {
    let last = line.as_bytes().rsplit(|byte| *byte == b',').next();
    last.is_some_and(|entry| entry.trim_ascii().eq_ignore_ascii_case(b"https"))
}

/// The address in an entry of `X-Forwarded-For`: alone, or with a port, as some proxies write it. IPv6 may stand in brackets.
fn address(entry: &[u8]) -> Option<IpAddr> {
    let entry = std::str::from_utf8(entry).ok()?.trim_ascii();
    let unbracketed = || entry.strip_prefix('[')?.strip_suffix(']');
    entry
        .parse()
        .ok()
        .or_else(|| Some(entry.parse::<SocketAddr>().ok()?.ip()))
        .or_else(|| Some(IpAddr::V6(unbracketed()?.parse().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(peer: &str, forwarded: &[&str]) -> String {
        let trusted = ["10.0.0.0/8", "::1"].map(|range| range.parse().unwrap());
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append(
                "x-forwarded-for",
                HeaderValue::from_bytes(line.as_bytes()).unwrap(),
            );
        }
        TrustedProxies::new(trusted.to_vec())
            .client(peer.parse().unwrap(), &headers)
            .address
            .to_string()
    }

    #[test]
    fn only_a_trusted_peer_is_believed_and_only_back_to_the_first_stranger() {
        assert_eq!(client("192.0.2.9", &["203.0.113.5"]), "192.0.2.9");
        assert_eq!(client("10.1.2.3", &["203.0.113.5"]), "203.0.113.5");
        assert_eq!(
            client("10.1.2.3", &["1.1.1.1, 203.0.113.5, 10.9.9.9"]),
            "203.0.113.5"
        );
        assert_eq!(
            client("10.1.2.3", &["1.1.1.1", "203.0.113.5"]),
            "203.0.113.5"
        );
        assert_eq!(client("10.1.2.3", &["junk, 10.9.9.9"]), "10.9.9.9");
        assert_eq!(client("10.1.2.3", &[]), "10.1.2.3");
        assert_eq!(client("::1", &["2001:db8::7"]), "2001:db8::7");
    }

    #[test]
    fn an_entry_may_have_a_port_or_brackets() {
        for (entry, address) in [
            ("9.9.9.1:1234", "9.9.9.1"),
            ("[2001:db8::1]:1234", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"),
        ] {
            assert_eq!(client("10.1.2.3", &[entry]), address, "{entry}");
            let behind_another = format!("{entry}, 10.9.9.9:80");
            assert_eq!(client("10.1.2.3", &[&behind_another]), address, "{entry}");
        }
    }

    #[test]
    fn the_walk_ends_at_an_entry_that_is_no_address_and_at_a_line_that_is_not_ascii() {
        for end in [
            "9.9.9.1:",
            "9.9.9.1:65536",
            "9.9.9.1:x",
            "[9.9.9.1]",
            "[2001:db8::1]:",
            "[2001:db8::1",
            "2001:db8::1%eth0",
            "unknown",
            "",
            "é",
            "203.0.113.5é",
        ] {
            let one_line = format!("203.0.113.5, {end}, 10.9.9.9");
            assert_eq!(client("10.1.2.3", &[&one_line]), "10.9.9.9", "{end:?}");
            let lines = ["203.0.113.5", end, "10.9.9.9"];
            assert_eq!(client("10.1.2.3", &lines), "10.9.9.9", "{end:?}");
        }
    }

    #[test]
    fn a_range_is_read_or_refused() {
        for good in ["0.0.0.0/0", "192.0.2.1", "192.0.2.1/32", "::/0", "fd00::/8"] {
            assert!(good.parse::<Cidr>().is_ok(), "{good}");
        }
        for bad in [
            "",
            "10.0.0.0/33",
            "::/129",
            "10.0.0/8",
            "10.0.0.0/",
            "10.0.0.0/-1",
            "host/8",
        ] {
            assert!(bad.parse::<Cidr>().is_err(), "{bad}");
        }
        let all_of_ipv4: Cidr = "0.0.0.0/0".parse().unwrap();
        assert!(!TrustedProxies::new(vec![all_of_ipv4]).trusts("2001:db8::1".parse().unwrap()));
    }
}
