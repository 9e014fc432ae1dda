//! Everything in one database, copied into another one that is empty, whichever engines they have: the way from one machine to
//! several nodes, and back.
//!
//! The source is read in one snapshot, and the target is written in one transaction, which is committed only if both have the same
//! rows. So an interrupted copy leaves the target as empty as it was, and one that failed can be repeated.

use super::contract::{
    Contents, Counters, Database, REQUIRED_EMPTY, Result as StoreResult, Row, StoreError, TABLES,
    Table,
};
use super::postgres::{PgSource, PgTarget};
use super::sqlite::{SqliteSource, SqliteTarget, is_same_file};

/// Why nothing was copied.
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// There is nothing to copy.
    #[error("--from and --to name the same database")]
    SameDatabase,
    /// The source cannot be used.
    #[error("--from: {0}")]
    Source(String),
    /// The target cannot be used.
    #[error("--to: {0}")]
    Target(String),
    /// The target has data.
    #[error(
        "--to: {database} has rows in {table}: copy needs a database without animals, orders and keys"
    )]
    NotEmpty {
        /// The target.
        database: String,
        /// The table.
        table: &'static str,
    },
    /// A server uses the source or the target.
    #[error(
        "{option}: {database} is used by {nodes} node(s): shut them down first (a killed one counts as running for 30 s)"
    )]
    InUse {
        /// The option that names it.
        option: &'static str,
        /// The database.
        database: String,
        /// How many nodes are alive.
        nodes: i64,
    },
    /// The connection was lost during the commit.
    #[error(
        "--to: {0}; whether the copy is complete is unknown: run it again, and if it is refused because of rows, it is"
    )]
    Unknown(String),
    /// The target does not have what was written.
    #[error("--to: {table} has {found} after the copy instead of {wanted}: nothing was committed")]
    Differs {
        /// The table.
        table: &'static str,
        /// What it should have.
        wanted: Contents,
        /// What it has.
        found: Contents,
    },
}

type Result<T> = std::result::Result<T, CopyError>;

/// A table that was copied.
#[derive(Debug)]
pub struct CopiedTable {
    /// Its name.
    pub name: &'static str,
    /// What it has.
    pub contents: Contents,
}

enum Source {
    Sqlite(Box<SqliteSource>),
    Postgres(Box<PgSource>),
}

enum Target {
    Sqlite(Box<SqliteTarget>),
    Postgres(Box<PgTarget>),
}

/// Copies everything. `progress` is called with the rows that are done, and all.
pub async fn copy(
    from: &Database,
    to: &Database,
    mut progress: impl FnMut(u64, u64),
) -> Result<Vec<CopiedTable>> {
    let is_same = match (from, to) {
        (Database::Sqlite(from), Database::Sqlite(to)) => is_same_file(from, to),
        _ => from == to,
    };
    if is_same {
        return Err(CopyError::SameDatabase);
    }
    let source = Source::open(from).await?;
    let target = Target::open(to).await?;
    let mut all = 0;
    for table in &TABLES {
        all += source.count(table).await.map_err(at_source)?;
    }
    // Every row is copied, and then read from the target.
    let mut done = 0;
    let mut advance = |rows: usize| {
        done += rows as u64;
        progress(done, 2 * all);
    };
    let mut tables = Vec::new();
    for table in &TABLES {
        let mut contents = Contents::default();
        target
            .load(&source, table, |rows| {
                rows.iter().for_each(|row| contents.add(row));
                advance(rows.len());
            })
            .await?;
        tables.push(CopiedTable {
            name: table.name,
            contents,
        });
    }
    let counters = source.counters().await.map_err(at_source)?;
    target.set_counters(counters).await.map_err(at_target)?;
    for (table, copied) in TABLES.iter().zip(&tables) {
        let mut found = Contents::default();
        let read = async |rows: Vec<Row>| {
            rows.iter().for_each(|row| found.add(row));
            advance(rows.len());
            Ok(())
        };
        target.each(table, read).await.map_err(at_target)?;
        if found != copied.contents {
            return Err(CopyError::Differs {
                table: table.name,
                wanted: copied.contents,
                found,
            });
        }
    }
    let committed = target.commit().await;
    committed.map_err(|error| CopyError::Unknown(error.to_string()))?;
    Ok(tables)
}

/// The error of opening a database, which names the option of all other commands.
fn described(error: &anyhow::Error) -> String {
    let text = format!("{error:#}");
    text.strip_prefix("--database: ")
        .unwrap_or(&text)
        .to_owned()
}

fn at_source(error: StoreError) -> CopyError {
    CopyError::Source(error.to_string())
}

fn at_target(error: StoreError) -> CopyError {
    CopyError::Target(error.to_string())
}

