//! `animal-store migrate`: creates the database, or migrates it to the format of this version.

use anyhow::Context;
use serde_json::json;

use super::database::CommandOptions;
use super::outcome::Outcome;
use super::print;
use crate::clock::Clock;
use crate::log::{self, LogFormat, LogLevel, Sink};
use crate::store::{FormatChange, Mode};

pub(super) async fn run(options: &CommandOptions, clock: &Clock) -> Outcome {
    // Migrating a large database can take a long time, and is logged.
    let format = LogFormat::Text;
    let sink = Sink::stderr(format, clock.clone()).context("cannot start the log")?;
    log::init(&sink, format, LogLevel::INFO, clock.clone());
    let (store, _) = options.open(Mode::Migrate, clock).await?;
    let FormatChange { before, after } = store.format_change();
    let database = options.database();
    let report = json!({"database": database.to_string(), "formatBefore": before, "format": after});
    let text = match before {
        None => format!("created {database} with format {after}"),
        Some(before) if before == after => format!("{database} already has format {after}"),
        Some(before) => format!("migrated {database} from format {before} to {after}"),
    };
    print::result(options.json, &report, &text)
}
