//! Metrics of the process, under the names that Prometheus users expect.

use std::fs;

use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};
use rustix::system::uname;

use super::exposition::{Exposition, metrics};
use crate::clock::Timestamp;

/// Adds the metrics of the process. Those that the system does not provide are left out.
pub(super) fn describe(out: &mut Exposition, started: Timestamp) {
    let started = started.as_millis() as f64 / 1000.0;
    metrics! { out;
        gauge "process_start_time_seconds" "When the server started to serve, in seconds since the Unix epoch" started;
    }
    if let Some(bytes) = resident_bytes() {
        metrics! { out; gauge "process_resident_memory_bytes" "Resident memory, in bytes" bytes as f64; }
    }
    if let Some(ticks) = cpu_ticks() {
        let seconds = ticks as f64 / clock_ticks_per_second() as f64;
        metrics! { out; counter "process_cpu_seconds_total" "Total user and system CPU time, in seconds" seconds; }
    }
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        // One of them is the directory itself, open while it is read.
        let open = files.count().saturating_sub(1);
        metrics! { out; gauge "process_open_fds" "Number of open file descriptors" open as f64; }
    }
    if let Some(limit) = getrlimit(Resource::Nofile).current {
        metrics! { out; gauge "process_max_fds" "Maximum number of open file descriptors" limit as f64; }
    }
}

/// The resident memory: the second field of `statm`.
pub(super) fn resident_bytes() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split(' ').nth(1)?.parse().ok()?;
    Some(pages * page_size() as u64)
}

/// Fields 14 and 15 of `stat`, which are the 12th and 13th after the name in parentheses.
fn cpu_ticks() -> Option<u64> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    let mut fields = text.rsplit(')').next()?.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

/// The name of this machine. Not from /proc, which a sandbox may hide.
pub(super) fn host_name() -> String {
    uname().nodename().to_string_lossy().into_owned()
}
