//! Where it was measured, and with which versions.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde::Serialize;

use crate::anchors;
use crate::bench::Bench;

/// What this program was built from.
const LOCK: &str = include_str!("../../Cargo.lock");

/// How long the machine is watched before the run.
const LOOK: Duration = Duration::from_secs(1);

/// The machine and the versions.
#[derive(Debug, Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    /// In bytes.
    pub(crate) memory: u64,
    pub(crate) kernel: String,
    /// The part of all cores that something else took before the run.
    pub(crate) busy: f64,
    pub(crate) rustc: String,
    pub(crate) hyper: String,
    pub(crate) sqlite: String,
    pub(crate) nginx: Option<String>,
}

impl Machine {
    pub(crate) fn look(bench: &Bench, cores: usize) -> Self {
        let kilobytes = field("/proc/meminfo", "MemTotal");
        let kilobytes = kilobytes.trim_end_matches(" kB").parse::<u64>();
        Self {
            processor: field("/proc/cpuinfo", "model name"),
            cores,
            memory: kilobytes.unwrap_or(0) * 1024,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .map_or_else(|_| UNKNOWN.into(), |text| text.trim().to_owned()),
            busy: busy().unwrap_or(f64::NAN),
            rustc: rustc().unwrap_or_else(|| UNKNOWN.into()),
            hyper: locked("hyper").unwrap_or(UNKNOWN).to_owned(),
            sqlite: rusqlite::version().to_owned(),
            nginx: anchors::nginx_version(bench),
        }
    }
}

const UNKNOWN: &str = "unknown";

/// What stands behind a name and a colon in a file of the kernel's.
fn field(file: &str, name: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_once(':'))
        .map_or_else(|| UNKNOWN.into(), |(_, value)| value.trim().to_owned())
}

/// How busy the machine is with other things, over a moment.
fn busy() -> Option<f64> {
    /// Ticks of all kinds, and idle ones.
    fn ticks() -> Option<(u64, u64)> {
        let text = fs::read_to_string("/proc/stat").ok()?;
        let numbers = text.lines().next()?.split_whitespace().skip(1);
        let numbers: Vec<u64> = numbers.take(8).flat_map(str::parse).collect();
        Some((numbers.iter().sum(), numbers.get(3)? + numbers.get(4)?))
    }
    let before = ticks()?;
    std::thread::sleep(LOOK);
    let after = ticks()?;
    let (all, idle) = (
        after.0.checked_sub(before.0)?,
        after.1.saturating_sub(before.1),
    );
    (all > 0).then(|| 1.0 - idle as f64 / all as f64)
}

fn rustc() -> Option<String> {
    let output = Command::new("rustc").arg("--version").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.split_whitespace().nth(1).map(str::to_owned)
}

/// The version of a dependency.
fn locked(name: &str) -> Option<&'static str> {
    let entry = format!("name = \"{name}\"\nversion = \"");
    let begin = LOCK.find(&entry)? + entry.len();
    LOCK[begin..].split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_those_of_the_lock_file() {
        assert!(locked("hyper").is_some_and(|version| version.starts_with("1.")));
        assert_eq!(locked("no such thing"), None);
    }
}
