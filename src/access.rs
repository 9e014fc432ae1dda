//! Who sent a request: a key that is in force, or an address that has so many failures left.
//! Asks the store only for a key that the directory does not know; knows nothing of responses.

pub mod address;
pub mod bearer;
pub mod directory;
pub mod proxy;

pub use bearer::Presented;
pub use directory::{Directory, Key};
pub use proxy::TrustedProxies;

use std::net::IpAddr;

use crate::clock::Timestamp;
use crate::key::KeyHash;
use crate::limit::Rate;
use crate::store::{self, Store};
use address::AddressTable;

/// Who a request comes from.
#[derive(Debug)]
pub enum Identity {
    /// The holder of a key in force.
    Key(Key),
    /// No key in force. The failure has been counted against the address, which has this left.
    Unauthenticated(Rate),
    /// An address that has used up its failures in this minute.
    TooManyFailures(Rate),
}

/// The keys in force, and the failures of each address.
#[derive(Debug, Default)]
pub struct Access {
    /// Every key, by the hash of its secret.
    pub directory: Directory,
    addresses: AddressTable,
}

impl Access {
    /// Authenticates a request from `address`. A failure to ask the store is the store's error.
    pub async fn identify(
        &self,
        store: &Store,
        presented: Presented<'_>,
        address: IpAddr,
        now: Timestamp,
    ) -> store::Result<Identity> {
        if let Presented::Key(text) = presented
            && let Some(hash) = KeyHash::of_presented(text)
        {
            let mut known = self.directory.find(&hash);
            if known.is_none() {
                // A key made a moment ago. An address that has failed too often does not get to ask the store.
                if let Some(rate) = self.addresses.exhausted(address, now) {
                    return Ok(Identity::TooManyFailures(rate));
                }
                if let Some(record) = store.key_by_hash(hash).await? {
                    self.directory.apply(&record);
                    known = self.directory.find(&hash);
                }
            }
            if let Some(key) = known.filter(|key| key.in_force(now)) {
                return Ok(Identity::Key(key));
            }
        }
        Ok(match self.addresses.fail(address, now) {
            Ok(rate) => Identity::Unauthenticated(rate),
            Err(rate) => Identity::TooManyFailures(rate),
        })
    }

    /// What an address has left, where nothing was counted.
    pub fn rate_of(&self, address: IpAddr, now: Timestamp) -> Rate {
        self.addresses.rate(address, now)
    }
}
