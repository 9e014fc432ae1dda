//! Animals in SQL, and the retries of their creation.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use bytes::Bytes;
use deadpool_postgres::Transaction;
use tokio_postgres::{Row, Statement};

use super::Answer;
use super::connect::Lease;
use super::writer::Creation;
use crate::fault::Fault;
use crate::page::PetQuery;
use crate::pet::{self, NewPet, PetId};
use crate::store::pages::{PageWriter, asked_for};
use crate::store::{Created, Page, Retry};

/// Locks the row until the commit: another node that creates waits here, and so finds the animals and the records of retries
/// that we write.
const LAST_NUMBER: &str = "SELECT number FROM counters WHERE what = 'pets' FOR UPDATE";

const KNOWN_RETRIES: &str = "SELECT r.api_key_id, r.idempotency_key, r.pet_id, r.fingerprint
     FROM unnest($1::int8[], $2::bytea[], $3::int8[]) AS asked (api_key_id, idempotency_key, since)
     JOIN idempotency r
       ON r.api_key_id = asked.api_key_id AND r.idempotency_key = asked.idempotency_key
     WHERE r.created_at > asked.since";

const INSERT: &str = "INSERT INTO pets (id, name, category_id, status)
     SELECT * FROM unnest($1::int8[], $2::text[], $3::int8[], $4::text[])";

const COUNT: &str = "UPDATE counters SET number = $1 WHERE what = 'pets'";

const INSERT_RETRIES: &str =
    "INSERT INTO idempotency (api_key_id, idempotency_key, fingerprint, pet_id, created_at)
     SELECT * FROM unnest($1::int8[], $2::bytea[], $3::bytea[], $4::int8[], $5::int8[])
     ON CONFLICT (api_key_id, idempotency_key) DO UPDATE
     SET fingerprint = excluded.fingerprint, pet_id = excluded.pet_id, created_at = excluded.created_at";

/// What a creation needs.
pub(super) fn statements() -> Vec<String> {
    [LAST_NUMBER, KNOWN_RETRIES, INSERT, COUNT, INSERT_RETRIES]
        .map(String::from)
        .into()
}

/// Creates animals, except where a retry says that one was created before.
pub(super) async fn create(
    transaction: &Transaction<'_>,
    batch: &[Creation],
) -> Answer<Vec<Created>> {
    let lock = transaction.prepare_cached(LAST_NUMBER).await?;
    let find = transaction.prepare_cached(KNOWN_RETRIES).await?;
    // Sent together, in this order: the second is carried out once the first has its lock, so it finds what others recorded.
    let (last, known) = tokio::join!(
        biased;
        last_number(transaction, &lock),
        known_retries(transaction, &find, batch)
    );
    let (last, mut known) = (last?, known?);
    let mut new = Rows::default();
    let created: Vec<_> = batch
        .iter()
        .map(|creation| new.take(creation, last, &mut known))
        .collect();
    new.insert(transaction, last).await?;
    Ok(created)
}

/// The last identifier given out.
async fn last_number(transaction: &Transaction<'_>, lock: &Statement) -> Answer<i64> {
    if Fault::IdsFromSequence.is_on() {
        // Leaps, so that a whole batch has room behind each number.
        let make = "CREATE SEQUENCE IF NOT EXISTS broken INCREMENT 1000";
        transaction.batch_execute(make).await?;
        let row = transaction
            .query_one("SELECT nextval('broken')", &[])
            .await?;
        return Ok(row.try_get(0)?);
    }
    Ok(transaction.query_one(lock, &[]).await?.try_get(0)?)
}

/// Whose retry it is, and its token.
type Name = (i64, [u8; 32]);

/// The animal it created, and the fingerprint of its body.
type Record = (PetId, [u8; 32]);

/// The records there are of the retries in a batch.
async fn known_retries(
    transaction: &Transaction<'_>,
    find: &Statement,
    batch: &[Creation],
) -> Answer<HashMap<Name, Record>> {
    let retries: Vec<&Retry> = batch
        .iter()
        .filter_map(|creation| creation.retry.as_ref())
        .collect();
    if retries.is_empty() {
        return Ok(HashMap::new());
    }
    let keys: Vec<i64> = retries.iter().map(|retry| retry.key.0).collect();
    let tokens: Vec<&[u8]> = retries.iter().map(|retry| &retry.token[..]).collect();
    let since: Vec<i64> = retries
        .iter()
        .map(|retry| retry.now.before(Retry::KEPT).as_millis())
        .collect();
    let rows = transaction.query(find, &[&keys, &tokens, &since]).await?;
    rows.iter()
        .map(|row| {
            let name = (row.try_get(0)?, digest(row, 1)?);
            Ok((name, (PetId(row.try_get(2)?), digest(row, 3)?)))
        })
        .collect()
}

/// Rows to insert, column by column.
#[derive(Default)]
struct Rows<'a> {
    ids: Vec<i64>,
    names: Vec<&'a str>,
    categories: Vec<i64>,
    statuses: Vec<&'a str>,
    retries: Vec<(&'a Retry, i64)>,
}

