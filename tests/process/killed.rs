//! Commands that are killed at each system call that changes a file.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::PROGRAM;

/// System calls that change files. What one creates with openat is empty until the next of these.
const CHANGES: [&str; 13] = [
    "write",
    "pwrite64",
    "copy_file_range",
    "ftruncate",
    "unlink",
    "unlinkat",
    "rename",
    "renameat2",
    "linkat",
    "fsync",
    "fdatasync",
    "fchmod",
    "fchown",
];

/// The names of all files in a folder, in order.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let name = |entry: fs::DirEntry| entry.file_name().into_string().expect("text");
    let mut names: Vec<String> = entries.map(|entry| name(entry.expect("a name"))).collect();
    names.sort();
    names
}

/// Copies a folder, with the files in it.
fn copied(folder: &Path) -> TempDir {
    let copy = TempDir::new().expect("a folder");
    for name in names(folder) {
        fs::copy(folder.join(&name), copy.path().join(&name)).expect("a copy");
    }
    copy
}

/// Runs a command under strace, each time in a copy of the folder, and kills it before another one of its calls that change a file:
/// strace counts each kind of call by itself. `look` looks at what is there then; the last one was not killed. Returns the calls at
/// which it was killed.
pub(crate) fn everywhere(
    original: &Path,
    command: &[&str],
    mut look: impl FnMut(&Path, &str),
) -> BTreeSet<&'static str> {
    let mut killed = BTreeSet::new();
    for call in CHANGES {
        for number in 1.. {
            let folder = copied(original);
            let inject = format!("inject={call}:signal=SIGKILL:when={number}");
            let words = ["-f", "-o", "/dev/null", "-e", &inject];
            let words = [&words[..], &[PROGRAM], command].concat();
            let output = harness::run("strace", folder.path(), &words);
            look(folder.path(), &format!("killed at {call} {number}"));
            if output.code == Some(0) {
                break;
            }
            killed.insert(call);
        }
    }
    killed
}
