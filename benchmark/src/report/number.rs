//! Formatting of figures.

/// An integer with thousands separators.
pub(super) fn whole(number: f64) -> String {
    let digits = format!("{number:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count, in words if it is a round number.
pub(super) fn count(number: u64) -> String {
    match number {
        1_000_000.. if number.is_multiple_of(1_000_000) => {
            format!("{} million", number / 1_000_000)
        }
        1_000..100_000 if number.is_multiple_of(1_000) => format!("{} thousand", number / 1_000),
        _ => whole(number as f64),
    }
}

/// Microseconds with about three significant digits.
pub(super) fn micros(micros: f64) -> String {
    match micros {
        micros if micros.is_nan() => "–".into(),
        100.0.. => format!("{} µs", whole(micros)),
        10.0.. => format!("{micros:.1} µs"),
        _ => format!("{micros:.2} µs"),
    }
}

/// A ratio.
pub(super) fn times(ratio: f64) -> String {
    match ratio {
        ratio if ratio.is_nan() => "–".into(),
        10.0.. => format!("{ratio:.0} ×"),
        _ => format!("{ratio:.2} ×"),
    }
}

/// Megabytes.
pub(super) fn megabytes(bytes: u64) -> String {
    format!("{} MB", whole(bytes as f64 / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_readable() {
        assert_eq!(whole(1_234_567.4), "1,234,567");
        assert_eq!(whole(123.0), "123");
        assert_eq!(count(10_000), "10 thousand");
        assert_eq!(count(10_000_000), "10 million");
        assert_eq!(count(100_000), "100,000");
        assert_eq!(count(1), "1");
        assert_eq!(micros(7.512), "7.51 µs");
        assert_eq!(times(f64::NAN), "–");
    }
}
