//! Keys whose secrets differ between a backup and the database that it replaces: what was revoked or rotated since works again.

use rusqlite::Connection;

use crate::key::KeyId;

/// A key whose secrets differ between the backup and the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevivedKey {
    pub id: KeyId,
    pub name: String,
}

/// Keys whose secrets work again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevivedKeys {
    /// Revoked since the backup.
    pub revoked: Vec<RevivedKey>,
    /// Rotated since the backup: the former secret works again, and the current one does not.
    pub rotated: Vec<RevivedKey>,
}

impl RevivedKeys {
    /// Compares the keys of the database with those of the backup.
    pub(super) fn find(old: &Connection, backup: &Connection) -> rusqlite::Result<Self> {
        let mut revived = Self::default();
        let mut then =
            backup.prepare("SELECT hash FROM api_keys WHERE id = ?1 AND revoked_at IS NULL")?;
        let mut now = old.prepare("SELECT id, name, hash, revoked_at FROM api_keys ORDER BY id")?;
        let mut rows = now.query(())?;
        while let Some(row) = rows.next()? {
            let key = RevivedKey {
                id: KeyId(row.get(0)?),
                name: row.get(1)?,
            };
            let (hash, revoked_at): (Vec<u8>, Option<i64>) = (row.get(2)?, row.get(3)?);
            let in_backup = then.query_row([key.id.0], |row| row.get::<_, Vec<u8>>(0));
            match in_backup {
                Ok(_) if revoked_at.is_some() => revived.revoked.push(key),
                Ok(before) if before != hash => revived.rotated.push(key),
                Ok(_) | Err(rusqlite::Error::QueryReturnedNoRows) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(revived)
    }
}