fn reject_in_use(option: &'static str, database: &Database, nodes: i64) -> Result<()> {
    match nodes {
        0 => Ok(()),
        _ => Err(CopyError::InUse {
            option,
            database: database.to_string(),
            nodes,
        }),
    }
}

impl Source {
    async fn open(database: &Database) -> Result<Self> {
        let failed = |error| CopyError::Source(described(&error));
        Ok(match database {
            Database::Sqlite(path) => {
                Self::Sqlite(Box::new(SqliteSource::open(path).map_err(failed)?))
            }
            Database::Postgres(url) => {
                let source = PgSource::open(database, url).await.map_err(failed)?;
                let nodes = source.nodes().await.map_err(at_source)?;
                reject_in_use("--from", database, nodes)?;
                Self::Postgres(Box::new(source))
            }
        })
    }

    async fn count(&self, table: &Table) -> StoreResult<u64> {
        match self {
            Self::Sqlite(source) => source.count(table),
            Self::Postgres(source) => source.count(table).await,
        }
    }

    async fn each(
        &self,
        table: &Table,
        piece: impl AsyncFnMut(Vec<Row>) -> StoreResult<()>,
    ) -> StoreResult<()> {
        match self {
            Self::Sqlite(source) => source.each(table, piece).await,
            Self::Postgres(source) => source.each(table, piece).await,
        }
    }

    async fn counters(&self) -> StoreResult<Counters> {
        match self {
            Self::Sqlite(source) => source.counters(),
            Self::Postgres(source) => source.counters().await,
        }
    }
}

impl Target {
    /// Opens the target, creates it if it is missing, and begins the transaction. Fails if it has animals, orders or keys.
    async fn open(database: &Database) -> Result<Self> {
        let failed = |error| CopyError::Target(described(&error));
        let target = match database {
            Database::Sqlite(path) => {
                Self::Sqlite(Box::new(SqliteTarget::open(path).map_err(failed)?))
            }
            Database::Postgres(url) => {
                let target = PgTarget::open(database, url).await.map_err(failed)?;
                let nodes = target.nodes().await.map_err(at_target)?;
                reject_in_use("--to", database, nodes)?;
                Self::Postgres(Box::new(target))
            }
        };
        for table in TABLES
            .iter()
            .filter(|table| REQUIRED_EMPTY.contains(&table.name))
        {
            let rows = match &target {
                Self::Sqlite(target) => target.count(table),
                Self::Postgres(target) => target.count(table).await,
            };
            if rows.map_err(at_target)? > 0 {
                return Err(CopyError::NotEmpty {
                    database: database.to_string(),
                    table: table.name,
                });
            }
        }
        // What an empty database has is replaced, too: its ID, for example.
        match &target {
            Self::Sqlite(target) => target.clear(),
            Self::Postgres(target) => target.clear().await,
        }
        .map_err(at_target)?;
        Ok(target)
    }

    /// Writes the rows of a table, and shows them to `seen`.
    async fn load(
        &self,
        source: &Source,
        table: &Table,
        mut seen: impl FnMut(&[Row]),
    ) -> Result<()> {
        // An error of a piece that is written comes back from the reader.
        let mut failure = None;
        let read = match self {
            Self::Sqlite(target) => {
                let write = async |rows: Vec<Row>| {
                    seen(&rows);
                    target
                        .insert(table, rows)
                        .inspect_err(|error| failure = Some(error.clone()))
                };
                source.each(table, write).await
            }
            Self::Postgres(target) => {
                let mut loading = target.load(table).await.map_err(at_target)?;
                let write = async |rows: Vec<Row>| {
                    seen(&rows);
                    let written = loading.write(&rows).await;
                    written.inspect_err(|error| failure = Some(error.clone()))
                };
                let read = source.each(table, write).await;
                if read.is_ok() {
                    loading.finish().await.map_err(at_target)?;
                }
                read
            }
        };
        match failure {
            Some(error) => Err(at_target(error)),
            None => read.map_err(at_source),
        }
    }

    async fn each(
        &self,
        table: &Table,
        piece: impl AsyncFnMut(Vec<Row>) -> StoreResult<()>,
    ) -> StoreResult<()> {
        match self {
            Self::Sqlite(target) => target.each(table, piece).await,
            Self::Postgres(target) => target.each(table, piece).await,
        }
    }

    async fn set_counters(&self, counters: Counters) -> StoreResult<()> {
        match self {
            Self::Sqlite(target) => target.set_counters(counters),
            Self::Postgres(target) => target.set_counters(counters).await,
        }
    }

    async fn commit(self) -> StoreResult<()> {
        match self {
            Self::Sqlite(target) => target.commit(),
            Self::Postgres(target) => target.commit().await,
        }
    }
}
