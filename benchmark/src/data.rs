//! A database with a given number of animals and keys, and a server on it.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use animal_store::key::Secret;
use anyhow::{Context, Result, ensure};
use rusqlite::{Connection, params};
use tempfile::TempDir;

use crate::bench::Bench;
use crate::cores::Affinity;
use crate::exchange::Response;
use crate::process::{Process, isolated};
use crate::stop;

/// The file name of the database.
const FILE: &str = "animal-store.db";

/// A limit that no round reaches.
pub(crate) const UNLIMITED: &str = "1000000000";

/// Rows per transaction.
const CHUNK: u32 = 500_000;

/// A directory with a database, deleted when dropped.
#[derive(Debug)]
pub(crate) struct Data {
    folder: TempDir,
    program: PathBuf,
    /// The number of animals.
    pub(crate) animals: u32,
    /// A key with limits that are never reached.
    pub(crate) key: String,
}

impl Data {
    /// Creates a database with this number of animals and one key.
    pub(crate) fn new(bench: &Bench, animals: u32) -> Result<Self> {
        Self::of(bench, &bench.program("animal-store"), animals)
    }

    /// The same, with another build of the program.
    pub(crate) fn of(bench: &Bench, program: &Path, animals: u32) -> Result<Self> {
        let mut data = Self {
            folder: bench.folder()?,
            program: std::path::absolute(program)?,
            animals,
            key: String::new(),
        };
        let failure = "cannot create the database";
        command(&data.program, &data.url(), &["migrate"], failure)?;
        data.key = data.add_key(UNLIMITED, UNLIMITED)?;
        let step = format!("data: {animals} animals");
        bench.progress.set_message(step);
        data.add_animals()?;
        Ok(data)
    }

    /// Creates a key with these limits.
    pub(crate) fn add_key(&self, per_minute: &str, per_day: &str) -> Result<String> {
        add_key(&self.program, &self.url(), per_minute, per_day)
    }

    /// The value of `--database`.
    fn url(&self) -> String {
        format!("sqlite:{}", self.file().display())
    }

    /// The path of the database.
    pub(crate) fn file(&self) -> PathBuf {
        self.folder.path().join(FILE)
    }

    /// Opens a connection to the database, for what no command does.
    pub(crate) fn connect(&self) -> Result<Connection> {
        Ok(Connection::open(self.file())?)
    }

    /// Inserts the animals with SQL: ten million requests would take minutes.
    fn add_animals(&self) -> Result<()> {
        let connection = self.connect()?;
        connection.pragma_update(None, "synchronous", "OFF")?;
        for begin in (0..self.animals).step_by(CHUNK as usize) {
            stop::check()?;
            connection.execute(
                "WITH RECURSIVE n (i) AS (SELECT ?1 + 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?2)
                 INSERT INTO pets (name, category_id, status)
                 SELECT 'pet ' || i, i % 10, CASE i % 5 WHEN 0 THEN 'sold' WHEN 1 THEN 'pending' ELSE 'available' END
                 FROM n",
                [begin, self.animals.min(begin + CHUNK)],
            )?;
        }
        checkpoint(&connection)
    }

    /// Adds this number of keys and returns their secrets.
    pub(crate) fn add_keys(&self, count: usize) -> Result<Vec<String>> {
        let mut connection = self.connect()?;
        connection.pragma_update(None, "synchronous", "OFF")?;
        let transaction = connection.transaction()?;
        let mut secrets = Vec::with_capacity(count);
        {
            let mut insert = transaction.prepare(
                "INSERT INTO api_keys (name, plan, per_minute, per_day, prefix, hash, created_at)
                 SELECT 'key ' || ?1, plan, per_minute, per_day, ?2, ?3, created_at FROM api_keys WHERE id = 1",
            )?;
            for number in 0..count {
                stop::check()?;
                let secret = Secret::generate()?;
                insert.execute(params![number as i64, secret.prefix(), secret.hash().0])?;
                secrets.push(secret.reveal().to_owned());
            }
        }
        transaction.commit()?;
        checkpoint(&connection)?;
        Ok(secrets)
    }

    /// The response of a server to this GET.
    pub(crate) fn response(&self, path: &str) -> Result<Response> {
        let server = self.serve(Affinity::Server, &[])?;
        let authorization = format!("Authorization: Bearer {}\r\n", self.key);
        let response = Response::to_get(server.address, path, &authorization)?;
        let status = response.status;
        ensure!(status == 200, "unexpected status for {path}: {status}");
        Ok(response)
    }

    /// Starts a server, with request logging on as by default.
    pub(crate) fn serve(&self, place: Affinity, arguments: &[&str]) -> Result<Process> {
        let mut command = place.command(&self.program);
        command
            .args(["serve", "--listen", "127.0.0.1:0"])
            .args(["--admin-listen", "127.0.0.1:0"])
            .args(["--database", &self.url()])
            .args(arguments)
            .current_dir(self.folder.path());
        Process::announced(command, api_address)
    }
}

/// Runs the program on a database, and returns what it prints. `failure` precedes its error message.
pub(crate) fn command(
    program: &Path,
    database: &str,
    words: &[&str],
    failure: &str,
) -> Result<String> {
    let mut command = Command::new(program);
    command.args(words).args(["--database", database]);
    let output = isolated(&mut command).output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{failure}: {error}");
    Ok(String::from_utf8(output.stdout)?)
}

/// Creates a key with these limits in a database.
pub(crate) fn add_key(
    program: &Path,
    database: &str,
    per_minute: &str,
    per_day: &str,
) -> Result<String> {
    let create = ["keys", "create", "--name", "bench", "--plan", "enterprise"];
    let limits = ["--per-minute", per_minute, "--per-day", per_day];
    let words = [&create[..], &limits].concat();
    let key = command(program, database, &words, "cannot create a key")?;
    Ok(key.trim().to_owned())
}

/// The address of the API in the startup message.
pub(crate) fn api_address(output: &str) -> Option<SocketAddr> {
    let line = output
        .lines()
        .find(|line| line.trim_start().starts_with("API"))?;
    let url = line.split_whitespace().last()?;
    let (_, rest) = url.split_once("://")?;
    rest.strip_suffix("/v1")?.parse().ok()
}

/// Checkpoints the write-ahead log and syncs the file, so that no later round does it.
fn checkpoint(connection: &Connection) -> Result<()> {
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    let path = connection.path().context("the database has no file")?;
    File::open(path)?.sync_all()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_found_in_the_startup_output() {
        let output = "Animal Store 0.1.0\n  API       http://127.0.0.1:4711/v1\n";
        assert_eq!(api_address(output), Some("127.0.0.1:4711".parse().unwrap()));
        assert_eq!(api_address("Animal Store 0.1.0\n"), None);
    }
}
