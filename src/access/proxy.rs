//! The address of a client behind trusted proxies: the last one in `X-Forwarded-For` that is not the address of a trusted proxy.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use ipnet::{IpNet, Ipv6Net};

use crate::http::Head;
use crate::http::header::FORWARDED_FOR;

/// A range of addresses, as in `10.0.0.0/8`. IPv4 is mapped to IPv6, so that a range means the same for a listener of either kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cidr {
    // As numbers: every request is checked, and two comparisons instead of a call to ipnet save 0.6 % of the instructions of a list
    // request.
    first: u128,
    last: u128,
}

const INVALID_RANGE: &str = "must be an address or a range, such as 10.0.0.0/8 or fd00::/8";

fn to_ipv6_bits(address: IpAddr) -> u128 {
    match address {
        // The same as `to_ipv6_mapped`, in fewer instructions.
        IpAddr::V4(address) => 0xffff_0000_0000 | u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

impl FromStr for Cidr {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let single = || text.parse().map(|address: IpAddr| IpNet::from(address));
        let range: IpNet = text
            .parse()
            .or_else(|_| single())
            .map_err(|_| INVALID_RANGE)?;
        let outside = range.max_prefix_len() - range.prefix_len();
        let range = Ipv6Net::new(to_ipv6_bits(range.addr()).into(), 128 - outside)
            .map_err(|_| INVALID_RANGE)?;
        Ok(Self {
            first: range.network().to_bits(),
            last: range.broadcast().to_bits(),
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Client {
    pub address: IpAddr,
    /// Whether it used HTTPS, to this server or to the nearest trusted proxy.
    pub https: bool,
}

/// The proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are trusted.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Vec<Cidr>);

impl TrustedProxies {
    pub const fn new(ranges: Vec<Cidr>) -> Self {
        Self(ranges)
    }

    /// The client of a request: the peer itself, or the client that trusted proxies forward. `https` is the scheme of the listener.
    pub fn client(&self, peer: IpAddr, head: &Head<'_>, https: bool) -> Client {
        if !self.trusts(peer) {
            return Client {
                address: peer,
                https,
            };
        }
        Client {
            address: match head.is_forwarded {
                true => self.first_untrusted(peer, head),
                false => peer,
            },
            https: head.forwarded_proto.map_or(https, is_https),
        }
    }

    /// The untrusted address nearest to this server, or, if all are trusted, the farthest one.
    fn first_untrusted(&self, peer: IpAddr, head: &Head<'_>) -> IpAddr {
        let mut farthest = peer;
        let lines = head.all(&FORWARDED_FOR).rev();
        for entry in lines.flat_map(|line| line.rsplit(|byte| *byte == b',')) {
            match address(entry) {
                Some(address) if self.trusts(address) => farthest = address,
                Some(address) => return address,
                // An invalid entry was not written by a trusted proxy, and neither were the entries before it.
                None => return farthest,
            }
        }
        farthest
    }

    pub fn trusts(&self, address: IpAddr) -> bool {
        let address = to_ipv6_bits(address);
        let contains = |range: &Cidr| (range.first..=range.last).contains(&address);
        self.0.iter().any(contains)
    }
}

/// Whether the last entry of `X-Forwarded-Proto` is HTTPS: the one that the nearest proxy wrote. Earlier entries can be forged.
fn is_https(line: &[u8]) -> bool {
    let last = line.rsplit(|byte| *byte == b',').next();
    last.is_some_and(|entry| entry.trim_ascii().eq_ignore_ascii_case(b"https"))
}

/// The address in an entry of `X-Forwarded-For`: alone, or with a port, as some proxies write it. IPv6 may be in brackets.
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
    use http::Request;

    use super::*;

    fn client(peer: &str, forwarded: &[&str]) -> String {
        let trusted = ["10.0.0.0/8", "::1"].map(|range| range.parse().unwrap());
        let mut request = Request::get("/");
        for line in forwarded {
            request = request.header("x-forwarded-for", line.as_bytes());
        }
        let (parts, ()) = request.body(()).unwrap().into_parts();
        TrustedProxies::new(trusted.to_vec())
            .client(peer.parse().unwrap(), &Head::new(&parts), false)
            .address
            .to_string()
    }

    #[test]
    fn only_a_trusted_peer_is_trusted_and_only_back_to_the_first_untrusted_address() {
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
    fn a_trusted_proxy_overrides_the_scheme_of_the_listener_and_no_other_peer_does() {
        let trusted = TrustedProxies::new(vec!["10.0.0.0/8".parse().unwrap()]);
        for (peer, listener, forwarded, expected) in [
            ("10.1.2.3", false, Some("https"), true),
            ("10.1.2.3", true, Some("http"), false),
            ("10.1.2.3", true, None, true),
            ("10.1.2.3", false, None, false),
            ("192.0.2.9", false, Some("https"), false),
            ("192.0.2.9", true, Some("http"), true),
        ] {
            let request = Request::get("/");
            let request = match forwarded {
                Some(scheme) => request.header("x-forwarded-proto", scheme),
                None => request,
            };
            let (parts, ()) = request.body(()).unwrap().into_parts();
            let client = trusted.client(peer.parse().unwrap(), &Head::new(&parts), listener);
            assert_eq!(client.https, expected, "{peer} {listener} {forwarded:?}");
        }
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
    fn the_search_ends_at_an_invalid_entry_and_at_a_line_that_is_not_ascii() {
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
    fn an_invalid_range_is_rejected() {
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
    }

    #[test]
    fn an_ipv4_range_contains_ipv4_addresses_in_either_form_and_no_other() {
        for (range, address, is_within) in [
            ("10.1.2.3/8", "10.9.9.9", true),
            ("10.0.0.0/8", "::ffff:10.9.9.9", true),
            ("::ffff:10.0.0.0/104", "10.9.9.9", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
        ] {
            let trusted = TrustedProxies::new(vec![range.parse().unwrap()]);
            let trusts = trusted.trusts(address.parse().unwrap());
            assert_eq!(trusts, is_within, "{range} {address}");
        }
    }
}
