//! The format of a file with animals, by its name, and the check that it is not a file of the database.

use std::path::{Path, PathBuf};

use super::super::outcome::{Failure, Outcome};
use crate::store::{Database, belongs_to_database, is_database};

/// The format of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum RowFormat {
    Ndjson,
    Csv,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    /// Its name, and the file extension.
    pub(super) const fn names(self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::None => None,
            Self::Gzip => Some(("gzip", "gz")),
            Self::Zstd => Some(("zstd", "zst")),
        }
    }

    /// The compression of a file that begins with these four bytes.
    pub(super) const fn of(start: &[u8]) -> Self {
        match start {
            [0x1f, 0x8b, ..] => Self::Gzip,
            [0x28, 0xb5, 0x2f, 0xfd] => Self::Zstd,
            // A skippable frame, such as pzstd writes first.
            [0x50..=0x5f, 0x2a, 0x4d, 0x18] => Self::Zstd,
            _ => Self::None,
        }
    }
}

/// A file of animals, or standard input or output, and its format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PetFile {
    /// None for standard input or output.
    pub(super) path: Option<PathBuf>,
    pub(super) format: RowFormat,
    pub(super) compression: Compression,
}

impl PetFile {
    /// The format that was chosen, or that of the file's extension. Standard input and output are NDJSON by default.
    pub(super) fn of(path: &Path, chosen: Option<RowFormat>) -> Result<Self, Failure> {
        if path == Path::new("-") {
            return Ok(Self {
                path: None,
                format: chosen.unwrap_or(RowFormat::Ndjson),
                compression: Compression::None,
            });
        }
        let extension = |path: &Path| path.extension()?.to_str().map(str::to_lowercase);
        let (compression, stem) = match extension(path).as_deref() {
            Some("gz") => (Compression::Gzip, path.with_extension("")),
            Some("zst") => (Compression::Zstd, path.with_extension("")),
            _ => (Compression::None, path.into()),
        };
        let format = match (chosen, extension(&stem).as_deref()) {
            (Some(format), _) => format,
            (None, Some("ndjson" | "jsonl")) => RowFormat::Ndjson,
            (None, Some("csv")) => RowFormat::Csv,
            (None, _) => {
                return Err(Failure::Usage(format!(
                    "the format of {} is unknown: use --format ndjson or --format csv, or a name that ends in .ndjson or .csv",
                    path.display()
                )));
            }
        };
        Ok(Self {
            path: Some(path.into()),
            format,
            compression,
        })
    }
}

/// Rejects the files of the database.
pub(super) fn reject_database(database: &Database, file: &Path) -> Outcome {
    match database {
        Database::Sqlite(path) if belongs_to_database(path, file) => Err(Failure::Usage(format!(
            "{} belongs to the database itself: choose another file",
            file.display()
        ))),
        _ => Ok(()),
    }
}

/// Rejects a database of SQLite, perhaps one in use, which an export would replace.
pub(super) fn reject_other_database(file: &Path) -> Outcome {
    match is_database(file) {
        true => Err(Failure::Usage(format!(
            "{} is a database of SQLite: choose another file",
            file.display()
        ))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_that_of_the_extension_or_the_chosen_one() {
        use Compression::{Gzip, None, Zstd};
        use RowFormat::{Csv, Ndjson};
        for (name, chosen, format, compression) in [
            ("a.ndjson", Option::None, Ndjson, None),
            ("a.jsonl.gz", Option::None, Ndjson, Gzip),
            ("dir.x/a.CSV.ZST", Option::None, Csv, Zstd),
            ("a.csv", Some(Ndjson), Ndjson, None),
            ("a.gz", Some(Csv), Csv, Gzip),
            ("a", Some(Csv), Csv, None),
        ] {
            let Ok(found) = PetFile::of(Path::new(name), chosen) else {
                unreachable!("{name}");
            };
            assert_eq!((found.format, found.compression), (format, compression));
        }
        for name in ["a", "a.gz", "a.txt", "csv", ".csv"] {
            assert!(PetFile::of(Path::new(name), Option::None).is_err());
        }
        let standard = PetFile::of(Path::new("-"), Option::None);
        assert!(standard.is_ok_and(|it| it.path.is_none() && it.format == Ndjson));
    }
}
