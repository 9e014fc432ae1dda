//! Animals in SQL, and the retries of their creation.

use bytes::Bytes;
use rusqlite::{Connection, OptionalExtension, Row, params};

use crate::fault::Fault;
use crate::page::PetQuery;
use crate::pet::{self, NewPet, PetId};
use crate::store::pages::{PageWriter, asked_for};
use crate::store::{Created, Page, Retry};

/// Inserts an animal, unless a retry says that it was inserted before.
pub(super) fn create(
    connection: &Connection,
    pet: NewPet,
    retry: Option<&Retry>,
) -> rusqlite::Result<Created> {
    if let Some(retry) = retry {
        let before: Option<(PetId, [u8; 32])> = connection
            .prepare_cached(
                "SELECT pet_id, fingerprint FROM idempotency
                 WHERE api_key_id = ?1 AND idempotency_key = ?2 AND created_at > ?3",
            )?
            .query_row(
                params![
                    retry.key.0,
                    retry.token,
                    retry.now.before(Retry::KEPT).as_millis()
                ],
                |row| Ok((PetId(row.get(0)?), row.get(1)?)),
            )
            .optional()?;
        match before {
            // The same body makes the same animal, so the first answer can be made again from the retry.
            Some((id, fingerprint)) if fingerprint == retry.fingerprint => {
                return Ok(Created::Replayed(pet.with_id(id)));
            }
            Some(_) => return Ok(Created::Mismatch),
            None => {}
        }
    }
    #[expect(clippy::panic, reason = "a death that a test asked for")]
    if Fault::WriterDies.is_on() && pet.name.as_str() == "writer, die" {
        panic!("the writer dies");
    }
    connection
        .prepare_cached("INSERT INTO pets (name, category_id, status) VALUES (?1, ?2, ?3)")?
        .execute(params![
            pet.name.as_str(),
            pet.category_id,
            pet.status.word()
        ])?;
    let id = PetId(connection.last_insert_rowid());
    if let Some(retry) = retry {
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO idempotency (api_key_id, idempotency_key, fingerprint, pet_id, created_at)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![retry.key.0, retry.token, retry.fingerprint, id.0, retry.now.as_millis()])?;
    }
    Ok(Created::New(pet.with_id(id)))
}

/// One animal as JSON.
pub(super) fn one(connection: &Connection, id: PetId) -> rusqlite::Result<Option<Bytes>> {
    connection
        .prepare_cached("SELECT id, name, category_id, status FROM pets WHERE id = ?1")?
        .query_row([id.0], |row| {
            let mut json = Vec::with_capacity(96);
            write_json(&mut json, row)?;
            Ok(Bytes::from(json))
        })
        .optional()
}

/// A page as JSON.
pub(super) fn page(connection: &Connection, query: PetQuery) -> rusqlite::Result<Page> {
    let (after, most) = (query.cursor.id(), asked_for(query.limit));
    let mut statement = connection.prepare_cached(match query.status {
        None => "SELECT id, name, category_id, status FROM pets WHERE id > ?1 ORDER BY id LIMIT ?2",
        Some(_) => {
            "SELECT id, name, category_id, status FROM pets
             WHERE id > ?1 AND status = ?3 ORDER BY id LIMIT ?2"
        }
    })?;
    let mut rows = match query.status {
        None => statement.query(params![after, most])?,
        Some(status) => statement.query(params![after, most, status.word()])?,
    };
    let mut page = PageWriter::new(query.limit);
    while let Some(row) = rows.next()?
        && let Some(json) = page.row()
    {
        let id = write_json(json, row)?;
        page.wrote(id);
    }
    Ok(page.finish())
}

fn write_json(json: &mut Vec<u8>, row: &Row<'_>) -> rusqlite::Result<i64> {
    let id = row.get(0)?;
    pet::write_json(
        json,
        PetId(id),
        row.get_ref(1)?.as_str()?,
        row.get(2)?,
        row.get_ref(3)?.as_str()?,
    );
    Ok(id)
}
