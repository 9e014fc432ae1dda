//! The contract for keys.

use super::Store;
use super::contract::{
    KeyChange, KeyChangeResult, KeyList, KeyListQuery, KeyRecord, NewKey, Result,
};
use super::engine::{dispatch, traced};
use super::row_stream::{RowStream, row_stream};
use crate::key::{KeyHash, KeyId, KeyIdentity, Secret};
use crate::limit::BanChange;

impl Store {
    pub async fn add_key(&self, key: NewKey, secret: &Secret) -> Result<KeyRecord> {
        dispatch!(self.add_key(key, secret))
    }

    /// The key with this hash, which may be that of its old secret.
    pub async fn key_by_hash(&self, hash: KeyHash) -> Result<Option<KeyRecord>> {
        traced!("SELECT" "api_keys", self.key_by_hash(hash))
    }

    pub async fn key(&self, id: KeyId) -> Result<Option<KeyRecord>> {
        dispatch!(self.key(id))
    }

    /// All keys in ascending order of IDs.
    pub fn keys(&self) -> RowStream<'_, KeyRecord> {
        row_stream(async move |last: Option<KeyRecord>| {
            self.keys_after(last.map_or(KeyId(i64::MIN), |key| key.id))
                .await
        })
    }

    /// A page of the list of keys. It may take a second with a million keys.
    pub async fn key_list(&self, query: &KeyListQuery) -> Result<KeyList> {
        dispatch!(self.key_list(query))
    }

    /// The first `CHUNK_ROWS` keys with higher IDs, in ascending order. MUST return fewer only at the end.
    pub async fn keys_after(&self, after: KeyId) -> Result<Vec<KeyRecord>> {
        dispatch!(self.keys_after(after))
    }

    /// Passes every key that changed after this revision to `each`, in the order of changes, in chunks: there may be a
    /// million. After an error some have been passed, and all of them are passed again the next time.
    pub async fn keys_since(&self, revision: i64, each: impl FnMut(Vec<KeyRecord>)) -> Result<()> {
        dispatch!(self.keys_since(revision, each))
    }

    /// Makes the change that `decide` returns for the current key. MUST read, decide and write in one transaction, so that no
    /// two changes are decided on the same state. An error of `decide` changes no key. It may be called again, when the
    /// transaction is repeated. An unban MUST be dated no earlier than the ban it ends, and later than every unban before it:
    /// the date shows servers which bans it ends.
    pub async fn change_key<E: Send + 'static>(
        &self,
        id: KeyId,
        decide: impl Fn(&KeyRecord) -> std::result::Result<KeyChange, E> + Send + 'static,
    ) -> KeyChangeResult<E> {
        dispatch!(self.change_key(id, decide))
    }

    /// Stores that a key is banned. MUST NOT store it for another key that has the ID of a lost one. MUST NOT replace a later ban,
    /// nor store one that has been ended by an unban; an unban dated beyond the end of the ban comes from a clock that ran ahead,
    /// and ends none. A correction of the stored ban ([`BanChange::replaces`]), whose start was in the future because a clock ran
    /// ahead, MUST replace it, although it begins earlier.
    pub async fn record_ban(&self, key: KeyIdentity, ban: impl Into<BanChange>) -> Result<()> {
        dispatch!(self.record_ban(key, ban.into()))
    }
}
