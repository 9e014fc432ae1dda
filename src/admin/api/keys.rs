//! Keys: the list with their usage, one key, and its management by the rules of `keys`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::header::{HeaderName, HeaderValue};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Admin, AdminCall, ApiResult, invalid, query, respond_json as respond};
use crate::admin::off_thread::off_thread;
use crate::api::ApiError;
use crate::clock::{Day, Timestamp};
use crate::config::duration;
use crate::http::Response;
use crate::key::KeyId;
use crate::keys::{self, Confirmation, KeyName, KeyRejection, report};
use crate::names::FromName;
use crate::plan::{Plan, PlanName};
use crate::store::{KeyRecord, UsageRow};

/// How many days of usage the list shows for each key.
pub(in crate::admin) const LIST_USAGE_DAYS: u64 = 30;

/// How many days of usage the page of a key shows.
pub(in crate::admin) const KEY_USAGE_DAYS: u64 = 90;

/// The number of all keys that match.
const TOTAL_COUNT: HeaderName = HeaderName::from_static("x-total-count");

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct CreateKey {
    name: String,
    plan: String,
    per_minute: Option<u32>,
    per_day: Option<u32>,
    /// Its lifetime, such as `90d`.
    expires: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct SetPlan {
    plan: String,
    per_minute: Option<u32>,
    per_day: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RotateKey {
    /// How long the old secret works, such as `24h`.
    grace: Option<String>,
    confirm: Option<Confirm>,
}

/// Whether to rotate even during the grace period of an earlier rotation: of any, or of the one that issued the secret with this
/// prefix.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "confirm must be true, false, or the prefix of the current secret"
)]
enum Confirm {
    Any(bool),
    Prefix(String),
}

impl Admin {
    pub(super) async fn list_keys(&self, call: &AdminCall<'_>) -> ApiResult {
        let query = query::parse_key_query(call.head.query, call.now)?;
        let (store, since) = (
            Arc::clone(self.store()),
            first_day(call.now, LIST_USAGE_DAYS),
        );
        let (list, usage) = off_thread(async move || {
            let list = store.key_list(&query).await?;
            let ids: Vec<KeyId> = list.keys.iter().map(|key| key.id).collect();
            let usage = store.usage_since(&ids, since).await?;
            crate::store::Result::Ok((list, usage))
        })
        .await?;
        let mut by_key: HashMap<KeyId, Vec<UsageRow>> = HashMap::new();
        for row in usage {
            by_key.entry(row.key).or_default().push(row);
        }
        let none = Vec::new();
        let rows = list.keys.iter().map(|key| {
            let usage = by_key.get(&key.id).unwrap_or(&none);
            let mut row = self.key(key, usage, call.now);
            let on = |day: String| usage.iter().find(|row| row.day == day);
            let days = (0..LIST_USAGE_DAYS as i64).map(|day| {
                let day = Day::from_number(since.number() + day).to_string();
                on(day).map_or(0, |row| row.requests)
            });
            row["days"] = days.collect();
            row
        });
        let total = HeaderValue::from(list.total);
        Ok(respond(StatusCode::OK, &rows.collect()).with(TOTAL_COUNT, total))
    }

    pub(super) async fn show_key(&self, id: KeyId, call: &AdminCall<'_>) -> ApiResult {
        let record = keys::get(self.store(), id).await?;
        let since = first_day(call.now, KEY_USAGE_DAYS);
        let usage = self.store().usage_since(&[id], since).await?;
        let mut key = self.key(&record, &usage, call.now);
        key["lastBanAt"] = report::text(record.ban.map(|ban| ban.started_at)).into();
        key["lastBanUntil"] = report::text(record.ban.map(|ban| ban.until)).into();
        key["unbannedAt"] = report::text(record.unbanned_at).into();
        key["usage"] = usage.iter().map(report::usage).collect();
        Ok(respond(StatusCode::OK, &key))
    }

    pub(super) async fn create_key(&self, call: &mut AdminCall<'_>) -> ApiResult {
        let body: CreateKey = self.read(call).await?;
        let name: KeyName = body.name.parse().map_err(|error| invalid("name", error))?;
        let plan = plan(&body.plan, body.per_minute, body.per_day)?;
        let expires = body.expires.as_deref().map(duration::positive);
        let expires = expires.transpose();
        let expires = expires.map_err(|error| invalid("expires", error))?;
        let issued = keys::create(self.store(), name, plan, expires, call.now).await?;
        call.log("key created", &format!("key {}", issued.record.id));
        let report = report::issued(&issued, call.now);
        Ok(respond(StatusCode::CREATED, &report))
    }

