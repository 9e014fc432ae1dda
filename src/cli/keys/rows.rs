//! Keys and their usage as rows of a table.

use super::super::table::{Column, column};
use crate::clock::Timestamp;
use crate::keys::report::text;
use crate::store::{KeyRecord, KeyState, UsageRow};

pub(super) const KEY_COLUMNS: [Column; 9] = [
    column("id"),
    column("name").text(),
    column("plan"),
    column("per minute").short("/min").optional(1),
    column("per day").short("/day").optional(2),
    column("prefix").optional(3),
    column("state"),
    column("created").time().optional(5),
    column("last used").time().optional(4),
];

pub(super) const DETAIL_COLUMNS: [Column; 2] = [column("property"), column("value")];

pub(super) const USAGE_COLUMNS: [Column; 5] = [
    column("day"),
    column("key"),
    column("name").text(),
    column("requests"),
    column("rejected"),
];

pub(super) fn key_row(record: &KeyRecord, now: Timestamp) -> [String; 9] {
    let limits = record.plan.limits();
    [
        record.id.to_string(),
        record.name.clone(),
        record.plan.name().as_str().to_owned(),
        limits.per_minute().to_string(),
        limits.per_day().to_string(),
        format!("{}…", record.prefix),
        KeyState::of(record, now).as_str().to_owned(),
        record.created_at.to_string(),
        text(record.last_used(now)).unwrap_or_else(|| "never".into()),
    ]
}

/// One key, a row for each property.
pub(super) fn details(record: &KeyRecord, used_today: i64, now: Timestamp) -> Vec<[String; 2]> {
    let limits = record.plan.limits();
    let rows = [
        ("id", Some(record.id.to_string())),
        ("name", Some(record.name.clone())),
        ("plan", Some(record.plan.name().as_str().to_owned())),
        ("per minute", Some(limits.per_minute().to_string())),
        ("per day", Some(limits.per_day().to_string())),
        ("used today", Some(used_today.to_string())),
        ("prefix", Some(format!("{}…", record.prefix))),
        ("state", Some(KeyState::of(record, now).as_str().to_owned())),
        ("created", Some(record.created_at.to_string())),
        ("expires", text(record.expires_at)),
        ("revoked", text(record.revoked_at)),
        ("last used", text(record.last_used(now))),
        ("banned until", text(record.banned_until(now))),
        ("old secret until", text(record.old_secret_until(now))),
    ];
    let known = |(name, value): (&str, Option<String>)| Some([name.to_owned(), value?]);
    rows.into_iter().filter_map(known).collect()
}

pub(super) fn usage_row(row: &UsageRow) -> [String; 5] {
    [
        row.day.clone(),
        row.key.to_string(),
        row.name.clone(),
        row.requests.to_string(),
        row.rejected.to_string(),
    ]
}
