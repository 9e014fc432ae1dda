//! `animal-store migrate`: creates the database, or migrates it to the format of this version.

use anyhow::Context;
use serde_json::json;

use super::data::Common;
use super::outcome::Outcome;
use super::print;
use crate::clock::Clock;
use crate::log::{self, LogFormat, LogLevel, Sink};
use crate::store::{Migration, Mode};

/// Create the database, or migrate it to the format of this version.
#[derive(Debug, clap::Args)]
pub(super) struct Migrate {
    #[command(flatten)]
    common: Common,
}

impl Migrate {
    pub(super) fn run(self) -> Outcome {
        super::data::run(async |_| {
            // On a large database it can take long, and logs that.
            let sink = Sink::stderr().context("cannot start the log")?;
            log::init(&sink, LogFormat::Text, LogLevel::Info, Clock::system());
            let store = self.common.open_as(Mode::Migrate).await?;
            self.report(store.migration())
        })
    }

    fn report(&self, Migration { before, now }: Migration) -> Outcome {
        let database = self.common.database();
        if self.common.json {
            let report =
                json!({"database": database.to_string(), "formatBefore": before, "format": now});
            return Ok(print::json(&report)?);
        }
        let done = match before {
            None => format!("created {database} with format {now}"),
            Some(before) if before == now => {
                format!("{database} already has format {now}")
            }
            Some(before) => format!("migrated {database} from format {before} to {now}"),
        };
        Ok(print::line(&done)?)
    }
}
