//! Lines of CSV, as in RFC 4180. No value has a line break, so each record is one line: a quote that is not closed makes one line
//! bad, not the rest of the file.

use std::borrow::Cow;
use std::cmp::Ordering;

use super::IdSource;

const UNCLOSED_QUOTE: &str =
    "a quote is not closed: close it, and leave out line breaks in fields, even in quoted ones";

const TEXT_AFTER_QUOTE: &str =
    "text after a closing quote: put the whole field in quotes, and write each quote in it twice";

const QUOTE_IN_UNQUOTED_FIELD: &str = "a quote in a field without quotes: put the whole field in quotes, and write each quote in it twice";

const TOO_FEW_FIELDS: &str =
    "fewer fields than the header line: leave a field empty, but write its comma";

const TOO_MANY_FIELDS: &str =
    "more fields than the header line: put a field with a comma in quotes";

/// The fields of a line, or what is wrong with it.
fn fields(line: &[u8]) -> Result<Vec<Cow<'_, str>>, &'static str> {
    let mut rest = std::str::from_utf8(line).map_err(|_| "not valid UTF-8")?;
    let mut fields = Vec::new();
    loop {
        let (field, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_field(quoted)?,
            None => plain_field(rest)?,
        };
        fields.push(field);
        rest = match after.strip_prefix(',') {
            Some(next) => next,
            None if after.is_empty() => return Ok(fields),
            None => return Err(TEXT_AFTER_QUOTE),
        };
    }
}

/// A field without quotes, and what follows it.
fn plain_field(text: &str) -> Result<(Cow<'_, str>, &str), &'static str> {
    let (field, rest) = text.split_at(text.find([',', '"']).unwrap_or(text.len()));
    match rest.starts_with('"') {
        true => Err(QUOTE_IN_UNQUOTED_FIELD),
        false => Ok((field.into(), rest)),
    }
}

/// The field that an opening quote begins, and what follows its closing quote.
fn quoted_field(text: &str) -> Result<(Cow<'_, str>, &str), &'static str> {
    let mut from = 0;
    loop {
        let quote = from + text[from..].find('"').ok_or(UNCLOSED_QUOTE)?;
        let (field, rest) = (&text[..quote], &text[quote + 1..]);
        if rest.starts_with('"') {
            from = quote + 2;
        } else if from == 0 {
            return Ok((field.into(), rest));
        } else {
            return Ok((field.replace("\"\"", "\"").into(), rest));
        }
    }
}

/// The positions of the fields in a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CsvColumns {
    count: usize,
    pub(super) id: Option<usize>,
    pub(super) name: usize,
    pub(super) category_id: usize,
    pub(super) status: Option<usize>,
}

impl CsvColumns {
    /// The names of all columns, as they are written.
    pub const NAMES: [&'static str; 4] = ["id", "name", "categoryId", "status"];

    /// Finds the columns in the header line, or returns what is wrong with it. Other columns are ignored.
    pub fn find(header: &[u8], ids: IdSource) -> Result<Self, String> {
        let example = Self::NAMES.join(",");
        let titles = fields(header).map_err(|problem| {
            format!("the header line must have columns, as in {example}: {problem}")
        })?;
        let mut positions = [None; 4];
        for (position, title) in titles.iter().enumerate() {
            let known = Self::NAMES.iter().zip(&mut positions);
            for (name, column) in known.filter(|(name, _)| *name == title) {
                if column.replace(position).is_some() {
                    return Err(format!("the header line has the column {name} twice"));
                }
            }
        }
        let missing =
            |name: &str| format!("the header line must have a column {name}, as in {example}");
        let [id, name, category_id, status] = positions;
        if ids == IdSource::Kept && id.is_none() {
            return Err(missing("id"));
        }
        Ok(Self {
            count: titles.len(),
            id,
            name: name.ok_or_else(|| missing("name"))?,
            category_id: category_id.ok_or_else(|| missing("categoryId"))?,
            status,
        })
    }

    /// The fields of a line, which are as many as there are columns.
    pub(super) fn fields<'a>(&self, line: &'a [u8]) -> Result<Vec<Cow<'a, str>>, &'static str> {
        let fields = fields(line)?;
        match fields.len().cmp(&self.count) {
            Ordering::Less => Err(TOO_FEW_FIELDS),
            Ordering::Equal => Ok(fields),
            Ordering::Greater => Err(TOO_MANY_FIELDS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_split_as_rfc_4180_has_it_and_anything_else_is_a_problem() {
        for (line, wanted) in [
            ("Rex,1", &["Rex", "1"][..]),
            ("", &[""]),
            (",", &["", ""]),
            (" a ,\t", &[" a ", "\t"]),
            ("\"Rex\",\"\"", &["Rex", ""]),
            ("\"a, \"\"b\"\"\",\"\"\"\",\"ü\"", &["a, \"b\"", "\"", "ü"]),
            ("'a,b'", &["'a", "b'"]),
        ] {
            let found = fields(line.as_bytes()).unwrap();
            assert_eq!(found, wanted, "{line}");
        }
        for (line, problem) in [
            ("\"Rex,1", UNCLOSED_QUOTE),
            ("1,\"", UNCLOSED_QUOTE),
            ("\"a\"\",1", UNCLOSED_QUOTE),
            ("\"Rex\"x,1", TEXT_AFTER_QUOTE),
            ("\"Rex\" ,1", TEXT_AFTER_QUOTE),
            ("Rex \"x\",1", QUOTE_IN_UNQUOTED_FIELD),
            (" \"Rex\",1", QUOTE_IN_UNQUOTED_FIELD),
            ("Rex\"", QUOTE_IN_UNQUOTED_FIELD),
        ] {
            assert_eq!(fields(line.as_bytes()), Err(problem), "{line}");
        }
        assert_eq!(fields(b"\xff,1"), Err("not valid UTF-8"));
    }

    #[test]
    fn a_header_line_names_each_column_once() {
        for (header, ids, problem) in [
            ("name", IdSource::New, "column categoryId,"),
            ("1,Rex,2,sold", IdSource::New, "column name,"),
            ("name,categoryId", IdSource::Kept, "column id,"),
            ("name,name,categoryId", IdSource::New, "column name twice"),
            ("name,\"categoryId", IdSource::New, UNCLOSED_QUOTE),
        ] {
            let error = CsvColumns::find(header.as_bytes(), ids).unwrap_err();
            assert!(error.contains(problem), "{header}: {error}");
        }
    }

    #[test]
    fn a_line_has_as_many_fields_as_the_header_line() {
        let columns = CsvColumns::find(b"x,name,categoryId", IdSource::New).unwrap();
        assert_eq!(columns.fields(b"Rex,1"), Err(TOO_FEW_FIELDS));
        assert_eq!(columns.fields(b",Rex,1,"), Err(TOO_MANY_FIELDS));
        assert!(columns.fields(b",\"Rex, Tom\",1").is_ok());
    }
}
