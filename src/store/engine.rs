//! The engines: a closed set, and the one place that chooses between them.

use anyhow::Context;

use super::contract::{Database, FormatChange, Mode};
use super::postgres::Postgres;
use super::sqlite::Sqlite;
use crate::trace::DatabaseSystem;

pub(super) enum Engine {
    Sqlite(Sqlite),
    Postgres(Box<Postgres>),
}

impl Engine {
    /// Opens the data in this mode. With a `notice` it waits for a lock on an embedded file, as commands do.
    pub(super) async fn open(
        database: &Database,
        mode: Mode,
        max_waiting: usize,
        notice: Option<fn()>,
    ) -> anyhow::Result<(Self, FormatChange)> {
        Ok(match database {
            Database::Sqlite(path) => {
                let path = path.clone();
                // A migration can take long, and this thread has to handle signals meanwhile.
                let opening = move || Sqlite::open(&path, mode, max_waiting, notice);
                let (engine, format_change) = tokio::task::spawn_blocking(opening).await??;
                (Self::Sqlite(engine), format_change)
            }
            Database::Postgres(url) => {
                let opening = Postgres::open(url, mode, max_waiting);
                let (engine, format_change) = opening.await.context("--database")?;
                (Self::Postgres(Box::new(engine)), format_change)
            }
        })
    }

    /// Its name in spans.
    pub(super) const fn system(&self) -> DatabaseSystem {
        match self {
            Self::Sqlite(_) => DatabaseSystem::Sqlite,
            Self::Postgres(_) => DatabaseSystem::Postgres,
        }
    }
}

/// Calls a method of the store's engine. The futures of PostgreSQL are boxed: their state is large, and would otherwise be part
/// of every request, even with SQLite.
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

/// The same for a query of requests, with its operation and its table, which name its span.
macro_rules! traced {
    ($operation:literal $table:literal, $store:ident.$method:ident($($argument:expr),*)) => {{
        let system = $store.engine.system();
        let span = $crate::trace::QuerySpan::start(system, $operation, $table);
        let result = $crate::store::engine::dispatch!($store.$method($($argument),*));
        span.end(result.as_ref().err().map($crate::store::StoreError::kind));
        result
    }};
}

pub(super) use {dispatch, traced};
