//! The animals at one point in time, read in chunks within one transaction. Until it ends, the server keeps old versions of rows.

use super::deadline::{LONG_TIMEOUT, with_timeout};
use super::engine::Postgres;
use super::pets::chunk_after;
use super::pool::Lease;
use crate::pet::{Pet, PetId, PetStatus};
use crate::store::contract::Result;

/// Begins the transaction, with no limit on how slowly its rows are consumed.
const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
                     SET LOCAL statement_timeout = 30000; \
                     SET LOCAL idle_in_transaction_session_timeout = 0";

/// A connection with an open transaction. It is closed at the end.
pub(crate) struct PgSnapshot(Lease);

impl Postgres {
    pub(crate) async fn snapshot(&self) -> Result<PgSnapshot> {
        let beginning = async {
            let lease = self.pool.borrow().await?;
            lease.batch_execute(BEGIN).await?;
            Ok(PgSnapshot(lease))
        };
        Ok(with_timeout(LONG_TIMEOUT, beginning).await?)
    }
}

impl PgSnapshot {
    pub(crate) async fn pets_after(
        &self,
        after: PetId,
        status: Option<PetStatus>,
    ) -> Result<Vec<Pet>> {
        let reading = chunk_after(&self.0, after, status);
        Ok(with_timeout(LONG_TIMEOUT, reading).await?)
    }
}
