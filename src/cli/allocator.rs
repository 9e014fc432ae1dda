//! Makes the allocator return freed memory to the system immediately.
//!
//! By default mimalloc keeps it for a second, and then often permanently: after a second wave of 5,000 connections the server held
//! 290 MB instead of 30. It reads its options from the environment, before `main`, so the program executes itself again with the
//! option set, in the same process. There is no measurable cost (docs/decisions.md).

use std::env;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// How many milliseconds freed memory is kept. A value set by the operator is respected.
const PURGE_DELAY: &str = "MIMALLOC_PURGE_DELAY";

/// Executes the program again with the option, unless it is set. Returns if that fails: the server works without it.
pub(super) fn reexec_with_immediate_purge() {
    if env::var_os(PURGE_DELAY).is_some() {
        return;
    }
    let mut args = env::args_os();
    let (Some(name), Ok(program)) = (args.next(), env::current_exe()) else {
        return;
    };
    let mut command = Command::new(program);
    // It returns only if it fails.
    let _ = command.arg0(name).args(args).env(PURGE_DELAY, "0").exec();
}
