//! Animals in SQL.

use bytes::Bytes;
use rusqlite::{CachedStatement, Connection, OptionalExtension, Rows, params};

use super::stamp::FileStamp;
use super::{Sqlite, connect};
use crate::page::PetQuery;
use crate::pet::{Pet, PetId, PetStatus};
use crate::store::contract::{CHUNK_ROWS, Creation, CreationOutcome, Page, Result, StoreError};
use crate::store::pages::{PageWriter, compact, rows_to_read};
use crate::store::row::{read_pet, write_pet};

impl Sqlite {
    pub(crate) async fn create(&self, creation: Creation) -> Result<CreationOutcome> {
        self.writer.create(creation).await
    }

    pub(crate) async fn pet(&self, id: PetId) -> Result<Option<Bytes>> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT id, name, category_id, status FROM pets WHERE id = ?1")?
                .query_row([id.0], |row| {
                    let mut json = Vec::with_capacity(96);
                    write_pet(&mut json, row).map(|_| compact(json))
                })
                .optional()
        })
    }

    pub(crate) async fn page(&self, query: PetQuery) -> Result<Page> {
        self.read(|connection| {
            let mut page = PageWriter::new(query.limit);
            let mut statement = prepare(connection, query.status)?;
            let (after, limit) = (query.cursor.id(), rows_to_read(query.limit));
            let mut rows = query_after(&mut statement, after, query.status, limit)?;
            while let Some(row) = rows.next()?
                && page.add(|json| write_pet(json, row))?
            {}
            Ok(page.finish())
        })
    }

    pub(crate) async fn pets_after(
        &self,
        after: PetId,
        status: Option<PetStatus>,
    ) -> Result<Vec<Pet>> {
        self.read(|connection| chunk_after(connection, after, status))
    }

    pub(crate) async fn count_pets(&self) -> Result<[i64; PetStatus::ALL.len()]> {
        self.read(|connection| {
            let mut statement =
                connection.prepare_cached("SELECT count(*) FROM pets WHERE status = ?1")?;
            let mut counts = [0; PetStatus::ALL.len()];
            for (count, status) in counts.iter_mut().zip(PetStatus::ALL) {
                *count = statement.query_row([status.as_str()], |row| row.get(0))?;
            }
            Ok(counts)
        })
    }

    pub(crate) fn snapshot(&self) -> Result<SqliteSnapshot<'_>> {
        let immutable_stamp = self.readers.immutable_stamp();
        let connection = match immutable_stamp {
            Some(_) => connect::immutable_reader(&self.readers.path)?,
            None => connect::reader(&self.readers.path)?,
        };
        connection.execute_batch("BEGIN")?;
        Ok(SqliteSnapshot {
            engine: self,
            connection,
            immutable_stamp,
        })
    }
}

/// The animals at one point in time, read in chunks within one transaction. No writer waits for it, but the write-ahead log grows until
/// it ends.
pub(crate) struct SqliteSnapshot<'a> {
    engine: &'a Sqlite,
    connection: Connection,
    /// The file as it was, if it is read as if it could not change.
    immutable_stamp: Option<FileStamp>,
}

impl SqliteSnapshot<'_> {
    pub(crate) fn pets_after(&self, after: PetId, status: Option<PetStatus>) -> Result<Vec<Pet>> {
        let pets = chunk_after(&self.connection, after, status);
        // Checked even if the read failed, which may be because it mixed pages from before and after a change.
        if self.immutable_stamp.is_some()
            && FileStamp::of(&self.engine.readers.path) != self.immutable_stamp
        {
            let problem = "the database was changed while it was read: try again";
            return Err(StoreError::Unavailable(problem.into()));
        }
        Ok(pets?)
    }
}

fn chunk_after(
    connection: &Connection,
    after: PetId,
    status: Option<PetStatus>,
) -> rusqlite::Result<Vec<Pet>> {
    let mut statement = prepare(connection, status)?;
    query_after(&mut statement, after.0, status, CHUNK_ROWS.into())?
        .mapped(|row| read_pet(row))
        .collect()
}

fn prepare(
    connection: &Connection,
    status: Option<PetStatus>,
) -> rusqlite::Result<CachedStatement<'_>> {
    connection.prepare_cached(match status {
        None => "SELECT id, name, category_id, status FROM pets WHERE id > ?1 ORDER BY id LIMIT ?2",
        Some(_) => {
            "SELECT id, name, category_id, status FROM pets
             WHERE id > ?1 AND status = ?3 ORDER BY id LIMIT ?2"
        }
    })
}

fn query_after<'s>(
    statement: &'s mut CachedStatement<'_>,
    after: i64,
    status: Option<PetStatus>,
    limit: i64,
) -> rusqlite::Result<Rows<'s>> {
    match status {
        None => statement.query(params![after, limit]),
        Some(status) => statement.query(params![after, limit, status.as_str()]),
    }
}
