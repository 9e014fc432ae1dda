//! PostgreSQL: the engine that several nodes share. The same contract as the embedded one; what differs is that it can be
//! late, gone or replaced at any moment, so everything here has an end, and every connection can be thrown away.
//!
//! Only what its relatives (CockroachDB, YugabyteDB, Citus) take as well: no triggers, no sequences, no advisory locks,
//! nothing that depends on LISTEN.

mod connect;
mod keys;
mod migrations;
mod orders;
mod pets;
mod sweep;
mod trouble;
mod usage;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use deadpool_postgres::Transaction;
use tokio_postgres::Config;

use super::{
    Allowed, Commits, Created, Database, DeploymentId, KeyChange, KeyChanged, KeyRecord, Migration,
    Mode, NewKey, Page, Result, Retry, Revisions, StatusSet, UsageRow, UseBatch, WrongFormat,
};
use crate::clock::{Day, Timestamp};
use crate::fault::Fault;
use crate::key::{KeyHash, KeyId, Secret};
use crate::limit::BanChange;
use crate::order::life::Event;
use crate::order::{Order, OrderId};
use crate::page::{OrderQuery, PetQuery};
use crate::pet::{NewPet, PetId, PetStatus};
use connect::{Connections, Lease};
use trouble::{PATIENCE, Trouble};
use writer::Writer;

/// How often a transaction is tried that others made impossible. Whoever waits for it gives up before that, as a rule.
const TRIES: u32 = 20;

/// How long what is large may take, such as one page of all keys, or a year of use.
const START: Duration = Duration::from_secs(30);

/// An open database.
#[derive(Debug)]
pub struct Postgres {
    connections: Connections,
    writer: Writer,
    migration: Migration,
}

impl Postgres {
    /// Connects, and does to the format what this mode allows. At most `max_waiting` creations wait.
    pub(super) async fn open(
        database: &Database,
        servers: &[Config],
        mode: Mode,
        max_waiting: usize,
    ) -> anyhow::Result<Self> {
        let (writer, connections) = Writer::start(servers, max_waiting)?;
        let found = in_time(START, migrations::format(&connections))
            .await
            .context("--database: PostgreSQL")?;
        WrongFormat::check(database, found, migrations::KNOWN, mode)?;
        let before = match found {
            Some(migrations::KNOWN) => found,
            _ => migrations::run(&connections)
                .await
                .context("--database: PostgreSQL")?,
        };
        Ok(Self {
            connections,
            writer,
            migration: Migration {
                before,
                now: migrations::KNOWN,
            },
        })
    }

    pub(super) fn migration(&self) -> Migration {
        self.migration
    }

    pub(super) async fn create(&self, pet: NewPet, retry: Option<Retry>) -> Result<Created> {
        self.writer.create(pet, retry).await
    }

    pub(super) async fn pet(&self, id: PetId) -> Result<Option<Bytes>> {
        self.read(async |lease| pets::one(lease, id).await).await
    }

    pub(super) async fn page(&self, query: PetQuery) -> Result<Page> {
        self.read(async |lease| pets::page(lease, query).await)
            .await
    }

    pub(super) async fn deployment(&self) -> Result<DeploymentId> {
        self.read(async |lease| {
            let row = lease.query_one("SELECT id FROM deployment", &[]).await?;
            Ok(DeploymentId::new(row.try_get(0)?))
        })
        .await
    }

    pub(super) async fn revisions(&self) -> Result<Revisions> {
        self.read(keys::revisions).await
    }

    pub(super) async fn add_key(&self, key: NewKey, secret: &Secret) -> Result<KeyRecord> {
        self.transact_as_a_command(async |transaction| keys::add(transaction, &key, secret).await)
            .await
    }

    pub(super) async fn key_by_hash(&self, hash: KeyHash) -> Result<Option<KeyRecord>> {
        self.read(async |lease| keys::by_hash(lease, hash).await)
            .await
    }

    pub(super) async fn key(&self, id: KeyId) -> Result<Option<KeyRecord>> {
        self.read(async |lease| keys::by_id(&**lease, id).await)
            .await
    }

    pub(super) async fn keys_after(&self, after: KeyId, limit: u16) -> Result<Vec<KeyRecord>> {
        self.read_much(async |lease| keys::after(lease, after, limit).await)
            .await
    }

    pub(super) async fn keys_since(
        &self,
        revision: i64,
        each: impl FnMut(Vec<KeyRecord>),
    ) -> Result<()> {
        let mut lease = self.connections.borrow_within(START).await?;
        keys::since(&mut lease, revision, each).await?;
        lease.give_back();
        Ok(())
    }

    pub(super) async fn change_key<E>(
        &self,
        id: KeyId,
        decide: impl Fn(&KeyRecord) -> std::result::Result<KeyChange, E>,
    ) -> KeyChanged<E> {
        self.transact_as_a_command(async |transaction| keys::change(transaction, id, &decide).await)
            .await
    }

    pub(super) async fn record_ban(&self, id: KeyId, ban: BanChange) -> Result<()> {
        self.transact(async |transaction| keys::ban(transaction, id, ban).await)
            .await
    }

    pub(super) async fn record_use(&self, batch: &Arc<UseBatch>) -> Result<()> {
        self.transact(async |transaction| usage::add(transaction, batch).await)
            .await
    }

    pub(super) async fn use_on(&self, day: Day) -> Result<Vec<(KeyId, u32)>> {
        self.read_much(async |lease| usage::on(lease, day).await)
            .await
    }

