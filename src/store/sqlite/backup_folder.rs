//! A folder of backups that a server makes by itself.
//!
//! A list in the folder has every backup in the order in which they were made, with its size and time. Only what is on the list,
//! and has not been changed since, is ever deleted: a file that somebody else has put there is safe, whatever its name. The order
//! of the list, not that of the names, decides which backup is the oldest, because clocks are set back.

use std::fmt::{Display, Write as _};
use std::fs::Metadata;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use rustix::fs::{Access, access};

use super::backup::{BackupProgress, prepare, size};
use super::error::describe;
use super::open::MAX_KEPT_LOG_BYTES;
use super::readers::Readers;
use super::room::free_bytes;
use crate::clock::Timestamp;
use crate::new_file::{NewFile, Overwrite, remove_leftovers};
use crate::store::contract::DeploymentId;

const LIST_FILE: &str = "animal-store-backups.list";

/// What a backup leaves of a disk that it shares with the database: as much as the write-ahead log may keep.
const RESERVED_BYTES: u64 = MAX_KEPT_LOG_BYTES as u64;

/// How far ahead of the clock the time of a backup may be. The clock may have been corrected by a few seconds, and the name may
/// have been taken; but one that is dated further ahead was made while the clock was wrong, and nobody knows when.
const MAX_AHEAD: Duration = Duration::from_secs(5 * 60);

/// Where a server keeps its backups.
#[derive(Clone, Debug)]
pub struct BackupFolder {
    pub source: PathBuf,
    pub folder: PathBuf,
    /// The ID of the deployment that the database belongs to. A folder is for one deployment.
    pub deployment: DeploymentId,
    pub keep: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct ListedBackup {
    name: String,
    bytes: u64,
    /// When it was last written, in nanoseconds since the epoch.
    modified: i128,
}

impl BackupFolder {
    /// Returns why no backups can be made in a folder, if that is certain.
    pub fn check(folder: &Path) -> std::result::Result<(), String> {
        match folder.metadata() {
            Ok(found) if !found.is_dir() => return Err("it is not a folder".into()),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err("it does not exist: create it first".into());
            }
            Err(error) => return Err(error.to_string()),
        }
        access(folder, Access::WRITE_OK | Access::EXEC_OK)
            .map_err(|error| format!("it is not writable: {}", io::Error::from(error)))
    }

    /// When the latest backup that is still there was made, without those from the future ([`BackupFolder::is_from_future`]).
    pub fn last(&self, now: Timestamp) -> Result<Option<Timestamp>> {
        let entries = self.read_list()?;
        let times = entries.iter().filter_map(|entry| made_at(&entry.name));
        Ok(times.filter(|time| !Self::is_from_future(*time, now)).max())
    }

    /// Whether a backup of this time was made while the clock was wrong. It may be of any age, so it does not count as the last
    /// one; but it is a backup, and is deleted in its turn, by its position in the list.
    pub fn is_from_future(time: Timestamp, now: Timestamp) -> bool {
        time > now.plus(MAX_AHEAD)
    }

    /// Makes a backup, and deletes the oldest ones beyond `keep`. Returns the time in its name.
    pub fn back_up(&self, now: Timestamp, progress: &BackupProgress) -> Result<Timestamp> {
        // Also what the last run could not delete: if that fails again, no backup is made.
        let mut entries = self.delete_oldest(self.read_list()?)?;
        remove_leftovers(&self.folder, |name| {
            name.to_str().and_then(made_at).is_some()
        });
        self.reject_full_disk()?;
        // After the clock was set back, the name for this second may be taken.
        let second = now.as_millis().div_euclid(1_000);
        let mut seconds = (second..second + 60).map(Timestamp::from_secs);
        let is_free = |time: &Timestamp| !self.folder.join(name(*time)).exists();
        let time = seconds.find(is_free).unwrap_or(now);
        let path = self.folder.join(name(time));
        let (new, written) = prepare(&self.source, &path, Overwrite::No, progress)?;
        entries.push(ListedBackup::new(name(time), &written));
        // First: one that is not on the list is never deleted. One that is on it and was never published is skipped.
        self.write_list(&entries)?;
        new.publish()?;
        // There is a new backup; the next run reports what could not be deleted.
        let _ = self.delete_oldest(entries);
        Ok(time)
    }

