//! Authentication: a valid key, or a failure that is counted against the address of the client.
//! Queries the store only for a key that is not in the directory. Knows nothing of responses.

pub(crate) mod auth_failures;
mod bearer;
mod directory;
mod last_key;
pub(crate) mod proxy;

pub use bearer::Credentials;
pub use directory::{Directory, SecretGrant};
pub use last_key::LastKey;
pub use proxy::TrustedProxies;

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::clock::Timestamp;
use crate::key::{self, KeyHash, KeyId};
use crate::limit::Quota;
use crate::mutex::lock;
use crate::store::{self, Store, StoreError};
use auth_failures::AuthFailures;

#[derive(Debug)]
pub enum Authentication {
    Key(SecretGrant),
    /// No valid key. The failure has been counted against the address, which has this quota left.
    Failed(Quota),
    /// An address over its failure limit in this minute.
    TooManyFailures(Quota),
}

/// The keys, and the failures of each address.
pub struct Access {
    /// Every key, by the hash of its secret.
    pub directory: Directory,
    pub(crate) failures: AuthFailures,
    /// Bounds how many requests query the store at once. The failure limit of an address does not: requests that arrive together all
    /// pass it before the first has failed.
    lookups: Semaphore,
    /// Revoked keys whose use has been logged.
    revoked_used: Mutex<HashSet<KeyId>>,
}

/// The maximum number of revoked keys whose use is logged.
const MAX_LOGGED_REVOKED: usize = 1_000;

/// The maximum number of unknown keys that are looked up in the store at once.
const MAX_LOOKUPS: usize = 4;

/// The timeout of a lookup, including the time that it waits for its turn.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(2);

/// Counts a lookup that fails, or whose request is cancelled, as a failed authentication. Otherwise a client that resets its
/// streams, or that sends keys while the database fails, could have any number of keys looked up.
struct UnfinishedLookup<'a>(&'a AuthFailures, IpAddr, Timestamp);

impl Drop for UnfinishedLookup<'_> {
    fn drop(&mut self) {
        let Self(failures, address, now) = *self;
        let _ = failures.record_failure(address, now);
    }
}

impl Default for Access {
    fn default() -> Self {
        Self {
            directory: Directory::default(),
            failures: AuthFailures::default(),
            lookups: Semaphore::new(MAX_LOOKUPS),
            revoked_used: Mutex::default(),
        }
    }
}

impl Access {
    /// Authenticates a request from `address`, on a connection with this last key. An error is one of the store.
    pub async fn authenticate(
        &self,
        store: &Store,
        credentials: Credentials<'_>,
        last_key: &LastKey,
        address: IpAddr,
        now: Timestamp,
    ) -> store::Result<Authentication> {
        if let Credentials::Token(text) = credentials
            && let Some(hash) = last_key.hash(text)
        {
            let mut known = self.directory.find(&hash);
            // No store has a mistyped key. Checked after the directory, because nearly all keys are in it: this saves 1.2 % of the
            // instructions of a list request.
            if known.is_none() && key::has_valid_checksum(text) {
                // It may have just been created. Boxed, so that the state of every other request stays small.
                let looking_up = Box::pin(async {
                    let unfinished = UnfinishedLookup(&self.failures, address, now);
                    let found = self.look_up(store, hash, address, now);
                    let found = tokio::time::timeout(LOOKUP_TIMEOUT, found).await;
                    let late =
                        |_| StoreError::Unavailable("the lookup of a key took too long".into());
                    let found = found.map_err(late).flatten()?;
                    std::mem::forget(unfinished);
                    Ok::<_, StoreError>(found)
                });
                known = match looking_up.await? {
                    Ok(found) => found,
                    Err(quota) => return Ok(Authentication::TooManyFailures(quota)),
                };
            }
            match known {
                Some(key) if key.is_valid(now) => return Ok(Authentication::Key(key)),
                Some(key) if key.is_revoked() => self.log_revoked(key.identity.id, address),
                _ => {}
            }
        }
        Ok(match self.failures.record_failure(address, now) {
            Ok(quota) => Authentication::Failed(quota),
            Err(quota) => Authentication::TooManyFailures(quota),
        })
    }

    /// Looks up a key that is not in the directory, unless its address has reached its failure limit: then the store is not queried.
    async fn look_up(
        &self,
        store: &Store,
        hash: KeyHash,
        address: IpAddr,
        now: Timestamp,
    ) -> store::Result<Result<Option<SecretGrant>, Quota>> {
        if let Some(quota) = self.failures.exhausted(address, now) {
            return Ok(Err(quota));
        }
        // Never closed.
        let _permit = self.lookups.acquire().await;
        // While this request waited, others may have reached the limit, or found the same key.
        if let Some(quota) = self.failures.exhausted(address, now) {
            return Ok(Err(quota));
        }
        let known = self.directory.find(&hash);
        if known.is_none()
            && let Some(record) = store.key_by_hash(hash).await?
        {
            self.directory.apply(&record);
            return Ok(Ok(self.directory.find(&hash)));
        }
        Ok(Ok(known))
    }

