//! Keys and their usage as printed.

use serde::Serialize;

use super::super::list::list as print_list;
use super::super::outcome::Outcome;
use super::super::print::{self, Array};
use super::super::table::{Column, column, table};
use crate::clock::Timestamp;
use crate::key::Secret;
use crate::keys::{self, KeyState};
use crate::store::{KeyRecord, RowStream, UsageRow};

/// A key in JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct KeyReport<'a> {
    id: i64,
    name: &'a str,
    plan: &'static str,
    per_minute: u32,
    per_day: u32,
    prefix: &'a str,
    state: &'static str,
    created_at: String,
    expires_at: Option<String>,
    revoked_at: Option<String>,
    last_used_at: Option<String>,
    banned_until: Option<String>,
    old_secret_until: Option<String>,
}

impl<'a> KeyReport<'a> {
    fn new(record: &'a KeyRecord, now: Timestamp) -> Self {
        let text = |time: Option<Timestamp>| time.map(|time| time.to_string());
        let limits = record.plan.limits();
        Self {
            id: record.id.0,
            name: &record.name,
            plan: record.plan.name().word(),
            per_minute: limits.per_minute(),
            per_day: limits.per_day(),
            prefix: &record.prefix,
            state: KeyState::of(record, now).word(),
            created_at: record.created_at.to_string(),
            expires_at: text(record.expires_at),
            revoked_at: text(record.revoked_at),
            last_used_at: text(record.last_used_at),
            banned_until: text(keys::banned_until(record, now)),
            old_secret_until: text(keys::old_secret_until(record, now)),
        }
    }
}

/// A key with its secret in JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct IssuedReport<'a> {
    id: i64,
    name: &'a str,
    plan: &'static str,
    per_minute: u32,
    per_day: u32,
    key: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    old_secret_until: Option<String>,
}

impl<'a> IssuedReport<'a> {
    pub(super) fn new(record: &'a KeyRecord, secret: &'a Secret, now: Timestamp) -> Self {
        let KeyReport {
            id,
            name,
            plan,
            per_minute,
            per_day,
            expires_at,
            old_secret_until,
            ..
        } = KeyReport::new(record, now);
        Self {
            id,
            name,
            plan,
            per_minute,
            per_day,
            key: secret.reveal(),
            expires_at,
            old_secret_until,
        }
    }
}

/// The columns of a list.
const COLUMNS: [Column; 9] = [
    column("id"),
    column("name").text(),
    column("plan"),
    column("per minute").or("/min").leave_out(1),
    column("per day").or("/day").leave_out(2),
    column("key").leave_out(3),
    column("state"),
    column("created").time().leave_out(5),
    column("last used").time().leave_out(4),
];

pub(super) async fn list(records: RowStream<'_, KeyRecord>, now: Timestamp, json: bool) -> Outcome {
    let element = |array: &mut Array, key: &KeyRecord| array.add(&KeyReport::new(key, now));
    let row = |key: KeyRecord| row(KeyReport::new(&key, now));
    Ok(print_list(records, "cannot read the keys", json, element, COLUMNS, row).await?)
}

fn row(report: KeyReport<'_>) -> [String; 9] {
    [
        report.id.to_string(),
        report.name.to_owned(),
        report.plan.to_owned(),
        report.per_minute.to_string(),
        report.per_day.to_string(),
        format!("{}…", report.prefix),
        report.state.to_owned(),
        report.created_at,
        report.last_used_at.unwrap_or_else(|| "never".into()),
    ]
}

/// Shows one key. `last` is its usage on the last day on which it was used.
pub(super) fn show(
    record: &KeyRecord,
    last: Option<&UsageRow>,
    now: Timestamp,
    json: bool,
) -> Outcome {
    let report = KeyReport::new(record, now);
    if json {
        return Ok(print::json(&report)?);
    }
    let today = now.day().to_string();
    let today = last
        .filter(|last| last.day == today)
        .map_or(0, |last| last.requests);
    let mut rows = vec![
        ["id", &report.id.to_string()].map(str::to_owned),
        ["name", report.name].map(str::to_owned),
        ["plan", report.plan].map(str::to_owned),
        ["per minute", &report.per_minute.to_string()].map(str::to_owned),
        ["per day", &report.per_day.to_string()].map(str::to_owned),
        ["used today", &today.to_string()].map(str::to_owned),
        ["key", &format!("{}…", report.prefix)].map(str::to_owned),
        ["state", report.state].map(str::to_owned),
        ["created", &report.created_at].map(str::to_owned),
    ];
    let times = [
        ("expires", report.expires_at),
        ("revoked", report.revoked_at),
        ("last used", report.last_used_at),
        ("banned until", report.banned_until),
        ("old secret until", report.old_secret_until),
    ];
    rows.extend(
        times
            .into_iter()
            .filter_map(|(name, time)| Some([name.to_owned(), time?])),
    );
    Ok(table([column("what"), column("value")], rows)?)
}

/// A day of a key in JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct UsageReport<'a> {
    day: &'a str,
    key_id: i64,
    name: &'a str,
    requests: i64,
    refused: i64,
}

impl<'a> From<&'a UsageRow> for UsageReport<'a> {
    fn from(row: &'a UsageRow) -> Self {
        Self {
            day: &row.day,
            key_id: row.key.0,
            name: &row.name,
            requests: row.requests,
            refused: row.refused,
        }
    }
}

pub(super) async fn usage(usage: RowStream<'_, UsageRow>, json: bool) -> Outcome {
    let element = |array: &mut Array, row: &UsageRow| array.add(&UsageReport::from(row));
    let row = |row: UsageRow| {
        [
            row.day,
            row.key.to_string(),
            row.name,
            row.requests.to_string(),
            row.refused.to_string(),
        ]
    };
    let columns = [
        column("day"),
        column("key"),
        column("name").text(),
        column("requests"),
        column("refused"),
    ];
    Ok(print_list(usage, "cannot read the usage", json, element, columns, row).await?)
}

/// Prints a changed key.
pub(super) fn changed(record: &KeyRecord, now: Timestamp, json: bool, done: &str) -> Outcome {
    if json {
        return Ok(print::json(&KeyReport::new(record, now))?);
    }
    Ok(print::line(&format!(
        "key {} ({}) {done}",
        record.id, record.name
    ))?)
}