    pub(super) async fn set_plan(&self, id: KeyId, call: &mut AdminCall<'_>) -> ApiResult {
        let body: SetPlan = self.read(call).await?;
        let plan = plan(&body.plan, body.per_minute, body.per_day)?;
        let record = keys::set_plan(self.store(), id, plan).await?;
        let (name, limits) = (plan.name().as_str(), plan.limits());
        let (minute, day) = (limits.per_minute(), limits.per_day());
        let subject = format!("key {id}, {name}, {minute} per minute, {day} per day");
        call.log("plan changed", &subject);
        Ok(changed_key(&record, call.now))
    }

    pub(super) async fn rotate_key(&self, id: KeyId, call: &mut AdminCall<'_>) -> ApiResult {
        let body: RotateKey = self.read(call).await?;
        let grace = body.grace.as_deref().unwrap_or(keys::DEFAULT_GRACE);
        let grace = duration::parse(grace).map_err(|error| invalid("grace", error))?;
        let confirmed = match body.confirm {
            None | Some(Confirm::Any(false)) => Confirmation::None,
            Some(Confirm::Any(true)) => Confirmation::Any,
            Some(Confirm::Prefix(prefix)) => Confirmation::ForPrefix(prefix),
        };
        let issued = keys::rotate(self.store(), id, grace, confirmed, call.now).await?;
        call.log("key rotated", &format!("key {id}"));
        Ok(respond(StatusCode::OK, &report::issued(&issued, call.now)))
    }

    pub(super) async fn revoke_key(&self, id: KeyId, call: &AdminCall<'_>) -> ApiResult {
        let (record, is_new) = keys::revoke(self.store(), id, call.now).await?;
        if is_new {
            call.log("key revoked", &format!("key {id}"));
        }
        Ok(changed_key(&record, call.now))
    }

    pub(super) async fn unban_key(&self, id: KeyId, call: &AdminCall<'_>) -> ApiResult {
        let (record, ended) = keys::unban(self.store(), id, call.now).await?;
        // Unbanning a key that is not banned is a change, too: the duration of its next ban is reset.
        let before = if ended.is_some() {
            ""
        } else {
            ", which was not banned"
        };
        call.log("key unbanned", &format!("key {id}{before}"));
        let report = report::unbanned(&record, ended, call.now);
        Ok(respond(StatusCode::OK, &report))
    }

    /// A key, with its usage of the current minute and day. The store lacks today's requests that are not flushed yet, and this server may
    /// lack those of other nodes: the larger number is shown.
    fn key(&self, record: &KeyRecord, usage: &[UsageRow], now: Timestamp) -> Value {
        let (minute, day) = self.access.directory.used(record.id, now).unwrap_or((0, 0));
        let today = now.day().to_string();
        let stored = usage.iter().find(|row| row.day == today);
        let mut key = report::key(record, now);
        key["usedThisMinute"] = minute.into();
        key["usedToday"] = stored.map_or(0, |row| row.requests).max(day.into()).into();
        key["refusedToday"] = stored.map_or(0, |row| row.rejected).into();
        key
    }
}

fn first_day(now: Timestamp, days: u64) -> Day {
    now.minus(Duration::from_hours(24 * (days - 1))).day()
}

fn plan(name: &str, per_minute: Option<u32>, per_day: Option<u32>) -> Result<Plan, ApiError> {
    let names = || query::one_of(PlanName::ALL.map(PlanName::as_str));
    let unknown = || invalid("plan", format!("must be {}", names()));
    let name = PlanName::from_name(name).ok_or_else(unknown)?;
    name.with_limits(per_minute, per_day)
        .map_err(|error| invalid("perMinute and perDay:", error))
}

fn changed_key(record: &KeyRecord, now: Timestamp) -> Response {
    respond(StatusCode::OK, &report::key(record, now))
}

impl From<keys::Error> for ApiError {
    fn from(error: keys::Error) -> Self {
        match error {
            keys::Error::Rejected(KeyRejection::Unknown(_)) => {
                ApiError::NotFound("There is no key with this ID.")
            }
            // The dashboard shows it without the last part (`sentence` in core.js).
            keys::Error::Rejected(KeyRejection::InGracePeriod(grace)) => {
                ApiError::Conflict(format!(
                    "{}: send {} to rotate it again",
                    KeyRejection::InGracePeriod(grace),
                    json!({"confirm": true})
                ))
            }
            keys::Error::Rejected(rejection) => ApiError::Conflict(rejection.to_string()),
            keys::Error::Store(error) => error.into(),
            error @ keys::Error::NoRandomness(_) => ApiError::Internal {
                cause: error.to_string(),
            },
        }
    }
}
