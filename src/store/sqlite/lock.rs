//! The locks on an embedded file. One is for servers: one at a time, and none while the file is migrated or replaced. The other is for
//! imports: one at a time inserts and commits its animals.
//!
//! Each is a lock on a separate file next to the database, `FILE.lock` or `FILE.import`, because closing any other descriptor of
//! the database itself would drop SQLite's locks on it. The lock ends with its process, however that ends; the file, which names
//! the process, is removed in a graceful shutdown and means nothing without the lock.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use super::connect::{give_to_owner_of_folder, sibling};
use super::identity::FileIdentity;
use super::lock_purpose::Purpose;
use super::open_error::OpenError;
use crate::names::FromName;
use crate::new_file::give_to;

/// The suffix of the lock file of a server.
pub(super) const SERVER_SUFFIX: &str = ".lock";

/// The suffix of the lock file of an import.
pub(super) const IMPORT_SUFFIX: &str = ".import";

/// How many times the lock file is read for the ID of a process that has just taken the lock.
const MAX_HOLDER_READS: u32 = 20;

/// The interval of these reads.
const HOLDER_READ_INTERVAL: Duration = Duration::from_millis(10);

/// The lock, held until this is dropped.
pub(crate) struct FileLock {
    // The lock is this descriptor's.
    file: File,
    identity: FileIdentity,
}

#[derive(Debug, PartialEq, Eq)]
struct Holder {
    process: u32,
    host: String,
    purpose: Purpose,
}

impl FileLock {
    /// Takes the server lock of the database at this path; symbolic links to it share the lock, and hard links are rejected
    /// ([`reject_second_names`](super::second_name::reject_second_names)). Fails immediately if another process has it, and names that
    /// process.
    pub(super) fn take(database: &Path, purpose: Purpose) -> Result<Self, OpenError> {
        Self::take_file(database, SERVER_SUFFIX, purpose)
    }

    pub(super) fn take_import(database: &Path) -> Result<Self, OpenError> {
        Self::take_file(database, IMPORT_SUFFIX, Purpose::Command)
    }

    fn take_file(database: &Path, suffix: &str, purpose: Purpose) -> Result<Self, OpenError> {
        let failed = |error: io::Error| {
            OpenError::cannot_access(database, format!("cannot lock it: {error}"))
        };
        let path = sibling(database, suffix);
        loop {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .custom_flags(OFlags::NOFOLLOW.bits().cast_signed())
                .open(&path)
                .map_err(failed)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(Errno::WOULDBLOCK) => {
                    let (by, purpose) = holder(&mut file);
                    return Err(OpenError::InUse {
                        path: database.into(),
                        by,
                        purpose,
                    });
                }
                Err(error) => return Err(failed(error.into())),
            }
            let metadata = file.metadata().map_err(failed)?;
            let identity = FileIdentity::new(path.clone(), &metadata);
            // Its last holder may have removed the file meanwhile: then this lock protects nothing.
            if identity.is_in_place() {
                if metadata.len() > 0 && Holder::read_from(&mut file).is_none() {
                    let problem = format!(
                        "{} is not a lock file of this program: move it elsewhere",
                        path.display()
                    );
                    return Err(OpenError::cannot_open(database, problem));
                }
                set_access(&file, &path, database);
                let mut lock = Self { file, identity };
                // If the disk is full, the file is removed.
                Holder::write_to(&mut lock.file, purpose).map_err(failed)?;
                return Ok(lock);
            }
        }
    }

    pub(super) fn identity(&self) -> &FileIdentity {
        &self.identity
    }
}

/// Gives everyone who may write the database access to a lock file: they take the same lock, and a server reads from it whether an
/// import is inserting its animals. Nobody else gets access: anyone who can read the lock file could take the lock, too, and keep
/// servers from starting.
fn set_access(file: &File, path: &Path, database: &Path) {
    let Ok(database) = std::fs::metadata(database) else {
        return give_to_owner_of_folder(path);
    };
    let (owner, group) = (database.uid(), database.gid());
    give_to(file, owner, group);
    let has_group = file.metadata().is_ok_and(|file| file.gid() == group);
    let mode = match (database.mode() & 0o060, database.mode() & 0o006) {
        (0o060, 0o006) => 0o666,
        (0o060, _) if has_group => 0o660,
        _ => 0o600,
    };
    let _ = file.set_permissions(Permissions::from_mode(mode));
}

/// Whether an import is inserting and committing its animals, which takes longer the more there are.
pub(super) fn is_importing(database: &Path) -> bool {
    let Ok(file) = File::open(sibling(database, IMPORT_SUFFIX)) else {
        return false;
    };
    flock(&file, FlockOperation::NonBlockingLockShared) == Err(Errno::WOULDBLOCK)
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // If it was removed, the file there now belongs to another process. A file that is left behind is harmless.
        if self.identity.is_in_place() {
            let _ = std::fs::remove_file(self.identity.path());
        }
    }
}

/// The process that has the lock, for a message. If it has only just taken the lock, the file may still name the previous holder.
fn holder(file: &mut File) -> (String, Purpose) {
    let here = host();
    let mut purpose = Purpose::Server;
    for _ in 0..MAX_HOLDER_READS {
        if let Some(holder) = Holder::read_from(file) {
            purpose = holder.purpose;
            if holder.host != here {
                let name = format!("process {} on {}", holder.process, holder.host);
                return (name, holder.purpose);
            }
            if Path::new("/proc").join(holder.process.to_string()).exists() {
                return (format!("process {}", holder.process), holder.purpose);
            }
        }
        std::thread::sleep(HOLDER_READ_INTERVAL);
    }
    ("another process".into(), purpose)
}

impl Holder {
    fn read_from(file: &mut File) -> Option<Self> {
        let mut text = String::new();
        file.seek(SeekFrom::Start(0)).ok()?;
        file.read_to_string(&mut text).ok()?;
        let mut words = text.split_ascii_whitespace();
        Some(Self {
            process: words.next()?.parse().ok()?,
            host: words.next()?.to_owned(),
            // A server of an earlier version writes no purpose.
            purpose: words
                .next()
                .and_then(Purpose::from_name)
                .unwrap_or(Purpose::Server),
        })
    }

    /// Writes that this process has the lock.
    fn write_to(file: &mut File, purpose: Purpose) -> io::Result<()> {
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        // In one write: a process that is killed meanwhile leaves an empty file, or a complete one.
        let line = format!("{} {} {}\n", std::process::id(), host(), purpose.as_str());
        file.write_all(line.as_bytes())
    }
}

/// The name of this machine or container: a process ID means nothing in another.
fn host() -> String {
    // Not from /proc, because a sandbox may hide it.
    let name = rustix::system::uname();
    name.nodename().to_string_lossy().into_owned()
}
