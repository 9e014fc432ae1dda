//! Everything in one database, copied into another one that is empty, whichever engines they have: the way from one machine to
//! several nodes, and back.
//!
//! The source is read in one snapshot, and the target is written in one transaction, which is committed only if both have the same
//! rows. So an interrupted copy leaves the target as empty as it was, and one that failed can be repeated.

use std::pin::pin;

use tokio::task::yield_now;

use super::contract::{Database, Row, StoreError, TABLES, TABLES_WITH_COUNTER, Table, TableDigest};
use super::postgres::{ALIVE_MILLIS, PgSession};
use super::sqlite::{SqliteSession, is_same_file};

/// The options that name the databases, for errors.
const FROM: &str = "--from";
const TO: &str = "--to";

#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    #[error("--from and --to name the same database")]
    SameDatabase,
    /// A signal came before the commit.
    #[error("stopped by {0}: nothing was copied")]
    Stopped(&'static str),
    #[error("{0}")]
    Failed(String),
}

type Result<T> = std::result::Result<T, CopyError>;

pub struct CopiedTable {
    pub name: &'static str,
    pub digest: TableDigest,
}

/// What a copy is doing. Every row is copied, and then read from the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyStep {
    Copying,
    /// Compares the rows of both databases.
    Comparing,
}

/// A database in a transaction: a snapshot of the source, or what is written to the target.
enum CopySession {
    Sqlite(Box<SqliteSession>),
    Postgres(Box<PgSession>),
}

/// Calls a method of a session, whichever its engine.
macro_rules! dispatch {
    ($session:expr, $method:ident($($argument:expr),*)) => {
        match $session {
            CopySession::Sqlite(session) => session.$method($($argument),*).await,
            CopySession::Postgres(session) => session.$method($($argument),*).await,
        }
    };
}

/// Copies everything. `notice` is called once a wait for the lock on an embedded target has lasted for a second, and `progress`
/// with the rows that are done in a step, and the total. `stop` returns the name of a signal; after the commit has begun, it is too
/// late.
pub async fn copy(
    from: &Database,
    to: &Database,
    notice: fn(),
    progress: impl FnMut(CopyStep, u64, u64),
    stop: impl Future<Output = &'static str>,
) -> Result<Vec<CopiedTable>> {
    let is_same = match (from, to) {
        (Database::Sqlite(from), Database::Sqlite(to)) => is_same_file(from, to),
        _ => from == to,
    };
    if is_same {
        return Err(CopyError::SameDatabase);
    }
    let mut stop = pin!(stop);
    let source = interruptible(stop.as_mut(), CopySession::source(from)).await?;
    let target = interruptible(stop.as_mut(), CopySession::target(to, &source, notice)).await?;
    let filled = interruptible(stop, fill(&source, &target, progress)).await;
    if matches!(filled, Err(CopyError::Stopped(_))) {
        // Otherwise PostgreSQL would continue the statement, and the next copy would be rejected.
        for session in [&target, &source] {
            session.interrupt().await;
        }
    }
    let tables = filled?;
    let committed = dispatch!(target, commit());
    committed.map_err(|error| match error {
        StoreError::Unconfirmed(text) => CopyError::Failed(format!(
            "{TO}: {text}; it is unknown whether the copy is complete: run it again, and if it fails because of rows in the target, it is complete"
        )),
        error => failed(TO)(error),
    })?;
    Ok(tables)
}

/// Waits for something, or fails because of a signal.
async fn interruptible<T>(
    stop: impl Future<Output = &'static str>,
    awaited: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::select! {
        biased;
        signal = stop => Err(CopyError::Stopped(signal)),
        done = awaited => done,
    }
}

/// Copies and compares all tables: everything but the commit.
async fn fill(
    source: &CopySession,
    target: &CopySession,
    mut progress: impl FnMut(CopyStep, u64, u64),
) -> Result<Vec<CopiedTable>> {
    let mut all = 0;
    for table in &TABLES {
        all += dispatch!(source, count(table)).map_err(failed(FROM))?;
    }
    let mut done = 0;
    let mut tables = Vec::new();
    for table in &TABLES {
        let mut digest = TableDigest::default();
        target
            .load(source, table, |rows| {
                rows.iter().for_each(|row| digest.add(row));
                done += rows.len() as u64;
                progress(CopyStep::Copying, done, all);
            })
            .await?;
        tables.push(CopiedTable {
            name: table.name,
            digest,
        });
    }
    let last_ids = dispatch!(source, last_ids()).map_err(failed(FROM))?;
    dispatch!(target, set_last_ids(last_ids)).map_err(failed(TO))?;
    let mut done = 0;
    for (table, copied) in TABLES.iter().zip(&tables) {
        let mut found = TableDigest::default();
        let read = async |rows: Vec<Row>| {
            rows.iter().for_each(|row| found.add(row));
            done += rows.len() as u64;
            progress(CopyStep::Comparing, done, all);
            // Reading an embedded database never yields, and a signal may have arrived.
            yield_now().await;
            Ok(())
        };
        dispatch!(target, each(table, read)).map_err(failed(TO))?;
        if found != copied.digest {
            let (table, wanted) = (table.name, copied.digest);
            return Err(CopyError::Failed(format!(
                "{TO}: {table} has {found} after the copy instead of {wanted}: nothing was committed"
            )));
        }
    }
    Ok(tables)
}

