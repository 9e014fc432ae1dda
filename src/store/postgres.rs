//! PostgreSQL: the engine that several nodes share. The same contract as the embedded one; but it can be late,
//! unreachable or replaced at any moment, so everything that a request waits for has a deadline, and every connection can be discarded.
//!
//! Uses only SQL that CockroachDB, YugabyteDB and Citus also support: no triggers, no sequences, no LISTEN, and no
//! advisory locks except for imports and copies, which also work without them.

mod connector;
mod copy;
mod counters;
mod creation;
mod engine;
mod error;
mod fault;
mod import;
mod keys;
mod migrate;
mod migrations;
mod nodes;
mod orders;
mod pets;
mod pool;
mod privileges;
mod progress;
mod row;
mod sweep;
mod timeout;
mod tls;
mod tls_failures;
mod transaction;
mod unlimited;
mod usage;
mod writer;

pub(crate) use copy::PgSession;
pub(crate) use engine::Postgres;
pub(super) use import::PgImport;
pub(crate) use migrations::CURRENT_FORMAT;
pub(super) use nodes::ALIVE_MILLIS;

use std::sync::atomic::{AtomicBool, AtomicI64};

use anyhow::bail;
use tokio_postgres::config::SslNegotiation;

use super::contract::{Database, FormatChange, Mode, PostgresUrl, WrongFormat};
use crate::tls::ClientTls;
use engine::UNREGISTERED;
use error::PgError;
use pool::Pool;
use timeout::{LONG_TIMEOUT, REQUEST_TIMEOUT, with_timeout};
use writer::PgWriter;

impl Postgres {
    /// Connects, and migrates the database if this mode allows that. At most `max_waiting` creations wait.
    pub(crate) async fn open(
        url: &PostgresUrl,
        mode: Mode,
        max_waiting: usize,
    ) -> anyhow::Result<(Self, FormatChange)> {
        let direct = url
            .servers()
            .iter()
            .any(|server| server.get_ssl_negotiation() == SslNegotiation::Direct);
        // Direct TLS negotiation requires this ALPN protocol. Servers without direct negotiation never see it.
        let protocols: &[&[u8]] = if direct { &[b"postgresql"] } else { &[] };
        let tls = ClientTls::load(&url.files, url.verification(), protocols)?;
        let statements = [
            &creation::STATEMENTS[..],
            &keys::statements(),
            &pets::STATEMENTS,
            &orders::STATEMENTS,
            &usage::STATEMENTS,
            &sweep::STATEMENTS,
        ]
        .concat();
        // A server that pauses to write a checkpoint reads nothing meanwhile: commands wait for it.
        let tcp_user_timeout = match mode {
            Mode::Serve { .. } => REQUEST_TIMEOUT,
            _ => LONG_TIMEOUT,
        };
        let (writer, pool) = PgWriter::start(
            url.servers(),
            tls,
            statements,
            tcp_user_timeout,
            max_waiting,
        )?;
        check_settings(&pool, mode).await?;
        let found = with_timeout(LONG_TIMEOUT, migrate::format(&pool)).await;
        if matches!(found, Err(PgError::Denied(_))) {
            // The role cannot even read the table of the format: the error lists all missing privileges.
            check_privileges(&pool, mode).await?;
        }
        let found = found?;
        if found.is_none() {
            let checked = with_timeout(LONG_TIMEOUT, privileges::check_schema(&pool, mode));
            checked.await?;
        }
        let current = migrations::current_format();
        let database = Database::Postgres(url.clone());
        WrongFormat::check(&database, found, current, mode)?;
        let before = match found {
            Some(format) if format == current => found,
            _ => match (migrate::run(&pool).await, found) {
                (Err(PgError::Denied(cause)), Some(format)) => bail!(
                    "cannot migrate {database} from format {format} to {current} as this role ({cause}): run `animal-store migrate` with its URL as --database, as the owner of the tables"
                ),
                (migrated, _) => migrated?,
            },
        };
        let mut node = UNREGISTERED;
        check_privileges(&pool, mode).await?;
        if mode.serves() {
            match nodes::register(&pool).await {
                Ok(Ok(id)) => node = id,
                Ok(Err(found)) => WrongFormat::check(&database, Some(found), current, mode)?,
                // Reads are served anyway.
                Err(error @ (PgError::Unavailable(_) | PgError::Cancelled(_))) => tracing::warn!(
                    %error,
                    "this node is not registered yet, perhaps because another session holds a lock: a later heartbeat registers it"
                ),
                Err(error) => return Err(error.into()),
            }
        }
        let node = AtomicI64::new(node);
        // Commands need no second connection.
        let polls = match mode.serves() {
            true => pool.for_polls().await?,
            false => pool.clone(),
        };
        let engine = Self {
            polls,
            last_poll_succeeded: AtomicBool::new(false),
            pool,
            writer,
            node,
        };
        let after = current;
        Ok((engine, FormatChange { before, after }))
    }
}

/// Rejects a database that cannot store every name, and warns of one that may lose what was acknowledged.
async fn check_settings(pool: &Pool, mode: Mode) -> anyhow::Result<()> {
    let reading = async {
        let lease = pool.borrow().await?;
        let sql = "SELECT current_setting('server_encoding'), current_setting('fsync', true)";
        let row = lease.query_one(sql, &[]).await?;
        lease.release();
        Ok((row.try_get(0)?, row.try_get(1)?))
    };
    let (encoding, fsync): (String, Option<String>) = with_timeout(LONG_TIMEOUT, reading).await?;
    if encoding != "UTF8" {
        bail!("the encoding of the database is {encoding}: create one with ENCODING 'UTF8'");
    }
    if mode.serves() && fsync.as_deref() == Some("off") {
        tracing::warn!(
            "PostgreSQL has fsync = off: if its machine crashes, acknowledged animals are lost"
        );
    }
    Ok(())
}

async fn check_privileges(pool: &Pool, mode: Mode) -> anyhow::Result<()> {
    let checked = with_timeout(LONG_TIMEOUT, privileges::check(pool, mode));
    Ok(checked.await?)
}
