//! The import of many animals. They are staged in a separate file without a name, which is gone when the process ends, and inserted
//! into the table in one transaction. The lock of an import tells a server that its creations should wait for it.

use std::path::PathBuf;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OptionalExtension, params};

use super::Sqlite;
use super::connect::{sibling, sql_text};
use super::identity::{FileIdentity, check_in_place, commit_in_place};
use super::lock::FileLock;
use super::lock_wait::{Wait, begin_immediate};
use super::open;
use super::open_error::OpenError;
use super::room;
use crate::new_file::{NewFile, Overwrite};
use crate::pet::{IdSource, PetId};
use crate::store::contract::{ImportConflict, ImportError, ImportRow, Result, StoreError, TakenBy};

/// The suffix of the staging file's name, followed by that of `NewFile`. The name is removed once the file is open.
const STAGING_SUFFIX: &str = ".staged";

/// Memory is constant, however many animals there are; the rest is written to the file. The journal undoes a statement that fails.
const SET_UP: &str = "
    PRAGMA staging.journal_mode = MEMORY;
    PRAGMA staging.synchronous = OFF;
    PRAGMA staging.locking_mode = EXCLUSIVE;
    PRAGMA staging.cache_size = -16000;
    PRAGMA main.cache_size = -64000;
    CREATE TABLE staging.pets (
        id          INTEGER PRIMARY KEY,
        name        TEXT    NOT NULL,
        category_id INTEGER NOT NULL,
        status      TEXT    NOT NULL
    ) STRICT;";

/// How many animals one statement inserts. Until a statement ends, SQLite keeps in memory a copy of each page that it changes, which for
/// IDs between existing ones may be two pages for each.
const INSERT_ROWS: i64 = 1_000;

/// How much of the database an import keeps in memory, and writes to the log later: the `cache_size` of [`SET_UP`].
const CACHE_BYTES: u64 = 64_000 * 1024;

/// How long an import that failed waits for others to read what is in the write-ahead log, before it leaves the log as it is.
const CHECKPOINT_TIMEOUT: Duration = Duration::from_millis(500);

pub(crate) struct SqliteImport {
    connection: Connection,
    path: PathBuf,
    ids: IdSource,
    staged: u64,
    /// The database, and the write-ahead log, that the connection has open.
    data: Vec<FileIdentity>,
    /// Whether the transaction has begun, and is not committed.
    is_inserting: bool,
    notice: fn(),
    import_notice: fn(),
    // Dropped last.
    lock: Option<FileLock>,
}

impl Sqlite {
    pub(crate) fn import(
        &self,
        ids: IdSource,
        notice: fn(),
        import_notice: fn(),
    ) -> Result<SqliteImport> {
        let path = &self.readers.path;
        let failed = |error: OpenError| StoreError::Failed(error.to_string());
        let connection = open::second_writer(path, notice).map_err(failed)?;
        let files =
            open::open_files(path).map_err(|error| StoreError::Failed(error.to_string()))?;
        // It never gets its final name. What a killed import has left is removed here.
        let new = NewFile::create(&sibling(path, STAGING_SUFFIX), Overwrite::Yes)
            .map_err(|error| StoreError::Failed(format!("cannot stage the animals: {error}")))?;
        let attached = connection
            .execute("ATTACH ?1 AS staging", [sql_text(new.temporary())])
            .and_then(|_| connection.execute_batch(SET_UP));
        // SQLite continues to use the open file without its name.
        drop(new);
        attached?;
        Ok(SqliteImport {
            connection,
            path: path.clone(),
            ids,
            staged: 0,
            data: files.data,
            is_inserting: false,
            notice,
            import_notice,
            lock: None,
        })
    }
}

impl SqliteImport {
    pub(crate) fn stage(
        &mut self,
        rows: &[ImportRow],
        report: &mut dyn FnMut(ImportConflict),
    ) -> Result<()> {
        let (connection, ids) = (&self.connection, self.ids);
        let mut staged = self.staged;
        let mut stage = || {
            // Only the file with the staged rows is written: no writer waits.
            connection.execute_batch("BEGIN")?;
            for ImportRow { line, row } in rows {
                let id = match row.id {
                    Some(id) => id.0,
                    None => i64::try_from(staged + 1).unwrap_or(i64::MAX),
                };
                if ids == IdSource::Kept
                    && let Some(with) = taken(connection, id)?
                {
                    let (line, id) = (*line, PetId(id));
                    report(ImportConflict { line, id, with });
                    continue;
                }
                let pet = &row.pet;
                connection
                    .prepare_cached("INSERT INTO staging.pets VALUES (?1, ?2, ?3, ?4)")?
                    .execute(params![
                        id,
                        pet.name.as_str(),
                        pet.category_id,
                        pet.status.as_str()
                    ])?;
                staged += 1;
            }
            connection.execute_batch("COMMIT")
        };
        stage()?;
        self.staged = staged;
        Ok(())
    }