    /// Logs the first use of a revoked key: a client has not replaced it, or it has been stolen.
    #[cold]
    fn log_revoked(&self, key: KeyId, address: IpAddr) {
        let mut logged = lock(&self.revoked_used);
        if logged.len() < MAX_LOGGED_REVOKED && logged.insert(key) {
            let client = address.to_canonical();
            tracing::warn!(key = key.0, %client, "revoked key used; further uses of it are not logged");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::directory::tests::record;
    use super::*;
    use crate::key::Secret;
    use crate::log::recorded;
    use crate::plan::Plan;
    use crate::store::{Database, KeyRecord, Mode, NewKey};

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    #[test]
    fn only_the_first_use_of_a_revoked_key_is_logged() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::Sqlite(folder.path().join("a.db"));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        let store = runtime
            .block_on(Store::open(&database, Mode::Migrate, 1))
            .unwrap();
        let access = Access::default();
        let now = Timestamp::from_secs(60);
        let (valid, expired, revoked) = (None, Some(now), Some(now));
        for (id, expires_at, revoked_at, expected) in [
            (1, valid, None, 0),
            (2, expired, None, 0),
            (3, valid, revoked, 1),
            (4, expired, revoked, 1),
        ] {
            let secret = Secret::generate().unwrap();
            let last_key = LastKey::default();
            access.directory.apply(&KeyRecord {
                id: KeyId(id),
                hash: secret.hash(),
                expires_at,
                revoked_at,
                ..record(1)
            });
            let events = recorded(|| {
                for _ in 0..2 {
                    let credentials = Credentials::Token(secret.reveal().as_bytes());
                    let authentication =
                        access.authenticate(&store, credentials, &last_key, ADDRESS, now);
                    let authentication = runtime.block_on(authentication).unwrap();
                    assert_eq!(matches!(authentication, Authentication::Key(_)), id == 1);
                }
            });
            assert_eq!(events.count(), expected, "{id}");
        }
    }

    #[tokio::test]
    async fn requests_that_wait_to_look_up_a_key_do_not_query_for_what_others_have_found_or_exhausted()
     {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::Sqlite(folder.path().join("a.db"));
        let store = Store::open(&database, Mode::Migrate, 1).await.unwrap();
        let access = Access::default();
        let now = Timestamp::from_secs(60);
        let (new, stored) = (Secret::generate().unwrap(), Secret::generate().unwrap());
        let key = NewKey {
            name: "a".into(),
            plan: Plan::Free,
            created_at: now,
            expires_at: None,
        };
        store.add_key(key, &stored).await.unwrap();
        let authenticate = async |secret: &Secret| {
            let credentials = Credentials::Token(secret.reveal().as_bytes());
            let last_key = LastKey::default();
            access
                .authenticate(&store, credentials, &last_key, ADDRESS, now)
                .await
        };
        let busy = access.lookups.acquire_many(4).await.unwrap();
        let error = authenticate(&new).await.unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        let others = async {
            tokio::task::yield_now().await;
            access.directory.apply(&KeyRecord {
                hash: new.hash(),
                ..record(1)
            });
            drop(busy);
        };
        let (found, ()) = tokio::join!(authenticate(&new), others);
        assert!(matches!(found, Ok(Authentication::Key(_))), "{found:?}");
        let busy = access.lookups.acquire_many(4).await.unwrap();
        let others = async {
            tokio::task::yield_now().await;
            while access.failures.record_failure(ADDRESS, now).is_ok() {}
            drop(busy);
        };
        // The store would have found it.
        let (rejected, ()) = tokio::join!(authenticate(&stored), others);
        let rejected = rejected.unwrap();
        assert!(
            matches!(rejected, Authentication::TooManyFailures(_)),
            "{rejected:?}"
        );
    }

    #[tokio::test]
    async fn a_cancelled_lookup_counts_as_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::Sqlite(folder.path().join("a.db"));
        let store = Store::open(&database, Mode::Migrate, 1).await.unwrap();
        let access = Access::default();
        let now = Timestamp::from_secs(60);
        let authenticate = async || {
            let secret = Secret::generate().unwrap();
            let credentials = Credentials::Token(secret.reveal().as_bytes());
            let last_key = LastKey::default();
            let authenticated = access.authenticate(&store, credentials, &last_key, ADDRESS, now);
            tokio::time::timeout(Duration::ZERO, authenticated).await
        };
        let busy = access.lookups.acquire_many(4).await.unwrap();
        for _ in 0..60 {
            assert!(authenticate().await.is_err());
        }
        drop(busy);
        let rejected = authenticate().await.unwrap().unwrap();
        assert!(
            matches!(rejected, Authentication::TooManyFailures(_)),
            "{rejected:?}"
        );
    }

    #[test]
    fn the_use_of_revoked_keys_is_logged_for_a_thousand_of_them() {
        let access = Access::default();
        let events = recorded(|| (0..1_010).for_each(|id| access.log_revoked(KeyId(id), ADDRESS)));
        assert_eq!(events.count(), 1_000);
    }
}
