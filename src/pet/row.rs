//! An animal in a file: the fields and rules of the API, and its ID if animals keep theirs.

use super::body::{Fields, NOT_AN_INT64, parse_int64};
use super::{CsvColumns, IdSource, NewPet, PetId, PetStatus, syntax};

/// An animal in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PetRow {
    /// Its ID, if animals keep theirs.
    pub id: Option<PetId>,
    /// Everything else.
    pub pet: NewPet,
}

impl PetRow {
    /// Parses a JSON object, or returns all problems with it.
    pub fn from_json(line: &[u8], ids: IdSource) -> Result<Self, String> {
        let text = std::str::from_utf8(line).map_err(|_| "not valid UTF-8")?;
        let mut fields: Fields<'_> =
            serde_json::from_str(text).map_err(|error| match error.classify() {
                serde_json::error::Category::Data => "not a JSON object".to_owned(),
                _ => syntax::problem(text, &error).replace("line 1, ", ""),
            })?;
        let mut problems = Vec::new();
        let id = ids.id(fields.id.map(|raw| raw.get()), &mut problems);
        let pet = fields.checked(ids.to_name(), &mut problems);
        match id.zip(pet) {
            Some((id, pet)) => Ok(Self { id, pet }),
            None => Err(problems.join("; ")),
        }
    }

    /// Parses a line of CSV, or returns all problems with it.
    pub fn from_csv(line: &[u8], columns: &CsvColumns, ids: IdSource) -> Result<Self, String> {
        let fields = columns.fields(line)?;
        let text = |column: usize| &*fields[column];
        let mut problems = Vec::new();
        let id = ids.id(columns.id.map(text), &mut problems);
        let mut report = |name: &str, problem: &str| problems.push(format!("{name} {problem}"));
        let name = ids.to_name()(text(columns.name).to_owned());
        let name = name.map_err(|problem| report("name", &problem));
        let category_id = parse_int64(text(columns.category_id));
        let category_id = category_id.ok_or_else(|| report("categoryId", NOT_AN_INT64));
        // An empty field is one that is omitted.
        let status = match columns.status.map(text) {
            None | Some("") => Ok(PetStatus::Available),
            Some(name) => name.parse().map_err(|problem| report("status", problem)),
        };
        match (id, name, category_id, status) {
            (Some(id), Ok(name), Ok(category_id), Ok(status)) => Ok(Self {
                id,
                pet: NewPet {
                    name,
                    category_id,
                    status,
                },
            }),
            _ => Err(problems.join("; ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_csv(header: &str, line: &str, ids: IdSource) -> Result<PetRow, String> {
        let columns = CsvColumns::find(header.as_bytes(), ids)?;
        PetRow::from_csv(line.as_bytes(), &columns, ids)
    }

    #[test]
    fn both_formats_have_the_rules_of_the_api_and_name_every_problem() {
        let json = br#"{"id":0,"name":" ","categoryId":1.5,"status":"lost"}"#;
        let problems = "id must be an integer from 1 to 4611686018427387904; name must not be blank; \
                        categoryId must be an integer from -9223372036854775808 to 9223372036854775807; \
                        status must be one of available, pending, sold";
        assert_eq!(
            PetRow::from_json(json, IdSource::Kept),
            Err(problems.into())
        );
        let header = "status,x,categoryId,name,id";
        assert_eq!(
            from_csv(header, "lost,,1.5, ,0", IdSource::Kept),
            Err(problems.into())
        );
        let (_, others) = problems.split_once("; ").unwrap();
        assert_eq!(PetRow::from_json(json, IdSource::New), Err(others.into()));
        assert_eq!(
            from_csv(header, "lost,,1.5, ,0", IdSource::New),
            Err(others.into())
        );
    }

    #[test]
    fn a_category_that_only_looks_like_a_number_is_a_problem() {
        for category in ["-", "0000-00-00", "0e", ""] {
            let line = format!("Rex,{category}");
            let row = from_csv("name,categoryId", &line, IdSource::New);
            assert!(
                row.is_err_and(|problem| problem.contains("categoryId must be an integer")),
                "{category}"
            );
        }
    }

    #[test]
    fn a_row_keeps_its_id_or_gets_a_new_one() {
        let pet = NewPet::from_json(br#"{"name":"Rex","categoryId":-3}"#).unwrap();
        let json = br#"{"id":4611686018427387904,"name":"Rex","categoryId":-3,"x":1}"#;
        for (ids, id) in [
            (IdSource::New, None),
            (IdSource::Kept, Some(PetId(PetId::LARGEST_KEPT))),
        ] {
            let row = PetRow {
                id,
                pet: pet.clone(),
            };
            assert_eq!(PetRow::from_json(json, ids).as_ref(), Ok(&row));
            let line = "Rex,4611686018427387904,-3,";
            let from_csv = from_csv("name,id,categoryId,status", line, ids);
            assert_eq!(from_csv, Ok(row));
        }
        let too_large = br#"{"id":4611686018427387905,"name":"Rex","categoryId":-3}"#;
        assert!(PetRow::from_json(too_large, IdSource::Kept).is_err());
        assert!(PetRow::from_json(br#"{"name":"Rex","categoryId":1}"#, IdSource::Kept).is_err());
    }

    #[test]
    fn a_name_that_older_rules_accepted_is_valid_if_the_animal_keeps_its_id() {
        let json = "{\"id\":1,\"name\":\"\u{200b}\",\"categoryId\":1}".as_bytes();
        assert!(PetRow::from_json(json, IdSource::Kept).is_ok());
        assert!(PetRow::from_json(json, IdSource::New).is_err());
        let blank = br#"{"id":1,"name":" ","categoryId":1}"#;
        assert!(PetRow::from_json(blank, IdSource::Kept).is_err());
    }
}
