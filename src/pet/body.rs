//! Parsing of the body of a new animal. All problems are reported at once.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::{NOT_A_STATUS, NewPet, PetName, PetStatus, syntax};

/// All problems with a body.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidBody(String);

impl InvalidBody {
    /// The error of a body that was aborted, or has malformed chunks.
    pub fn incomplete() -> Self {
        Self("The body is incomplete, or its chunks are malformed.".into())
    }
}

pub(super) const NOT_AN_INT64: &str =
    "must be an integer from -9223372036854775808 to 9223372036854775807";

const NOT_AN_OBJECT: &str =
    "The body must be a JSON object with name, categoryId and, optionally, status.";

impl NewPet {
    /// Parses a request body, or returns all problems with it.
    pub fn from_json(body: &[u8]) -> Result<Self, InvalidBody> {
        if body.iter().all(u8::is_ascii_whitespace) {
            return Err(InvalidBody(format!("The body is empty. {NOT_AN_OBJECT}")));
        }
        // The whole body first: a parser that skips an unknown field would skip invalid UTF-8 in it too.
        let text = std::str::from_utf8(body)
            .map_err(|_| InvalidBody(format!("The body is not valid UTF-8. {NOT_AN_OBJECT}")))?;
        let mut fields: Fields<'_> = serde_json::from_str(text).map_err(|error| {
            InvalidBody(match error.classify() {
                serde_json::error::Category::Data => NOT_AN_OBJECT.to_owned(),
                _ => {
                    let problem = syntax::problem(text, &error);
                    format!("The body is {problem}. {NOT_AN_OBJECT}")
                }
            })
        })?;

        let mut problems = Vec::new();
        fields.checked(PetName::new, &mut problems).ok_or_else(|| {
            InvalidBody(format!(
                "The body is not a valid animal: {}.",
                problems.join("; ")
            ))
        })
    }
}

impl Fields<'_> {
    /// The animal of these fields, or all problems with them. `to_name` has the rules for its name.
    pub(super) fn checked(
        &mut self,
        to_name: fn(String) -> Result<PetName, String>,
        problems: &mut Vec<String>,
    ) -> Option<NewPet> {
        for (index, name) in self.repeated.drain(..).enumerate() {
            let name = match index < MAX_REPEATED {
                true => &*name,
                false => "each of the other fields",
            };
            problems.push(format!("{name} must be given at most once"));
        }
        let mut report = |name: &str, problem: &str| problems.push(format!("{name} {problem}"));

        let name = match self
            .name
            .map(|raw| (raw.get(), serde_json::from_str(raw.get())))
        {
            None => Err("is missing: it must be a string".to_owned()),
            // A string with an unpaired surrogate.
            Some((raw, Err(_))) if raw.starts_with('"') => {
                Err("must be valid Unicode text".to_owned())
            }
            Some((_, Err(_))) => Err("must be a string".to_owned()),
            Some((_, Ok(text))) => to_name(text),
        }
        .map_err(|problem| report("name", &problem));

        let category_id = match self.category_id.map(|raw| parse_int64(raw.get())) {
            None => Err("is missing: it must be an integer"),
            Some(None) => Err(NOT_AN_INT64),
            Some(Some(id)) => Ok(id),
        }
        .map_err(|problem| report("categoryId", problem));

        let status = match self
            .status
            .map(|raw| serde_json::from_str::<String>(raw.get()))
        {
            None => Ok(PetStatus::Available),
            Some(name) => name
                .ok()
                .and_then(|name| name.parse().ok())
                .ok_or(NOT_A_STATUS),
        }
        .map_err(|problem| report("status", problem));

        match (name, category_id, status) {
            (Ok(name), Ok(category_id), Ok(status)) if problems.is_empty() => Some(NewPet {
                name,
                category_id,
                status,
            }),
            _ => None,
        }
    }
}

