//! Animals in SQL.

use bytes::Bytes;
use tokio_postgres::Row;

use super::engine::Postgres;
use super::error::PgResult;
use super::pool::{Executor, Lease, SqlValue};
use super::timeout::{LONG_TIMEOUT, with_timeout};
use crate::page::PetQuery;
use crate::pet::{Pet, PetId, PetStatus};
use crate::store::contract::{CHUNK_ROWS, Creation, CreationOutcome, Page, Result};
use crate::store::pages::{PageWriter, compact, rows_to_read};
use crate::store::row::{SqlRow, read_pet, write_pet};

/// Begins the transaction, with no limit on how slowly its rows are consumed. Each chunk has [`LONG_TIMEOUT`].
pub(super) const BEGIN_SNAPSHOT: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
                     SET LOCAL statement_timeout = 29500; \
                     SET LOCAL idle_in_transaction_session_timeout = 0";

const PET: &str = "SELECT id, name, category_id, status FROM pets WHERE id = $1";

const PAGE: &str =
    "SELECT id, name, category_id, status FROM pets WHERE id > $1 ORDER BY id LIMIT $2";

/// With `status = $3 AND id > $1`, the planner would often choose the primary key, because it assumes that each status is spread
/// evenly: it would read all animals that were sold before the first one that is available. Only the index of statuses has this
/// order.
const PAGE_OF_STATUS: &str = "SELECT id, name, category_id, status FROM pets
     WHERE (status, id) > ($3, $1) AND (status, id) <= ($3, 9223372036854775807) ORDER BY status, id LIMIT $2";

/// Prepared in advance: a statement that is being prepared when its request is cancelled stays on the server, unknown to this process.
pub(super) const STATEMENTS: [&str; 3] = [PET, PAGE, PAGE_OF_STATUS];

impl Postgres {
    pub(crate) async fn create(&self, creation: Creation) -> Result<CreationOutcome> {
        self.writer.create(creation).await
    }

    pub(crate) async fn pet(&self, id: PetId) -> Result<Option<Bytes>> {
        self.read(async |lease| {
            let rows = lease.query_cached(PET, &[&id.0]).await?;
            let json = |row| {
                let mut json = Vec::with_capacity(96);
                write_pet(&mut json, row).map(|_| compact(json))
            };
            rows.first().map(json).transpose()
        })
        .await
    }

    pub(crate) async fn page(&self, query: PetQuery) -> Result<Page> {
        self.read(async |lease| {
            let (after, limit) = (query.cursor.id(), rows_to_read(query.limit));
            let mut page = PageWriter::new(query.limit);
            for row in &rows_after(lease, after, query.status, limit).await? {
                page.add(|json| write_pet(json, row))?;
            }
            Ok(page.finish())
        })
        .await
    }

    pub(crate) async fn pets_after(
        &self,
        after: PetId,
        status: Option<PetStatus>,
    ) -> Result<Vec<Pet>> {
        self.read_many(async |lease| chunk_after(lease, after, status).await)
            .await
    }

    pub(crate) async fn count_pets(&self) -> Result<[i64; PetStatus::ALL.len()]> {
        let select = "SELECT count(*) FROM pets WHERE status = $1";
        self.read_many(async |lease| {
            let mut counts = [0; PetStatus::ALL.len()];
            for (count, status) in counts.iter_mut().zip(PetStatus::ALL) {
                let rows = lease.query_cached(select, &[&status.as_str()]).await?;
                *count = rows.first().map_or(Ok(0), |row| row.int(0))?;
            }
            Ok(counts)
        })
        .await
    }

    pub(crate) async fn snapshot(&self) -> Result<PgSnapshot> {
        let beginning = async {
            let lease = self.pool.borrow().await?;
            lease.batch_execute(BEGIN_SNAPSHOT).await?;
            Ok(PgSnapshot(lease))
        };
        Ok(with_timeout(LONG_TIMEOUT, beginning).await?)
    }
}

/// The animals at one point in time: a connection with an open transaction, within which they are read in chunks. Until it ends, and
/// the connection is closed, the server keeps old versions of rows.
pub(crate) struct PgSnapshot(Lease);

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

async fn chunk_after(lease: &Lease, after: PetId, status: Option<PetStatus>) -> PgResult<Vec<Pet>> {
    let rows = rows_after(lease, after.0, status, CHUNK_ROWS.into()).await?;
    rows.iter().map(read_pet).collect()
}

async fn rows_after(
    lease: &Lease,
    after: i64,
    status: Option<PetStatus>,
    limit: i64,
) -> PgResult<Vec<Row>> {
    let Some(status) = status else {
        return lease.query_cached(PAGE, &[&after, &limit]).await;
    };
    let values: [SqlValue<'_>; 3] = [&after, &limit, &status.as_str()];
    lease.query_cached(PAGE_OF_STATUS, &values).await
}
