//! Opening the file: what is refused, and how a connection is set up.
//! A file is looked at read-only first, so that one we refuse is never touched.

use std::fs::Permissions;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, MAIN_DB, OpenFlags};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::migrations;

/// Older ones can lose commits in WAL mode.
const OLDEST_SQLITE: i32 = 3_051_003;

/// No SQLite database is smaller. SQLite itself would take a file of one byte for an empty one, and write over it.
const SMALLEST: u64 = 512;

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
    /// A permission is missing.
    #[error("{0}")]
    Denied(String),
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
    let cannot = |what: &str| Refusal::CannotOpen {
        path: path.into(),
        what: what.into(),
    };
    let created = match std::fs::metadata(path) {
        Ok(file) if file.is_dir() => return Err(cannot("it is a folder: name a file in it")),
        Ok(file) if file.len() > 0 => {
            inspect(path, file.len())?;
            false
        }
        Ok(_) => false,
        Err(_) if mode == Mode::MustExist => return Err(Refusal::Missing(path.into())),
        Err(_) if !folder(path).is_dir() => {
            return Err(cannot("its folder does not exist: create it first"));
        }
        Err(_) => create(path)?,
    };
    let (connection, migrated) = open(path)?;
    Ok((connection, created || migrated))
}

/// Makes the file under another name and then gives it its own: a process killed on the way leaves no half-made store, and
/// of two that start at once one is first. Says whether it was this one.
fn create(path: &Path) -> Result<bool, Refusal> {
    let cannot = |error: std::io::Error| Refusal::CannotOpen {
        path: path.into(),
        what: error.to_string(),
    };
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(|error| cannot(error.into()))?;
    let unfinished = beside(path, &format!(".new-{:016x}", u64::from_ne_bytes(random)));
    let made = open(&unfinished).and_then(|(connection, _)| {
        // It holds the hashes of keys. The log, when there is one, gets what the file has.
        std::fs::set_permissions(&unfinished, Permissions::from_mode(0o600)).map_err(cannot)?;
        // Closing folds the log into the file.
        connection
            .close()
            .map_err(|(_, error)| refusal(path, &error))
    });
    let named = made.and_then(|()| match std::fs::hard_link(&unfinished, path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        // A file system that knows no second name for a file may know how to move one without writing over another.
        Err(_) => match renameat_with(CWD, &unfinished, CWD, path, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST) => Ok(false),
            Err(error) => Err(cannot(error.into())),
        },
    });
    for name in ["", "-wal", "-shm", "-journal"] {
        // What is not there need not go.
        let _ = std::fs::remove_file(beside(&unfinished, name));
    }
    std::fs::File::open(folder(path))
        .and_then(|folder| folder.sync_all())
        .map_err(cannot)?;
    named
}

/// Opens a file for writing and brings it to the present format. Says whether it was empty before.
fn open(path: &Path) -> Result<(Connection, bool), Refusal> {
    let set_up = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut connection = Connection::open_with_flags(path, flags)?;
        connection.busy_timeout(WRITE_WAIT)?;
        let journal: String =
            connection.pragma_update_and_check(None, "journal_mode", "wal", |row| row.get(0))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
        settle(&connection)?;
        let synchronous: i32 =
            connection.pragma_query_value(None, "synchronous", |row| row.get(0))?;
        let was_empty = migrations::run(&mut connection)?;
        Ok((connection, was_empty, journal, synchronous))
    };
    let (connection, was_empty, journal, synchronous) =
        set_up().map_err(|error| refusal(path, &error))?;
    // SQLite opens what it may not write read-only, without a word.
    if connection.is_readonly(MAIN_DB).unwrap_or(true) {
        return Err(Refusal::CannotOpen {
            path: path.into(),
            what: "it cannot be written".into(),
        });
    }
    if journal != "wal" || synchronous != 2 {
        let what =
            format!("it cannot be used safely (journal_mode {journal}, synchronous {synchronous})");
        return Err(Refusal::CannotOpen {
            path: path.into(),
            what,
        });
    }
    Ok((connection, was_empty))
}

/// A connection that can only read. The file exists by then.
pub(super) fn reader(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags)?;
    connection.busy_timeout(READ_WAIT)?;
    settle(&connection)?;
    Ok(connection)
}

/// What holds for every connection.
fn settle(connection: &Connection) -> rusqlite::Result<()> {
    connection.pragma_update(None, "mmap_size", 0)?;
    connection.pragma_update(None, "trusted_schema", false)?;
    // Otherwise SQLite prepares a statement anew whenever a bound value changes, in case another plan fits it better. There is
    // one plan for each of ours, and preparing was 42 % of the instructions of a page.
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Looks whether a file that exists is ours, known and whole.
fn inspect(path: &Path, length: u64) -> Result<(), Refusal> {
    let refuse = |error| refusal(path, &error);
    let damaged = |what: String| Refusal::Damaged {
        path: path.into(),
        what,
    };
    if length < SMALLEST {
        return Err(Refusal::NotADatabase(path.into()));
    }
    let connection = looker(path).map_err(refuse)?;
    // One moment for all questions: another process may be making it what it will be.
    let look = connection.unchecked_transaction().map_err(refuse)?;
    let pragma = |name| look.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    let application_id = pragma("application_id").map_err(refuse)?;
    let format = pragma("user_version").map_err(refuse)?;
    let things: i64 = look
        .query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))
        .map_err(refuse)?;
    if application_id == 0 && format == 0 && things == 0 {
        return Ok(());
    }
    if application_id != migrations::APPLICATION_ID {
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
        let verdict: String = look
            .query_row("PRAGMA quick_check(1)", (), |row| row.get(0))
            .map_err(refuse)?;
        if verdict != "ok" {
            return Err(damaged(verdict));
        }
    } else {
        for table in ["pets", "api_keys"] {
            let ends =
                format!("SELECT (SELECT min(id) FROM {table}), (SELECT max(id) FROM {table})");
            look.query_row(&ends, (), |_| Ok(())).map_err(refuse)?;
        }
    }
    Ok(())
}

/// A connection to look with. Where no log lies beside the file, no one is at work on it, and it can be read as if
/// it could not change, which leaves no trace; otherwise the log has to be read too.
fn looker(path: &Path) -> rusqlite::Result<Connection> {
    if beside(path, "-wal").exists() || beside(path, "-journal").exists() {
        return reader(path);
    }
    let escaped = path
        .to_string_lossy()
        .replace('%', "%25")
        .replace('?', "%3f")
        .replace('#', "%23");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_URI
        | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(format!("file:{escaped}?immutable=1"), flags)?;
    settle(&connection)?;
    Ok(connection)
}

/// The file's name with something behind it.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    name.into()
}

pub(super) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

fn refusal(path: &Path, error: &rusqlite::Error) -> Refusal {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::NotADatabase) => Refusal::NotADatabase(path),
        Some(ErrorCode::DatabaseCorrupt) => Refusal::Damaged {
            path,
            what: error.to_string(),
        },
        // A transaction of rollback mode that was cut short. Ours are not of that mode; rolling it back would touch the file.
        Some(ErrorCode::ReadOnly) if beside(&path, "-journal").exists() => Refusal::Damaged {
            path,
            what: "a -journal of an unfinished transaction lies beside it".into(),
        },
        _ => Refusal::CannotOpen {
            path,
            what: error.to_string(),
        },
    }
}
