//! `animal-store copy`: everything in one database, into another one that is empty.

use std::path::PathBuf;

use anyhow::Context;
use serde_json::json;
use tokio::time::Instant;

use super::database::print_wait;
use super::outcome::{Failure, Outcome};
use super::print;
use super::progress::{ROWS_TEMPLATE, progress_bar};
use super::signals::Signals;
use crate::config::{ConfigFileOption, DatabaseOptions, options};
use crate::store::{CopiedTable, CopyError, CopyStep, Database, copy};

/// Copy everything into another, empty database, such as from SQLite to PostgreSQL or back.
///
/// No server may use the source or the target meanwhile. The two are compared at the end, and nothing is committed unless they are
/// equal.
#[derive(Debug, clap::Args)]
pub(super) struct CopyCommand {
    /// Database to copy: sqlite:PATH or postgres://USER:PASSWORD@HOST:PORT/NAME
    #[arg(long, value_name = "URL", hide_env_values = true, value_parser = options::url::<Database>)]
    from: Database,
    /// Database without animals, orders or keys, or a new one
    #[arg(long, value_name = "URL", hide_env_values = true, value_parser = options::url::<Database>)]
    to: Database,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// File whose first line is the password for PostgreSQL; rejected if every user can read it
    #[arg(long, value_name = "FILE")]
    database_password_file: Option<PathBuf>,
    /// PEM file with the CAs that sign the certificate of PostgreSQL; by default those that the system trusts, but
    /// sslmode=verify-ca requires a file
    #[arg(long, value_name = "FILE")]
    ca_cert: Option<PathBuf>,
    #[command(flatten)]
    config_file: ConfigFileOption,
}

impl CopyCommand {
    pub(super) async fn run(self) -> Outcome {
        let began = Instant::now();
        if self.database_password_file.is_some()
            && ![&self.from, &self.to]
                .into_iter()
                .any(Database::lacks_password)
        {
            let problem = "--database-password-file requires a postgres://… URL without a password in --from or --to";
            return Err(Failure::Usage(problem.into()));
        }
        let from = self.with_options("--from", &self.from)?;
        let to = self.with_options("--to", &self.to)?;
        let mut signals = Signals::of_command().context("cannot listen for signals")?;
        let mut bar = (CopyStep::Copying, progress_bar("copying", ROWS_TEMPLATE));
        let show = |step, done, all| {
            if step != bar.0 {
                bar = (step, progress_bar("comparing", ROWS_TEMPLATE));
            }
            bar.1.set_length(all);
            bar.1.set_position(done);
        };
        let copied = copy(&from, &to, print_wait, show, signals.first()).await;
        drop(bar);
        let tables = copied.map_err(|error| match error {
            CopyError::SameDatabase => Failure::Usage(error.to_string()),
            other => Failure::from(anyhow::Error::from(other)),
        })?;
        let seconds = began.elapsed().as_secs_f64();
        let row = |table: &CopiedTable| {
            let checksum = format!("{:032x}", table.digest.checksum);
            json!({"table": table.name, "rows": table.digest.rows, "checksum": checksum})
        };
        let report = json!({
            "from": from.to_string(),
            "to": to.to_string(),
            "seconds": print::rounded(seconds),
            "tables": tables.iter().map(row).collect::<Vec<_>>(),
        });
        let counted = |table: &str, name: &str| {
            let table = tables.iter().find(|copied| copied.name == table);
            print::counted(table.map_or(0, |table| table.digest.rows), name)
        };
        let (pets, orders) = (counted("pets", "animal"), counted("orders", "order"));
        let keys = counted("api_keys", "key");
        let text = format!(
            "copied {from} to {to} in {seconds:.1} s: {pets}, {orders}, {keys}; both have the same rows in all tables"
        );
        print::result(self.json, &report, &text)
    }

    /// The database with the password and the CAs of the other options, where they apply to it.
    fn with_options(&self, option: &str, database: &Database) -> Result<Database, Failure> {
        let options = DatabaseOptions {
            database: database.clone(),
            database_password_file: self
                .database_password_file
                .clone()
                .filter(|_| database.lacks_password()),
            ca_cert: self.ca_cert.clone(),
            config_file: self.config_file.clone(),
        };
        Ok(options.resolve_as(option)?)
    }
}
