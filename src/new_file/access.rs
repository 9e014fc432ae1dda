//! Who may use a file: its owner, its group and its mode.

use std::fmt;
use std::fs::{File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};

/// The owner, the group and the mode of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileAccess {
    owner: u32,
    group: u32,
    mode: u32,
}

impl FileAccess {
    pub(crate) fn of(file: &Metadata) -> Self {
        Self {
            owner: file.uid(),
            group: file.gid(),
            mode: file.mode() & 0o777,
        }
    }

    /// Applies this access to a file of this process as far as the process is allowed to, without giving anybody more access.
    /// Returns the access that the file then has.
    pub(super) fn apply_to(self, file: &File) -> io::Result<Self> {
        give_to(file, self.owner, self.group);
        let applied = Self::of(&file.metadata()?);
        let mode = match applied.group == self.group {
            true => self.mode,
            // A member of the old group counts as one of the others on the new file, and vice versa: both get only what the group
            // and others both had.
            false => {
                let both = self.mode & (self.mode >> 3) & 0o7;
                self.mode & 0o700 | both << 3 | both
            }
        };
        file.set_permissions(Permissions::from_mode(mode))?;
        Ok(Self { mode, ..applied })
    }
}

/// Gives a file to this owner and group, as far as the process is allowed to.
pub(crate) fn give_to(file: &File, owner: u32, group: u32) {
    // Only root gives files away, but others may choose one of their groups.
    let _ = fchown(file, Some(owner), Some(group)).or_else(|_| fchown(file, None, Some(group)));
}

/// For people, as in `33:33, mode 640`.
impl fmt::Display for FileAccess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, group, mode } = self;
        write!(f, "{owner}:{group}, mode {mode:o}")
    }
}

/// A file that replaced one with another owner, group or mode.
#[derive(Clone, Copy, Debug)]
pub struct ChangedAccess {
    pub(super) before: FileAccess,
    pub(super) after: FileAccess,
}

impl ChangedAccess {
    /// A warning about this file, with the commands that give it what it had. User and group are numbers, because not every system
    /// lists the names of all users and groups.
    pub fn warning(&self, file: impl fmt::Display) -> String {
        let Self { before, after } = self;
        let FileAccess { owner, group, mode } = before;
        let mut commands = format!("chown {owner}:{group} {file}");
        if after.mode != *mode {
            commands.push_str(&format!(" && chmod {mode:o} {file}"));
        }
        format!(
            "{file} had owner {before}, and now has owner {after}: if the server cannot open it, run as root `{commands}`"
        )
    }
}
