//! CPU affinity: servers on the first core, the load generator on the second, so that neither takes time from the other.

use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Result, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores that are available to this process.
static GIVEN: OnceLock<Vec<usize>> = OnceLock::new();

/// The cores that a process runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Affinity {
    /// The core of the servers.
    Server,
    /// The core of the load generator.
    Load,
    /// All cores.
    Anywhere,
}

/// Finds the available cores. Must be called before anything is pinned.
pub(crate) fn detect() -> Result<usize> {
    let set = sched_getaffinity(None)?;
    let given: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect();
    ensure!(
        given.len() >= 2,
        "needs two cores: one for the server and one for the load generator"
    );
    Ok(GIVEN.get_or_init(|| given).len())
}

impl Affinity {
    fn cores(self) -> &'static [usize] {
        let given = GIVEN.get().map_or(&[][..], Vec::as_slice);
        match self {
            Self::Server => given.get(..1),
            Self::Load => given.get(1..2),
            Self::Anywhere => Some(given),
        }
        .unwrap_or_default()
    }

    /// Pins the calling thread.
    pub(crate) fn enter(self) -> Result<()> {
        let mut set = CpuSet::new();
        for core in self.cores() {
            set.set(*core);
        }
        Ok(sched_setaffinity(None, &set)?)
    }

    /// A command that runs a program on these cores. The program has the process ID of the command.
    pub(crate) fn command(self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let cores: Vec<String> = self.cores().iter().map(usize::to_string).collect();
        let mut command = Command::new("taskset");
        command.args(["-c", &cores.join(",")]).arg(program);
        command
    }
}
