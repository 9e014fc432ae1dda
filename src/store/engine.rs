//! The engines: a closed set, and the one place that chooses between them.

use super::contract::{Database, Mode};
use super::postgres::Postgres;
use super::sqlite::Sqlite;
use super::writer::WriterMonitor;

/// What keeps the data.
#[derive(Debug)]
pub(super) enum Engine {
    Sqlite(Sqlite),
    Postgres(Box<Postgres>),
}

impl Engine {
    /// Opens the data in this mode. With a `notice`, a lock on an embedded file is waited for as a command does.
    pub(super) async fn open(
        database: &Database,
        mode: Mode,
        max_waiting: usize,
        notice: Option<fn()>,
    ) -> anyhow::Result<Self> {
        Ok(match database {
            Database::Sqlite(path) => Self::Sqlite(Sqlite::open(path, mode, max_waiting, notice)?),
            Database::Postgres(servers) => Self::Postgres(Box::new(
                Postgres::open(database, servers, mode, max_waiting).await?,
            )),
        })
    }

    pub(super) fn writer(&self) -> &WriterMonitor {
        match self {
            Self::Sqlite(engine) => engine.writer(),
            Self::Postgres(engine) => engine.writer(),
        }
    }
}

/// Calls a method of the store's engine. A future of PostgreSQL's is boxed: its state is large, and would otherwise be part of
/// every request, also where the data is embedded.
macro_rules! dispatch {
    ($store:ident.$method:ident($($argument:expr),*)) => {
        match &$store.engine {
            $crate::store::engine::Engine::Sqlite(engine) => engine.$method($($argument),*).await,
            $crate::store::engine::Engine::Postgres(engine) => {
                Box::pin(engine.$method($($argument),*)).await
            }
        }
    };
}

pub(super) use dispatch;
