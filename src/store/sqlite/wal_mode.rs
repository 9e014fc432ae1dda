//! Whether a file is in WAL mode: two bytes of its header, the versions of the file format for writing and for reading.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

const OFFSET: u64 = 18;

/// The versions of a file in WAL mode.
const WAL: [u8; 2] = [2, 2];

/// Whether a file is in WAL mode. A connection that treats the file as immutable does not report it.
pub(super) fn is_set(path: &Path) -> bool {
    let mut versions = [0; 2];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut versions, OFFSET));
    read.is_ok() && versions == WAL
}

/// Sets the mode of a database that no process has open.
pub(super) fn set(file: &File) -> io::Result<()> {
    file.write_all_at(&WAL, OFFSET)
}
