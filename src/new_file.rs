//! A file that appears under its name only when it is complete and on disk. Until then it is in the same folder under a
//! temporary name, and it is removed if anything fails.

mod access;

use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use rustix::fs::{CWD, FlockOperation, OFlags, RenameFlags, flock, renameat_with};
use rustix::io::Errno;

pub use access::ChangedAccess;
use access::FileAccess;
pub(crate) use access::give_to;

/// The suffix of the temporary name, before a random number.
pub(crate) const TEMPORARY_SUFFIX: &str = ".new-";

/// The suffixes of the files that SQLite has next to a database.
pub(crate) const SQLITE_SUFFIXES: [&str; 3] = ["-journal", "-wal", "-shm"];

/// A file that is written next to a busy database is synced whenever it has grown by this many bytes.
const SYNC_STEP: u64 = 256 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    Yes,
    /// An existing file is kept, and creating the new one fails.
    No,
}

/// Why a file was not written, or may be lost after a power failure.
#[derive(Debug, thiserror::Error)]
pub enum NewFileError {
    #[error("{0} already exists: choose another name, or use --force to replace it")]
    Exists(PathBuf),
    #[error("{0} is not a regular file: choose another name")]
    NotAFile(PathBuf),
    #[error("{0} is a symbolic link to a file that does not exist: use the path of that file")]
    Dangling(PathBuf),
    #[error("cannot write {0}: {1}")]
    Failed(PathBuf, io::Error),
    /// The new file is in place, perhaps instead of another one.
    #[error(
        "{0} was written, but its folder could not be synced, so a power failure may undo that: {1}"
    )]
    Unsynced(PathBuf, io::Error),
}

/// A file that is not complete yet.
pub(crate) struct NewFile {
    target: PathBuf,
    overwrite: Overwrite,
    temporary: PathBuf,
    file: File,
    /// The error of a sync while it was written.
    failed_sync: Arc<OnceLock<io::Error>>,
    published: bool,
}

