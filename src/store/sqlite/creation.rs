//! The creation of an animal in SQL, and the record that makes a retry of it safe.

use rusqlite::{Connection, OptionalExtension, params};

use crate::fault::Fault;
use crate::pet::PetId;
use crate::store::contract::{Creation, CreationOutcome};

/// Inserts an animal, unless it was created by an earlier attempt.
pub(super) fn create(
    connection: &Connection,
    Creation { pet, idempotency }: Creation,
) -> rusqlite::Result<CreationOutcome> {
    if let Some(record) = &idempotency {
        let select = "SELECT pet_id, fingerprint FROM idempotency
                      WHERE api_key_id = ?1 AND idempotency_key = ?2 AND created_at > ?3";
        let known = connection
            .prepare_cached(select)?
            .query_row(
                params![record.key.0, record.idempotency_key, record.since()],
                |row| Ok((PetId(row.get(0)?), row.get(1)?)),
            )
            .optional()?;
        if let Some((id, fingerprint)) = known {
            return Ok(record.replay(pet, id, fingerprint));
        }
    }
    Fault::WriterDies.panic_if(|| pet.name.as_str() == "writer, die");
    connection
        .prepare_cached("INSERT INTO pets (name, category_id, status) VALUES (?1, ?2, ?3)")?
        .execute(params![
            pet.name.as_str(),
            pet.category_id,
            pet.status.as_str()
        ])?;
    let id = PetId(connection.last_insert_rowid());
    if let Some(record) = &idempotency {
        let insert = "INSERT OR REPLACE INTO idempotency (api_key_id, idempotency_key, fingerprint, pet_id, created_at)
                      VALUES (?1, ?2, ?3, ?4, ?5)";
        connection.prepare_cached(insert)?.execute(params![
            record.key.0,
            record.idempotency_key,
            record.fingerprint,
            id.0,
            record.created_at.as_millis()
        ])?;
    }
    Ok(CreationOutcome::New(pet.with_id(id)))
}
