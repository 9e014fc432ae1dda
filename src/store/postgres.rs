//! PostgreSQL: the engine that several nodes share. The same contract as the embedded one; but it can be late,
//! unreachable or replaced at any moment, so everything here has a deadline, and every connection can be discarded.
//!
//! Uses only SQL that CockroachDB, YugabyteDB and Citus also support: no triggers, no sequences, no advisory locks, no LISTEN.

mod connector;
mod counters;
mod creation;
mod deadline;
mod engine;
mod error;
mod fault;
mod keys;
mod migrations;
mod orders;
mod pets;
mod pool;
mod privileges;
mod row;
mod sweep;
mod transaction;
mod usage;
mod writer;

pub(crate) use engine::Postgres;

use anyhow::Context;
use tokio_postgres::Config;

use super::contract::{Database, Migration, Mode, WrongFormat};
use deadline::{LONG_TIMEOUT, with_timeout};
use writer::PgWriter;

impl Postgres {
    /// Connects, and migrates the database if this mode allows that. At most `max_waiting` creations wait.
    pub(crate) async fn open(
        database: &Database,
        servers: &[Config],
        mode: Mode,
        max_waiting: usize,
    ) -> anyhow::Result<(Self, Migration)> {
        let statements = [
            &creation::STATEMENTS[..],
            &keys::STATEMENTS,
            &usage::STATEMENTS,
            &sweep::STATEMENTS,
        ]
        .concat();
        let (writer, pool) = PgWriter::start(servers, statements, max_waiting)?;
        let found = with_timeout(LONG_TIMEOUT, migrations::format(&pool))
            .await
            .context("--database: PostgreSQL")?;
        WrongFormat::check(database, found, migrations::CURRENT_FORMAT, mode)?;
        let before = match found {
            Some(migrations::CURRENT_FORMAT) => found,
            _ => migrations::run(&pool)
                .await
                .context("--database: PostgreSQL")?,
        };
        if mode.serves() {
            with_timeout(LONG_TIMEOUT, privileges::check(&pool))
                .await
                .context("--database: PostgreSQL")?;
        }
        let engine = Self { pool, writer };
        let now = migrations::CURRENT_FORMAT;
        Ok((engine, Migration { before, now }))
    }
}