    /// Deletes the oldest ones beyond those that are kept, and returns the others.
    fn delete_oldest(&self, mut entries: Vec<ListedBackup>) -> Result<Vec<ListedBackup>> {
        let too_many = entries.len().saturating_sub(self.keep);
        let mut unknown = Vec::new();
        for entry in entries.drain(..too_many) {
            match self.has(&entry) {
                Ok(true) => {
                    let path = self.folder.join(&entry.name);
                    std::fs::remove_file(&path).map_err(|error| unusable(&path, error))?;
                }
                Ok(false) => {}
                // It stays on the list, but a damaged one must not prevent new ones.
                Err(_) => unknown.push(entry),
            }
        }
        let entries = [unknown, entries].concat();
        if too_many > 0 {
            self.write_list(&entries)?;
        }
        Ok(entries)
    }

    /// The backups on the list, without those that are gone, or have been changed: they are no longer this server's.
    fn read_list(&self) -> Result<Vec<ListedBackup>> {
        let path = self.folder.join(LIST_FILE);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(unusable(&path, error)),
        };
        let mut lines = text.lines();
        match lines
            .next()
            .and_then(|line| line.strip_prefix("deployment "))
        {
            Some(id) if id == self.deployment.0 => {}
            Some(_) => {
                let problem = "the folder has the backups of another database: choose another folder with --backup-folder";
                return Err(unusable(&path, problem));
            }
            None => return Err(not_a_list(&path)),
        }
        let entries: Option<Vec<ListedBackup>> = lines.map(ListedBackup::parse).collect();
        let mut entries = entries.ok_or_else(|| not_a_list(&path))?;
        // One whose file cannot be checked stays on the list: otherwise it would never be deleted.
        entries.retain(|entry| self.has(entry).unwrap_or(true));
        Ok(entries)
    }

    /// Whether a backup is there as it was made.
    fn has(&self, entry: &ListedBackup) -> Result<bool> {
        let path = self.folder.join(&entry.name);
        match path.symlink_metadata() {
            Ok(file) => Ok(entry.is_same(&ListedBackup::new(entry.name.clone(), &file))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(unusable(&path, error)),
        }
    }

    fn write_list(&self, entries: &[ListedBackup]) -> Result<()> {
        let mut text = format!("deployment {}\n", self.deployment.0);
        for entry in entries {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{} {} {}", entry.name, entry.bytes, entry.modified);
        }
        let path = self.folder.join(LIST_FILE);
        let new = NewFile::create(&path, Overwrite::Yes)?;
        let mut file = new.file();
        file.write_all(text.as_bytes())
            .map_err(|error| unusable(&path, error))?;
        Ok(new.publish()?)
    }

    fn reject_full_disk(&self) -> Result<()> {
        let metadata = |path: &Path| path.metadata().map_err(|error| unusable(path, error));
        let (source, folder) = (metadata(&self.source)?, metadata(&self.folder)?);
        if source.dev() != folder.dev() {
            return Ok(());
        }
        let free = free_bytes(&self.folder).map_err(|error| unusable(&self.folder, error))?;
        // Not the length of the file: a part of the database may be in the write-ahead log only.
        let size = Readers::new(&self.source, true).with(|connection| size(connection));
        let size = size.map_err(|error| unusable(&self.source, describe(&error)))?;
        let needed = size.saturating_add(RESERVED_BYTES);
        if free < needed {
            bail!(
                "{} has {free} bytes free, and {needed} are needed: the database is on the same disk, which a backup must not fill",
                self.folder.display()
            );
        }
        Ok(())
    }
}

impl ListedBackup {
    fn new(name: String, file: &Metadata) -> Self {
        Self {
            name,
            bytes: file.len(),
            modified: i128::from(file.mtime()) * 1_000_000_000 + i128::from(file.mtime_nsec()),
        }
    }

    /// Parses a line of the list. A name that no backup has, such as one with a folder in it, makes the whole list invalid.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let (name, bytes, modified) = (words.next()?, words.next()?, words.next()?);
        made_at(name)?;
        Some(Self {
            name: name.to_owned(),
            bytes: bytes.parse().ok()?,
            modified: modified.parse().ok()?,
        })
        .filter(|_| words.next().is_none())
    }

    /// Whether it is still this file. Some file systems keep the time in steps of two seconds, and show the exact one until they
    /// are mounted again.
    fn is_same(&self, found: &Self) -> bool {
        let apart = (self.modified - found.modified).abs();
        self.name == found.name && self.bytes == found.bytes && apart < 2_000_000_000
    }
}

