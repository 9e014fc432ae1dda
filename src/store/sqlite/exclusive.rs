//! A connection that keeps all others out, for a database that is replaced or removed.

use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::connect;

/// Opens a database that no other process has open, and that none can open until this is closed, and moves everything in its
/// write-ahead log into it. Waits this long for others to close it.
pub(super) fn open_exclusively(path: &Path, wait: Duration) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(wait)?;
    // When it is closed, the log at this path is another database's.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connect::configure(&connection)?;
    // A transaction takes the lock, and the locking mode keeps it.
    connection.execute_batch("BEGIN EXCLUSIVE; COMMIT")?;
    let is_busy: bool =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get(0))?;
    if is_busy {
        let busy = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_BUSY);
        return Err(rusqlite::Error::SqliteFailure(busy, None));
    }
    Ok(connection)
}