    pub(super) async fn usage(&self, id: Option<KeyId>) -> Result<Vec<UsageRow>> {
        self.read_much(async |lease| usage::by_day(lease, id).await)
            .await
    }

    pub(super) async fn order_page(&self, query: OrderQuery) -> Result<Page> {
        self.read(async |lease| orders::page(lease, query).await)
            .await
    }

    pub(super) async fn orders(&self) -> Result<Vec<Order>> {
        self.read_much(orders::all).await
    }

    pub(super) async fn place_order(
        &self,
        pet: PetId,
        ship_date: Option<Timestamp>,
        now: Timestamp,
    ) -> Allowed<Order> {
        self.transact_as_a_command(async |transaction| {
            orders::place(transaction, pet, ship_date, now).await
        })
        .await
    }

    pub(super) async fn end_order(
        &self,
        id: OrderId,
        event: Event,
        now: Timestamp,
    ) -> Allowed<Order> {
        self.transact_as_a_command(async |transaction| {
            orders::end(transaction, id, event, now).await
        })
        .await
    }

    pub(super) async fn set_status(
        &self,
        pet: PetId,
        to: PetStatus,
        force: bool,
        now: Timestamp,
    ) -> Allowed<StatusSet> {
        self.transact_as_a_command(async |transaction| {
            orders::set_status(transaction, pet, to, force, now).await
        })
        .await
    }

    pub(super) async fn sweep_retries(&self, before: Timestamp) -> Result<bool> {
        self.transact(async |transaction| sweep::retries(transaction, before).await)
            .await
    }

    pub(super) async fn sweep_use(&self, day: Day, batches: Timestamp) -> Result<bool> {
        self.transact(async |transaction| sweep::usage(transaction, day, batches).await)
            .await
    }

    pub(super) async fn ready(&self) -> Result<()> {
        self.read(keys::revisions).await.map(drop)
    }

    pub(super) fn write_trouble(&self) -> Option<&'static str> {
        self.writer.health().trouble()
    }

    pub(super) fn writer_alive(&self) -> bool {
        self.writer.alive().is_ok()
    }

    pub(super) async fn writer_died(&self) {
        self.writer.died().await;
    }

    pub(super) fn waiting_writes(&self) -> usize {
        self.writer.waiting()
    }

    pub(super) fn commits(&self) -> &Commits {
        self.writer.commits()
    }

    async fn read<T>(&self, read: impl AsyncFn(&Lease) -> Answer<T>) -> Result<T> {
        self.read_within(PATIENCE, read).await
    }

    /// Reads what may be much: all keys, or a year of use.
    async fn read_much<T>(&self, read: impl AsyncFn(&Lease) -> Answer<T>) -> Result<T> {
        let reading = async |lease: &Lease| {
            lease.batch_execute("SET statement_timeout = 30000").await?;
            let value = read(lease).await?;
            lease.batch_execute(connect::LIMITS).await?;
            Ok(value)
        };
        self.read_within(START, reading).await
    }

    async fn read_within<T>(
        &self,
        time: Duration,
        read: impl AsyncFn(&Lease) -> Answer<T>,
    ) -> Result<T> {
        let reading = async {
            let lease = self.connections.borrow_within(time).await?;
            let value = read(&lease).await?;
            lease.give_back();
            Ok(value)
        };
        Ok(in_time(time, reading).await?)
    }

    /// For what an operator changes: nobody else waits for it, and it may take many round trips.
    async fn transact_as_a_command<T>(
        &self,
        write: impl AsyncFn(&Transaction<'_>) -> Answer<T>,
    ) -> Result<T> {
        Ok(in_time(START, transact(&self.connections, write)).await?)
    }

    async fn transact<T>(&self, write: impl AsyncFn(&Transaction<'_>) -> Answer<T>) -> Result<T> {
        Ok(in_time(PATIENCE, transact(&self.connections, write)).await?)
    }
}

/// What PostgreSQL answers.
type Answer<T> = std::result::Result<T, Trouble>;

/// Does something in one transaction, and all of it again, on the same connection, where others made it impossible.
async fn transact<T>(
    connections: &Connections,
    write: impl AsyncFn(&Transaction<'_>) -> Answer<T>,
) -> Answer<T> {
    let mut lease = connections.borrow_within(PATIENCE).await?;
    let mut tries = 1;
    loop {
        let done = async {
            let transaction = lease.transaction().await?;
            let value = write(&transaction).await?;
            transaction.commit().await?;
            Ok(value)
        };
        match done.await {
            Ok(value) => {
                lease.give_back();
                return Ok(value);
            }
            Err(Trouble::Again(_)) if tries < TRIES => tokio::time::sleep(pause(tries)).await,
            Err(trouble) => return Err(trouble),
        }
        tries += 1;
    }
}

/// Longer with each try, and never the same for two nodes that got into each other's way.
fn pause(tries: u32) -> Duration {
    let longest = 4_u64 << tries.min(4);
    let random = u64::from(getrandom::u32().unwrap_or_default());
    Duration::from_millis(longest / 2 + random % longest)
}

/// Waits for something, but not for ever.
async fn in_time<T>(time: Duration, work: impl Future<Output = Answer<T>>) -> Answer<T> {
    if Fault::NoTimeouts.is_on() {
        return work.await;
    }
    tokio::time::timeout(time, work)
        .await
        .unwrap_or_else(|_| Err(Trouble::late(time)))
}
