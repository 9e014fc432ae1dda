//! The room that checkpoints need. What is only in the write-ahead log, because a reader needs it or a transaction is large, will make
//! the database file grow. If the log took the last of the disk, it could never be moved into the file, and nothing could be written
//! again.

use std::io;
use std::path::Path;

use rusqlite::{Connection, Result};
use rustix::fs::statvfs;

use super::error::disk_full;

/// More than a transaction with creations takes, in the log and then in the file: up to 512 writes that change a few pages each.
pub(super) const FOR_CREATIONS: u64 = 16 * 1024 * 1024;

/// The same without creations. Less, so that usage, bans and changes of keys can be stored a while longer.
pub(super) const FOR_OTHERS: u64 = 4 * 1024 * 1024;

/// Fails if the disk has no room for what makes the file grow, and for this much more. `freed` is what will be free by then.
pub(super) fn check(connection: &Connection, database: &Path, more: u64, freed: u64) -> Result<()> {
    // A disk that does not tell fails the write itself.
    let Ok(free) = free_bytes(database) else {
        return Ok(());
    };
    let file = database.metadata().map_or(0, |file| file.len());
    let needed = size(connection, "main")?.saturating_sub(file) + more;
    let free = free.saturating_add(freed);
    match free >= needed {
        true => Ok(()),
        false => Err(disk_full(format!(
            "the disk has {free} bytes free, and {needed} are needed, because a part of the write-ahead log is not in the database file yet"
        ))),
    }
}

/// The free bytes of the disk with this file or folder.
pub(super) fn free_bytes(path: &Path) -> io::Result<u64> {
    let disk = statvfs(path)?;
    Ok(match disk.f_blocks {
        // Some file systems in memory have no size.
        0 => u64::MAX,
        _ => disk.f_bavail.saturating_mul(disk.f_frsize),
    })
}

/// The size of a database in bytes, with what is only in its log.
pub(super) fn size(connection: &Connection, schema: &str) -> Result<u64> {
    let read = |name| {
        let sql = format!("PRAGMA {schema}.{name}");
        connection.query_row(&sql, (), |row| row.get::<_, u32>(0).map(u64::from))
    };
    Ok(read("page_count")? * read("page_size")?)
}
