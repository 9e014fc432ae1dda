//! Which core runs what: servers on the first, the load on the second, so that neither takes time from the other.

use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Result, ensure};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The cores this process was given.
static GIVEN: OnceLock<Vec<usize>> = OnceLock::new();

/// Where something runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// On the servers' core.
    Server,
    /// On the load's core.
    Load,
    /// Wherever the kernel likes.
    Anywhere,
}

/// Looks which cores there are. To be called first, before anything is pinned.
pub(crate) fn look() -> Result<usize> {
    let set = sched_getaffinity(None)?;
    let given: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|cpu| set.is_set(*cpu))
        .collect();
    ensure!(
        given.len() >= 2,
        "two cores are needed: one for the server and one for the load"
    );
    Ok(GIVEN.get_or_init(|| given).len())
}

impl Place {
    fn cores(self) -> &'static [usize] {
        let given = GIVEN.get().map_or(&[][..], Vec::as_slice);
        match self {
            Self::Server => given.get(..1),
            Self::Load => given.get(1..2),
            Self::Anywhere => Some(given),
        }
        .unwrap_or_default()
    }

    /// Moves the calling thread there.
    pub(crate) fn enter(self) -> Result<()> {
        let mut set = CpuSet::new();
        for core in self.cores() {
            set.set(*core);
        }
        Ok(sched_setaffinity(None, &set)?)
    }

    /// A command that runs a program there. The program keeps the process id of the command.
    pub(crate) fn command(self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let cores: Vec<String> = self.cores().iter().map(usize::to_string).collect();
        let mut command = Command::new("taskset");
        command.args(["-c", &cores.join(",")]).arg(program);
        command
    }
}
