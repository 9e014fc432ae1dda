//! `animal-store keys`: manages API keys. Changes take effect on a running server within a second, on several nodes within five.

mod rows;

use std::future::ready;
use std::time::Duration;

use anyhow::Context;
use clap::Subcommand;
use futures_util::TryStreamExt;
use serde_json::Value;

use super::database::CommandOptions;
use super::list::list;
use super::outcome::{Failure, Outcome};
use super::{confirm, print, table};
use crate::clock::{Clock, Timestamp};
use crate::config::{duration, options};
use crate::key::KeyId;
use crate::keys::{self, Confirmation, Issued, KeyName, KeyRejection};
use crate::plan::{Plan, PlanName};
use crate::store::{KeyRecord, Mode, Store, UsageRow};

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Issue a key; standard output gets only the secret, which is shown once
    Create {
        /// Name: 1 to 100 characters, at least one of them visible, no control characters
        #[arg(long)]
        name: KeyName,
        /// Plan of the key
        #[arg(long)]
        plan: PlanName,
        #[command(flatten)]
        limits: EnterpriseLimits,
        /// Lifetime of the key, such as 90d; by default it does not expire
        #[arg(long, value_name = "DURATION", value_parser = duration::positive)]
        expires: Option<Duration>,
        #[command(flatten)]
        options: CommandOptions,
    },
    /// List all keys
    List(CommandOptions),
    /// Show one key
    Show(KeyArgs),
    /// Show requests per day, of one key or all keys
    Usage {
        /// The key's ID
        #[arg(value_parser = options::id)]
        id: Option<i64>,
        #[command(flatten)]
        options: CommandOptions,
    },
    /// Change a key's plan
    SetPlan {
        /// The key's ID
        #[arg(value_parser = options::id)]
        id: i64,
        /// Plan of the key
        plan: PlanName,
        #[command(flatten)]
        limits: EnterpriseLimits,
        #[command(flatten)]
        options: CommandOptions,
    },
    /// Issue a new secret for a key; the old one works until the grace period ends
    Rotate {
        #[command(flatten)]
        key: KeyArgs,
        /// Grace period in which the old secret still works; with 0s it stops working immediately
        #[arg(long, value_name = "DURATION", default_value = keys::DEFAULT_GRACE, value_parser = duration::parse)]
        grace: Duration,
        /// Do not ask for confirmation, which is needed during the grace period of an earlier rotation
        #[arg(long)]
        yes: bool,
    },
    /// Revoke a key permanently
    Revoke(KeyArgs),
    /// Unban a key and reset the duration of its next ban
    Unban(KeyArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct KeyArgs {
    /// The key's ID
    #[arg(value_parser = options::id)]
    id: i64,
    #[command(flatten)]
    options: CommandOptions,
}

#[derive(Debug, clap::Args)]
pub(super) struct EnterpriseLimits {
    /// Requests per minute, for the enterprise plan only
    #[arg(long, value_name = "N", value_parser = options::limit)]
    per_minute: Option<u32>,
    /// Requests per day, for the enterprise plan only
    #[arg(long, value_name = "N", value_parser = options::limit)]
    per_day: Option<u32>,
}

impl EnterpriseLimits {
    fn plan(&self, name: PlanName) -> Result<Plan, Failure> {
        name.with_limits(self.per_minute, self.per_day)
            .map_err(|error| Failure::Usage(format!("--per-minute and --per-day: {error}")))
    }
}

impl Command {
    pub(super) async fn run(self, clock: &Clock) -> Outcome {
        match self {
            Self::Create {
                name,
                plan,
                limits,
                expires,
                options,
            } => {
                let plan = limits.plan(plan)?;
                let (store, now) = options.open(Mode::ReadWrite, clock).await?;
                let issued = keys::create(&store, name, plan, expires, now).await?;
                print_issued(&issued, now, options.json, "created", "")
            }
            Self::List(options) => {
                let (store, now) = options.open(Mode::ReadOnly, clock).await?;
                let report = |key: &KeyRecord| keys::report::key(key, now);
                let row = |key: &KeyRecord| rows::key_row(key, now);
                let (failure, columns) = ("cannot read the keys", rows::KEY_COLUMNS);
                list(store.keys(), failure, options.json, report, columns, row).await
            }
            Self::Show(KeyArgs { id, options }) => {
                let (store, now) = options.open(Mode::ReadOnly, clock).await?;
                let record = keys::get(&store, KeyId(id)).await?;
                let today = now.day().to_string();
                // Not simply the latest day with usage: if a clock was ahead, that day is in the future.
                let of_today = |usage: &UsageRow| ready(usage.day == today);
                let mut usage = store.usage(Some(record.id)).try_filter(of_today);
                let usage = usage.try_next().await.context("cannot read the usage")?;
                let used_today = usage.map_or(0, |usage| usage.requests);
                let details = rows::details(&record, used_today, now);
                let text = table::text(rows::DETAIL_COLUMNS, details);
                let mut json = keys::report::key(&record, now);
                json["usedToday"] = used_today.into();
                print::value(options.json, &json, &text)
            }
            Self::Usage { id, options } => {
                let (store, _) = options.open(Mode::ReadOnly, clock).await?;
                let id = id.map(KeyId);
                if let Some(id) = id {
                    keys::get(&store, id).await?;
                }
                let (failure, columns) = ("cannot read the usage", rows::USAGE_COLUMNS);
                let (report, row) = (keys::report::usage, rows::usage_row);
                list(store.usage(id), failure, options.json, report, columns, row).await
            }
            Self::SetPlan {
                id,
                plan,
                limits,
                options,
            } => {
                let plan = limits.plan(plan)?;
                let (store, now) = options.open(Mode::ReadWrite, clock).await?;
                let record = keys::set_plan(&store, KeyId(id), plan).await?;
                let done = format!("has plan {}", record.plan.name().as_str());
                let report = keys::report::key(&record, now);
                print_changed(&record, &report, options.json, &done)
            }
            Self::Rotate {
                key: KeyArgs { id, options },
                grace,
                yes,
            } => {
                let (store, _) = options.open(Mode::ReadWrite, clock).await?;
                let (issued, now) = rotate(&store, KeyId(id), grace, yes, clock).await?;
                let old_secret = match issued.record.old_secret_until(now) {
                    None => ", the old secret no longer works".to_owned(),
                    Some(until) => format!(", the old secret works until {until}"),
                };
                print_issued(&issued, now, options.json, "rotated", &old_secret)
            }
            Self::Revoke(KeyArgs { id, options }) => {
                let (store, now) = options.open(Mode::ReadWrite, clock).await?;
                let (record, _) = keys::revoke(&store, KeyId(id), now).await?;
                let report = keys::report::key(&record, now);
                print_changed(&record, &report, options.json, "is revoked")
            }
            Self::Unban(KeyArgs { id, options }) => {
                let (store, now) = options.open(Mode::ReadWrite, clock).await?;
                let (record, ended) = keys::unban(&store, KeyId(id), now).await?;
                let done = match ended {
                    Some(ban) => format!("is unbanned; it was banned until {}", ban.until),
                    None => "was not banned; the duration of its next ban is reset".to_owned(),
                };
                let report = keys::report::unbanned(&record, ended, now);
                print_changed(&record, &report, options.json, &done)
            }
        }
    }
}

/// Rotates a key, and returns the time of the rotation. During the grace period of an earlier rotation it asks for confirmation,
/// which takes time.
async fn rotate(
    store: &Store,
    id: KeyId,
    grace: Duration,
    yes: bool,
    clock: &Clock,
) -> Result<(Issued, Timestamp), Failure> {
    let mut confirmation = if yes {
        Confirmation::Any
    } else {
        Confirmation::None
    };
    loop {
        let now = clock.now();
        match keys::rotate(store, id, grace, confirmation, now).await {
            Err(keys::Error::Rejected(KeyRejection::InGracePeriod(running))) => {
                confirm::confirm(format!(
                    "key {id} ({}) was rotated recently: another rotation replaces the secret issued then, and the old one, \
                     which works until {}, stops working at once",
                    running.name, running.until
                ))
                .await?;
                confirmation = Confirmation::ForGracePeriod(running);
            }
            done => return Ok((done?, now)),
        }
    }
}

fn print_changed(record: &KeyRecord, report: &Value, json: bool, done: &str) -> Outcome {
    let text = format!("key {} ({}) {done}", record.id, record.name);
    print::result(json, report, &text)
}

/// The message for a key whose secret could not be shown.
pub(super) fn secret_lost(id: KeyId, done: &str) -> String {
    format!(
        "key {id} was {done}, but its secret could not be printed: run `animal-store keys rotate {id} --yes`"
    )
}

/// Prints the secret alone on standard output, and what was done on standard error.
fn print_issued(
    issued: &Issued,
    now: Timestamp,
    json: bool,
    done: &str,
    old_secret: &str,
) -> Outcome {
    let report = keys::report::issued(issued, now);
    print::value(json, &report, issued.secret.reveal())
        .map_err(|_| Failure::Failed(secret_lost(issued.record.id, done)))?;
    if !json {
        let record = &issued.record;
        let limits = record.plan.limits();
        print::notice(&format!(
            "key {} ({}) {done}{old_secret}; plan {}, {} requests per minute, {} per day; the secret is shown only once",
            record.id,
            record.name,
            record.plan.name().as_str(),
            limits.per_minute(),
            limits.per_day()
        ));
    }
    Ok(())
}
