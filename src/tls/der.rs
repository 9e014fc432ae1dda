//! Parts of a certificate in its DER encoding (RFC 5280) that the crates of rustls do not provide: when it is valid, and the hash
//! that it is signed with.

use sha2::{Digest, Sha256, Sha384, Sha512};

use crate::clock::Timestamp;

/// DER tags.
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const OBJECT_IDENTIFIER: u8 = 0x06;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

pub(super) struct Validity {
    pub(super) not_before: Timestamp,
    pub(super) not_after: Timestamp,
}

/// Returns when a certificate is valid. `None` if it is malformed.
pub(super) fn validity(certificate: &[u8]) -> Option<Validity> {
    let mut rest = content_of(SEQUENCE, content_of(SEQUENCE, certificate)?)?;
    if let (VERSION, _, after) = element(rest)? {
        rest = after;
    }
    // The serial number, the algorithm and the issuer.
    for _ in 0..3 {
        (_, _, rest) = element(rest)?;
    }
    let validity = content_of(SEQUENCE, rest)?;
    let (_, _, not_after) = element(validity)?;
    Some(Validity {
        not_before: time(validity)?,
        not_after: time(not_after)?,
    })
}

/// The OIDs of the algorithms that sign with RSA (PKCS #1) and with ECDSA and SHA-2, without the last arc, which names the hash.
const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
const ECDSA_SHA2: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];

/// The hash of a server's certificate that binds a login to the connection (`tls-server-end-point`, RFC 5929). `None` if the
/// certificate's signature does not define which hash that is.
pub(crate) fn server_end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let (_, _, algorithm) = element(content_of(SEQUENCE, certificate)?)?;
    let algorithm = content_of(OBJECT_IDENTIFIER, content_of(SEQUENCE, algorithm)?)?;
    let (&hash, prefix) = algorithm.split_last()?;
    match (prefix, hash) {
        // MD5 and SHA-1 are replaced by SHA-256.
        (RSA, 4 | 5 | 11) | (ECDSA_SHA2, 2) => Some(Sha256::digest(certificate).to_vec()),
        (RSA, 12) | (ECDSA_SHA2, 3) => Some(Sha384::digest(certificate).to_vec()),
        (RSA, 13) | (ECDSA_SHA2, 4) => Some(Sha512::digest(certificate).to_vec()),
        _ => None,
    }
}

/// The time in the first element.
fn time(bytes: &[u8]) -> Option<Timestamp> {
    match element(bytes)? {
        (UTC_TIME, time, _) => {
            let (year, rest) = time.split_at_checked(2)?;
            // A two-digit year of 50 or more is in the twentieth century (RFC 5280).
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

/// The time of this year and `MMDDHHMMSSZ`.
fn timestamp(year: &str, rest: &[u8]) -> Option<Timestamp> {
    let rest = text(rest)?.strip_suffix('Z')?;
    let mut pairs = rest.as_bytes().chunks(2).map(text);
    let mut next = || pairs.next().flatten();
    let (month, day, hour, minute, second) = (next()?, next()?, next()?, next()?, next()?);
    // The end of 9999 is how certificates that never expire are dated (RFC 5280), and beyond what jiff can represent.
    let year = if year == "9999" { "9998" } else { year };
    let time = format!("{year}-{month}-{day}T{hour}:{minute}:{second}Z");
    time.parse().ok()
}

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes)
        .ok()
        .filter(|text| text.is_ascii())
}

/// The content of the first element, if it has this tag.
fn content_of(tag: u8, bytes: &[u8]) -> Option<&[u8]> {
    let (found, content, _) = element(bytes)?;
    (found == tag).then_some(content)
}

/// The tag and the content of the first element, and what follows it.
fn element(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], mut rest) = bytes.split_first_chunk()?;
    let length = match first {
        0..=0x7f => usize::from(first),
        // The number of bytes of the length, which follows.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_may_never_expire() {
        let last_of_9998 = timestamp("9998", b"1231235959Z");
        assert!(last_of_9998.is_some());
        assert_eq!(timestamp("9999", b"1231235959Z"), last_of_9998);
        assert_eq!(timestamp("9999", b"1331235959Z"), None);
    }
}
