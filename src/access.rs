//! Authentication: a valid key, or a failure that is counted against the address of the client.
//! Queries the store only for a key that is not in the directory. Knows nothing of responses.

pub(crate) mod address;
mod bearer;
mod directory;
pub(crate) mod proxy;

pub use bearer::Credentials;
pub use directory::{Directory, Key};
pub use proxy::TrustedProxies;

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};

use crate::clock::Timestamp;
use crate::key::{KeyHash, KeyId};
use crate::limit::Rate;
use crate::store::{self, Store};
use address::AddressTable;

/// The identity of a client.
#[derive(Debug)]
pub enum Identity {
    /// The holder of a valid key.
    Key(Key),
    /// No valid key. The failure has been counted against the address, which has this rate.
    Unauthenticated(Rate),
    /// An address over its failure limit in this minute.
    TooManyFailures(Rate),
}

/// The keys, and the failures of each address.
#[derive(Debug, Default)]
pub struct Access {
    /// Every key, by the hash of its secret.
    pub directory: Directory,
    addresses: AddressTable,
    /// Revoked keys whose use has been logged.
    revoked_used: Mutex<HashSet<KeyId>>,
}

/// The maximum number of revoked keys whose use is logged.
const MAX_LOGGED_REVOKED: usize = 1_000;

impl Access {
    /// Authenticates a request from `address`. An error is one of the store.
    pub async fn identify(
        &self,
        store: &Store,
        credentials: Credentials<'_>,
        address: IpAddr,
        now: Timestamp,
    ) -> store::Result<Identity> {
        if let Credentials::Token(text) = credentials
            && let Some(hash) = KeyHash::parse(text)
        {
            let mut known = self.directory.find(&hash);
            if known.is_none() {
                // It may have just been created. For an address over its failure limit the store is not queried.
                if let Some(rate) = self.addresses.exhausted(address, now) {
                    return Ok(Identity::TooManyFailures(rate));
                }
                if let Some(record) = store.key_by_hash(hash).await? {
                    self.directory.apply(&record);
                    known = self.directory.find(&hash);
                }
            }
            match known {
                Some(key) if key.is_valid(now) => return Ok(Identity::Key(key)),
                Some(key) if key.is_revoked() => self.log_revoked(key.id, address),
                _ => {}
            }
        }
        Ok(match self.addresses.fail(address, now) {
            Ok(rate) => Identity::Unauthenticated(rate),
            Err(rate) => Identity::TooManyFailures(rate),
        })
    }

    /// Logs the first use of a revoked key: a client has not replaced it, or it has been stolen.
    #[cold]
    fn log_revoked(&self, key: KeyId, address: IpAddr) {
        let logged = self.revoked_used.lock();
        let mut logged = logged.unwrap_or_else(PoisonError::into_inner);
        if logged.len() < MAX_LOGGED_REVOKED && logged.insert(key) {
            let client = address.to_canonical();
            tracing::warn!(key = key.0, %client, "revoked key used; further uses of it are not logged");
        }
    }

    /// The rate of an address, without counting anything.
    pub fn rate_of(&self, address: IpAddr, now: Timestamp) -> Rate {
        self.addresses.rate(address, now)
    }
}
