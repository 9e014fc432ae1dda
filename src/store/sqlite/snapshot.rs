//! The animals at one point in time, read in chunks within one transaction. No writer waits for it, but the write-ahead log grows until
//! it ends.

use rusqlite::Connection;

use super::pets::chunk_after;
use super::readers::FileStamp;
use super::{Sqlite, connect};
use crate::pet::{Pet, PetId, PetStatus};
use crate::store::contract::{CHUNK, Result, StoreError};

pub(crate) struct SqliteSnapshot<'a> {
    engine: &'a Sqlite,
    connection: Connection,
    /// The file as it was, if it is read as if it could not change.
    at_rest: Option<FileStamp>,
}

impl Sqlite {
    pub(crate) fn snapshot(&self) -> Result<SqliteSnapshot<'_>> {
        let at_rest = self.readers.at_rest();
        let connection = match at_rest {
            Some(_) => connect::immutable_reader(&self.readers.path)?,
            None => connect::reader(&self.readers.path)?,
        };
        connection.execute_batch("BEGIN")?;
        Ok(SqliteSnapshot {
            engine: self,
            connection,
            at_rest,
        })
    }
}

impl SqliteSnapshot<'_> {
    pub(crate) fn pets_after(&self, after: PetId, status: Option<PetStatus>) -> Result<Vec<Pet>> {
        let pets = chunk_after(&self.connection, after, status)?;
        if pets.len() < CHUNK.into()
            && self.at_rest.is_some()
            && self.engine.readers.at_rest() != self.at_rest
        {
            let problem = "the database was changed while it was read: try again";
            return Err(StoreError::Unavailable(problem.into()));
        }
        Ok(pets)
    }
}
