//! The rows of SQLite.

use rusqlite::types::Type;
use rusqlite::{Error, Result, Row};

use crate::store::row::SqlRow;

impl SqlRow for Row<'_> {
    type Error = Error;

    fn text(&self, column: usize) -> Result<&str> {
        Ok(self.get_ref(column)?.as_str()?)
    }

    fn int(&self, column: usize) -> Result<i64> {
        self.get(column)
    }

    fn optional_int(&self, column: usize) -> Result<Option<i64>> {
        self.get(column)
    }

    fn optional_hash(&self, column: usize) -> Result<Option<[u8; 32]>> {
        self.get(column)
    }

    fn invalid(column: usize, message: String) -> Error {
        Error::FromSqlConversionFailure(column, Type::Text, message.into())
    }
}