/// The name of a backup made at this time.
fn name(time: Timestamp) -> String {
    format!("animal-store-{}.db", time.to_string().replace(':', "-"))
}

/// The time in the name of a backup.
fn made_at(name: &str) -> Option<Timestamp> {
    let time = name.strip_prefix("animal-store-")?.strip_suffix(".db")?;
    let (date, clock) = time.split_once('T')?;
    let time: Timestamp = format!("{date}T{}", clock.replace('-', ":")).parse().ok()?;
    // A time can be written in several ways, but the name of a backup only in one.
    (self::name(time) == name).then_some(time)
}

fn unusable(path: &Path, problem: impl Display) -> anyhow::Error {
    anyhow!("{}: {problem}", path.display())
}

fn not_a_list(path: &Path) -> anyhow::Error {
    let problem = "it is not a list of backups: move it elsewhere; older backups will then not be deleted automatically";
    unusable(path, problem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_backup_is_its_time() {
        let time = Timestamp::from_secs(1_794_758_400);
        assert_eq!(name(time), "animal-store-2026-11-15T16-00-00Z.db");
        assert_eq!(made_at(&name(time)), Some(time));
        for other in [
            "animal-store.db",
            "animal-store-2026-11-15.db",
            "animal-store-2026-11-15T16-00-00.db",
            "animal-store-2026-11-15T16:00:00Z.db",
            "animal-store-2026-11-15T16-00-00Z.db.gz",
            "animal-store-2026-11-15T17-00-00+01-00.db",
            "animal-store-2026-02-30T16-00-00Z.db",
            "../animal-store-2026-11-15T16-00-00Z.db",
            "old-animal-store-2026-11-15T16-00-00Z.db",
        ] {
            assert_eq!(made_at(other), None, "{other}");
        }
    }

    #[test]
    fn a_link_in_the_place_of_a_backup_is_not_that_backup() {
        let folder = tempfile::tempdir().unwrap();
        let backups = BackupFolder {
            source: folder.path().join("a.db"),
            folder: folder.path().into(),
            deployment: DeploymentId("id".into()),
            keep: 1,
        };
        let name = "animal-store-2026-11-15T16-00-00Z.db";
        let (path, moved) = (folder.path().join(name), folder.path().join("moved"));
        std::fs::write(&path, "a backup").unwrap();
        let entry = ListedBackup::new(name.into(), &path.metadata().unwrap());
        assert!(backups.has(&entry).unwrap());
        std::fs::rename(&path, &moved).unwrap();
        std::os::unix::fs::symlink(&moved, &path).unwrap();
        assert!(!backups.has(&entry).unwrap());
    }

    #[test]
    fn a_list_with_an_invalid_line_is_invalid() {
        let good = "animal-store-2026-11-15T16-00-00Z.db 4096 1794758400123456789";
        let entry = ListedBackup::parse(good).unwrap();
        assert_eq!(
            (entry.bytes, entry.modified),
            (4096, 1_794_758_400_123_456_789)
        );
        for bad in [
            "",
            "animal-store-2026-11-15T16-00-00Z.db 4096",
            "animal-store-2026-11-15T16-00-00Z.db 4096 1 1",
            "animal-store-2026-11-15T16-00-00Z.db -1 1",
            "passwd 4096 1",
            "../animal-store-2026-11-15T16-00-00Z.db 4096 1",
        ] {
            assert_eq!(ListedBackup::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_backup_whose_time_was_rounded_is_the_same_and_one_that_was_written_again_is_not() {
        let entry =
            |rest| ListedBackup::parse(&format!("animal-store-2026-11-15T16-00-00Z.db {rest}"));
        let made = entry("4096 1794758401999999999").unwrap();
        assert!(made.is_same(&entry("4096 1794758400000000000").unwrap()));
        assert!(!made.is_same(&entry("4096 1794758404000000000").unwrap()));
        assert!(!made.is_same(&entry("8192 1794758401999999999").unwrap()));
    }
}