impl NewFile {
    /// Creates an empty file, which only its owner can read. A symbolic link stays: the file that it leads to is replaced.
    pub(crate) fn create(target: &Path, overwrite: Overwrite) -> Result<Self, NewFileError> {
        let failed = |error: io::Error| NewFileError::Failed(target.into(), error);
        let found = match target.metadata() {
            Ok(found) if !found.is_file() => return Err(NewFileError::NotAFile(target.into())),
            Ok(_) if overwrite == Overwrite::No => return Err(NewFileError::Exists(target.into())),
            Ok(found) => Some((found.dev(), found.ino())),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(failed(error)),
            Err(_) if target.is_symlink() => return Err(NewFileError::Dangling(target.into())),
            Err(_) => None,
        };
        let real = match target.is_symlink() {
            true => {
                let real = target.canonicalize().map_err(failed)?;
                let there = real.metadata().map_err(failed)?;
                // In a folder such as /tmp, the kernel does not follow a link of another user, but `canonicalize` does. So the link
                // must lead to the file that `metadata` found, for which the kernel followed it.
                if found != Some((there.dev(), there.ino())) {
                    return Err(failed(io::Error::other("it was replaced by a link")));
                }
                real
            }
            false => target.into(),
        };
        let target = &real;
        let invalid = || failed(ErrorKind::InvalidFilename.into());
        let name = target.file_name().ok_or_else(invalid)?;
        // Absolute, so that no name is mistaken for a URI.
        let folder = folder(target).canonicalize().map_err(failed)?;
        remove_leftovers(&folder, |leftover| leftover == name);
        let (temporary, file) = loop {
            let random = getrandom::u64().map_err(|error| failed(error.into()))?;
            let mut unfinished = name.to_owned();
            unfinished.push(format!("{TEMPORARY_SUFFIX}{random:016x}"));
            let temporary = folder.join(unfinished);
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&temporary)
                .map_err(failed)?;
            // While this lock is held, no process treats the file as a leftover. Where there are no locks, no leftovers are removed.
            let held = flock(&file, FlockOperation::NonBlockingLockExclusive);
            // Another process may have removed the file as a leftover before the lock was taken.
            if held != Err(Errno::WOULDBLOCK) && temporary.exists() {
                break (temporary, file);
            }
        };
        Ok(Self {
            target: target.into(),
            overwrite,
            temporary,
            file,
            failed_sync: Arc::default(),
            published: false,
        })
    }

    /// Its path until it is complete.
    pub(crate) fn temporary(&self) -> &Path {
        &self.temporary
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Gives it the owner, the group and the mode of another file, as far as this process is allowed to. Returns what still differs.
    pub(crate) fn set_access_of(
        &self,
        other: &Metadata,
    ) -> Result<Option<ChangedAccess>, NewFileError> {
        let before = FileAccess::of(other);
        let applied = before.apply_to(&self.file);
        let after = applied.map_err(|error| self.write_error(error))?;
        Ok((after != before).then_some(ChangedAccess { before, after }))
    }

    /// For syncing it while it is written: one sync of a large file at its end would delay the syncs of others on the same disk.
    pub(crate) fn sync_in_steps(&self) -> io::Result<SyncInSteps> {
        Ok(SyncInSteps {
            file: self.file.try_clone()?,
            synced: 0,
            failed: Arc::clone(&self.failed_sync),
        })
    }

    /// Waits until its content is on disk. Also fails if an earlier sync failed: a later one may report success for data that the
    /// earlier one lost.
    pub(crate) fn sync(&self) -> Result<(), NewFileError> {
        if let Some(error) = self.failed_sync.get() {
            return Err(self.write_error(io::Error::new(error.kind(), error.to_string())));
        }
        self.file
            .sync_all()
            .map_err(|error| self.write_error(error))
    }

    /// Gives it its name, after a last [`NewFile::sync`], and waits until the name is on disk.
    pub(crate) fn publish(mut self) -> Result<(), NewFileError> {
        self.sync()?;
        self.rename()?;
        self.published = true;
        sync_folder(&self.target).map_err(|error| match self.overwrite {
            // One that may have replaced another stays: it is complete, and the other one is gone.
            Overwrite::Yes => NewFileError::Unsynced(self.target.clone(), error),
            Overwrite::No => {
                let _ = std::fs::remove_file(&self.target);
                self.write_error(error)
            }
        })
    }

    fn rename(&self) -> Result<(), NewFileError> {
        let (from, to) = (&self.temporary, &self.target);
        if self.overwrite == Overwrite::Yes {
            return std::fs::rename(from, to).map_err(|error| self.write_error(error));
        }
        let named = match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // A file system that cannot rename without overwriting may support hard links.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {
                std::fs::hard_link(from, to).and_then(|()| std::fs::remove_file(from))
            }
            renamed => renamed.map_err(io::Error::from),
        };
        named.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => NewFileError::Exists(to.clone()),
            _ => self.write_error(error),
        })
    }

    fn write_error(&self, error: io::Error) -> NewFileError {
        NewFileError::Failed(self.target.clone(), error)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.published {
            // If this fails, the next file of this name removes it.
            let _ = std::fs::remove_file(&self.temporary);
            // SQLite removes its own, unless the disk is full.
            remove_sqlite_files(&self.temporary);
        }
    }
}

/// Syncs a [`NewFile`] while it is written, so that little is left to be synced at any moment.
pub(crate) struct SyncInSteps {
    file: File,
    /// Its size at the last sync.
    synced: u64,
    failed: Arc<OnceLock<io::Error>>,
}

impl SyncInSteps {
    /// Syncs it if it has grown by a step. An error is returned by [`NewFile::sync`].
    pub(crate) fn sync_growth(&mut self) {
        let size = self.file.metadata().map_or(0, |file| file.len());
        if size < self.synced + SYNC_STEP {
            return;
        }
        self.synced = size;
        if let Err(error) = self.file.sync_data() {
            self.failed.get_or_init(|| error);
        }
    }
}

