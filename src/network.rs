//! The network that an address is counted by.

use std::net::IpAddr;

/// Returns a number for what counts as one address: an IPv4 address, or the /64 that one IPv6 customer has. IPv4 takes the place of
/// prefixes that IPv6 reserves and nobody has.
pub(crate) fn network(address: IpAddr) -> u64 {
    match address.to_canonical() {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => (address.to_bits() >> 64) as u64,
    }
}
