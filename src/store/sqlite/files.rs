//! The files of a database, which no other file may replace.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::connect::{has_wal_or_journal, sibling};
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

/// Whether a file is a database of SQLite, or has a log next to it, as one in use has.
pub fn is_database(file: &Path) -> bool {
    const START: &[u8; 16] = b"SQLite format 3\0";
    let has_start = || {
        let mut start = [0; START.len()];
        let read = File::open(file).and_then(|file| file.read_exact_at(&mut start, 0));
        read.is_ok() && start == *START
    };
    // A pipe has no start yet.
    file.is_file() && (has_wal_or_journal(file) || has_start())
}

/// Whether two paths name the same entry of the same folder.
fn same_name(one: &Path, other: &Path) -> bool {
    let folder = |path| folder(path).canonicalize().ok();
    one.file_name() == other.file_name() && folder(one) == folder(other)
}
