//! The query parameters of the admin API. Unknown ones are ignored; each may be given at most once.

use crate::admin::resource::parse_id;
use crate::admin::streams::TabId;
use crate::api::ApiError;
use crate::clock::Timestamp;
use crate::key::KeyId;
use crate::names::FromName;
use crate::order::OrderState;
use crate::percent::decode;
use crate::store::{KeyListQuery, KeySort, KeyState};

/// The maximum number of keys in one page.
const MAX_KEYS: u16 = 200;

/// Parses `q`, `state`, `sort`, `order`, `offset` and `limit`.
pub(super) fn parse_key_query(
    query: Option<&str>,
    now: Timestamp,
) -> Result<KeyListQuery, ApiError> {
    let states = one_of(KeyState::ALL.map(KeyState::as_str));
    let state = parse_parameter(query, "state", &states, KeyState::from_name)?;
    let sort = parse_parameter(query, "sort", "id, name, plan, lastUsed or today", |text| {
        Some(match text {
            "id" => KeySort::Id,
            "name" => KeySort::Name,
            "plan" => KeySort::Plan,
            "lastUsed" => KeySort::LastUsed,
            "today" => KeySort::Requests(now.day()),
            _ => return None,
        })
    })?;
    let descending = parse_parameter(query, "order", "asc or desc", |text| match text {
        "asc" => Some(false),
        "desc" => Some(true),
        _ => None,
    })?;
    let search = parse_parameter(
        query,
        "q",
        "at most 100 characters, without control characters",
        |text| {
            let fits = text.chars().count() <= 100 && !text.contains(char::is_control);
            fits.then(|| text.to_owned())
        },
    )?;
    let offset = parse_parameter(query, "offset", "between 0 and 4294967295", |text| {
        text.parse().ok()
    })?;
    let limits = format!("between 1 and {MAX_KEYS}");
    let limit = parse_parameter(query, "limit", &limits, |text| {
        let limit = text.parse().ok();
        limit.filter(|limit| (1..=MAX_KEYS).contains(limit))
    })?;
    Ok(KeyListQuery {
        search: search.filter(|text| !text.is_empty()),
        state,
        sort: sort.unwrap_or_default(),
        descending: descending.unwrap_or(false),
        offset: offset.unwrap_or(0),
        limit: limit.unwrap_or(50),
        now,
    })
}

/// Parses `key`, the ID of a key.
pub(super) fn key(query: Option<&str>) -> Result<Option<KeyId>, ApiError> {
    parse_parameter(query, "key", "an ID", |text| parse_id(text).map(KeyId))
}

/// Parses `tab`, the ID of a browser tab.
pub(super) fn tab(query: Option<&str>) -> Result<Option<TabId>, ApiError> {
    parse_parameter(query, "tab", "a number", |text| text.parse().ok())
}

/// Parses the `state` of an order.
pub(super) fn order_state(query: Option<&str>) -> Result<Option<OrderState>, ApiError> {
    let states = one_of(OrderState::ALL.map(OrderState::as_str));
    parse_parameter(query, "state", &states, OrderState::from_name)
}

/// Several names as in a sentence: `a, b or c`.
pub(super) fn one_of<const N: usize>(names: [&str; N]) -> String {
    let (first, last) = names.split_at(N - 1);
    format!("{} or {}", first.join(", "), last.concat())
}

/// Parses a parameter that is given at most once. The error says what its value `must be`.
fn parse_parameter<T>(
    query: Option<&str>,
    name: &'static str,
    must_be: &str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, ApiError> {
    let pairs = query.into_iter().flat_map(|query| query.split('&'));
    let mut values = pairs.filter_map(|pair| {
        let (given, value) = pair.split_once('=').unwrap_or((pair, ""));
        (decode(given).as_deref() == Some(name)).then_some(value)
    });
    let Some(value) = values.next() else {
        return Ok(None);
    };
    let invalid = |problem: String| ApiError::InvalidParameter { name, problem };
    if values.next().is_some() {
        return Err(invalid("must be given at most once".into()));
    }
    // Browsers encode a space as +.
    let value = value.replace('+', " ");
    let parsed = decode(&value).and_then(|value| parse(&value));
    let problem = || invalid(format!("must be {must_be}"));
    parsed.ok_or_else(problem).map(Some)
}
