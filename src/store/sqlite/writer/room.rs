//! The room that checkpoints need. While a reader needs the write-ahead log, only the log grows, and the database file will grow by
//! what is in it. If the log took the last of the disk, it could never be moved into the file, and nothing could be written again.

use std::path::Path;

use rusqlite::{Connection, Result};
use rustix::fs::statvfs;

use super::super::error::disk_full;

/// More than a transaction takes, in the log and then in the file: up to 512 writes that change a few pages each.
const RESERVED_BYTES: u64 = 16 * 1024 * 1024;

/// Fails if the disk has no room for another transaction and for what is in the log.
pub(super) fn check(connection: &Connection, database: &Path) -> Result<()> {
    let read = |sql| connection.query_row(sql, (), |row| row.get::<_, u32>(0).map(u64::from));
    let size = read("PRAGMA page_count")? * read("PRAGMA page_size")?;
    // A disk that does not tell fails the write itself.
    let (Ok(file), Ok(disk)) = (database.metadata(), statvfs(database)) else {
        return Ok(());
    };
    let needed = size.saturating_sub(file.len()) + RESERVED_BYTES;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    match free >= needed {
        true => Ok(()),
        false => Err(disk_full(format!(
            "the disk has {free} bytes free, and {needed} are needed, because a reader keeps the write-ahead log from being moved into the database file"
        ))),
    }
}
