//! The files of a database, which no other file may replace.

use std::path::Path;

use super::connect::sibling;
use super::identity::FileIdentity;
use super::lock::{IMPORT_SUFFIX, SERVER_SUFFIX};
use crate::new_file::{SQLITE_SUFFIXES, folder};

/// Whether a file is the database or one of the files next to it, by any of its names. It need not exist yet.
pub fn belongs_to_database(database: &Path, file: &Path) -> bool {
    let found = FileIdentity::at(file.into()).ok();
    let locks = [SERVER_SUFFIX, IMPORT_SUFFIX];
    let mut suffixes = [""].into_iter().chain(SQLITE_SUFFIXES).chain(locks);
    suffixes.any(|suffix| {
        let part = sibling(database, suffix);
        if same_name(&part, file) {
            return true;
        }
        // Through a link, the file behind it would be replaced.
        let part = FileIdentity::at(part).ok().zip(found.as_ref());
        part.is_some_and(|(part, found)| found.is_same_file(&part))
    })
}

/// Whether two paths name the same entry of the same folder.
fn same_name(one: &Path, other: &Path) -> bool {
    let folder = |path| folder(path).canonicalize().ok();
    one.file_name() == other.file_name() && folder(one) == folder(other)
}
