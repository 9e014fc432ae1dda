//! Writes that failed because there is no space, which SQLite reports as a failure of the disk: it knows one error of a full disk,
//! and a limit on the size of files and a disk quota have others.

use std::io::{self, ErrorKind};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rusqlite::Error;

use super::super::error::{disk_full, is_write_failure};
use super::super::identity::FileIdentity;
use crate::new_file::{NewFile, NewFileError, Overwrite};

/// More than what is left of a quota that had no space for a page.
const PROBE_BYTES: usize = 16 * 1024;

/// The error of a write to this file of the database. One that failed because there was no space is that of a full disk.
pub(super) fn or_disk_full(error: Error, file: Option<&FileIdentity>, database: &Path) -> Error {
    if !is_write_failure(&error) {
        return error;
    }
    if file.is_some_and(FileIdentity::is_at_limit) {
        return disk_full("a file has reached the limit on the size of files (ulimit -f)".into());
    }
    // SQLite does not pass on why its write failed. Another one next to it fails for the same reason.
    let is_out_of_space = |error: &io::Error| {
        matches!(
            error.kind(),
            ErrorKind::QuotaExceeded | ErrorKind::StorageFull
        )
    };
    match probe(database) {
        Err(NewFileError::Failed(_, reason)) if is_out_of_space(&reason) => {
            disk_full(format!("the disk is full: {reason}"))
        }
        _ => error,
    }
}

/// Writes a file next to the database, and removes it. Its name is that of an unfinished database, which the next start removes if this
/// process is killed meanwhile.
fn probe(database: &Path) -> Result<(), NewFileError> {
    let new = NewFile::create(database, Overwrite::Yes)?;
    // The quota may be that of a group.
    if let Ok(original) = std::fs::metadata(database) {
        new.set_access_of(&original)?;
    }
    let written = new.file().write_all_at(&[1; PROBE_BYTES], 0);
    written.map_err(|error| NewFileError::Failed(database.into(), error))?;
    // Some file systems count only then.
    new.sync()
}
