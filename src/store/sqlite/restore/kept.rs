//! The name under which a restore keeps the database that it replaces.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::super::connect::with_suffix;
use super::super::inspect::{MIN_DATABASE_BYTES, PLACEHOLDER_START};
use super::super::second_name::KEPT_SUFFIX;
use crate::clock::Timestamp;
use crate::new_file::folder;

/// A new name, with this time.
pub(super) fn kept_name(target: &Path, now: Timestamp) -> PathBuf {
    let time = now.to_string().replace(':', "-");
    let mut kept = with_suffix(target, &format!("{KEPT_SUFFIX}{time}"));
    let mut number = 2;
    while ["", "-wal", "-shm", "-journal"]
        .iter()
        .any(|end| with_suffix(&kept, end).symlink_metadata().is_ok())
    {
        kept = with_suffix(target, &format!("{KEPT_SUFFIX}{time}-{number}"));
        number += 1;
    }
    kept
}

/// The name that an interrupted restore was about to use, if the placeholder of one is at the path of the database. The owner of the
/// folder may have written the placeholder, and root may run the restore: a name that no restore chooses could lead to another folder.
pub(super) fn interrupted_name(target: &Path) -> Option<PathBuf> {
    // A database is never read this way: closing the file would drop SQLite's locks on it.
    let text = match target.metadata() {
        Ok(file) if file.size() < MIN_DATABASE_BYTES => std::fs::read(target).ok()?,
        _ => return None,
    };
    let name = text.strip_prefix(PLACEHOLDER_START.as_bytes())?;
    let name = name.split(|byte| *byte == b'\n').next()?;
    let prefix = with_suffix(target, KEPT_SUFFIX);
    let is_ours = name.starts_with(prefix.file_name()?.as_bytes()) && !name.contains(&b'/');
    is_ours.then(|| folder(target).join(OsStr::from_bytes(name)))
}
