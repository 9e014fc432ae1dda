//! The creation of an animal in SQL, and the record that makes a retry of it safe.

use rusqlite::{Connection, OptionalExtension, params};

use super::fault;
use crate::pet::PetId;
use crate::store::contract::{Created, Creation, Retry};

/// Inserts an animal, unless a record shows that it exists already.
pub(super) fn create(
    connection: &Connection,
    Creation { pet, retry }: Creation,
) -> rusqlite::Result<Created> {
    if let Some(retry) = &retry {
        let before: Option<(PetId, [u8; 32])> = connection
            .prepare_cached(
                "SELECT pet_id, fingerprint FROM idempotency
                 WHERE api_key_id = ?1 AND idempotency_key = ?2 AND created_at > ?3",
            )?
            .query_row(
                params![
                    retry.key.0,
                    retry.token,
                    retry.now.before(Retry::RETENTION).as_millis()
                ],
                |row| Ok((PetId(row.get(0)?), row.get(1)?)),
            )
            .optional()?;
        match before {
            // The same body makes the same animal, so the first response can be made again from the retry.
            Some((id, fingerprint)) if fingerprint == retry.fingerprint => {
                return Ok(Created::Replayed(pet.with_id(id)));
            }
            Some(_) => return Ok(Created::Mismatch),
            None => {}
        }
    }
    fault::die_at(&pet);
    connection
        .prepare_cached("INSERT INTO pets (name, category_id, status) VALUES (?1, ?2, ?3)")?
        .execute(params![
            pet.name.as_str(),
            pet.category_id,
            pet.status.word()
        ])?;
    let id = PetId(connection.last_insert_rowid());
    if let Some(retry) = &retry {
        connection
            .prepare_cached(
                "INSERT OR REPLACE INTO idempotency (api_key_id, idempotency_key, fingerprint, pet_id, created_at)
                 VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![retry.key.0, retry.token, retry.fingerprint, id.0, retry.now.as_millis()])?;
    }
    Ok(Created::New(pet.with_id(id)))
}