/// The exact value of a JSON number, or of a field of CSV that looks like one, if it is an int64. JSON has one kind of number: `2`,
/// `2.0` and `20e-1` are the same, and some languages write the second.
pub(super) fn parse_int64(text: &str) -> Option<i64> {
    if !text.starts_with(|c: char| c == '-' || c.is_ascii_digit()) {
        return None;
    }
    // JSON has no leading zeros.
    if !text.trim_start_matches('-').starts_with('0')
        && let Ok(number) = text.parse()
    {
        return Some(number);
    }
    // A field of CSV may be anything, such as a date, or a dash for none.
    let number: &RawValue = serde_json::from_str(text).ok()?;
    if number.get() != text {
        return None;
    }
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (integer, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let fraction = fraction.trim_end_matches('0');
    let digits = format!("{integer}{fraction}");
    if digits.bytes().all(|digit| b"-0".contains(&digit)) {
        return Some(0);
    }
    let shift = exponent
        .parse::<i64>()
        .ok()?
        .checked_sub(i64::try_from(fraction.len()).ok()?)?;
    match usize::try_from(shift) {
        // An int64 has at most nineteen digits.
        Ok(zeros) if zeros < 20 => format!("{digits}{}", "0".repeat(zeros)).parse().ok(),
        Ok(_) => None,
        Err(_) => {
            let cut = digits
                .len()
                .checked_sub(usize::try_from(shift.unsigned_abs()).ok()?)?;
            let (kept, lost) = digits.split_at_checked(cut)?;
            lost.bytes()
                .all(|digit| digit == b'0')
                .then(|| kept.parse().ok())
                .flatten()
        }
    }
}

/// How many repeated fields a message names: a body has room for thousands.
const MAX_REPEATED: usize = 8;

/// The known fields, not yet parsed, and the names of repeated fields: at most one more than a message names.
#[derive(Default)]
pub(super) struct Fields<'a> {
    pub(super) id: Option<&'a RawValue>,
    name: Option<&'a RawValue>,
    category_id: Option<&'a RawValue>,
    status: Option<&'a RawValue>,
    repeated: Vec<String>,
}

impl<'de> Deserialize<'de> for Fields<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(FieldsVisitor)
    }
}

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Fields::default();
        let mut seen = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "id" => fields.id = Some(map.next_value()?),
                "name" => fields.name = Some(map.next_value()?),
                "categoryId" => fields.category_id = Some(map.next_value()?),
                "status" => fields.status = Some(map.next_value()?),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
            if let Some(name) = seen.replace(name).map(displayed)
                && fields.repeated.len() <= MAX_REPEATED
                && !fields.repeated.contains(&name)
            {
                fields.repeated.push(name);
            }
        }
        Ok(fields)
    }
}

