//! The machine and the versions of a run.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde::Serialize;

use crate::baselines;
use crate::bench::Bench;

/// The lock file that this program was built from.
const LOCK: &str = include_str!("../../Cargo.lock");

/// How long CPU use is measured before the run.
const CPU_SAMPLE_TIME: Duration = Duration::from_secs(1);

/// The machine and the versions.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Machine {
    pub(crate) processor: String,
    pub(crate) cores: usize,
    /// In bytes.
    pub(crate) memory: u64,
    pub(crate) kernel: String,
    /// The share of all cores that other processes used before the run.
    pub(crate) busy: f64,
    /// The share of CPU time that the host gave to other machines during the run. Set at the end.
    pub(crate) stolen: f64,
    pub(crate) rustc: String,
    pub(crate) hyper: String,
    pub(crate) sqlite: String,
    pub(crate) nginx: Option<String>,
}

impl Machine {
    pub(crate) fn detect(bench: &Bench, cores: usize) -> Self {
        let kilobytes = field("/proc/meminfo", "MemTotal");
        let kilobytes = kilobytes.trim_end_matches(" kB").parse::<u64>();
        Self {
            processor: field("/proc/cpuinfo", "model name"),
            cores,
            memory: kilobytes.unwrap_or(0) * 1024,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .map_or_else(|_| UNKNOWN.into(), |text| text.trim().to_owned()),
            busy: busy().unwrap_or(f64::NAN),
            stolen: f64::NAN,
            rustc: rustc().unwrap_or_else(|| UNKNOWN.into()),
            hyper: locked("hyper").unwrap_or(UNKNOWN).to_owned(),
            sqlite: rusqlite::version().to_owned(),
            nginx: baselines::nginx_version(bench),
        }
    }
}

const UNKNOWN: &str = "unknown";

/// The value of a field in a file of `/proc`.
fn field(file: &str, name: &str) -> String {
    let text = fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_once(':'))
        .map_or_else(|| UNKNOWN.into(), |(_, value)| value.trim().to_owned())
}

/// CPU time of all cores in ticks, since boot or since an earlier time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ticks {
    all: u64,
    idle: u64,
    stolen: u64,
}

impl Ticks {
    pub(crate) fn now() -> Option<Self> {
        Self::read(&fs::read_to_string("/proc/stat").ok()?)
    }

    fn read(text: &str) -> Option<Self> {
        let numbers = text.lines().next()?.split_whitespace().skip(1);
        let numbers: Vec<u64> = numbers.take(8).flat_map(str::parse).collect();
        Some(Self {
            all: numbers.iter().sum(),
            idle: numbers.get(3)? + numbers.get(4)?,
            stolen: *numbers.get(7)?,
        })
    }

    fn since(self, before: Self) -> Self {
        Self {
            all: self.all.saturating_sub(before.all),
            idle: self.idle.saturating_sub(before.idle),
            stolen: self.stolen.saturating_sub(before.stolen),
        }
    }

    fn busy(self) -> f64 {
        1.0 - self.idle as f64 / self.all as f64
    }

    /// The share of non-idle time that the host gave to other machines.
    pub(crate) fn stolen_since(self, before: Self) -> f64 {
        let run = self.since(before);
        run.stolen as f64 / run.all.saturating_sub(run.idle) as f64
    }
}

/// The CPU use of other processes, measured for a moment.
fn busy() -> Option<f64> {
    let before = Ticks::now()?;
    std::thread::sleep(CPU_SAMPLE_TIME);
    Some(Ticks::now()?.since(before).busy())
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
        assert_eq!(locked("unknown-crate"), None);
    }

    #[test]
    fn stolen_time_is_distinguished_from_idle_and_busy_time() {
        let at = |line: &str| Ticks::read(line).unwrap();
        let before = at("cpu  100 0 100 1000 0 0 0 50 0 0\ncpu0 1 1 1 1");
        let after = at("cpu  130 0 130 1020 0 0 0 70 9 9\n");
        assert_eq!(after.since(before).busy(), 0.8);
        assert_eq!(after.stolen_since(before), 0.25);
    }
}
