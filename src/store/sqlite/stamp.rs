//! Whether a file was changed while it was read.

use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Duration;

use super::connect;

/// The inode, size and modification time of a file: one of them changes when it is written or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileStamp(u64, u64, i64, i64);

impl FileStamp {
    /// The state of the file itself. What is in a write-ahead log is not part of it yet.
    pub(super) fn of(path: &Path) -> Option<Self> {
        let file = std::fs::metadata(path).ok()?;
        Some(Self(
            file.ino(),
            file.len(),
            file.mtime(),
            file.mtime_nsec(),
        ))
    }

    /// The state of a file that can be read as if it could not change. None while there is a write-ahead log or a journal: a process may
    /// have it open.
    pub(super) fn of_unopened(path: &Path) -> Option<Self> {
        Self::of(path).filter(|_| !connect::has_wal_or_journal(path))
    }
}

/// The maximum number of times that a file which changes all the time is read. It may be one that another program is still writing.
const MAX_ATTEMPTS: usize = 100;

/// The pause before it is read again.
const PAUSE: Duration = Duration::from_millis(10);

/// Reads the file again until it did not change during the read. `read` is passed whether to read it as if it could not change;
/// otherwise SQLite's locks keep it consistent.
pub(super) fn read_stable<T>(path: &Path, mut read: impl FnMut(bool) -> T) -> T {
    let mut attempt = 1;
    loop {
        let unopened = FileStamp::of_unopened(path);
        let found = read(unopened.is_some());
        let is_stable = unopened.is_none() || FileStamp::of_unopened(path) == unopened;
        if is_stable || attempt == MAX_ATTEMPTS {
            return found;
        }
        attempt += 1;
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_changed_while_it_was_read_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let (path, log) = (folder.path().join("a.db"), folder.path().join("a.db-wal"));
        std::fs::write(&path, "1").unwrap();
        let mut calls = Vec::new();
        // Another process writes to it, and then opens it, which creates a log.
        let found = read_stable(&path, |is_immutable| {
            calls.push(is_immutable);
            match calls.len() {
                1 => std::fs::write(&path, "22").unwrap(),
                2 => std::fs::write(&log, "").unwrap(),
                _ => {}
            }
            calls.len()
        });
        assert_eq!((found, calls), (3, vec![true, true, false]));
    }
}
