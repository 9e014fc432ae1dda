//! A length of time as people write it: `90s`, `5m`, `24h`, `90d`, or several in a row, `1h30m`.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A length of time in whole seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(Duration);

/// The units, the longest first.
const UNITS: [(char, u64); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

/// A thousand years: far enough, and no sum of moments overflows.
const LONGEST: u64 = 365_000 * 86_400;

impl Span {
    /// So many seconds.
    pub const fn from_secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }

    /// As a [`Duration`].
    pub const fn duration(self) -> Duration {
        self.0
    }
}

/// Why a text is not a [`Span`].
#[derive(Debug, thiserror::Error)]
#[error("takes a length of time such as 90s, 5m, 24h or 90d")]
pub struct NotASpan;

impl FromStr for Span {
    type Err = NotASpan;

    fn from_str(text: &str) -> Result<Self, NotASpan> {
        let mut total = 0_u64;
        let mut rest = text;
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let (number, tail) = rest.split_at(digits);
            let unit = tail.chars().next().ok_or(NotASpan)?;
            let (_, secs) = UNITS
                .into_iter()
                .find(|(name, _)| *name == unit)
                .ok_or(NotASpan)?;
            let number: u64 = number.parse().map_err(|_| NotASpan)?;
            total = number
                .checked_mul(secs)
                .and_then(|n| n.checked_add(total))
                .ok_or(NotASpan)?;
            rest = &tail[unit.len_utf8()..];
        }
        if text.is_empty() || total > LONGEST {
            return Err(NotASpan);
        }
        Ok(Self::from_secs(total))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut secs = self.0.as_secs();
        if secs == 0 {
            return f.write_str("0s");
        }
        for (unit, length) in UNITS {
            if secs >= length {
                write!(f, "{}{unit}", secs / length)?;
                secs %= length;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_write_is_read_and_shown_again() {
        for (text, secs) in [
            ("90s", 90),
            ("5m", 300),
            ("24h", 86_400),
            ("90d", 7_776_000),
            ("1h30m", 5_400),
            ("0s", 0),
        ] {
            assert_eq!(
                text.parse::<Span>().unwrap(),
                Span::from_secs(secs),
                "{text}"
            );
        }
        assert_eq!(Span::from_secs(5_400).to_string(), "1h30m");
        assert_eq!(Span::from_secs(0).to_string(), "0s");
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "5",
            "m",
            "-5m",
            "5 m",
            "5w",
            "1.5h",
            "99999999999999999999s",
            "9999999d",
        ] {
            assert!(text.parse::<Span>().is_err(), "{text}");
        }
    }
}
