//! Small files that options name: certificates, keys, tokens, passwords. A file with a secret that every user can read is
//! rejected.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The maximum size of a file.
const MAX_BYTES: u64 = 1 << 20;

/// The read permission of all other users.
const OTHERS_READ: u32 = 0o004;

#[derive(Debug, thiserror::Error)]
#[error("{}: {problem}", .path.display())]
pub struct InvalidFile {
    pub path: PathBuf,
    /// What is wrong with it, and what to do.
    pub problem: String,
}

impl InvalidFile {
    /// Converts a problem with this file into the error.
    pub(crate) fn of(path: &Path) -> impl Fn(String) -> Self {
        move |problem| Self {
            path: path.to_owned(),
            problem,
        }
    }
}

/// Reads a file that is not secret. The error is the problem, without the path.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, String> {
    content(open(path)?)
}

/// Reads a file with a secret. `secret` is its kind, as in `private key`.
pub(crate) fn read_secret(path: &Path, secret: &str) -> Result<Vec<u8>, String> {
    let file = open(path)?;
    let mode = file.metadata().map_err(described)?.permissions().mode();
    if mode & OTHERS_READ != 0 {
        let shown = path.display();
        return Err(format!(
            "every user can read this {secret}: run `chmod o-r {shown}`"
        ));
    }
    content(file)
}

/// Reads a secret that is the first line of a file.
pub(crate) fn read_secret_line(path: &Path, secret: &str) -> Result<String, InvalidFile> {
    let line = read_secret(path, secret).and_then(|bytes| {
        let text = String::from_utf8(bytes).map_err(|_| "is not valid UTF-8".to_owned())?;
        match text.lines().next().unwrap_or_default() {
            "" => Err(format!("contains no {secret} in its first line")),
            line => Ok(line.to_owned()),
        }
    });
    line.map_err(InvalidFile::of(path))
}

/// Opens a regular file: opening a pipe would wait until somebody writes to it.
fn open(path: &Path) -> Result<File, String> {
    let found = path.metadata().map_err(described)?;
    match found.is_file() {
        true => File::open(path).map_err(described),
        false if found.is_dir() => Err(described(ErrorKind::IsADirectory.into())),
        false => Err("is not a regular file".to_owned()),
    }
}

/// The content of an open file. The error is the problem, without the path.
pub(crate) fn content(file: File) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
    match read.map_err(described)? as u64 {
        0..=MAX_BYTES => Ok(bytes),
        _ => Err("is larger than 1 MiB".to_owned()),
    }
}

/// The problem with a file that cannot be read.
pub(crate) fn described(error: std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "file not found".to_owned(),
        ErrorKind::PermissionDenied => "permission denied: cannot read the file".to_owned(),
        ErrorKind::IsADirectory => "is a folder, not a file".to_owned(),
        _ => error.to_string(),
    }
}
