//! The import of many animals, compared with the bare engines inserting them.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use harness::Postgres;
use rusqlite::{Connection, params};
use serde_json::Value;

use crate::bench::Bench;
use crate::data;
use crate::measurement::median;
use crate::results::Import;
use crate::stop;

/// The maximum number of animals that are imported.
const MOST: u32 = 1_000_000;

/// How many times each import is measured.
const ROUNDS: usize = 3;

pub(super) fn run(bench: &Bench) -> Result<Vec<Import>> {
    let animals = bench
        .scale
        .sizes
        .iter()
        .copied()
        .max()
        .unwrap_or(MOST)
        .min(MOST);
    let files = Files::new(bench, animals)?;
    let mut imports = vec![on_sqlite(bench, &files)?];
    if Path::new("/usr/lib/postgresql").exists() {
        imports.push(on_postgres(bench, &files)?);
    } else {
        eprintln!("PostgreSQL is not installed: run ./test cluster to install it");
    }
    Ok(imports)
}

/// The same animals in each form that is needed.
struct Files {
    animals: Vec<(String, i64, &'static str)>,
    ndjson: PathBuf,
    csv: PathBuf,
    program: PathBuf,
    _folder: tempfile::TempDir,
}

impl Files {
    fn new(bench: &Bench, count: u32) -> Result<Self> {
        let folder = bench.folder()?;
        let animals: Vec<_> = (1..=count)
            .map(|number| {
                let status = match number % 5 {
                    0 => "sold",
                    1 => "pending",
                    _ => "available",
                };
                (format!("pet {number}"), i64::from(number % 10), status)
            })
            .collect();
        let (mut ndjson, mut csv) = (String::new(), String::new());
        for ((name, category, status), id) in animals.iter().zip(1..) {
            writeln!(
                ndjson,
                r#"{{"name":"{name}","categoryId":{category},"status":"{status}"}}"#
            )?;
            writeln!(csv, "{id},{name},{category},{status}")?;
        }
        let files = Self {
            animals,
            ndjson: folder.path().join("animals.ndjson"),
            csv: folder.path().join("animals.csv"),
            program: bench.program("animal-store"),
            _folder: folder,
        };
        fs::write(&files.ndjson, ndjson)?;
        fs::write(&files.csv, csv)?;
        Ok(files)
    }

    /// Runs the program on a database, and returns what it prints.
    fn command(&self, database: &str, words: &[&str]) -> Result<String> {
        data::command(&self.program, database, words, &format!("{words:?}"))
    }

    /// Imports the file into a new database. Returns the seconds in total, and those from the end of staging until the animals are
    /// visible.
    fn import(&self, database: &str) -> Result<(f64, f64)> {
        self.command(database, &["migrate"])?;
        let file = self.ndjson.to_str().context("a path")?;
        let began = Instant::now();
        let report = self.command(database, &["pets", "import", file, "--json"])?;
        let seconds = began.elapsed().as_secs_f64();
        let report: Value = serde_json::from_str(&report)?;
        let insert = report["insertSeconds"].as_f64();
        Ok((seconds, insert.context("no insertSeconds")?))
    }
}

fn on_sqlite(bench: &Bench, files: &Files) -> Result<Import> {
    measure(bench, "SQLite", files, || {
        let folder = bench.folder()?;
        let database = |name: &str| format!("sqlite:{}", folder.path().join(name).display());
        files.command(&database("bare.db"), &["migrate"])?;
        let bare = bare_sqlite(&folder.path().join("bare.db"), files)?;
        let (seconds, insert) = files.import(&database("import.db"))?;
        Ok([bare, seconds, insert])
    })
}

/// The seconds of one transaction with one statement per animal.
fn bare_sqlite(path: &Path, files: &Files) -> Result<f64> {
    let mut file = Connection::open(path)?;
    file.pragma_update(None, "synchronous", "FULL")?;
    let began = Instant::now();
    let transaction = file.transaction()?;
    {
        let insert = "INSERT INTO pets (name, category_id, status) VALUES (?1, ?2, ?3)";
        let mut insert = transaction.prepare(insert)?;
        for (name, category, status) in &files.animals {
            insert.execute(params![name, category, status])?;
        }
    }
    transaction.commit()?;
    Ok(began.elapsed().as_secs_f64())
}

fn on_postgres(bench: &Bench, files: &Files) -> Result<Import> {
    let postgres = Postgres::start();
    let mut round = 0;
    measure(bench, "PostgreSQL", files, || {
        round += 1;
        let bare_database = postgres.create_database(&format!("bare{round}"));
        files.command(&bare_database, &["migrate"])?;
        let copy = format!("\\copy pets FROM '{}' CSV", files.csv.display());
        let began = Instant::now();
        let mut psql = Command::new("psql");
        let copied = psql.args(["-XAtq", &bare_database, "-c", &copy]).output()?;
        let bare = began.elapsed().as_secs_f64();
        let error = String::from_utf8_lossy(&copied.stderr);
        ensure!(copied.status.success(), "{error}");
        let (seconds, insert) = files.import(&postgres.create_database(&format!("i{round}")))?;
        Ok([bare, seconds, insert])
    })
}

/// The medians of some rounds.
fn measure(
    bench: &Bench,
    engine: &str,
    files: &Files,
    mut round: impl FnMut() -> Result<[f64; 3]>,
) -> Result<Import> {
    bench.progress.inc_length(ROUNDS as u64);
    let mut rounds = Vec::new();
    for _ in 0..ROUNDS {
        stop::check()?;
        bench.progress.set_message(format!("import: {engine}"));
        rounds.push(round()?);
        bench.progress.inc(1);
    }
    let of = |which: usize| median(rounds.iter().map(|round| round[which]));
    Ok(Import {
        engine: engine.into(),
        animals: files.animals.len(),
        bare_seconds: of(0),
        seconds: of(1),
        insert_seconds: of(2),
    })
}
