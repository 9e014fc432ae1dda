//! The import of many animals. They are staged in a temporary table of one connection, which the server drops when that ends, and
//! inserted into the table of animals in one transaction.
//!
//! Only one import inserts at a time: a second one could take IDs from the gap that the first leaves for creations (see below). No import inserts during a copy into the
//! same database: each would wait for the other. The row of the counter is locked only at the end of a large import, so that no
//! creation waits longer than its timeout: the imported animals get IDs beyond a gap, which is left for those that are created
//! meanwhile.

use std::cell::Cell;
use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::counters::RAISE_REVISION;
use super::creation::LOCK_LAST_ID;
use super::engine::Postgres;
use super::error::{PgError, PgResult};
use super::pool::{Executor, Lease, SqlValue};
use super::timeout::{LONG_TIMEOUT, with_timeout};
use super::unlimited::detect_disconnect;
use crate::pet::{IdSource, PetId};
use crate::store::contract::{
    CHUNK_ROWS, ImportConflict, ImportError, ImportRow, Result, StoreError, TakenBy,
};

/// Prepares a connection for an import, which has no time limit. Only an idle transaction has one: half the timeout of a creation,
/// so that no creation is rejected because of a process that was suspended, or cannot be reached, while it holds the lock of the
/// counter.
pub(super) const SET_UP: &str = "SET statement_timeout = 0; SET lock_timeout = 0; \
     SET idle_in_transaction_session_timeout = 1000; \
     CREATE TEMPORARY TABLE staged
         (line BIGINT NOT NULL, id BIGINT NOT NULL, name TEXT NOT NULL, category_id BIGINT NOT NULL, status TEXT NOT NULL)";

const GRANT_TEMPORARY: &str =
    "SELECT format('GRANT TEMPORARY ON DATABASE %I TO %I', current_database(), current_user)";

const COPY_STAGED: &str = "COPY staged (line, id, name, category_id, status) FROM STDIN BINARY";

const STAGED_TYPES: [Type; 5] = [Type::INT8, Type::INT8, Type::TEXT, Type::INT8, Type::TEXT];

/// All rows whose ID is taken: by an animal, or by the first line that has it.
const FIND_CONFLICTS: &str = "CREATE TEMPORARY TABLE conflicts AS
     SELECT line, id, NOT is_used AS by_line FROM
         (SELECT line, id, line = min(line) OVER (PARTITION BY id) AS is_first,
                 EXISTS (SELECT 1 FROM pets WHERE pets.id = staged.id) AS is_used FROM staged) AS ranked
     WHERE is_used OR NOT is_first;
     CREATE INDEX ON conflicts (line);
     DELETE FROM staged USING conflicts WHERE staged.line = conflicts.line";

const CONFLICTS: &str =
    "SELECT line, id, by_line FROM conflicts WHERE line > $1 ORDER BY line LIMIT $2";

/// The statements after the wait for another import must see what that has committed, whatever the default of the database is.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED";

/// The lock of imports, an arbitrary number, until the transaction ends. It is not a row of `counters`, because creations, orders
/// and nodes that start lock those.
const LOCK_IMPORTS: &str = "SELECT pg_advisory_xact_lock(7521983764571289)";

/// How long an import waits for another one, or for a copy, before it reports that.
const NOTICE_AFTER: Duration = Duration::from_secs(1);

const LAST_ID: &str = "SELECT number FROM counters WHERE what = 'pets'";

const INSERT_STAGED: &str = "INSERT INTO pets (id, name, category_id, status)
     SELECT $1 + id, name, category_id, status FROM staged ORDER BY id";

const FIRST_TAKEN: &str = "SELECT min(id) FROM staged JOIN pets USING (id)";

/// Never lowers the counter.
const RAISE_LAST_ID: &str = "UPDATE counters SET number = greatest(number, $1) WHERE what = 'pets'";

/// The maximum number of animals that are inserted while the counter is locked: it takes a fraction of the timeout of a creation.
const MAX_ROWS_UNDER_LOCK: i64 = 5_000;

/// The maximum number of attempts, each with a larger gap.
const MAX_ATTEMPTS: u32 = 8;

pub(crate) struct PgImport {
    lease: Lease,
    ids: IdSource,
    staged: i64,
    /// Reports, once, that this import waits for another one, or for a copy.
    notice: Cell<Option<fn()>>,
}

