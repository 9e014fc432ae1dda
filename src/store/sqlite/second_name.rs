//! A second name (a hard link, or a mount of the file itself) of a file: a process that opens the file by that name has another
//! write-ahead log and another lock.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};

use super::connect::{has_wal_or_journal, sibling};
use super::open_error::OpenError;
use super::wal_mode;
use crate::new_file::{TEMPORARY_SUFFIX, folder};

/// The suffix, before a time, of the name under which a restore keeps the database that it replaces.
pub(super) const KEPT_SUFFIX: &str = ".before-restore-";

/// The error if the file has a second name.
pub(super) fn second_name(path: &Path) -> Option<OpenError> {
    if std::fs::metadata(path).is_ok_and(|file| file.nlink() > 1) {
        return Some(OpenError::HardLinked(path.into()));
    }
    is_mounted(path).then(|| OpenError::Mounted(path.into()))
}

/// Whether something is mounted at the path itself, as in a container into which the file is mounted without its folder.
fn is_mounted(path: &Path) -> bool {
    statx(CWD, path, AtFlags::empty(), StatxFlags::empty())
        .is_ok_and(|file| file.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// Rejects a file with a second name. A name that an interrupted creation or restore has left behind is removed, so the caller MUST
/// hold the lock.
pub(super) fn reject_second_names(path: &Path) -> Result<(), OpenError> {
    if let Ok(file) = std::fs::metadata(path) {
        for name in unfinished_names(path, &file) {
            // One that cannot be removed is found again below.
            let _ = std::fs::remove_file(name);
        }
    }
    second_name(path).map_or(Ok(()), Err)
}

/// Whether commits may be in a write-ahead log next to a second name of the file, where a process that reads it by this name does
/// not find them. A backup has no such log, because it is not in WAL mode.
pub(super) fn may_lack_commits(path: &Path) -> bool {
    let has_other_names = || {
        std::fs::metadata(path)
            .is_ok_and(|file| file.nlink() > 1 + unfinished_names(path, &file).len() as u64)
    };
    // Looked for twice: a creation that is in progress may remove a name in between.
    !has_wal_or_journal(path)
        && (is_mounted(path) || (has_other_names() && has_other_names()))
        && wal_mode::is_set(path)
}

/// The names of the file that a creation or a restore gives it for a moment.
fn unfinished_names(path: &Path, file: &Metadata) -> Vec<PathBuf> {
    if file.nlink() == 1 {
        return Vec::new();
    }
    let prefixes = [TEMPORARY_SUFFIX, KEPT_SUFFIX].map(|suffix| sibling(path, suffix));
    let is_unfinished = |entry: &std::fs::DirEntry| {
        let name = entry.file_name();
        let mut prefixes = prefixes.iter().filter_map(|path| path.file_name());
        prefixes.any(|prefix| {
            let name = name.as_encoded_bytes();
            name.starts_with(prefix.as_encoded_bytes())
        })
    };
    let is_same = |other: Metadata| (other.dev(), other.ino()) == (file.dev(), file.ino());
    let entries = std::fs::read_dir(folder(&prefixes[0]))
        .into_iter()
        .flatten();
    entries
        .flatten()
        .filter(|entry| is_unfinished(entry) && entry.metadata().is_ok_and(is_same))
        .map(|entry| entry.path())
        .collect()
}
