//! The embedded engine: one SQLite file in WAL mode, one writer thread, a few readers.
//! Every write goes through the writer, every read through a reader; neither waits for the other.

mod inspect;
mod job;
mod keys;
mod lock;
mod lock_wait;
mod migrations;
mod open;
mod orders;
mod permission;
mod pets;
mod readers;
mod refusal;
mod sweep;
mod usage;
mod writer;

pub use lock::FileLock;
pub use refusal::Refusal;

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use rusqlite::{Connection, ErrorCode};

use super::{
    Allowed, Commits, Created, DeploymentId, KEYS_AT_ONCE, KeyChange, KeyChanged, KeyRecord,
    Migration, Mode, NewKey, Page, Result, Retry, Revisions, StatusSet, StoreError, UsageRow,
    UseBatch,
};
use crate::clock::{Day, Timestamp};
use crate::key::{KeyHash, KeyId, Secret};
use crate::limit::BanChange;
use crate::order::life::Event;
use crate::order::{Order, OrderId};
use crate::page::{OrderQuery, PetQuery};
use crate::pet::{NewPet, PetId, PetStatus};
use readers::Readers;
use writer::Writer;

/// An open database.
#[derive(Debug)]
pub struct Sqlite {
    // The readers close before the writer does, whose closing folds the log into the file.
    readers: Readers,
    /// None where the file is only read.
    writer: Option<Writer>,
    commits: Arc<Commits>,
    migration: Migration,
    // The last to go, when everything is closed.
    _lock: Option<FileLock>,
}

impl Sqlite {
    /// Opens the file at `path`, or refuses it without touching it. At most `max_waiting` writes wait. With a `notice` it waits for
    /// locks as a command does.
    pub fn open(
        path: &Path,
        mode: Mode,
        max_waiting: usize,
        notice: Option<fn()>,
    ) -> std::result::Result<Self, Refusal> {
        let opened =
            open::open(path, mode, notice).map_err(|refusal| permission::explain(path, refusal))?;
        let writer = opened
            .writer
            .map(|connection| Writer::start(connection, max_waiting))
            .transpose()?;
        Ok(Self {
            readers: match writer {
                Some(_) => Readers::new(path),
                None => Readers::traceless(path),
            },
            commits: writer
                .as_ref()
                .map_or_else(Arc::default, |writer| Arc::clone(writer.commits())),
            writer,
            migration: opened.migration,
            _lock: opened.lock,
        })
    }

    pub(super) fn migration(&self) -> Migration {
        self.migration
    }

    pub(super) async fn create(&self, pet: NewPet, retry: Option<Retry>) -> Result<Created> {
        self.writer()?.create(pet, retry).await
    }

    pub(super) async fn pet(&self, id: PetId) -> Result<Option<Bytes>> {
        self.read(|connection| pets::one(connection, id))
    }

    pub(super) async fn page(&self, query: PetQuery) -> Result<Page> {
        self.read(|connection| pets::page(connection, query))
    }

    pub(super) async fn deployment(&self) -> Result<DeploymentId> {
        self.read(|connection| {
            let id = connection.query_row("SELECT id FROM deployment", (), |row| row.get(0));
            id.map(DeploymentId::new)
        })
    }

    pub(super) async fn revisions(&self) -> Result<Revisions> {
        self.read(keys::revisions)
    }

    pub(super) async fn add_key(&self, key: NewKey, secret: &Secret) -> Result<KeyRecord> {
        let (hash, prefix) = (secret.hash(), secret.prefix().to_owned());
        self.writer()?
            .run(move |connection| keys::add(connection, &key, hash, &prefix))
            .await
    }

    pub(super) async fn key_by_hash(&self, hash: KeyHash) -> Result<Option<KeyRecord>> {
        self.read(|connection| keys::by_hash(connection, hash))
    }

    pub(super) async fn key(&self, id: KeyId) -> Result<Option<KeyRecord>> {
        self.read(|connection| keys::by_id(connection, id))
    }

    pub(super) async fn keys_after(&self, after: KeyId, limit: u16) -> Result<Vec<KeyRecord>> {
        self.read(|connection| keys::after(connection, after, limit))
    }

    pub(super) async fn keys_since(
        &self,
        mut revision: i64,
        mut each: impl FnMut(Vec<KeyRecord>),
    ) -> Result<()> {
        // A read of its own for each page: a long one would keep the log from being folded into the file.
        loop {
            let page = self.read(|connection| keys::since(connection, revision, KEYS_AT_ONCE))?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            revision = last.revision;
            let is_last = page.len() < usize::from(KEYS_AT_ONCE);
            each(page);
            if is_last {
                return Ok(());
            }
            tokio::task::yield_now().await;
        }
    }

