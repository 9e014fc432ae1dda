//! Commands that are killed, or get an error, at each system call that changes a file.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use harness::Output;
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

/// System calls that need space on the disk. What `write` writes is small, and may go to a terminal.
const WRITES: [&str; 2] = ["pwrite64", "copy_file_range"];

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

/// Runs a command under strace again and again, each time in a new copy of the folder. For each kind of call that changes a file, it is
/// killed at the first such call, then at the second, and so on, until it ends by itself. `check` checks what each run has left, also
/// the one that was not killed. Returns the kinds of call at which it was killed.
pub(crate) fn killed_at_each(
    original: &Path,
    command: &[&str],
    mut check: impl FnMut(&Path, &str),
) -> BTreeSet<&'static str> {
    at_each(
        &CHANGES,
        "signal=SIGKILL:when=",
        "",
        original,
        command,
        |folder, when, _| {
            check(folder, when);
        },
    )
}

/// The same with a disk that becomes full at a different one of its writes each time. The command fails with one line, unless none
/// of its writes is needed.
pub(crate) fn disk_full_from_each(
    original: &Path,
    command: &[&str],
    mut check: impl FnMut(&Path, &str),
) -> BTreeSet<&'static str> {
    at_each(
        &WRITES,
        "error=ENOSPC:when=",
        "+",
        original,
        command,
        |folder, when, output| {
            if output.code != Some(0) {
                let line = output.fails_with(1);
                println!("{when}: {line}");
            }
            check(folder, when);
        },
    )
}

/// Lets each of these calls fail in turn, until the command succeeds.
fn at_each(
    calls: &[&'static str],
    fault: &str,
    suffix: &str,
    original: &Path,
    command: &[&str],
    mut check: impl FnMut(&Path, &str, Output),
) -> BTreeSet<&'static str> {
    let mut failed = BTreeSet::new();
    for call in calls {
        for number in 1.. {
            let folder = copied(original);
            let inject = format!("inject={call}:{fault}{number}{suffix}");
            let args = ["-f", "-o", "/dev/null", "-e", &inject];
            let args = [&args[..], &[PROGRAM], command].concat();
            let output = harness::run("strace", folder.path(), &args);
            let code = output.code;
            check(folder.path(), &inject, output);
            if code == Some(0) {
                break;
            }
            failed.insert(*call);
        }
    }
    failed
}
