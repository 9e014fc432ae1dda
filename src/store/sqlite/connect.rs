//! Connections to a file, their configuration, and the names of the files next to it.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::functions::FunctionFlags;
use rusqlite::hooks::Wal;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags};

use crate::new_file::folder;

/// How long a read waits for a lock, which in WAL mode it hardly ever needs.
const READ_LOCK_TIMEOUT: Duration = Duration::from_millis(500);

/// A read-only connection to a file that exists.
pub(super) fn reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(READ_LOCK_TIMEOUT)?;
    configure(&connection)?;
    replace_lower(&connection)?;
    Ok(connection)
}

/// A connection that reads a file as if it could not change, and so creates no files next to it.
pub(super) fn immutable_reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(uri(path, "immutable=1"), flags)?;
    configure(&connection)?;
    replace_lower(&connection)?;
    Ok(connection)
}

/// The URI of a file, with a parameter for SQLite.
pub(super) fn uri(path: &Path, parameter: &str) -> String {
    let bytes = path.as_os_str().as_bytes().iter();
    let escaped = bytes.map(|&byte| match byte {
        b'%' | b'?' | b'#' | 0x80.. => format!("%{byte:02x}"),
        ascii => char::from(ascii).into(),
    });
    let escaped: String = escaped.collect();
    // Otherwise the first folder of a path that begins with two slashes would be taken for the authority.
    let authority = if path.is_absolute() { "//" } else { "" };
    format!("file:{authority}{escaped}?{parameter}")
}

/// Opens a database that no other process has open, and that none can open until this is closed, and moves everything in its
/// write-ahead log into it. Waits this long for others to close it.
pub(super) fn open_exclusively(path: &Path, wait: Duration) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(wait)?;
    // No checkpoint on close: by then a restore may have put another database at this path, and the log there belongs to that one.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    configure(&connection)?;
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

/// SQLite's own `lower` knows no letters besides those of ASCII. This one converts each character by itself, so that the lower case
/// of a part of a name is a part of the lower case of that name.
fn replace_lower(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection.create_scalar_function("lower", 1, flags, |context| {
        let text = String::from_utf8_lossy(context.get_raw(0).as_bytes()?);
        Ok(match text.is_ascii() {
            true => text.to_ascii_lowercase(),
            false => text.chars().flat_map(char::to_lowercase).collect(),
        })
    })
}

pub(super) fn configure(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    // A savepoint that changes many pages would need a temporary file, which is not available if only the data folder is
    // writable, or if the open-file limit is reached. In memory, it takes little space.
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    // Otherwise SQLite prepares a statement again whenever a bound value changes, in case another plan is better. There is
    // one plan for each of these, and preparing was 42 % of the instructions of a page.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Counts the pages of the write-ahead log at each commit of a connection. SQLite's automatic checkpoints are a hook at the same
/// place, so this also disables them: the caller has to checkpoint.
pub(super) fn count_log_pages(connection: &mut Connection) -> rusqlite::Result<Arc<AtomicI32>> {
    let pages = Arc::new(AtomicI32::default());
    let counted = Arc::clone(&pages);
    connection.wal_hook(Some(move |_: &mut Wal, pages| {
        counted.store(pages, Ordering::Relaxed);
        Ok(())
    }))?;
    Ok(pages)
}

/// Whether there is a write-ahead log or a rollback journal next to the file.
pub(super) fn has_wal_or_journal(path: &Path) -> bool {
    wal_or_journal(path).iter().any(|journal| journal.exists())
}

/// The names of the write-ahead log and the rollback journal.
pub(super) fn wal_or_journal(path: &Path) -> [PathBuf; 2] {
    ["-wal", "-journal"].map(|suffix| sibling(path, suffix))
}

/// The name of a file next to this one, of SQLite or of the lock. It is next to the file itself, not to a symbolic link.
pub(super) fn sibling(path: &Path, suffix: &str) -> PathBuf {
    with_suffix(&resolved(path), suffix)
}

/// The file itself, if the path is a symbolic link to one.
pub(super) fn resolved(path: &Path) -> PathBuf {
    let target = path.is_symlink().then(|| path.canonicalize().ok());
    target.flatten().unwrap_or_else(|| path.to_owned())
}

/// Like [`sibling`], but next to a symbolic link if the path is one: for files that are renamed, which a link could move to another
/// folder.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// A path as a parameter of a statement. It need not be valid UTF-8.
pub(super) fn sql_text(path: &Path) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(ValueRef::Text(path.as_os_str().as_bytes()))
}

/// Gives a file that root has created to the owner of its folder: a command that an operator runs as root must not create files
/// that the server cannot open. SQLite does the same with the files next to a database. Where that is not allowed, as in some
/// containers, the file stays as it is.
pub(super) fn give_to_owner_of_folder(path: &Path) {
    if let Ok(owner) = std::fs::metadata(folder(path))
        && rustix::process::geteuid().is_root()
        && owner.uid() != 0
    {
        let _ = std::os::unix::fs::lchown(path, Some(owner.uid()), Some(owner.gid()));
    }
}
