//! Makes the allocator return freed memory to the system immediately.
//!
//! By default mimalloc keeps it for at least a second, and often permanently: after two waves of 5,000 connections the server held
//! 290 MB instead of 30. It reads its options from the environment, before `main`, so the program executes itself again with the
//! option set, in the same process. There is no measurable cost (docs/decisions.md).

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::{env, fs};

/// How many milliseconds freed memory is kept. A value set by the operator is respected.
const PURGE_DELAY: &str = "MIMALLOC_PURGE_DELAY";

/// Executes the program again with the option, unless it is set. Returns if that fails: the server works without it.
pub(super) fn reexec_with_immediate_purge() {
    if env::var_os(PURGE_DELAY).is_some() {
        return;
    }
    let args: Vec<OsString> = env::args_os().collect();
    let (Some((name, rest)), Ok(program)) = (args.split_first(), env::current_exe()) else {
        return;
    };
    // With `ld.so animal-store serve` the executable is the dynamic loader, which would take `serve` for the program to run. The
    // loader is in /proc/self/cmdline, but not in the arguments that it passes on.
    let passed = args.join(OsStr::new("\0"));
    let all = fs::read("/proc/self/cmdline").unwrap_or_default();
    if all.strip_suffix(b"\0") != Some(passed.as_bytes()) {
        return;
    }
    let mut command = Command::new(program);
    // It returns only if it fails.
    let _ = command.arg0(name).args(rest).env(PURGE_DELAY, "0").exec();
}