/// Converts an error of opening a database into one that names this option, which its advice must name, too.
fn cannot_open(option: &'static str) -> impl Fn(anyhow::Error) -> CopyError {
    move |error| {
        let problem = format!("{error:#}").replace("with --database ", &format!("with {option} "));
        CopyError::Failed(format!("{option}: {problem}"))
    }
}

fn failed(option: &'static str) -> impl Fn(StoreError) -> CopyError {
    move |error| CopyError::Failed(format!("{option}: {error}"))
}

impl CopySession {
    async fn source(database: &Database) -> Result<Self> {
        let failure = cannot_open(FROM);
        let source = match database {
            Database::Sqlite(path) => {
                Self::Sqlite(Box::new(SqliteSession::source(path).map_err(failure)?))
            }
            Database::Postgres(url) => {
                let source = PgSession::source(url).await.map_err(failure)?;
                Self::Postgres(Box::new(source))
            }
        };
        source.reject_nodes(FROM, database).await?;
        Ok(source)
    }

    /// Opens the target, creates it if it is missing, and begins the transaction. Fails if it has animals, orders or keys.
    async fn target(database: &Database, source: &Self, notice: fn()) -> Result<Self> {
        let failure = cannot_open(TO);
        let target = match database {
            Database::Sqlite(path) => {
                let target = SqliteSession::target(path, notice).await.map_err(failure)?;
                Self::Sqlite(Box::new(target))
            }
            Database::Postgres(url) => {
                let source = match source {
                    Self::Sqlite(_) => None,
                    Self::Postgres(source) => Some(&**source),
                };
                let target = PgSession::target(url, source).await;
                let target = target.map_err(failure)?.ok_or(CopyError::SameDatabase)?;
                Self::Postgres(Box::new(target))
            }
        };
        target.reject_nodes(TO, database).await?;
        for table in TABLES
            .iter()
            .filter(|table| TABLES_WITH_COUNTER.contains(&table.name))
        {
            if dispatch!(&target, count(table)).map_err(failed(TO))? > 0 {
                return Err(CopyError::Failed(format!(
                    "{TO}: {database} has rows in {}: copy needs a database without animals, orders and keys",
                    table.name
                )));
            }
        }
        // What an empty database has is replaced, too: its ID, for example.
        let delete = |table: &Table| format!("DELETE FROM {};", table.name);
        let script: String = TABLES.iter().map(delete).collect();
        dispatch!(&target, execute(&script)).map_err(failed(TO))?;
        Ok(target)
    }

    /// Fails if nodes use it. The lock of an embedded database has excluded a server already.
    async fn reject_nodes(&self, option: &'static str, database: &Database) -> Result<()> {
        let Self::Postgres(session) = self else {
            return Ok(());
        };
        let nodes = match session.nodes().await.map_err(failed(option))? {
            0 => return Ok(()),
            1 => "1 node".to_owned(),
            nodes => format!("{nodes} nodes"),
        };
        Err(CopyError::Failed(format!(
            "{option}: {database} is used by {nodes}: shut down every node first (a killed one counts as running for {} s)",
            ALIVE_MILLIS / 1000
        )))
    }

    /// Ends what it is doing. The transaction is rolled back.
    async fn interrupt(&self) {
        match self {
            Self::Sqlite(_) => {}
            Self::Postgres(session) => session.interrupt().await,
        }
    }

    /// Writes the rows of a table of the source, and passes them to `seen`.
    async fn load(&self, source: &Self, table: &Table, mut seen: impl FnMut(&[Row])) -> Result<()> {
        // The reader returns the error of a chunk that could not be written.
        let mut failure = None;
        let read = match self {
            Self::Sqlite(target) => {
                let write = async |rows: Vec<Row>| {
                    seen(&rows);
                    yield_now().await;
                    target
                        .insert(table, rows)
                        .inspect_err(|error| failure = Some(error.clone()))
                };
                dispatch!(source, each(table, write))
            }
            Self::Postgres(target) => {
                let mut loading = target.load(table).await.map_err(failed(TO))?;
                let write = async |rows: Vec<Row>| {
                    seen(&rows);
                    let written = loading.write(&rows).await;
                    written.inspect_err(|error| failure = Some(error.clone()))
                };
                let read = dispatch!(source, each(table, write));
                if read.is_ok() {
                    loading.finish().await.map_err(failed(TO))?;
                }
                read
            }
        };
        match failure {
            Some(error) => Err(failed(TO)(error)),
            None => read.map_err(failed(FROM)),
        }
    }
}