impl<'a> Rows<'a> {
    /// Takes a creation, and says what becomes of it.
    fn take(
        &mut self,
        creation: &'a Creation,
        last: i64,
        known: &mut HashMap<Name, Record>,
    ) -> Created {
        let pet = &creation.pet;
        let Some(retry) = &creation.retry else {
            return Created::New(pet.clone().with_id(self.add(pet, last)));
        };
        match known.entry((retry.key.0, retry.token)) {
            // The same body makes the same animal, so the first answer can be made again from the retry.
            Entry::Occupied(record) if record.get().1 == retry.fingerprint => {
                Created::Replayed(pet.clone().with_id(record.get().0))
            }
            Entry::Occupied(_) => Created::Mismatch,
            Entry::Vacant(record) => {
                let id = self.add(pet, last);
                record.insert((id, retry.fingerprint));
                self.retries.push((retry, id.0));
                Created::New(pet.clone().with_id(id))
            }
        }
    }

    fn add(&mut self, pet: &'a NewPet, last: i64) -> PetId {
        let id = last + self.ids.len() as i64 + 1;
        self.ids.push(id);
        self.names.push(pet.name.as_str());
        self.categories.push(pet.category_id);
        self.statuses.push(pet.status.word());
        PetId(id)
    }

    /// Inserts them all, and moves the counter on.
    async fn insert(&self, transaction: &Transaction<'_>, last: i64) -> Answer<()> {
        if self.ids.is_empty() {
            return Ok(());
        }
        let insert = transaction.prepare_cached(INSERT).await?;
        let count = transaction
            .prepare_cached(match Fault::IdsFromSequence.is_on() {
                false => COUNT,
                true => "SELECT $1::int8",
            })
            .await?;
        let last = last + self.ids.len() as i64;
        // Sent together: three answers for one way there and back.
        let columns: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&self.ids, &self.names, &self.categories, &self.statuses];
        let counted: [&(dyn tokio_postgres::types::ToSql + Sync); 1] = [&last];
        let (inserted, counted, recorded) = tokio::join!(
            transaction.execute(&insert, &columns),
            transaction.execute(&count, &counted),
            self.insert_retries(transaction),
        );
        // In the order in which they were sent: once a statement has failed, the errors of those behind it (25P02) only say that
        // one did, and not whether the transaction can be tried again.
        inserted?;
        counted?;
        recorded
    }

    /// In the same transaction as the animals: a commit whose answer got lost is settled by what is found here.
    async fn insert_retries(&self, transaction: &Transaction<'_>) -> Answer<()> {
        if self.retries.is_empty() || Fault::NoRetryRecord.is_on() {
            return Ok(());
        }
        let column = |of: fn(&Retry) -> i64| -> Vec<i64> {
            self.retries.iter().map(|(retry, _)| of(retry)).collect()
        };
        let keys = column(|retry| retry.key.0);
        let times = column(|retry| retry.now.as_millis());
        let pets: Vec<i64> = self.retries.iter().map(|(_, id)| *id).collect();
        let tokens: Vec<&[u8]> = self.retries.iter().map(|(r, _)| &r.token[..]).collect();
        let bodies: Vec<&[u8]> = self
            .retries
            .iter()
            .map(|(retry, _)| &retry.fingerprint[..])
            .collect();
        let statement = transaction.prepare_cached(INSERT_RETRIES).await?;
        transaction
            .execute(&statement, &[&keys, &tokens, &bodies, &pets, &times])
            .await?;
        Ok(())
    }
}

/// One animal as JSON.
pub(super) async fn one(lease: &Lease, id: PetId) -> Answer<Option<Bytes>> {
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
}

/// A page as JSON.
pub(super) async fn page(lease: &Lease, query: PetQuery) -> Answer<Page> {
    let (after, most) = (query.cursor.id(), asked_for(query.limit));
    let rows = match query.status {
        None => {
            let statement = lease
                .prepare_cached(
                    "SELECT id, name, category_id, status FROM pets WHERE id > $1 ORDER BY id LIMIT $2",
                )
                .await?;
            lease.query(&statement, &[&after, &most]).await?
        }
        Some(status) => {
            let statement = lease
                .prepare_cached(
                    "SELECT id, name, category_id, status FROM pets
                     WHERE status = $3 AND id > $1 ORDER BY id LIMIT $2",
                )
                .await?;
            lease
                .query(&statement, &[&after, &most, &status.word()])
                .await?
        }
    };
    let mut page = PageWriter::new(query.limit);
    for row in &rows {
        let Some(json) = page.row() else { break };
        let id = write_json(json, row)?;
        page.wrote(id);
    }
    Ok(page.finish())
}

fn write_json(json: &mut Vec<u8>, row: &Row) -> Answer<i64> {
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

/// A SHA-256 from a column.
pub(super) fn digest(row: &Row, column: usize) -> Answer<[u8; 32]> {
    let bytes: &[u8] = row.try_get(column)?;
    bytes
        .try_into()
        .map_err(|_| super::Trouble::Failed("a hash has not 32 bytes".into()))
}