impl Postgres {
    pub(crate) async fn import(&self, ids: IdSource, notice: fn()) -> Result<PgImport> {
        let beginning = async {
            let lease = self.pool.borrow().await?;
            if let Err(error) = lease.batch_execute(SET_UP).await {
                return Err(match error.code() {
                    Some(&SqlState::INSUFFICIENT_PRIVILEGE) => missing_privilege(&lease).await?,
                    _ => error.into(),
                });
            }
            detect_disconnect(&lease).await;
            Ok(PgImport {
                lease,
                ids,
                staged: 0,
                notice: Cell::new(Some(notice)),
            })
        };
        Ok(with_timeout(LONG_TIMEOUT, beginning).await?)
    }
}

/// The error of a role that may not create temporary tables, with the statement that allows it.
async fn missing_privilege(lease: &Lease) -> PgResult<PgError> {
    let grant: String = lease.query_one(GRANT_TEMPORARY, &[]).await?.try_get(0)?;
    Ok(PgError::Failed(format!(
        "the role lacks privileges: run {grant}"
    )))
}

/// Begins a transaction with the import lock, for which it waits.
pub(super) async fn begin_locked(lease: &Lease) -> std::result::Result<(), tokio_postgres::Error> {
    lease.batch_execute(BEGIN).await?;
    match lease.batch_execute(LOCK_IMPORTS).await {
        // Some compatible databases do not have such locks.
        Err(error)
            if matches!(
                error.code(),
                Some(&(SqlState::FEATURE_NOT_SUPPORTED | SqlState::UNDEFINED_FUNCTION))
            ) =>
        {
            lease.batch_execute("ROLLBACK").await?;
            lease.batch_execute(BEGIN).await
        }
        locked => locked,
    }
}

impl PgImport {
    pub(crate) async fn stage(&mut self, rows: &[ImportRow]) -> Result<()> {
        let copying = async {
            let sink = self.lease.copy_in(COPY_STAGED).await?;
            let mut writer = pin!(BinaryCopyInWriter::new(sink, &STAGED_TYPES));
            for (ImportRow { line, row }, number) in rows.iter().zip(self.staged + 1..) {
                let line = i64::try_from(*line).unwrap_or(i64::MAX);
                let id = row.id.map_or(number, |id| id.0);
                let pet = &row.pet;
                let values: [SqlValue<'_>; 5] = [
                    &line,
                    &id,
                    &pet.name.as_str(),
                    &pet.category_id,
                    &pet.status.as_str(),
                ];
                writer.as_mut().write(&values).await?;
            }
            writer.finish().await?;
            PgResult::Ok(())
        };
        with_timeout(LONG_TIMEOUT, copying).await?;
        self.staged += rows.len() as i64;
        Ok(())
    }

