//! `animal-store keys`: manages API keys. Changes take effect on a running server within a second.

mod report;

use std::time::Duration;

use anyhow::Context;
use clap::Subcommand;

use super::data::Common;
use super::outcome::{Failure, Outcome};
use super::{ask, print};
use crate::clock::{Clock, Timestamp};
use crate::config::options;
use crate::key::KeyId;
use crate::keys::{self, Confirmed, Issued, KeyName, KeyRejection};
use crate::plan::{Plan, PlanName};
use crate::store::Store;
use report::IssuedReport;

/// Manage API keys.
#[derive(Debug, clap::Args)]
pub(super) struct Keys {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Issue a key; standard output gets only the secret, which is shown once
    Create {
        /// Name, 1 to 100 characters
        #[arg(long)]
        name: KeyName,
        /// Plan
        #[arg(long)]
        plan: PlanName,
        #[command(flatten)]
        limits: EnterpriseLimits,
        /// Lifetime of the key, such as 90d; by default it does not expire
        #[arg(long, value_name = "DURATION", value_parser = options::positive)]
        expires: Option<Duration>,
        #[command(flatten)]
        common: Common,
    },
    /// List all keys
    List {
        #[command(flatten)]
        common: Common,
    },
    /// Show one key
    Show {
        #[command(flatten)]
        key: OneKey,
    },
    /// Show requests per day, of one key or all keys
    Usage {
        /// The key's ID
        #[arg(value_parser = options::id)]
        id: Option<i64>,
        #[command(flatten)]
        common: Common,
    },
    /// Change a key's plan
    SetPlan {
        /// The key's ID
        #[arg(value_parser = options::id)]
        id: i64,
        /// Plan
        plan: PlanName,
        #[command(flatten)]
        limits: EnterpriseLimits,
        #[command(flatten)]
        common: Common,
    },
    /// Issue a new secret for a key; the old one works until the grace period ends
    Rotate {
        #[command(flatten)]
        key: OneKey,
        /// Grace period in which the old secret still works; 0s disables it at once
        #[arg(long, value_name = "DURATION", default_value = "24h", value_parser = options::duration)]
        grace: Duration,
        /// Do not ask for confirmation, even during the grace period of an earlier rotation
        #[arg(long)]
        yes: bool,
    },
    /// Revoke a key permanently
    Revoke {
        #[command(flatten)]
        key: OneKey,
    },
    /// Unban a key and reset the length of its next ban
    Unban {
        #[command(flatten)]
        key: OneKey,
    },
}

#[derive(Debug, clap::Args)]
struct OneKey {
    /// The key's ID
    #[arg(value_parser = options::id)]
    id: i64,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, clap::Args)]
struct EnterpriseLimits {
    /// Requests per minute, for plan enterprise only
    #[arg(long, value_name = "N", value_parser = options::limit)]
    per_minute: Option<u32>,
    /// Requests per day, for plan enterprise only
    #[arg(long, value_name = "N", value_parser = options::limit)]
    per_day: Option<u32>,
}

impl EnterpriseLimits {
    fn plan(&self, name: PlanName) -> Result<Plan, Failure> {
        name.with(self.per_minute, self.per_day)
            .map_err(|error| Failure::Usage(format!("--per-minute and --per-day: {error}")))
    }
}

impl Keys {
    pub(super) fn run(self) -> Outcome {
        super::data::run(async |clock| self.command.run(clock).await)
    }
}

impl Command {
    async fn run(self, clock: &Clock) -> Outcome {
        match self {
            Self::Create {
                name,
                plan,
                limits,
                expires,
                common,
            } => {
                let plan = limits.plan(plan)?;
                let store = common.open(clock).await?;
                let now = clock.now();
                let issued = keys::create(&store, name, plan, expires, now).await?;
                print_issued(&issued, now, common.json, "created")
            }
            Self::List { common } => {
                let store = common.open_to_read(clock).await?;
                report::list(store.keys(), clock.now(), common.json).await
            }
            Self::Show { key } => {
                let store = key.common.open_to_read(clock).await?;
                let now = clock.now();
                let id = KeyId(key.id);
                let record = keys::get(&store, id).await?;
                let last = store.usage(Some(id)).next().await;
                let last = last.context("cannot read the usage")?;
                report::show(&record, last.as_ref(), now, key.common.json)
            }
            Self::Usage { id, common } => {
                let store = common.open_to_read(clock).await?;
                let id = id.map(KeyId);
                if let Some(id) = id {
                    keys::get(&store, id).await?;
                }
                report::usage(store.usage(id), common.json).await
            }
            Self::SetPlan {
                id,
                plan,
                limits,
                common,
            } => {
                let plan = limits.plan(plan)?;
                let store = common.open(clock).await?;
                let now = clock.now();
                let record = keys::set_plan(&store, KeyId(id), plan).await?;
                let done = format!("has plan {}", record.plan.name());
                report::changed(&record, now, common.json, &done)
            }
            Self::Rotate { key, grace, yes } => {
                let store = key.common.open(clock).await?;
                let now = clock.now();
                let issued = rotate(&store, KeyId(key.id), grace, yes, now).await?;
                let done = match keys::old_secret_until(&issued.record, now) {
                    None => "rotated, the old secret no longer works".to_owned(),
                    Some(until) => format!("rotated, the old secret works until {until}"),
                };
                print_issued(&issued, now, key.common.json, &done)
            }
            Self::Revoke { key } => {
                let store = key.common.open(clock).await?;
                let now = clock.now();
                let record = keys::revoke(&store, KeyId(key.id), now).await?;
                report::changed(&record, now, key.common.json, "is revoked")
            }
            Self::Unban { key } => {
                let store = key.common.open(clock).await?;
                let now = clock.now();
                let (record, ended) = keys::unban(&store, KeyId(key.id), now).await?;
                let done = match ended {
                    Some(ban) => format!("is unbanned; it was banned until {}", ban.until),
                    None => "was not banned".to_owned(),
                };
                report::changed(&record, now, key.common.json, &done)
            }
        }
    }
}

/// Rotates a key. During the grace period of an earlier rotation it asks for confirmation.
async fn rotate(
    store: &Store,
    id: KeyId,
    grace: Duration,
    yes: bool,
    now: Timestamp,
) -> Result<Issued, Failure> {
    let mut confirmed = if yes { Confirmed::Yes } else { Confirmed::No };
    loop {
        match keys::rotate(store, id, grace, confirmed, now).await {
            Err(keys::Error::Rejected(KeyRejection::GraceRunning(running))) => {
                ask::confirm(&format!(
                    "key {id} ({}) was rotated recently: another rotation replaces the secret issued then, and the old one, \
                     which works until {}, stops working at once",
                    running.name, running.until
                ))?;
                confirmed = Confirmed::Grace(running);
            }
            done => return Ok(done?),
        }
    }
}

/// Prints the secret alone on standard output, and the rest on standard error.
fn print_issued(issued: &Issued, now: Timestamp, json: bool, done: &str) -> Outcome {
    let Issued { record, secret } = issued;
    if json {
        print::json(&IssuedReport::new(record, secret, now))?;
    } else {
        print::line(secret.reveal())?;
        let limits = record.plan.limits();
        eprintln!(
            "key {} ({}) {done}; plan {}, {} requests per minute, {} per day; the secret is shown only once",
            record.id,
            record.name,
            record.plan.name(),
            limits.per_minute(),
            limits.per_day()
        );
    }
    Ok(())
}