/// A field's name in a message: quoted if it is unusual, and left out if it is long, because it could be a misplaced secret.
fn displayed(name: String) -> String {
    let is_usual = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.len() > 32 {
        "a field with a long name".to_owned()
    } else if !name.is_empty() && name.bytes().all(is_usual) {
        name
    } else {
        Value::from(name).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(body: &str) -> String {
        NewPet::from_json(body.as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn a_complete_body_is_parsed_and_status_is_available_when_omitted() {
        let pet =
            NewPet::from_json(br#" {"id":9,"x":[{}],"name":"Rex","categoryId":-0} "#).unwrap();
        assert_eq!(
            (pet.name.as_str(), pet.category_id, pet.status),
            ("Rex", 0, PetStatus::Available)
        );
    }

    #[test]
    fn a_few_repeated_fields_are_named_once_each() {
        let same = r#""":0,"#.repeat(3_000);
        let text = problem(&format!(r#"{{{same}"name":"a","categoryId":1}}"#));
        assert_eq!(
            text,
            r#"The body is not a valid animal: "" must be given at most once."#
        );
        let many: String = (0..1_000)
            .map(|i| format!(r#""x{i}":0,"x{i}":0,"#))
            .collect();
        let text = problem(&format!(r#"{{{many}"name":"a","categoryId":1}}"#));
        assert!(
            text.ends_with(
                "; x7 must be given at most once; each of the other fields must be given at most once."
            ),
            "{text}"
        );
    }

    #[test]
    fn every_problem_is_named_at_once() {
        assert_eq!(
            problem(r#"{"name":" ","categoryId":1.5,"status":null,"x":1,"x":2}"#),
            "The body is not a valid animal: x must be given at most once; name must not be blank; \
             categoryId must be an integer from -9223372036854775808 to 9223372036854775807; \
             status must be one of available, pending, sold."
        );
        assert_eq!(
            problem(r#"{"name":1e400,"categoryId":1}"#),
            "The body is not a valid animal: name must be a string."
        );
        assert_eq!(
            problem("{}"),
            "The body is not a valid animal: name is missing: it must be a string; \
             categoryId is missing: it must be an integer."
        );
    }

    #[test]
    fn an_integer_is_an_int64_without_fraction_or_quotes() {
        for bad in [
            "1.5",
            "15e-1",
            "1e-9",
            "9223372036854775808",
            "9223372036854775807.5",
            "-9223372036854775809",
            "1e19",
        ]
        .into_iter()
        .chain([
            "1e999999999999999999999",
            "1e400",
            "\"1\"",
            "true",
            "null",
            "[1]",
            "{}",
        ]) {
            let text = problem(&format!(r#"{{"name":"a","categoryId":{bad}}}"#));
            assert!(
                text.contains("categoryId must be an integer"),
                "{bad}: {text}"
            );
        }
        for (good, value) in [
            ("1.0", 1),
            ("-2.00", -2),
            ("1e2", 100),
            ("150E-1", 15),
            ("-0.0", 0),
            ("0e99999999999999999999", 0),
            ("1.5e1", 15),
        ] {
            assert_eq!(parse_int64(good), Some(value), "{good}");
        }
        let bad = "- +7 007 -07 00 --7 -- -. . 0-0 0000-00-00 0. 0e 0ex -e5 1.0x";
        for bad in bad.split(' ').chain(["", "0 0", "1.0 "]) {
            assert_eq!(parse_int64(bad), None, "{bad}");
        }
        assert_eq!(parse_int64("9223372036854775807.0"), Some(i64::MAX));
        assert_eq!(
            parse_int64("9007199254740993.0"),
            Some(9_007_199_254_740_993),
            "no rounding on the way"
        );
        let body = format!(r#"{{"name":"a","categoryId":{}}}"#, i64::MIN);
        assert_eq!(
            NewPet::from_json(body.as_bytes()).unwrap().category_id,
            i64::MIN
        );
    }

    #[test]
    fn a_body_that_is_not_an_object_gets_a_message_about_the_fields_to_send() {
        for body in [
            "",
            "  ",
            "[]",
            "1",
            "null",
            "{",
            "{\"name\":\"\\ud800\"",
            "{} {}",
            "\u{feff}{}",
        ] {
            assert!(problem(body).contains("must be a JSON object"), "{body}");
        }
        let deep = format!("{{\"x\":{}}}", "[".repeat(10_000));
        assert!(problem(&deep).contains("not valid JSON"));
        let (open, close) = ("[".repeat(5_000), "]".repeat(5_000));
        let deep = format!(r#"{{"name":"a","categoryId":1,"x":{open}{close}}}"#);
        assert!(
            NewPet::from_json(deep.as_bytes()).is_ok(),
            "an unknown field may be nested deeply"
        );
        assert!(NewPet::from_json(b"{\"name\":\"\xff\",\"categoryId\":1}").is_err());
        assert!(NewPet::from_json(b"{\"name\":\"a\",\"categoryId\":1,\"x\":\"\xff\"}").is_err());
    }

    #[test]
    fn all_problems_with_a_name_are_reported() {
        let long = format!(r#"{{"name":"{}\u0001","categoryId":1}}"#, "x".repeat(300));
        let message = problem(&long);
        assert!(
            message.contains("255 characters long and must not contain control characters"),
            "{message}"
        );
    }

    #[test]
    fn a_lone_surrogate_is_not_a_valid_name() {
        assert!(
            problem(r#"{"name":"\ud800","categoryId":1}"#)
                .contains("name must be valid Unicode text")
        );
        for name in [r"\ud800", r"\ud800\n", r"\ud800\u0041", r"\udc00"] {
            let body = format!(r#"{{"name":"a","categoryId":1,"{name}":1}}"#);
            let start = "The body is not valid Unicode text: unpaired surrogate in the name of a field at line 1, column ";
            assert!(problem(&body).starts_with(start), "{}", problem(&body));
        }
    }
}
