//! Percent-decoding of query values and paths.

use std::borrow::Cow;

/// Decodes a text. `None` if it is malformed or not UTF-8.
pub fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('%') {
        return Some(Cow::Borrowed(text));
    }
    let mut parts = text.split('%');
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        let (byte, rest) = encoded(part.as_bytes())?;
        bytes.push(byte);
        bytes.extend_from_slice(rest);
    }
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// Decodes a path once, so that every spelling of it is the same path. An encoded slash stays encoded, because it is not a separator;
/// so do bytes that are not ASCII and malformed encodings, which no path of the API contains.
pub fn decode_path(path: &str) -> Cow<'_, str> {
    if !path.contains('%') {
        return Cow::Borrowed(path);
    }
    let mut decoded = String::with_capacity(path.len());
    let mut rest = path;
    while let Some((plain, tail)) = rest.split_once('%') {
        decoded.push_str(plain);
        match encoded(tail.as_bytes()) {
            Some((byte, _)) if byte.is_ascii() && byte != b'/' => {
                decoded.push(char::from(byte));
                rest = tail.get(2..).unwrap_or_default();
            }
            _ => {
                decoded.push('%');
                rest = tail;
            }
        }
    }
    decoded.push_str(rest);
    Cow::Owned(decoded)
}

/// The byte encoded by the first two hex digits, and the rest.
fn encoded(text: &[u8]) -> Option<(u8, &[u8])> {
    let [high, low, rest @ ..] = text else {
        return None;
    };
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = u8::try_from(digit(*high)? * 16 + digit(*low)?).ok()?;
    Some((byte, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_decoded_or_rejected() {
        assert_eq!(decode("a%20%C3%A9").as_deref(), Some("a é"));
        for bad in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_path_is_decoded_once_and_an_encoded_slash_separates_nothing() {
        for (path, decoded) in [
            ("/v1/pets", "/v1/pets"),
            ("/v1/p%65t%73/%37", "/v1/pets/7"),
            ("/v1%2Fpets%2f7", "/v1%2Fpets%2f7"),
            ("/%2537", "/%37"),
            ("/%", "/%"),
            ("/%3", "/%3"),
            ("/%zz%65", "/%zze"),
            ("/%é%65", "/%ée"),
            ("/%C3%A9", "/%C3%A9"),
        ] {
            assert_eq!(decode_path(path), decoded, "{path}");
        }
    }
}
