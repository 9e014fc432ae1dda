//! The network that an address belongs to, for limits per client.

use std::net::IpAddr;

/// Returns the network of an address as a number: an IPv4 address, or the /64 that an IPv6 customer usually has. IPv4 addresses map
/// to IPv6 prefixes that are reserved.
pub(crate) fn network(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
    }
}
