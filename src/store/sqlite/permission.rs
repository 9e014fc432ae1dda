//! Missing permissions: SQLite reports only that it cannot open a file, and may name one that the operator does not know.

use std::io::ErrorKind;
use std::path::Path;

use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::connect::resolved;
use super::open_error::OpenError;
use crate::new_file::folder;

/// The error, with the permission that was missing, if one was.
pub(super) fn explain(path: &Path, error: OpenError) -> OpenError {
    match error {
        OpenError::CannotAccess { .. } => match missing(path) {
            Some(problem) => OpenError::Denied(problem),
            None => error,
        },
        other => other,
    }
}

/// The permission on the file, or on its folder, that is missing.
fn missing(path: &Path) -> Option<String> {
    // The files of SQLite are next to the file itself, not to a symbolic link.
    let itself = resolved(path);
    let (file, folder) = (path.display(), folder(&itself));
    let folder_name = folder.display();
    match std::fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::PermissionDenied && !path.is_symlink() => {
            return Some(format!(
                "permission denied: cannot enter {folder_name} to open {file}"
            ));
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let reason = denied(folder, Access::WRITE_OK | Access::EXEC_OK)?;
            return Some(format!("{reason}: cannot create {file} in {folder_name}"));
        }
        Err(_) => return None,
        Ok(_) => {}
    }
    if let Some(reason) = denied(path, Access::READ_OK) {
        return Some(format!("{reason}: cannot open {file} for reading"));
    }
    if let Some(reason) = denied(path, Access::WRITE_OK) {
        return Some(format!("{reason}: cannot open {file} for writing"));
    }
    let reason = denied(folder, Access::WRITE_OK | Access::EXEC_OK)?;
    Some(format!(
        "{reason}: cannot open {file} for writing, because SQLite keeps its write-ahead log next to it and {folder_name} is not writable"
    ))
}

fn denied(path: &Path, mode: Access) -> Option<&'static str> {
    match access(path, mode) {
        Err(Errno::ACCESS | Errno::PERM) => Some("permission denied"),
        Err(Errno::ROFS) => Some("read-only file system"),
        _ => None,
    }
}
