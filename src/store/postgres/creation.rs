//! The creation of animals in SQL, and the records that make retries of it safe.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use deadpool_postgres::Transaction;
use tokio_postgres::Statement;
use tokio_postgres::types::Type;

use super::error::PgResult;
use super::fault;
use super::pool::{Executor, SqlValue};
use crate::fault::Fault;
use crate::pet::{NewPet, PetId};
use crate::store::contract::{Creation, CreationOutcome, IdempotencyRecord};
use crate::store::row::SqlRow;

/// Locks the row until the commit: another node that creates waits here, and so finds the animals and the records that this one
/// writes.
pub(super) const LOCK_LAST_ID: &str = "SELECT number FROM counters WHERE what = 'pets' FOR UPDATE";

const KNOWN_RECORDS: &str = "SELECT r.api_key_id, r.idempotency_key, r.pet_id, r.fingerprint
     FROM unnest($1::int8[], $2::bytea[], $3::int8[]) AS asked (api_key_id, idempotency_key, since)
     JOIN idempotency r
       ON r.api_key_id = asked.api_key_id AND r.idempotency_key = asked.idempotency_key
     WHERE r.created_at > asked.since";

const INSERT_PETS: &str = "INSERT INTO pets (id, name, category_id, status)
     SELECT * FROM unnest($1::int8[], $2::text[], $3::int8[], $4::text[])";

const SET_LAST_ID: &str = "UPDATE counters SET number = $1 WHERE what = 'pets'";

const INSERT_RECORDS: &str =
    "INSERT INTO idempotency (api_key_id, idempotency_key, fingerprint, pet_id, created_at)
     SELECT * FROM unnest($1::int8[], $2::bytea[], $3::bytea[], $4::int8[], $5::int8[])
     ON CONFLICT (api_key_id, idempotency_key) DO UPDATE
     SET fingerprint = excluded.fingerprint, pet_id = excluded.pet_id, created_at = excluded.created_at";

pub(super) const STATEMENTS: [&str; 4] = [LOCK_LAST_ID, INSERT_PETS, SET_LAST_ID, INSERT_RECORDS];

/// Creates all animals, or none; except those that a record shows to exist already, and those whose client no longer waits once the
/// lock is held: it has received its 503.
pub(super) async fn create(
    transaction: &Transaction<'_>,
    batch: &[Creation],
    claim: impl Fn(usize) -> bool,
) -> PgResult<Vec<Option<CreationOutcome>>> {
    let lock = Fault::IdsFromSequence.choose(LOCK_LAST_ID, fault::ID_FROM_SEQUENCE);
    let lock = transaction.prepare_cached(lock).await?;
    // Sent together, in this order: the second is carried out once the first has its lock, so it finds what others recorded.
    let (last, known) = tokio::join!(
        biased;
        last_id(transaction, &lock),
        known_records(transaction, batch)
    );
    let (last, mut known) = (last?, known?);
    let mut new = NewRows::default();
    let created: Vec<_> = batch
        .iter()
        .enumerate()
        .map(|(index, creation)| claim(index).then(|| new.add(creation, last, &mut known)))
        .collect();
    new.insert(transaction, last).await?;
    Ok(created)
}

/// The last ID that was given out.
async fn last_id(transaction: &Transaction<'_>, lock: &Statement) -> PgResult<i64> {
    Ok(transaction.query_one(lock, &[]).await?.try_get(0)?)
}

/// The API key and the hashed `Idempotency-Key` of a record.
type RecordKey = (i64, [u8; 32]);

/// The animal that was created, and its fingerprint.
type KnownRecord = (PetId, [u8; 32]);

