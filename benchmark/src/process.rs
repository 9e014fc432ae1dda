//! A server started by the benchmark, and its resource usage.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};

use crate::exchange;

/// How long a server may take until its first response.
const TIMEOUT: Duration = Duration::from_secs(30);

/// The address of a server that did not print one.
const NO_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// A running server. It is killed when this is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    /// The address it listens on.
    pub(crate) address: SocketAddr,
}

impl Process {
    /// Starts a command that prints its address. `address` finds it in the output so far.
    pub(crate) fn announced(
        mut command: Command,
        address: impl Fn(&str) -> Option<SocketAddr>,
    ) -> Result<Self> {
        // The cost of writing the log is measured, and the speed of a terminal is not.
        let command = isolated(&mut command).stderr(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).spawn()?;
        let output = child.stdout.take().context("no output")?;
        let found = read_address(output, address);
        // From here on, dropping it stops the process, also if no address was printed.
        let process = Self {
            child,
            address: *found.as_ref().unwrap_or(&NO_ADDRESS),
        };
        found.with_context(|| format!("cannot start {command:?}"))?;
        Ok(process)
    }

    /// Starts a command that was given an address, and waits until it responds.
    pub(crate) fn listening_on(mut command: Command, address: SocketAddr) -> Result<Self> {
        let command = isolated(&mut command).stderr(Stdio::null());
        let child = command.stdout(Stdio::null()).spawn()?;
        let mut process = Self { child, address };
        let began = Instant::now();
        while exchange::status_of(address, "/").is_err() {
            if let Some(status) = process.child.try_wait()? {
                bail!("cannot start {command:?}: {status}");
            }
            if began.elapsed() > TIMEOUT {
                bail!("{command:?} does not respond");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(process)
    }

    /// The CPU time used so far, user and system, by the threads that still run, including those of child processes.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        let parents: Vec<(u32, u32)> = numbers_in("/proc")?
            .filter_map(|id| Some((id, parent_of(id)?)))
            .collect();
        let mut family = vec![self.child.id()];
        let mut used = Duration::ZERO;
        while let Some(id) = family.pop() {
            // A child may have ended meanwhile.
            used += cpu_of(id).unwrap_or_default();
            let children = parents.iter().filter(|(_, parent)| *parent == id);
            family.extend(children.map(|(child, _)| child));
        }
        ensure!(!used.is_zero(), "the system does not report CPU time");
        Ok(used)
    }

    /// Its memory in bytes, by the name of the field, such as `VmRSS` or `VmHWM`.
    pub(crate) fn memory(&self, name: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let line = status.lines().find(|line| line.starts_with(name));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        Ok(kilobytes.with_context(|| format!("no {name} in the status"))? * 1024)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // SIGTERM first, so that a server stops its child processes. The ID of an exited process may belong to another one.
        if let (Ok(None), Ok(id)) = (self.child.try_wait(), i32::try_from(self.child.id()))
            && let Some(id) = Pid::from_raw(id)
        {
            let _ = kill_process(id, Signal::TERM);
        }
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(5) {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Gives a program neither input nor settings of this machine: it would use the database of the package, or that of a variable.
pub(crate) fn isolated(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ANIMAL_STORE_") {
            command.env_remove(name);
        }
    }
    command
        .env("ANIMAL_STORE_CONFIG", "/dev/null")
        .stdin(Stdio::null())
}

fn read_address(
    output: ChildStdout,
    address: impl Fn(&str) -> Option<SocketAddr>,
) -> Result<SocketAddr> {
    let mut output = BufReader::new(output);
    let mut text = String::new();
    while output.read_line(&mut text)? > 0 {
        if let Some(address) = address(&text) {
            return Ok(address);
        }
    }
    bail!("exited without printing its address: {text}")
}

/// The entries of a directory that are numbers: processes or threads.
fn numbers_in(directory: &str) -> Result<impl Iterator<Item = u32>> {
    let entries = fs::read_dir(directory)?;
    Ok(entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()))
}

/// The parent of a process.
fn parent_of(id: u32) -> Option<u32> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The second field is a name in parentheses and may contain spaces. The parent is the fourth.
    text.rsplit_once(')')?
        .1
        .split_whitespace()
        .nth(1)?
        .parse()
        .ok()
}

/// The CPU time of the threads of a process. `/proc/PID/stat` has it, too, but in ticks of 10 ms, which are 2 % of a short round.
fn cpu_of(id: u32) -> Result<Duration> {
    let threads = format!("/proc/{id}/task");
    let nanoseconds = numbers_in(&threads)?.filter_map(|thread| {
        let text = fs::read_to_string(format!("{threads}/{thread}/schedstat")).ok()?;
        text.split_whitespace().next()?.parse::<u64>().ok()
    });
    Ok(Duration::from_nanos(nanoseconds.sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_reads_no_configuration_file_of_the_machine() {
        let mut command = Command::new("animal-store");
        let mut variables = isolated(&mut command).get_envs();
        let config = variables.find(|(name, _)| *name == "ANIMAL_STORE_CONFIG");
        let value = config.and_then(|(_, value)| value);
        assert_eq!(value, Some("/dev/null".as_ref()));
    }
}
