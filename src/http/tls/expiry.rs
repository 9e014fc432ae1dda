//! When a certificate expires: `notAfter` in its DER encoding (RFC 5280). The crates that rustls uses do not tell.

use crate::clock::Timestamp;

/// The tags of DER that come before `notAfter`.
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Returns when a certificate expires. `None` if it is malformed.
pub(super) fn of(certificate: &[u8]) -> Option<Timestamp> {
    let (certificate, _) = expect(SEQUENCE, certificate)?;
    let (mut rest, _) = expect(SEQUENCE, certificate)?;
    if let (VERSION, _, after) = element(rest)? {
        rest = after;
    }
    // The serial number, the algorithm and the issuer.
    for _ in 0..3 {
        (_, _, rest) = element(rest)?;
    }
    let (validity, _) = expect(SEQUENCE, rest)?;
    let (_, _, not_after) = element(validity)?;
    match element(not_after)? {
        (UTC_TIME, time, _) => {
            let (year, rest) = time.split_at_checked(2)?;
            // Two digits from 50 on are of the twentieth century.
            let century = if year >= b"50".as_slice() { "19" } else { "20" };
            timestamp(&format!("{century}{}", text(year)?), rest)
        }
        (GENERALIZED_TIME, time, _) => {
            let (year, rest) = time.split_at_checked(4)?;
            timestamp(text(year)?, rest)
        }
        _ => None,
    }
}

/// The time of this year with `MMDDHHMMSSZ` behind it.
fn timestamp(year: &str, rest: &[u8]) -> Option<Timestamp> {
    let rest = text(rest)?.strip_suffix('Z')?;
    let mut pairs = rest.as_bytes().chunks(2).map(text);
    let mut next = || pairs.next().flatten();
    let (month, day, hour, minute, second) = (next()?, next()?, next()?, next()?, next()?);
    let time = format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z");
    time.parse().ok()
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes)
        .ok()
        .filter(|text| text.is_ascii())
}

/// The content of an element with this tag, and what follows it.
fn expect(tag: u8, bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    match element(bytes)? {
        (found, content, rest) if found == tag => Some((content, rest)),
        _ => None,
    }
}

/// The tag and the content of the first element, and what follows it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], mut rest) = bytes.split_first_chunk()?;
    let length = match first {
        0..=0x7f => usize::from(first),
        // The length has so many bytes.
        0x81..=0x84 => {
            let digits;
            (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            digits
                .iter()
                .fold(0, |length, byte| length << 8 | usize::from(*byte))
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}