    pub(crate) async fn insert(&mut self) -> std::result::Result<(), ImportError> {
        if self.staged == 0 {
            return Ok(());
        }
        let mut wait = Wait::new(self.import_notice);
        self.lock = Some(loop {
            match FileLock::take_import(&self.path) {
                // Without a time limit: the lock ends with its process, and a large import takes long.
                Err(OpenError::InUse { .. }) => wait.pause().await,
                taken => {
                    break taken.map_err(|error| StoreError::Failed(error.to_string()))?;
                }
            }
        });
        let begun = begin_immediate(&self.connection, self.notice).await;
        begun.map_err(StoreError::from)?;
        self.is_inserting = true;
        self.execute_insert()
            .map_err(|error| match error.sqlite_error_code() {
                Some(ErrorCode::ConstraintViolation) if self.ids == IdSource::Kept => {
                    ImportError::Taken(self.first_taken())
                }
                _ => StoreError::from(error).into(),
            })
    }

    /// Inserts the staged rows. If it fails, `roll_back` undoes it.
    fn execute_insert(&self) -> rusqlite::Result<()> {
        let connection = &self.connection;
        // Zero if animals keep their IDs, otherwise the last one that was assigned.
        let offset = match self.ids {
            IdSource::Kept => 0,
            IdSource::New => connection.query_row(
                "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'pets'",
                (),
                |row| row.get::<_, i64>(0),
            )?,
        };
        let mut last = 0;
        while let Some(next) = connection
            .prepare_cached(
                "SELECT max(id) FROM (SELECT id FROM staging.pets WHERE id > ?1 ORDER BY id LIMIT ?2)",
            )?
            .query_row([last, INSERT_ROWS], |row| row.get::<_, Option<i64>>(0))?
        {
            connection
                .prepare_cached(
                    "INSERT INTO main.pets (id, name, category_id, status)
                     SELECT ?1 + id, name, category_id, status FROM staging.pets
                     WHERE id > ?2 AND id <= ?3 ORDER BY id",
                )?
                .execute([offset, last, next])?;
            last = next;
            self.check_room()?;
        }
        if self.ids == IdSource::Kept {
            // They may be in the middle of pages that servers have cached.
            connection.execute_batch(
                "UPDATE main.revisions SET number = number + 1 WHERE what = 'pets'",
            )?;
        }
        Ok(())
    }

    /// Fails if the log would take the room that the database file needs for it. What is staged is free at the end.
    fn check_room(&self) -> rusqlite::Result<()> {
        let connection = &self.connection;
        let staging = room::size(connection, "staging")?;
        // After a small import, little has to be left for others.
        let more = staging.min(room::FOR_OTHERS);
        room::check(connection, &self.path, more + CACHE_BYTES, staging).or_else(|_| {
            // The disk shows what the log takes, if all of it is there. Only if the disk is nearly full: pages that are written to the
            // log again make the commit slow.
            connection.cache_flush()?;
            room::check(connection, &self.path, more, staging)
        })
    }

    /// Undoes what was inserted, and shortens the write-ahead log, which would keep its size until it is restarted.
    fn roll_back(&self) -> rusqlite::Result<()> {
        // SQLite may have done that: on a full disk, or if the commit failed.
        if !self.connection.is_autocommit() {
            self.connection.execute_batch("ROLLBACK")?;
        }
        // A file that was moved may be in use under its new name, with another log.
        if check_in_place(&self.data).is_err() {
            return Ok(());
        }
        self.connection.busy_timeout(CHECKPOINT_TIMEOUT)?;
        let checkpoint = "PRAGMA wal_checkpoint(TRUNCATE)";
        let _ = self.connection.query_row(checkpoint, (), |_| Ok(()));
        Ok(())
    }

    /// The smallest staged ID that an animal has.
    fn first_taken(&self) -> Option<PetId> {
        // Otherwise those that this import has inserted before would count.
        self.roll_back().ok()?;
        let select = "SELECT id FROM staging.pets WHERE id IN (SELECT id FROM main.pets) ORDER BY id LIMIT 1";
        let id = self.connection.query_row(select, (), |row| row.get(0));
        id.map(PetId).ok()
    }

    pub(crate) fn commit(mut self) -> std::result::Result<u64, ImportError> {
        if self.staged > 0 {
            let committed = commit_in_place(&self.connection, &self.data);
            committed.map_err(|error| match error {
                StoreError::Unconfirmed(text) => ImportError::Unconfirmed(text),
                error => error.into(),
            })?;
            self.is_inserting = false;
        }
        Ok(self.staged)
    }
}

impl Drop for SqliteImport {
    fn drop(&mut self) {
        if self.is_inserting {
            let _ = self.roll_back();
        }
    }
}

/// What has this ID, if anything.
fn taken(connection: &Connection, id: i64) -> rusqlite::Result<Option<TakenBy>> {
    for (select, by) in [
        ("SELECT 1 FROM staging.pets WHERE id = ?1", TakenBy::Line),
        ("SELECT 1 FROM main.pets WHERE id = ?1", TakenBy::Pet),
    ] {
        let mut select = connection.prepare_cached(select)?;
        if select.query_row([id], |_| Ok(())).optional()?.is_some() {
            return Ok(Some(by));
        }
    }
    Ok(None)
}