    pub(super) async fn change_key<E: Send + 'static>(
        &self,
        id: KeyId,
        decide: impl Fn(&KeyRecord) -> std::result::Result<KeyChange, E> + Send + 'static,
    ) -> KeyChanged<E> {
        self.writer()?
            .run(move |connection| keys::change(connection, id, decide))
            .await
    }

    pub(super) async fn record_ban(&self, id: KeyId, ban: BanChange) -> Result<()> {
        self.writer()?
            .run(move |connection| keys::ban(connection, id, ban))
            .await
    }

    pub(super) async fn record_use(&self, batch: &Arc<UseBatch>) -> Result<()> {
        let batch = Arc::clone(batch);
        self.writer()?
            .run(move |connection| usage::add(connection, &batch))
            .await
    }

    pub(super) async fn use_on(&self, day: Day) -> Result<Vec<(KeyId, u32)>> {
        self.read(|connection| usage::on(connection, day))
    }

    pub(super) async fn usage(&self, id: Option<KeyId>) -> Result<Vec<UsageRow>> {
        self.read(|connection| usage::by_day(connection, id))
    }

    pub(super) async fn order_page(&self, query: OrderQuery) -> Result<Page> {
        self.read(|connection| orders::page(connection, query))
    }

    pub(super) async fn orders(&self) -> Result<Vec<Order>> {
        self.read(orders::all)
    }

    pub(super) async fn place_order(
        &self,
        pet: PetId,
        ship_date: Option<Timestamp>,
        now: Timestamp,
    ) -> Allowed<Order> {
        self.writer()?
            .run(move |connection| orders::place(connection, pet, ship_date, now))
            .await
    }

    pub(super) async fn end_order(
        &self,
        id: OrderId,
        event: Event,
        now: Timestamp,
    ) -> Allowed<Order> {
        self.writer()?
            .run(move |connection| orders::end(connection, id, event, now))
            .await
    }

    pub(super) async fn set_status(
        &self,
        pet: PetId,
        to: PetStatus,
        force: bool,
        now: Timestamp,
    ) -> Allowed<StatusSet> {
        self.writer()?
            .run(move |connection| orders::set_status(connection, pet, to, force, now))
            .await
    }

    pub(super) async fn sweep_retries(&self, before: Timestamp) -> Result<bool> {
        self.writer()?
            .run_and_checkpoint(move |connection| sweep::retries(connection, before))
            .await
    }

    pub(super) async fn sweep_use(&self, day: Day, batches: Timestamp) -> Result<bool> {
        self.writer()?
            .run_and_checkpoint(move |connection| sweep::usage(connection, day, batches))
            .await
    }

    pub(super) async fn ready(&self) -> Result<()> {
        self.writer()?.alive()?;
        self.read(|connection| {
            connection.query_row("SELECT 1 FROM revisions LIMIT 1", (), |_| Ok(()))
        })
    }

    pub(super) fn write_trouble(&self) -> Option<&'static str> {
        self.writer.as_ref()?.health().trouble()
    }

    pub(super) fn writer_alive(&self) -> bool {
        self.writer().and_then(Writer::alive).is_ok()
    }

    pub(super) async fn writer_died(&self) {
        match &self.writer {
            Some(writer) => writer.died().await,
            None => std::future::pending().await,
        }
    }

    /// The log lies beside the file; where there is none, it is empty. Only its name is looked up: it is never opened here.
    pub(super) fn wal_bytes(&self) -> u64 {
        self.readers.wal_bytes()
    }

    pub(super) fn waiting_writes(&self) -> usize {
        self.writer.as_ref().map_or(0, Writer::waiting)
    }

    pub(super) fn commits(&self) -> &Commits {
        &self.commits
    }

    fn writer(&self) -> Result<&Writer> {
        let read_only = || StoreError::Failed("the database is open for reading only".into());
        self.writer.as_ref().ok_or_else(read_only)
    }

    fn read<T>(&self, read: impl Fn(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        self.readers.with(read).map_err(|error| trouble(&error))
    }
}

/// What an error of SQLite's means to a caller.
fn trouble(error: &rusqlite::Error) -> StoreError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Unavailable(
            "waited too long for the database lock, which another process holds".into(),
        ),
        Some(ErrorCode::DiskFull) => StoreError::Unavailable(error.to_string()),
        _ => StoreError::Failed(error.to_string()),
    }
}
