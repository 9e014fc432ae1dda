//! Where animals, keys and their use are kept. This file is the contract that every engine fulfils; what a method
//! MUST do is said here and nowhere else. Below it: the engines, each with its migrations, what their
//! writers have in common, and the cache above them.

mod cache;
mod commits;
pub mod database;
mod format;
pub mod keys;
mod mode;
mod pages;
pub mod postgres;
pub mod sqlite;
mod thread;
pub mod use_batch;
mod waiting;
mod write_health;

pub use commits::Commits;
pub use database::Database;
pub use format::{Migration, WrongFormat};
pub use keys::{Changed, KeyChange, KeyChanged, KeyRecord, NewKey, UsageRow};
pub use mode::Mode;
pub use use_batch::{UseBatch, UseRecorder};

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::clock::{Clock, Day, Sample, Timestamp};
use crate::key::{KeyHash, KeyId, Secret};
use crate::limit::BanChange;
use crate::order::life::Event;
use crate::order::{self, Order, OrderId};
use crate::page::{Cursor, OrderQuery, PetQuery};
use crate::pet::{NewPet, Pet, PetId, PetStatus};
use cache::Cache;
use postgres::Postgres;
use sqlite::Sqlite;

/// How many keys are read from an engine at once: enough that the statement is a small part, few enough to be held in memory
/// and applied without anyone noticing.
pub const KEYS_AT_ONCE: u16 = 500;

/// Why a store did not do what was asked. What it holds is for the log, never for a caller.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Not now: too much waits, or the engine cannot be reached. Trying again may help.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// It failed, and would again.
    #[error("the store failed: {0}")]
    Failed(String),
}

/// The answer of a store.
pub type Result<T> = std::result::Result<T, StoreError>;

/// A page of animals as finished JSON.
#[derive(Clone, Debug)]
pub struct Page {
    /// The array.
    pub json: Bytes,
    /// Where the next page begins, if there is one.
    pub next: Option<Cursor>,
}

/// What makes the retry of a creation safe.
#[derive(Clone, Debug)]
pub struct Retry {
    /// Whose request it is.
    pub key: KeyId,
    /// The SHA-256 of the caller's `Idempotency-Key`: it may be a secret of the caller's, and is none of ours.
    pub token: [u8; 32],
    /// The SHA-256 of the animal, not of the bytes that described it.
    pub fingerprint: [u8; 32],
    /// When the request came.
    pub now: Timestamp,
}

impl Retry {
    /// How long a creation can be retried.
    pub const KEPT: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);
}

/// What became of a creation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// The animal is on disk.
    New(Pet),
    /// It has been since the first try.
    Replayed(Pet),
    /// The same `Idempotency-Key` came before with another animal. Nothing was created.
    Mismatch,
}

/// What tells this deployment from others that share a Redis with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeploymentId(String);

impl DeploymentId {
    /// The ID as the store has it.
    pub fn new(id: String) -> Self {
        Self(id)
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Numbers that change when someone, in this process or another, changes what is cached or held in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Revisions {
    /// Raised by every change of an animal that exists.
    pub pets: i64,
    /// Raised by every change of a key that a server must obey.
    pub keys: i64,
    /// The time of the database, where several nodes share it: its clock decides for all of them.
    pub time: Option<Sample>,
}

/// What setting a status did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StatusSet {
    /// The status before.
    pub before: PetStatus,
    /// The order that was withdrawn for it.
    pub withdrawn: Option<OrderId>,
}

/// What a store did, or why an animal's life does not allow it.
pub type Allowed<T> = Result<std::result::Result<T, order::Refusal>>;

/// What keeps the data. The set is closed, and every method of the store asks one of them.
#[derive(Debug)]
enum Engine {
    Sqlite(Sqlite),
    Postgres(Box<Postgres>),
}

/// Asks the engine. What asks PostgreSQL is put into a box of its own: its state is large, and would otherwise be part of
/// every request, also where the data is embedded.
macro_rules! ask {
    ($store:ident.$method:ident($($argument:expr),*)) => {
        match &$store.engine {
            Engine::Sqlite(engine) => engine.$method($($argument),*).await,
            Engine::Postgres(engine) => Box::pin(engine.$method($($argument),*)).await,
        }
    };
}

/// The store: an engine, and a cache of what it has read.
#[derive(Debug)]
pub struct Store {
    engine: Engine,
    cache: Cache,
}

impl Store {
    /// Opens the data, or refuses it in one line. At most `max_waiting` creations wait.
    pub async fn open(database: &Database, mode: Mode, max_waiting: usize) -> anyhow::Result<Self> {
        Self::open_with(database, mode, max_waiting, None).await
    }

    /// Opens the data for a command, which waits up to 30 s for the lock that another process holds on an embedded file. `notice`
    /// is called once a wait has lasted for a second.
    pub async fn open_for_command(
        database: &Database,
        mode: Mode,
        notice: fn(),
    ) -> anyhow::Result<Self> {
        // One command writes one thing.
        Self::open_with(database, mode, 1, Some(notice)).await
    }

