//! Opening the file: what is refused, and how a connection is set up.
//! A file is looked at read-only first, so that one we refuse is never touched.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::migrations;

/// `PRAGMA application_id` of our files: "AnSt".
pub(super) const APPLICATION_ID: i32 = 0x416e_5374;

/// Older ones can lose commits in WAL mode.
const OLDEST_SQLITE: i32 = 3_051_003;

/// Up to this size a file is checked whole at every start; beyond it that would take too long.
const CHECKED_WHOLE: u64 = 16 * 1024 * 1024;

/// How long a write waits for another process's write before it gives up.
const WRITE_WAIT: Duration = Duration::from_secs(2);

/// How long a read waits for a lock, which in WAL mode it hardly ever needs.
const READ_WAIT: Duration = Duration::from_millis(500);

/// Whether a missing file is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// It is.
    CreateIfMissing,
    /// It must be there.
    MustExist,
}

/// Why a file was not opened. It says what to do.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// There is none.
    #[error("there is no database at {0}: start the server, or create a key, to make one")]
    Missing(PathBuf),
    /// Not SQLite's format.
    #[error("{0} is not a SQLite database: choose another file with --database sqlite:PATH")]
    NotADatabase(PathBuf),
    /// Somebody else's tables.
    #[error(
        "{0} is a SQLite database of another program: choose another file with --database sqlite:PATH"
    )]
    NotOurs(PathBuf),
    /// From the future.
    #[error(
        "{path} has format {found}, and this version knows formats up to {known}: use a newer animal-store"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: i32,
        /// Ours.
        known: i32,
    },
    /// Broken.
    #[error(
        "{path} is damaged ({what}): restore it from a backup, or try the sqlite3 command .recover on a copy"
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// A SQLite that is not safe.
    #[error("SQLite {0} can lose commits: build with 3.51.3 or newer")]
    UnsafeSqlite(&'static str),
    /// Something else.
    #[error("cannot open {path}: {what}")]
    CannotOpen {
        /// The file.
        path: PathBuf,
        /// What was found.
        what: String,
    },
    /// No thread for the writer.
    #[error("cannot start the writer: {0}")]
    NoWriter(#[from] std::io::Error),
}

/// The connection that writes, on a file brought to the present format, and whether the file is new.
pub(super) fn writer(path: &Path, mode: Mode) -> Result<(Connection, bool), Refusal> {
    if rusqlite::version_number() < OLDEST_SQLITE {
        return Err(Refusal::UnsafeSqlite(rusqlite::version()));
    }
    match std::fs::metadata(path) {
        Ok(file) if file.is_dir() => {
            return Err(Refusal::CannotOpen {
                path: path.into(),
                what: "it is a folder".into(),
            });
        }
        Ok(file) if file.len() > 0 => inspect(path, file.len())?,
        Ok(_) => {}
        Err(_) if mode == Mode::MustExist => return Err(Refusal::Missing(path.into())),
        Err(_) => {}
    }
    let open = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(WRITE_WAIT)?;
        let journal: String =
            connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "mmap_size", 0)?;
        connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
        connection.pragma_update(None, "trusted_schema", false)?;
        let synchronous: i32 =
            connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
        let is_new = migrations::run(&mut connection)?;
        Ok((connection, is_new, journal, synchronous))
    };
    let (connection, is_new, journal, synchronous) =
        open().map_err(|error| refusal(path, &error))?;
    if journal != "wal" || synchronous != 2 {
        let what =
            format!("it cannot be used safely (journal_mode {journal}, synchronous {synchronous})");
        return Err(Refusal::CannotOpen {
            path: path.into(),
            what,
        });
    }
    Ok((connection, is_new))
}

/// A connection that can only read. The file exists by then.
pub(super) fn reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(READ_WAIT)?;
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    Ok(connection)
}

/// Looks whether a file that exists is ours, known and whole.
fn inspect(path: &Path, length: u64) -> Result<(), Refusal> {
    let refuse = |error| refusal(path, &error);
    let damaged = |what: String| Refusal::Damaged {
        path: path.into(),
        what,
    };
    let connection = reader(path).map_err(refuse)?;
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let application_id = pragma("application_id").map_err(refuse)?;
    let format = pragma("user_version").map_err(refuse)?;
    let things: i64 = connection
        .query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))
        .map_err(refuse)?;
    if application_id == 0 && format == 0 && things == 0 {
        return Ok(());
    }
    if application_id != APPLICATION_ID {
        return Err(Refusal::NotOurs(path.into()));
    }
    if format > migrations::KNOWN {
        return Err(Refusal::Newer {
            path: path.into(),
            found: format,
            known: migrations::KNOWN,
        });
    }
    if length <= CHECKED_WHOLE {
        let verdict: String = connection
            .query_row("PRAGMA quick_check(1)", (), |row| row.get(0))
            .map_err(refuse)?;
        if verdict != "ok" {
            return Err(damaged(verdict));
        }
    } else {
        let pages = i64::from(pragma("page_count").map_err(refuse)?);
        let page_size = i64::from(pragma("page_size").map_err(refuse)?);
        let whole = u64::try_from(pages * page_size).unwrap_or(0);
        // While a log waits beside the file, the file itself may lag behind.
        if length < whole && !has_log(path) {
            return Err(damaged(format!("it has {length} bytes of {whole}")));
        }
        for table in ["pets", "api_keys"] {
            let ends =
                format!("SELECT (SELECT min(id) FROM {table}), (SELECT max(id) FROM {table})");
            connection
                .query_row(&ends, (), |_| Ok(()))
                .map_err(refuse)?;
        }
    }
    Ok(())
}

fn has_log(path: &Path) -> bool {
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    std::fs::metadata(log).is_ok_and(|log| log.len() > 0)
}

fn refusal(path: &Path, error: &rusqlite::Error) -> Refusal {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => Refusal::NotADatabase(path),
        Some(ErrorCode::DatabaseCorrupt) => Refusal::Damaged {
            path,
            what: error.to_string(),
        },
        _ => Refusal::CannotOpen {
            path,
            what: error.to_string(),
        },
    }
}
