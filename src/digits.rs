//! Numbers as decimal digits, for bytes that are written with every answer: a fraction of what `format!` costs.

/// Appends `number`.
pub fn push(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0; 20];
    let length = write(&mut digits, number);
    out.extend_from_slice(&digits[..length]);
}

/// Writes `number` to the start of `place`, and says how many digits it has. Those that do not fit are left out.
pub fn write(place: &mut [u8], number: u64) -> usize {
    let length = number
        .checked_ilog10()
        .map_or(1, |power| power as usize + 1)
        .min(place.len());
    let mut rest = number;
    for digit in place[..length].iter_mut().rev() {
        // One digit always fits a byte.
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    length
}

/// Appends `number`, with its sign if it has one.
pub fn push_signed(out: &mut Vec<u8>, number: i64) {
    if number < 0 {
        out.push(b'-');
    }
    push(out, number.unsigned_abs());
}

/// Appends the last three digits of `number`.
pub fn push_three(out: &mut Vec<u8>, number: u64) {
    let digit = |of: u64| b'0' + (of % 10) as u8;
    out.extend_from_slice(&[digit(number / 100), digit(number / 10), digit(number)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_digits_as_the_standard_library() {
        for number in [0, 7, 10, 99, 100, 12_345, i64::MAX, i64::MIN, -1, -10] {
            let mut out = Vec::new();
            push_signed(&mut out, number);
            assert_eq!(out, number.to_string().into_bytes());
        }
        let mut out = Vec::new();
        push(&mut out, u64::MAX);
        push_three(&mut out, 1_007);
        assert_eq!(out, format!("{}007", u64::MAX).into_bytes());
    }
}
