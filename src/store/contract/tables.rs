//! The tables that both engines have, and their rows, for copies from one to the other.

use std::fmt;

use sha2::{Digest, Sha256};

/// The type of a column, which has another name on each engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ColumnType {
    Int,
    Text,
    Bytes,
}

use ColumnType::{Bytes, Int, Text};

/// A table that both engines have, and all its columns.
pub(crate) struct Table {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [(&'static str, ColumnType)],
}

/// Tables, each as its name and its columns with their types.
macro_rules! tables {
    ($($table:ident: $($column:ident $type:ident),+;)+) => {
        [$(Table { name: stringify!($table), columns: &[$((stringify!($column), $type)),+] }),+]
    };
}

/// All tables that both engines have. The counters of IDs are not one: SQLite keeps them elsewhere.
pub(crate) const TABLES: [Table; 8] = tables! {
    pets: id Int, name Text, category_id Int, status Text;
    orders: id Int, pet_id Int, quantity Int, ship_date Int, status Text, placed_at Int, ended_at Int;
    api_keys: id Int, name Text, plan Text, per_minute Int, per_day Int, prefix Text, hash Bytes, old_hash Bytes, old_until Int,
        created_at Int, expires_at Int, revoked_at Int, last_used_at Int, banned_at Int, banned_until Int, unbanned_at Int,
        revision Int;
    usage_by_day: day Text, api_key_id Int, requests Int, refused Int;
    idempotency: api_key_id Int, idempotency_key Bytes, fingerprint Bytes, pet_id Int, created_at Int;
    use_batches: recorder Text, number Int, made_at Int;
    revisions: what Text, number Int;
    deployment: number Int, id Text;
};

/// The tables whose IDs come from a counter. They must be empty in the target.
pub(crate) const TABLES_WITH_COUNTER: [&str; 3] = ["pets", "orders", "api_keys"];

/// The last ID given out, for each of [`TABLES_WITH_COUNTER`].
pub(crate) type LastIds = [i64; 3];

impl Table {
    /// The names of the columns, as SQL has them.
    pub(crate) fn column_list(&self) -> String {
        let names: Vec<&str> = self.columns.iter().map(|(name, _)| *name).collect();
        names.join(", ")
    }

    pub(crate) fn select(&self) -> String {
        format!("SELECT {} FROM {}", self.column_list(), self.name)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Null,
    Int(i64),
    Text(String),
    Bytes(Vec<u8>),
}

pub(crate) type Row = Vec<Value>;

/// The rows of a table: how many, and a checksum that does not depend on their order, which is not the same on both engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableDigest {
    pub rows: u64,
    /// The sum of the first 128 bits of the SHA-256 of each row.
    pub checksum: u128,
}

impl fmt::Display for TableDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows (checksum {:032x})", self.rows, self.checksum)
    }
}

impl TableDigest {
    pub(crate) fn add(&mut self, row: &[Value]) {
        let mut hash = Sha256::new();
        for value in row {
            let (kind, bytes): (u8, &[u8]) = match value {
                Value::Null => (0, &[]),
                Value::Int(number) => (1, &number.to_be_bytes()),
                Value::Text(text) => (2, text.as_bytes()),
                Value::Bytes(bytes) => (3, bytes),
            };
            hash.update([kind]);
            hash.update((bytes.len() as u64).to_be_bytes());
            hash.update(bytes);
        }
        let hash: [u8; 32] = hash.finalize().into();
        let (first, _) = hash.split_at(16);
        let first = first.try_into().map_or(0, u128::from_be_bytes);
        self.rows += 1;
        self.checksum = self.checksum.wrapping_add(first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(rows: &[Row]) -> TableDigest {
        let mut digest = TableDigest::default();
        rows.iter().for_each(|row| digest.add(row));
        digest
    }

    #[test]
    fn a_checksum_depends_on_every_value_and_not_on_the_order_of_rows() {
        let text = |text: &str| Value::Text(text.into());
        let (one, two) = (
            vec![Value::Int(1), text("a")],
            vec![Value::Int(2), text("b")],
        );
        let both = digest(&[one.clone(), two.clone()]);
        assert_eq!(both, digest(&[two.clone(), one.clone()]));
        for other in [
            vec![Value::Int(1), text("b")],
            vec![Value::Null, text("a")],
            vec![text("1"), text("a")],
            vec![Value::Int(1), Value::Bytes(b"a".to_vec())],
            vec![Value::Int(1), text("a"), Value::Null],
        ] {
            assert_ne!(digest(&[other, two.clone()]), both);
        }
        assert_ne!(
            digest(&[vec![text("ab"), text("")]]),
            digest(&[vec![text("a"), text("b")]])
        );
        assert_ne!(digest(&[one.clone(), one.clone(), two]), both);
    }
}
