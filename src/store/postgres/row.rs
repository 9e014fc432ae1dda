//! The rows of PostgreSQL.

use tokio_postgres::Row;

use super::error::{PgError, PgResult};
use crate::store::row::SqlRow;

impl SqlRow for Row {
    type Error = PgError;

    fn text(&self, column: usize) -> PgResult<&str> {
        Ok(self.try_get(column)?)
    }

    fn int(&self, column: usize) -> PgResult<i64> {
        Ok(self.try_get(column)?)
    }

    fn optional_int(&self, column: usize) -> PgResult<Option<i64>> {
        Ok(self.try_get(column)?)
    }

    fn optional_hash(&self, column: usize) -> PgResult<Option<[u8; 32]>> {
        let bytes: Option<&[u8]> = self.try_get(column)?;
        let invalid = |_| Self::invalid(column, "a hash must be 32 bytes long".into());
        bytes
            .map(|bytes| bytes.try_into().map_err(invalid))
            .transpose()
    }

    fn invalid(_: usize, message: String) -> PgError {
        PgError::Failed(message)
    }
}