/// The records that exist already for creations in a batch.
async fn known_records(
    transaction: &Transaction<'_>,
    batch: &[Creation],
) -> PgResult<HashMap<RecordKey, KnownRecord>> {
    let records: Vec<&IdempotencyRecord> = batch
        .iter()
        .filter_map(|creation| creation.idempotency.as_ref())
        .collect();
    if records.is_empty() {
        return Ok(HashMap::new());
    }
    let keys = column(&records, |record| record.key.0);
    let idempotency_keys = column(&records, |record| &record.idempotency_key[..]);
    let since = column(&records, IdempotencyRecord::since);
    let values: [(SqlValue<'_>, Type); 3] = [
        (&keys, Type::INT8_ARRAY),
        (&idempotency_keys, Type::BYTEA_ARRAY),
        (&since, Type::INT8_ARRAY),
    ];
    // Not prepared: a plan made while the table was empty would be kept, and read the whole table while the lock is held.
    let rows = transaction.query_typed(KNOWN_RECORDS, &values).await?;
    rows.iter()
        .map(|row| {
            let key = (row.int(0)?, row.hash(1)?);
            Ok((key, (PetId(row.int(2)?), row.hash(3)?)))
        })
        .collect()
}

fn column<'a, T>(
    records: &[&'a IdempotencyRecord],
    of: impl Fn(&'a IdempotencyRecord) -> T,
) -> Vec<T> {
    records.iter().map(|record| of(record)).collect()
}

/// Rows to insert, column by column.
#[derive(Default)]
struct NewRows<'a> {
    ids: Vec<i64>,
    names: Vec<&'a str>,
    categories: Vec<i64>,
    statuses: Vec<&'a str>,
    records: Vec<&'a IdempotencyRecord>,
    /// The animal of each record.
    record_pets: Vec<i64>,
}

impl<'a> NewRows<'a> {
    fn add(
        &mut self,
        creation: &'a Creation,
        last: i64,
        known: &mut HashMap<RecordKey, KnownRecord>,
    ) -> CreationOutcome {
        let pet = &creation.pet;
        let Some(record) = &creation.idempotency else {
            return CreationOutcome::New(pet.clone().with_id(self.add_pet(pet, last)));
        };
        match known.entry((record.key.0, record.idempotency_key)) {
            Entry::Occupied(known) => {
                let (id, fingerprint) = *known.get();
                record.replay(pet.clone(), id, fingerprint)
            }
            Entry::Vacant(known) => {
                let id = self.add_pet(pet, last);
                known.insert((id, record.fingerprint));
                self.records.push(record);
                self.record_pets.push(id.0);
                CreationOutcome::New(pet.clone().with_id(id))
            }
        }
    }

    fn add_pet(&mut self, pet: &'a NewPet, last: i64) -> PetId {
        let id = last + self.ids.len() as i64 + 1;
        self.ids.push(id);
        self.names.push(pet.name.as_str());
        self.categories.push(pet.category_id);
        self.statuses.push(pet.status.as_str());
        PetId(id)
    }

    async fn insert(&self, transaction: &Transaction<'_>, last: i64) -> PgResult<()> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let count = Fault::IdsFromSequence.choose(SET_LAST_ID, fault::COUNT_NOTHING);
        let last = last + self.ids.len() as i64;
        // Sent together, for one round trip.
        let columns: [SqlValue<'_>; 4] = [&self.ids, &self.names, &self.categories, &self.statuses];
        let counted: [SqlValue<'_>; 1] = [&last];
        let (inserted, counted, recorded) = tokio::join!(
            transaction.execute_cached(INSERT_PETS, &columns),
            transaction.execute_cached(count, &counted),
            self.insert_records(transaction),
        );
        // In the order in which they were sent: once a statement has failed, the errors of those after it (25P02) only say that
        // one did, and not whether the transaction can be tried again.
        inserted?;
        counted?;
        recorded
    }

    /// In the same transaction as the animals: it shows the outcome of a commit whose reply was lost.
    async fn insert_records(&self, transaction: &Transaction<'_>) -> PgResult<()> {
        if self.records.is_empty() {
            return Ok(());
        }
        let (records, pets) = (&self.records, &self.record_pets);
        let keys = column(records, |record| record.key.0);
        let idempotency_keys = column(records, |record| &record.idempotency_key[..]);
        let fingerprints = column(records, |record| &record.fingerprint[..]);
        let times = column(records, |record| record.created_at.as_millis());
        let insert =
            Fault::NoIdempotencyRecord.choose(INSERT_RECORDS, fault::NO_IDEMPOTENCY_RECORD);
        let values: [SqlValue<'_>; 5] = [&keys, &idempotency_keys, &fingerprints, pets, &times];
        transaction.execute_cached(insert, &values).await?;
        Ok(())
    }
}