    /// Leaves out rows whose ID is taken.
    pub(crate) async fn check(&mut self, report: &mut dyn FnMut(ImportConflict)) -> Result<()> {
        if self.ids == IdSource::New {
            return Ok(());
        }
        let checking = async {
            self.lease.batch_execute(FIND_CONFLICTS).await?;
            let mut last = -1_i64;
            let mut count = 0_i64;
            loop {
                let values: [SqlValue<'_>; 2] = [&last, &i64::from(CHUNK_ROWS)];
                let rows = self.lease.query_cached(CONFLICTS, &values).await?;
                for row in &rows {
                    last = row.try_get(0)?;
                    report(ImportConflict {
                        line: last.cast_unsigned(),
                        id: PetId(row.try_get(1)?),
                        with: match row.try_get(2)? {
                            true => TakenBy::Line,
                            false => TakenBy::Pet,
                        },
                    });
                }
                count += rows.len() as i64;
                if rows.len() < CHUNK_ROWS.into() {
                    return PgResult::Ok(count);
                }
            }
        };
        self.staged -= checking.await.map_err(StoreError::from)?;
        Ok(())
    }

    pub(crate) async fn insert(&mut self) -> std::result::Result<(), ImportError> {
        if self.staged == 0 {
            return Ok(());
        }
        let inserted = match self.ids {
            IdSource::Kept => self.insert_kept().await,
            IdSource::New if self.staged <= MAX_ROWS_UNDER_LOCK => self.insert_few().await,
            IdSource::New => self.insert_many().await,
        };
        match (inserted, self.ids) {
            (Err(PgError::UniqueViolation(_)), IdSource::Kept) => {
                Err(ImportError::Taken(self.first_taken().await))
            }
            (inserted, _) => Ok(inserted.map_err(StoreError::from)?),
        }
    }

    pub(crate) async fn commit(self) -> std::result::Result<u64, ImportError> {
        if self.staged > 0 {
            let committed = self.lease.batch_execute("COMMIT").await;
            committed.map_err(|error| match PgError::from(error).of_commit() {
                PgError::Unconfirmed(text) => ImportError::Unconfirmed(text),
                error => StoreError::from(error).into(),
            })?;
        }
        Ok(self.staged.cast_unsigned())
    }

    /// Begins the transaction. If this process is suspended in it, PostgreSQL ends it after a second.
    async fn begin(&self) -> PgResult<()> {
        let mut beginning = pin!(begin_locked(&self.lease));
        let begun = match timeout(NOTICE_AFTER, &mut beginning).await {
            Ok(begun) => begun,
            Err(_) => {
                if let Some(notice) = self.notice.take() {
                    notice();
                }
                beginning.await
            }
        };
        begun?;
        // While the counter is locked, each round trip counts. Preparing can wait for the lock of a table.
        for statement in [INSERT_STAGED, RAISE_LAST_ID, RAISE_REVISION] {
            self.lease.prepare_cached(statement).await?;
        }
        Ok(())
    }

    async fn insert_few(&self) -> PgResult<()> {
        self.begin().await?;
        let last = self.number(LOCK_LAST_ID).await?;
        // Sent together.
        let (inserting, raising) = (
            self.insert_staged(last),
            self.raise_last_id(last + self.staged),
        );
        let (inserted, raised) = tokio::join!(biased; inserting, raising);
        inserted.and(raised)
    }

    async fn insert_many(&self) -> PgResult<()> {
        let mut gap = self.staged;
        for _ in 0..MAX_ATTEMPTS {
            match self.insert_beyond(gap).await {
                Ok(true) => return Ok(()),
                // More animals were created meanwhile than the gap is wide, and perhaps one waits for this transaction.
                Ok(false) | Err(PgError::UniqueViolation(_) | PgError::Conflict(_)) => {
                    self.lease.batch_execute("ROLLBACK").await?;
                    gap = gap.saturating_mul(8);
                }
                Err(error) => return Err(error),
            }
        }
        let busy =
            "animals are being created faster than the import can reserve IDs: try again later";
        Err(PgError::Failed(busy.into()))
    }

    /// Inserts animals whose IDs begin after a gap. Returns false if an animal has one of these IDs by now.
    async fn insert_beyond(&self, gap: i64) -> PgResult<bool> {
        self.begin().await?;
        let before = self.number(LAST_ID).await?.saturating_add(gap);
        self.insert_staged(before).await?;
        let is_free = self.number(LOCK_LAST_ID).await? <= before;
        if is_free {
            self.raise_last_id(before + self.staged).await?;
        }
        Ok(is_free)
    }

    async fn insert_kept(&self) -> PgResult<()> {
        let largest = self.number("SELECT max(id) FROM staged").await?;
        // First, so that no animal that is created meanwhile gets one of these IDs. Creations wait for a short transaction, but not
        // for a long one: then the counter is raised before it, and stays so if it fails.
        let is_short = self.staged <= MAX_ROWS_UNDER_LOCK;
        if !is_short {
            // The counter must not be raised into the IDs of another import.
            self.begin().await?;
            self.raise_last_id(largest).await?;
            self.lease.batch_execute("COMMIT").await?;
        }
        self.begin().await?;
        if is_short {
            self.raise_last_id(largest).await?;
        }
        let inserting = self.insert_staged(0);
        // Waits for a copy, which may have set the counter to a lower ID. A copy that waits for this transaction fails: its
        // snapshot does not have these animals, and PostgreSQL reports that only if the row was updated, not if it was just locked.
        let raising = self.raise_last_id(largest);
        // They may be in the middle of pages that nodes have cached. After the counter, as in an import of few animals and in a copy.
        let publishing = self.lease.query_cached(RAISE_REVISION, &[&"pets"]);
        // Sent together, in this order.
        let (inserted, raised, published) = tokio::join!(biased; inserting, raising, publishing);
        inserted.and(raised).and(published.map(drop))
    }

    /// Inserts what is staged, with IDs that are greater by `offset`.
    async fn insert_staged(&self, offset: i64) -> PgResult<()> {
        self.lease.execute_cached(INSERT_STAGED, &[&offset]).await?;
        Ok(())
    }

    /// The smallest staged ID that an animal has.
    async fn first_taken(&self) -> Option<PetId> {
        self.lease.batch_execute("ROLLBACK").await.ok()?;
        self.number(FIRST_TAKEN).await.map(PetId).ok()
    }

    async fn raise_last_id(&self, last: i64) -> PgResult<()> {
        self.lease.execute_cached(RAISE_LAST_ID, &[&last]).await?;
        Ok(())
    }

    async fn number(&self, sql: &str) -> PgResult<i64> {
        Ok(self.lease.query_one(sql, &[]).await?.try_get(0)?)
    }
}
