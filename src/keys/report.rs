//! Keys and their usage in JSON, for the command line and the admin API.

use serde_json::{Value, json};

use super::Issued;
use crate::clock::Timestamp;
use crate::limit::Ban;
use crate::store::{KeyRecord, KeyState, UsageRow};

pub(crate) fn key(record: &KeyRecord, now: Timestamp) -> Value {
    let limits = record.plan.limits();
    json!({
        "id": record.id.0,
        "name": record.name,
        "plan": record.plan.name().as_str(),
        "perMinute": limits.per_minute(),
        "perDay": limits.per_day(),
        "prefix": record.prefix,
        "state": KeyState::of(record, now).as_str(),
        "createdAt": record.created_at.to_string(),
        "expiresAt": text(record.expires_at),
        "revokedAt": text(record.revoked_at),
        "lastUsedAt": text(record.last_used(now)),
        "bannedUntil": text(record.banned_until(now)),
        "oldSecretUntil": text(record.old_secret_until(now)),
    })
}

pub(crate) fn issued(Issued { record, secret }: &Issued, now: Timestamp) -> Value {
    let limits = record.plan.limits();
    let mut report = json!({
        "id": record.id.0,
        "name": record.name,
        "plan": record.plan.name().as_str(),
        "perMinute": limits.per_minute(),
        "perDay": limits.per_day(),
        "key": secret.reveal(),
    });
    let old_secret_until = record.old_secret_until(now);
    for (name, time) in [
        ("expiresAt", record.expires_at),
        ("oldSecretUntil", old_secret_until),
    ] {
        if let Some(time) = time {
            report[name] = time.to_string().into();
        }
    }
    report
}

/// An unbanned key, and when the ban that this ended would have ended, if there was one.
pub(crate) fn unbanned(record: &KeyRecord, ended: Option<Ban>, now: Timestamp) -> Value {
    let mut report = key(record, now);
    report["wasBannedUntil"] = text(ended.map(|ban| ban.until)).into();
    report
}

pub(crate) fn usage(row: &UsageRow) -> Value {
    json!({
        "day": row.day,
        "keyId": row.key.0,
        "name": row.name,
        "requests": row.requests,
        // As the column in the database: names in JSON do not change.
        "refused": row.rejected,
    })
}

pub(crate) fn text(time: Option<Timestamp>) -> Option<String> {
    time.map(|time| time.to_string())
}
