//! The store of animals, orders, keys and their usage. The methods of `Store`, one file per resource, are the contract that both
//! engines implement; their docs say what an engine MUST do.

mod cache;
mod contract;
mod copy;
mod engine;
mod import;
mod keys;
mod orders;
mod pages;
mod pets;
mod postgres;
mod row;
mod row_stream;
mod sqlite;
mod usage;
mod writer;

pub use contract::{
    ActionResult, ChangedKey, Creation, CreationOutcome, Database, DeploymentId, FormatChange,
    Heartbeat, IdempotencyRecord, ImportConflict, ImportError, ImportRow, KeyChange,
    KeyChangeResult, KeyList, KeyListQuery, KeyRecord, KeySort, KeyState, Mode, NewKey, Page,
    PostgresUrl, Result, Revisions, StoreError, TableDigest, TakenBy, UsageBatch, UsageRecorder,
    UsageRow,
};
pub use copy::{CopiedTable, CopyError, CopyStep, copy};
pub use import::Import;
pub use row_stream::RowStream;
pub(crate) use sqlite::COMMAND_LOCK_TIMEOUT;
pub use sqlite::{
    BackupError, BackupFolder, BackupProgress, ReactivatedKey, ReactivatedKeys, Restore,
    RestoreError, Restored, back_up, belongs_to_database, is_database,
};

use std::time::Duration;

use crate::clock::Clock;
use crate::counter::Counter;
use cache::Cache;
use engine::{Engine, dispatch};
use writer::WriterMonitor;

/// The formats of this version: of an embedded database, and of one on PostgreSQL.
pub const FORMATS: (i64, i64) = (sqlite::CURRENT_FORMAT as i64, postgres::CURRENT_FORMAT);

/// The version of SQLite that this program contains.
pub fn sqlite_version() -> &'static str {
    rusqlite::version()
}

/// A store: an engine, and a cache of its animals and pages.
pub struct Store {
    engine: Engine,
    cache: Cache,
    /// Animals and pages that clients have read from the engine.
    misses: Misses,
    format_change: FormatChange,
}

/// On a separate cache line: a read that is served from the cache does not wait for the count of one that is not.
#[derive(Default)]
#[repr(align(128))]
struct Misses(Counter);

impl Store {
    /// Opens the data, or returns an error of one line. At most `max_waiting` creations wait.
    pub async fn open(database: &Database, mode: Mode, max_waiting: usize) -> anyhow::Result<Self> {
        let opened = Engine::open(database, mode, max_waiting, None).await;
        opened.map(Self::new)
    }

    /// Opens the data for a command, which waits up to 30 s for the lock that another process holds on an embedded file. `notice`
    /// is called once a wait has lasted for a second.
    pub async fn open_for_command(
        database: &Database,
        mode: Mode,
        notice: fn(),
    ) -> anyhow::Result<Self> {
        // A command writes one thing at a time.
        let opened = Engine::open(database, mode, 1, Some(notice)).await;
        opened.map(Self::new)
    }

    fn new((engine, format_change): (Engine, FormatChange)) -> Self {
        Self {
            engine,
            cache: Cache::new(),
            misses: Misses::default(),
            format_change,
        }
    }

    /// The format before it was opened and after; the same if nothing was migrated.
    pub fn format_change(&self) -> FormatChange {
        self.format_change
    }

    /// Closes the store. An embedded database that this process has created, and nobody has used since, is removed.
    pub fn discard(self) {
        match self.engine {
            Engine::Sqlite(engine) => engine.discard(),
            Engine::Postgres(_) => {}
        }
    }

    /// Whether other nodes may use the same data.
    pub fn is_shared(&self) -> bool {
        matches!(self.engine, Engine::Postgres(_))
    }

    /// The ID of the deployment that the data belongs to. MUST be generated once, when the database is created, and stay the same.
    pub async fn deployment(&self) -> Result<DeploymentId> {
        dispatch!(self.deployment())
    }

    /// Reports that this node is alive, so that no newer version makes the data unusable for it. Called at an interval by a node that
    /// shares its data.
    pub async fn heartbeat(&self) -> Result<Heartbeat> {
        match &self.engine {
            // The lock on the file excludes other versions.
            Engine::Sqlite(_) => Ok(Heartbeat::Alive),
            Engine::Postgres(engine) => engine.heartbeat().await,
        }
    }

    /// Removes the registration of this node, which is shutting down.
    pub async fn deregister(&self) -> Result<()> {
        match &self.engine {
            Engine::Sqlite(_) => Ok(()),
            Engine::Postgres(engine) => engine.deregister().await,
        }
    }

    /// The counters of changes, and the time of a shared database. MUST be cheap enough to poll several times a second.
    pub async fn revisions(&self) -> Result<Revisions> {
        dispatch!(self.revisions())
    }

    /// How often to poll for [`Revisions`]: often enough that a change takes effect in time, rarely enough to be cheap.
    pub fn poll_interval(&self) -> Duration {
        Duration::from_millis(if self.is_shared() { 500 } else { 100 })
    }

    /// Makes a clock follow the database's, where several nodes share it. To be called before any time is stored or compared
    /// with a stored one.
    pub async fn correct(&self, clock: &Clock) -> Result<()> {
        if self.is_shared()
            && let Some(time) = self.revisions().await?.time
        {
            clock.correct(time);
        }
        Ok(())
    }

    /// Whether the store can be read.
    pub async fn ready(&self) -> Result<()> {
        dispatch!(self.ready())
    }

    pub(crate) fn writer(&self) -> &WriterMonitor {
        match &self.engine {
            Engine::Sqlite(engine) => engine.writer(),
            Engine::Postgres(engine) => engine.writer(),
        }
    }

    /// The size of the write-ahead log, where the data is embedded.
    pub fn wal_bytes(&self) -> Option<u64> {
        match &self.engine {
            Engine::Sqlite(engine) => Some(engine.wal_bytes()),
            Engine::Postgres(_) => None,
        }
    }

    /// How many animals and pages clients have read that were not in the cache.
    pub fn cache_misses(&self) -> u64 {
        self.misses.0.get()
    }

    /// The content of the cache: for each kind of entry its name, the number of entries, and their bytes.
    pub fn cached(&self) -> [(&'static str, usize, u64); 2] {
        self.cache.size()
    }
}
