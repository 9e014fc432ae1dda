//! Keys that were revoked or rotated after a backup: a restore makes the secrets that they had then valid again.

use rusqlite::Connection;

use crate::key::KeyId;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReactivatedKey {
    pub id: KeyId,
    pub name: String,
}

/// Keys whose former secrets are valid again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReactivatedKeys {
    /// Revoked since the backup.
    pub revoked: Vec<ReactivatedKey>,
    /// Rotated since the backup: the former secret is valid again, and the current one is not.
    pub rotated: Vec<ReactivatedKey>,
}

impl ReactivatedKeys {
    /// Compares the keys of the database with those of the backup.
    pub(super) fn find(current: &Connection, backup: &Connection) -> rusqlite::Result<Self> {
        let mut reactivated = Self::default();
        // Another key may have the same ID: an earlier restore has lost it, and its ID was issued again.
        let mut find_in_backup = backup.prepare(
            "SELECT hash FROM api_keys WHERE id = ?1 AND created_at = ?2 AND revoked_at IS NULL",
        )?;
        let mut select_current = current
            .prepare("SELECT id, name, hash, revoked_at, created_at FROM api_keys ORDER BY id")?;
        let mut rows = select_current.query(())?;
        while let Some(row) = rows.next()? {
            let key = ReactivatedKey {
                id: KeyId(row.get(0)?),
                name: row.get(1)?,
            };
            let (hash, revoked_at): (Vec<u8>, Option<i64>) = (row.get(2)?, row.get(3)?);
            let created_at: i64 = row.get(4)?;
            let in_backup =
                find_in_backup.query_row([key.id.0, created_at], |row| row.get::<_, Vec<u8>>(0));
            match in_backup {
                Ok(_) if revoked_at.is_some() => reactivated.revoked.push(key),
                Ok(before) if before != hash => reactivated.rotated.push(key),
                Ok(_) | Err(rusqlite::Error::QueryReturnedNoRows) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(reactivated)
    }
}