    async fn open_with(
        database: &Database,
        mode: Mode,
        max_waiting: usize,
        notice: Option<fn()>,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            engine: match database {
                Database::Sqlite(path) => {
                    Engine::Sqlite(Sqlite::open(path, mode, max_waiting, notice)?)
                }
                Database::Postgres(servers) => Engine::Postgres(Box::new(
                    Postgres::open(database, servers, mode, max_waiting).await?,
                )),
            },
            cache: Cache::new(),
        })
    }

    /// What opening it did to its format.
    pub fn migration(&self) -> Migration {
        match &self.engine {
            Engine::Sqlite(engine) => engine.migration(),
            Engine::Postgres(engine) => engine.migration(),
        }
    }

    /// Whether other nodes may have the same data.
    pub fn is_shared(&self) -> bool {
        matches!(self.engine, Engine::Postgres(_))
    }

    /// How often to ask for [`Revisions`]: often enough that a change is obeyed in time, seldom enough to cost nothing.
    pub fn look_every(&self) -> Duration {
        Duration::from_millis(if self.is_shared() { 500 } else { 100 })
    }

    /// Adds an animal. MUST return only when it would survive a crash; its identifier MUST be larger than that of
    /// every animal committed before. With a [`Retry`], MUST create at most one animal within [`Retry::KEPT`].
    pub async fn create(&self, pet: NewPet, retry: Option<Retry>) -> Result<Created> {
        ask!(self.create(pet, retry))
    }

    /// One animal as finished JSON.
    pub async fn pet(&self, id: PetId) -> Result<Option<Bytes>> {
        let place = self.cache.pet(id);
        if let Some(json) = place.get() {
            return Ok(Some(json));
        }
        let json = ask!(self.pet(id))?;
        if let Some(json) = &json {
            place.put(json.clone());
        }
        Ok(json)
    }

    /// A page of animals in ascending order of identifiers.
    pub async fn page(&self, query: PetQuery) -> Result<Page> {
        let place = self.cache.page(query);
        if let Some(page) = place.get() {
            return Ok(page);
        }
        let page = ask!(self.page(query))?;
        // A page with nothing after it grows by the next creation, so it is not kept.
        if page.next.is_some() {
            place.put(page.clone());
        }
        Ok(page)
    }

    /// Forgets what was read of animals, because one of them changed.
    pub fn pets_changed(&self) {
        self.cache.clear();
    }

    /// A page of orders in ascending order of identifiers. Cancelled ones are not listed. Not cached: an order changes.
    pub async fn order_page(&self, query: OrderQuery) -> Result<Page> {
        ask!(self.order_page(query))
    }

    /// All orders, cancelled ones too.
    pub async fn orders(&self) -> Result<Vec<Order>> {
        ask!(self.orders())
    }

    /// Places an order. MUST change the order and the animal in one transaction, and MUST allow one open order for an
    /// animal at most, whoever else is placing one.
    pub async fn place_order(
        &self,
        pet: PetId,
        ship_date: Option<Timestamp>,
        now: Timestamp,
    ) -> Allowed<Order> {
        match ship_date {
            Some(date) if date < now => Ok(Err(order::Refusal::ShipDatePast(date))),
            _ => ask!(self.place_order(pet, ship_date, now)),
        }
    }

    /// Completes an order, and the animal is sold. MUST change both in one transaction.
    pub async fn complete_order(&self, id: OrderId, now: Timestamp) -> Allowed<Order> {
        ask!(self.end_order(id, Event::Complete, now))
    }

    /// Cancels an order, and the animal is available again. MUST change both in one transaction.
    pub async fn cancel_order(&self, id: OrderId, now: Timestamp) -> Allowed<Order> {
        ask!(self.end_order(id, Event::Cancel, now))
    }

    /// Sets a status outright. By force also against an open order, which MUST be withdrawn in the same transaction.
    pub async fn set_status(
        &self,
        pet: PetId,
        to: PetStatus,
        force: bool,
        now: Timestamp,
    ) -> Allowed<StatusSet> {
        ask!(self.set_status(pet, to, force, now))
    }

    /// The ID of the deployment that the data belongs to. MUST be made once, when the database is created, and stay the same.
    pub async fn deployment(&self) -> Result<DeploymentId> {
        ask!(self.deployment())
    }

    /// The numbers that tell of changes. MUST be cheap enough to ask for several times a second.
    pub async fn revisions(&self) -> Result<Revisions> {
        ask!(self.revisions())
    }

    /// Makes a clock go by the database's, where several nodes share it. To be called before any time is stored or compared
    /// with one that is.
    pub async fn correct(&self, clock: &Clock) -> Result<()> {
        if self.is_shared()
            && let Some(time) = self.revisions().await?.time
        {
            clock.correct(time);
        }
        Ok(())
    }

    /// Issues a key with this secret.
    pub async fn add_key(&self, key: NewKey, secret: &Secret) -> Result<KeyRecord> {
        ask!(self.add_key(key, secret))
    }

    /// The key with this hash, current or still within its grace.
    pub async fn key_by_hash(&self, hash: KeyHash) -> Result<Option<KeyRecord>> {
        ask!(self.key_by_hash(hash))
    }

    /// The key with this number.
    pub async fn key(&self, id: KeyId) -> Result<Option<KeyRecord>> {
        ask!(self.key(id))
    }

    /// A page of keys in ascending order of IDs: at most `limit`, all with an ID above `after`. Shorter than that only where no
    /// more follow.
    pub async fn keys_after(&self, after: KeyId, limit: u16) -> Result<Vec<KeyRecord>> {
        ask!(self.keys_after(after, limit))
    }

    /// Hands every key that changed after this revision to `each`, in the order of changes, a few at a time: there may be a
    /// million. After an error some have been handed over, and all of them come again the next time.
    pub async fn keys_since(&self, revision: i64, each: impl FnMut(Vec<KeyRecord>)) -> Result<()> {
        ask!(self.keys_since(revision, each))
    }

    /// Changes a key as `decide` says, which is shown the key as it is. MUST show, decide and write in one transaction, so
    /// that no two changes are decided on the same state. What `decide` refuses changes nothing. It may be called again,
    /// when the transaction is. An unban MUST be dated no earlier than the ban it ends, and later than every unban before it:
    /// servers know by that what it ends.
    pub async fn change_key<E: Send + 'static>(
        &self,
        id: KeyId,
        decide: impl Fn(&KeyRecord) -> std::result::Result<KeyChange, E> + Send + 'static,
    ) -> KeyChanged<E> {
        ask!(self.change_key(id, decide))
    }

    /// Stores that a key is banned. MUST NOT take back a later ban, nor store one that has been ended by an unban; an
    /// unban dated beyond the end of the ban comes from a clock that ran ahead, and ends none. A ban that replaces the
    /// same one, dated into the future, MUST take its place.
    pub async fn record_ban(&self, id: KeyId, ban: impl Into<BanChange>) -> Result<()> {
        ask!(self.record_ban(id, ban.into()))
    }

    /// Adds a batch to the days' use. MUST add all of it or nothing, and MUST add it once, however often it is sent and
    /// whatever became of it before, within [`UseBatch::REMEMBERED`].
    pub async fn record_use(&self, batch: &Arc<UseBatch>) -> Result<()> {
        ask!(self.record_use(batch))
    }

    /// Requests counted on a day, for each key that made any; `u32::MAX` where there were more.
    pub async fn use_on(&self, day: Day) -> Result<Vec<(KeyId, u32)>> {
        ask!(self.use_on(day))
    }

    /// The use by day, the latest first: of one key or of all.
    pub async fn usage(&self, id: Option<KeyId>) -> Result<Vec<UsageRow>> {
        ask!(self.usage(id))
    }

    /// Deletes some of the retries that came before this moment: so few that a creation that comes meanwhile waits a few
    /// milliseconds at most. Returns whether there may be more.
    pub async fn sweep_retries(&self, before: Timestamp) -> Result<bool> {
        ask!(self.sweep_retries(before))
    }

    /// Deletes some of the use on days before this one, and some of what is remembered of batches of use that were made before
    /// this moment; as few as [`sweep_retries`](Self::sweep_retries) does. Returns whether there may be more.
    pub async fn sweep_use(&self, day: Day, batches: Timestamp) -> Result<bool> {
        ask!(self.sweep_use(day, batches))
    }

    /// Whether the store can be read and its writer lives.
    pub async fn ready(&self) -> Result<()> {
        ask!(self.ready())
    }

    /// Why writes fail, in two or three words, for as long as they do. Logged when it begins and when it ends, and not for each
    /// write.
    pub fn write_trouble(&self) -> Option<&'static str> {
        match &self.engine {
            Engine::Sqlite(engine) => engine.write_trouble(),
            Engine::Postgres(engine) => engine.write_trouble(),
        }
    }

    /// Whether the thread that writes is alive.
    pub fn writer_alive(&self) -> bool {
        match &self.engine {
            Engine::Sqlite(engine) => engine.writer_alive(),
            Engine::Postgres(engine) => engine.writer_alive(),
        }
    }

    /// Returns when the writer has died: nothing can be acknowledged any more.
    pub async fn writer_died(&self) {
        ask!(self.writer_died());
    }

    /// How many creations wait for a transaction.
    pub fn waiting_writes(&self) -> usize {
        match &self.engine {
            Engine::Sqlite(engine) => engine.waiting_writes(),
            Engine::Postgres(engine) => engine.waiting_writes(),
        }
    }

    /// The size of the write-ahead log, where the data is embedded.
    pub fn wal_bytes(&self) -> Option<u64> {
        match &self.engine {
            Engine::Sqlite(engine) => Some(engine.wal_bytes()),
            Engine::Postgres(_) => None,
        }
    }

    /// What the cache holds: the kind of entries, how many, and their bytes.
    pub fn cached(&self) -> [(&'static str, usize, u64); 2] {
        self.cache.size()
    }

    /// What the writer has done so far.
    pub fn commits(&self) -> &Commits {
        match &self.engine {
            Engine::Sqlite(engine) => engine.commits(),
            Engine::Postgres(engine) => engine.commits(),
        }
    }
}
