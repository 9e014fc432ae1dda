//! Durations, as options take them.

use std::time::Duration;

use jiff::SpanRelativeTo;

use crate::limit::MAX_BAN_DURATION;

/// The maximum duration: a thousand years, so that no sum with a point in time overflows.
const MAX_DURATION: Duration = Duration::from_hours(365_000 * 24);

const TOO_LONG: &str = "must be at most 365000d, a thousand years";

/// Parses a duration in whole seconds, such as `90s`, `24h` or `1h30m`.
pub(crate) fn parse(text: &str) -> Result<Duration, &'static str> {
    let is_whole = |duration: Duration| duration.subsec_nanos() == 0;
    match read(text) {
        Some(duration) if duration <= MAX_DURATION && is_whole(duration) => Ok(duration),
        Some(duration) if duration > MAX_DURATION => Err(TOO_LONG),
        // The syntax is valid with small numbers, so these are too large.
        None if !text.contains('.') && read(&with_ones(text)).is_some_and(is_whole) => {
            Err(TOO_LONG)
        }
        _ => Err("must be a duration in whole seconds, such as 90s, 5m, 24h or 90d"),
    }
}

/// Replaces each number with 1.
fn with_ones(text: &str) -> String {
    let mut ones = text.replace(|character: char| character.is_ascii_digit(), "1");
    while ones.contains("11") {
        ones = ones.replace("11", "1");
    }
    ones
}

fn read(text: &str) -> Option<Duration> {
    let span: jiff::Span = text.parse().ok()?;
    let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?;
    Duration::try_from(duration).ok()
}

pub(crate) fn positive(text: &str) -> Result<Duration, &'static str> {
    match parse(text)? {
        Duration::ZERO => Err("must be longer than 0s"),
        duration => Ok(duration),
    }
}

/// Parses the duration of a first ban: the longest ban lasts an hour.
pub(super) fn at_most_an_hour(text: &str) -> Result<Duration, &'static str> {
    match positive(text)? {
        duration if duration <= MAX_BAN_DURATION => Ok(duration),
        _ => Err("must be at most 1h, the longest ban"),
    }
}

/// Parses a duration of a day or more: limits need the usage of today and yesterday.
pub(super) fn at_least_a_day(text: &str) -> Result<Duration, &'static str> {
    match parse(text)? {
        duration if duration >= Duration::from_hours(24) => Ok(duration),
        _ => Err("must be at least 1d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_read_in_the_units_that_are_documented() {
        for (text, secs) in [
            ("90s", 90),
            ("5m", 300),
            ("24h", 86_400),
            ("90d", 7_776_000),
            ("1h30m", 5_400),
            ("1d 12h", 129_600),
            ("0s", 0),
            ("365000d", 31_536_000_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_secs(secs)), "{text}");
        }
    }

    #[test]
    fn a_duration_is_whole_not_negative_and_no_longer_than_a_thousand_years() {
        for text in [
            "",
            "5",
            "m",
            "-5m",
            "5x",
            "1mo",
            "1y",
            "0.5s",
            "1.23m",
            "0.0001h",
            "1.0000000000h",
            "500ms",
            "365001d",
            "9999999d",
            "99999999999999999999s",
            "5m ago",
        ] {
            let error = parse(text).expect_err(text);
            let is_long = text.starts_with(['3', '9']);
            assert_eq!(
                error.contains("at most 365000d"),
                is_long,
                "{text}: {error}"
            );
        }
    }
}
