//! The file that is restored, if it is a backup.

use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::path::Path;

use anyhow::anyhow;

use super::connect;
use super::identity::FileIdentity;
use super::inspect::{FileState, inspect};
use super::migrations::CURRENT_FORMAT;
use super::open_error::OpenError;
use super::restore_error::RestoreError;

/// Rejects what cannot be a backup before it is copied.
pub(super) fn inspect_source(source: &Path, target: &Path) -> Result<Metadata, RestoreError> {
    let rejected = |problem: &str| Err(unsuitable(source, problem));
    let file = match source.metadata() {
        Ok(file) if file.is_dir() => return rejected("is a folder: specify a backup in it"),
        Ok(file) if !file.is_file() => return rejected("is not a regular file: specify a backup"),
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return rejected("does not exist: specify a backup");
        }
        Err(error) => return rejected(&format!("cannot be read: {error}")),
    };
    let is_target = FileIdentity::at(target.into())
        .is_ok_and(|target| target.is_same_file(&FileIdentity::new(source.into(), &file)));
    if is_target {
        return Err(RestoreError::SameFile(source.into()));
    }
    if connect::has_wal_or_journal(source) {
        return rejected(
            "has a -wal or -journal next to it, as a database in use has: make a backup of it with `animal-store backup`",
        );
    }
    // SQLite would report only that it cannot open it.
    if let Err(error) = File::open(source) {
        return rejected(&format!("cannot be read: {error}"));
    }
    inspect_backup(source, source).map(|_| file)
}

/// The format of a backup, or of the copy of one that is at `source`.
pub(super) fn inspect_backup(file: &Path, source: &Path) -> Result<i32, RestoreError> {
    let problem = match inspect(file).map_err(|error| explain(source, error))? {
        FileState::Format(format) if format > CURRENT_FORMAT => format!(
            "has format {format}, and this version supports formats up to {CURRENT_FORMAT}: use a newer animal-store"
        ),
        FileState::Format(format) => return Ok(format),
        FileState::Missing | FileState::Empty => "is empty: specify a backup".into(),
    };
    Err(unsuitable(source, &problem))
}

fn unsuitable(source: &Path, problem: &str) -> RestoreError {
    anyhow!("{} {problem}", source.display()).into()
}

/// Why a file is not a backup.
fn explain(source: &Path, error: OpenError) -> RestoreError {
    let problem = match error {
        OpenError::NotADatabase(_) => "is not a SQLite database: specify a backup".into(),
        OpenError::NotOurs(_) => {
            "is a SQLite database of another program: specify a backup of Animal Store".into()
        }
        OpenError::Damaged { problem, .. } => return damaged(source, &problem),
        OpenError::CannotOpen { problem, .. } | OpenError::CannotAccess { problem, .. } => {
            format!("cannot be read: {problem}")
        }
        other => format!("cannot be used: {other}"),
    };
    unsuitable(source, &problem)
}

pub(super) fn damaged(source: &Path, problem: &str) -> RestoreError {
    let problem = format!("is damaged ({problem}): restore another backup");
    unsuitable(source, &problem)
}
