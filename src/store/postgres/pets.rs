//! Animals in SQL.

use bytes::Bytes;
use tokio_postgres::Row;

use super::engine::Postgres;
use super::error::{PgError, PgResult};
use super::pool::{Lease, Session};
use crate::page::PetQuery;
use crate::pet::{self, Pet, PetId, PetStatus};
use crate::store::contract::{CHUNK, Created, Creation, Page, Result};
use crate::store::pages::{PageWriter, rows_to_read};

impl Postgres {
    pub(crate) async fn create(&self, creation: Creation) -> Result<Created> {
        self.writer.create(creation).await
    }

    pub(crate) async fn pet(&self, id: PetId) -> Result<Option<Bytes>> {
        self.read(async |lease| {
            let statement = lease
                .prepare_cached("SELECT id, name, category_id, status FROM pets WHERE id = $1")
                .await?;
            let row = lease.query_opt(&statement, &[&id.0]).await?;
            row.map(|row| {
                let mut json = Vec::with_capacity(96);
                write_json(&mut json, &row)?;
                Ok(Bytes::from(json))
            })
            .transpose()
        })
        .await
    }

    pub(crate) async fn page(&self, query: PetQuery) -> Result<Page> {
        self.read(async |lease| {
            let (after, most) = (query.cursor.id(), rows_to_read(query.limit));
            let mut page = PageWriter::new(query.limit);
            for row in &rows_after(lease, after, query.status, most).await? {
                let Some(json) = page.row() else { break };
                let id = write_json(json, row)?;
                page.wrote(id);
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
        self.read_many(async |lease| {
            let rows = rows_after(lease, after.0, status, CHUNK.into()).await?;
            rows.iter().map(read_pet).collect()
        })
        .await
    }
}

async fn rows_after(
    lease: &Lease,
    after: i64,
    status: Option<PetStatus>,
    most: i64,
) -> PgResult<Vec<Row>> {
    let all = "SELECT id, name, category_id, status FROM pets WHERE id > $1 ORDER BY id LIMIT $2";
    let Some(status) = status else {
        return Ok(lease.rows(all, &[&after, &most]).await?);
    };
    let some = "SELECT id, name, category_id, status FROM pets
                WHERE status = $3 AND id > $1 ORDER BY id LIMIT $2";
    let rows = lease.rows(some, &[&after, &most, &status.word()]).await?;
    Ok(rows)
}

fn write_json(json: &mut Vec<u8>, row: &Row) -> PgResult<i64> {
    let id = row.try_get(0)?;
    pet::write_json(
        json,
        PetId(id),
        row.try_get(1)?,
        row.try_get(2)?,
        row.try_get(3)?,
    );
    Ok(id)
}

fn read_pet(row: &Row) -> PgResult<Pet> {
    Ok(Pet {
        id: PetId(row.try_get(0)?),
        name: row.try_get(1)?,
        category_id: row.try_get(2)?,
        status: read_status(row, 3)?,
    })
}

/// The status in a column.
pub(super) fn read_status(row: &Row, column: usize) -> PgResult<PetStatus> {
    let word: &str = row.try_get(column)?;
    word.parse()
        .map_err(|_| PgError::Failed(format!("an animal's status is {word:?}")))
}