/// Removes the files that killed processes have left behind, with SQLite's files next to them; only those whose final name `is_ours`,
/// and that no process holds.
pub(crate) fn remove_leftovers(folder: &Path, is_ours: impl Fn(&OsStr) -> bool) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        // The rest of a name need not be valid UTF-8.
        let bytes = name.as_bytes();
        let suffix = TEMPORARY_SUFFIX.as_bytes();
        let found = bytes.windows(suffix.len()).rposition(|part| part == suffix);
        let Some((target, random)) = found.map(|at| (&bytes[..at], &bytes[at + suffix.len()..]))
        else {
            continue;
        };
        let (target, Ok(random)) = (OsStr::from_bytes(target), str::from_utf8(random)) else {
            continue;
        };
        let of_sqlite = SQLITE_SUFFIXES
            .iter()
            .find_map(|end| random.strip_suffix(end));
        let random = of_sqlite.unwrap_or(random);
        let is_random = random.len() == 16 && random.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_random && is_ours(target) {
            let mut file = target.to_owned();
            file.push(format!("{TEMPORARY_SUFFIX}{random}"));
            let file = folder.join(file);
            remove_unless_held(&file);
            if !file.exists() {
                remove_sqlite_files(&file);
            }
        }
    }
}

/// Removes the files of SQLite next to this one, if there are any.
fn remove_sqlite_files(file: &Path) {
    for end in SQLITE_SUFFIXES {
        let mut name = file.as_os_str().to_owned();
        name.push(end);
        let _ = std::fs::remove_file(name);
    }
}

fn remove_unless_held(path: &Path) {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let open = |for_writing| {
        let mut options = OpenOptions::new();
        options.read(true).write(for_writing);
        options.custom_flags(flags.bits().cast_signed()).open(path)
    };
    // On NFS, only a file that is open for writing can be locked.
    let Ok(file) = open(true).or_else(|_| open(false)) else {
        return;
    };
    if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
        // One that cannot be removed stays where it is.
        let _ = std::fs::remove_file(path);
    }
}

/// Waits until the names in the folder of a file are on disk.
pub(crate) fn sync_folder(file: &Path) -> io::Result<()> {
    File::open(folder(file))?.sync_all()
}

pub(crate) fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let name = |entry: io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
        entries
            .map(|entry| name(entry).into_string().unwrap())
            .collect()
    }

    #[test]
    fn a_file_that_is_not_published_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let new = NewFile::create(&folder.path().join("a"), Overwrite::No).unwrap();
        assert_eq!(new.temporary().metadata().unwrap().mode() & 0o777, 0o600);
        drop(new);
        assert_eq!(names(folder.path()), [""; 0]);
    }

    #[test]
    fn leftovers_of_a_process_that_was_killed_are_removed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let others = [
            "a.new-0123456789abcde",
            "a.new-0123456789abcdez",
            "b.new-0123456789abcdef",
            "a.new-0123456789abcdef-log",
            "a",
            "a.new-",
        ];
        let leftovers = [
            "a.new-0123456789abcdef",
            "a.new-0123456789abcdef-journal",
            "a.new-fedcba9876543210-journal",
            "a.new-0123456789abcdef-wal",
            "a.new-0123456789abcdef-shm",
        ];
        for name in others.iter().chain(&leftovers) {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let target = folder.path().join("a");
        let held = NewFile::create(&target, Overwrite::Yes).unwrap();
        let second = NewFile::create(&target, Overwrite::Yes).unwrap();
        for new in [&held, &second] {
            assert!(new.temporary().exists());
        }
        drop((held, second));
        let mut left = names(folder.path());
        left.sort();
        let mut others = others.map(str::to_owned);
        others.sort();
        assert_eq!(left, others);
    }

    #[test]
    fn a_leftover_of_a_name_that_is_not_utf_8_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join(OsStr::from_bytes(b"a\xff"));
        let mut leftover = target.clone().into_os_string();
        leftover.push(".new-0123456789abcdef");
        std::fs::write(&leftover, "").unwrap();
        drop(NewFile::create(&target, Overwrite::Yes).unwrap());
        assert!(!Path::new(&leftover).exists());
    }

    #[test]
    fn a_file_that_has_appeared_meanwhile_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a");
        let new = NewFile::create(&target, Overwrite::No).unwrap();
        std::fs::write(&target, "other").unwrap();
        assert!(matches!(new.publish(), Err(NewFileError::Exists(_))));
        assert_eq!(std::fs::read(&target).unwrap(), b"other");
        NewFile::create(&target, Overwrite::Yes)
            .unwrap()
            .publish()
            .unwrap();
        assert_eq!(std::fs::read(&target).unwrap(), b"");
        assert_eq!(names(folder.path()), ["a"]);
    }
}
