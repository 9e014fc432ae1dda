//! The contract for an import.

use super::Store;
use super::contract::{ImportConflict, ImportError, ImportRow, Result};
use super::engine::Engine;
use super::postgres::PgImport;
use super::sqlite::SqliteImport;
use crate::pet::IdSource;

/// An import in progress. It MUST leave no animals behind if it is dropped before it is committed, or if the process is killed.
pub struct Import(Staging);

enum Staging {
    Sqlite(Box<SqliteImport>),
    Postgres(Box<PgImport>),
}

impl Store {
    /// Begins an import. `notice` is called once a wait for the lock on an embedded file has lasted for a second, `import_notice` once a
    /// wait for another import has, or on PostgreSQL for a copy.
    pub async fn import(&self, ids: IdSource, notice: fn(), import_notice: fn()) -> Result<Import> {
        Ok(Import(match &self.engine {
            Engine::Sqlite(engine) => {
                Staging::Sqlite(Box::new(engine.import(ids, notice, import_notice)?))
            }
            Engine::Postgres(engine) => {
                Staging::Postgres(Box::new(engine.import(ids, import_notice).await?))
            }
        }))
    }
}

impl Import {
    /// Stages rows, where no reader sees them. MUST NOT delay a creation by more than a few milliseconds. Rows with an ID that is taken
    /// are left out; they are reported here or by [`Import::check`].
    pub async fn stage(
        &mut self,
        rows: &[ImportRow],
        report: &mut dyn FnMut(ImportConflict),
    ) -> Result<()> {
        match &mut self.0 {
            Staging::Sqlite(import) => import.stage(rows, report),
            Staging::Postgres(import) => import.stage(rows).await,
        }
    }

    /// Checks all staged rows, and leaves out those with an ID that is taken.
    pub async fn check(&mut self, report: &mut dyn FnMut(ImportConflict)) -> Result<()> {
        match &mut self.0 {
            Staging::Sqlite(_) => Ok(()),
            Staging::Postgres(import) => import.check(report).await,
        }
    }

    /// Inserts all staged animals in one transaction, which nobody sees before [`Import::commit`]. MUST await while it waits for
    /// others: if it is dropped meanwhile, nothing has happened. New IDs MUST be larger than that of every animal committed before,
    /// and those of later animals larger than all of these. If an ID was taken meanwhile, nothing is imported. Creations of a
    /// running server MUST NOT fail because of it.
    pub async fn insert(&mut self) -> std::result::Result<(), ImportError> {
        match &mut self.0 {
            Staging::Sqlite(import) => import.insert().await,
            Staging::Postgres(import) => import.insert().await,
        }
    }

    /// Makes what was inserted visible, and returns the number of animals.
    pub async fn commit(self) -> std::result::Result<u64, ImportError> {
        match self.0 {
            Staging::Sqlite(import) => import.commit(),
            Staging::Postgres(import) => import.commit().await,
        }
    }
}
