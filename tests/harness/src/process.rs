//! The program itself, as a process of its own.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::Client;

/// What a command printed, and how it ended.
#[derive(Debug)]
pub struct Output {
    /// The exit code; none after a signal.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// Panics unless it ended with this code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "{self:#?}");
        self
    }

    /// Panics unless it failed with this code and one line on standard error, and returns that line.
    #[track_caller]
    pub fn fails_with(self, code: i32) -> String {
        let output = self.exits(code);
        assert_eq!(output.stdout, "", "{output:#?}");
        assert_eq!(output.stderr.lines().count(), 1, "{output:#?}");
        output.stderr.trim_end().to_owned()
    }
}

/// Runs the program in a folder to its end, with none of this process's `ANIMAL_STORE_…` variables.
#[track_caller]
pub fn run(program: &str, folder: &Path, args: &[&str]) -> Output {
    finish(command_in(folder, program, args), TIMEOUT)
}

/// The environment variable of `--database`.
pub(crate) const DATABASE: &str = "ANIMAL_STORE_DATABASE";

/// The same on this database, unless the arguments name another.
#[track_caller]
pub(crate) fn run_on(database: &str, program: &str, folder: &Path, args: &[&str]) -> Output {
    let mut command = command_in(folder, program, args);
    command.env(DATABASE, database);
    finish(command, TIMEOUT)
}

/// Longer than any command takes: one that hangs fails its test, not the whole run.
const TIMEOUT: Duration = Duration::from_secs(60);

#[track_caller]
fn finish(mut command: Command, timeout: Duration) -> Output {
    // A process group, so that a command that is wrapped, as in `timeout 20 animal-store`, is killed with its wrapper.
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("the program runs");
    let group = Pid::from_child(&child);
    let (sender, ended) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = ended.recv_timeout(timeout) else {
        let _ = kill_process_group(group, Signal::KILL);
        let printed = ended.recv_timeout(Duration::from_secs(5));
        panic!("{command:?} did not end within {timeout:?}: {printed:?}");
    };
    let output = output.expect("its output");
    Output {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("text"),
        stderr: String::from_utf8(output.stderr).expect("text"),
    }
}

/// The program, with none of this process's `ANIMAL_STORE_…` variables. A test uses it instead of `Command::new`.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("ANIMAL_STORE_") {
            command.env_remove(name);
        }
    }
    // Otherwise a command without a database would use that of the package, on a machine that has it.
    command.env("ANIMAL_STORE_CONFIG", "/dev/null");
    command
}

pub(crate) fn command_in(folder: &Path, program: &str, args: &[&str]) -> Command {
    let mut command = command(program);
    command.args(args).current_dir(folder).stdin(Stdio::null());
    command
}

/// A server as a process of its own. It is killed when this is dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    /// The address of the API.
    pub address: SocketAddr,
    /// The address of the admin listener.
    pub admin: SocketAddr,
    /// What it printed when it started.
    pub startup_message: String,
    lines: Receiver<String>,
    /// Reads the log until the end.
    reader: JoinHandle<()>,
}

impl Process {
    /// Starts `serve` in a folder on free ports, and waits until it prints its addresses.
    pub fn serve(program: &str, folder: &Path, args: &[&str]) -> Self {
        Self::serve_with(program, folder, args, &[])
    }

    /// The same, with environment variables.
    pub fn serve_with(program: &str, folder: &Path, args: &[&str], vars: &[(&str, &str)]) -> Self {
        let mut all = vec![
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--admin-listen",
            "127.0.0.1:0",
        ];
        all.extend(args);
        Self::start(program, folder, &all, vars)
    }

    /// Starts a program that becomes a server, with these arguments alone, and waits until it prints its addresses.
    pub fn start(program: &str, folder: &Path, args: &[&str], vars: &[(&str, &str)]) -> Self {
        let mut command = command_in(folder, program, args);
        command
            .envs(vars.iter().copied())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");

        // The log is read continuously: with a full pipe, the server would drop lines.
        let (send, lines) = mpsc::channel();
        let errors = BufReader::new(child.stderr.take().expect("a pipe"));
        let reader = std::thread::spawn(move || {
            let mut lines = errors.lines().map_while(Result::ok);
            // If nobody receives them, the test has ended.
            let _ = lines.try_for_each(|line| send.send(line));
        });

        let mut startup_message = String::new();
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        while !startup_message.contains("\n  database ") {
            let read = output.read_line(&mut startup_message).expect("text");
            if read == 0 {
                let _ = child.wait();
                panic!(
                    "it did not start: {startup_message}{}",
                    lines.iter().collect::<Vec<_>>().join("\n")
                );
            }
        }
        let address = |name: &str| {
            let line = startup_message
                .lines()
                .find(|line| line.trim_start().starts_with(name))
                .expect(name);
            let url = line.split_whitespace().last().expect("a URL");
            let host = url.trim_end_matches("/v1");
            let host = host.split_once("://").map_or(host, |(_, host)| host);
            host.parse().unwrap_or_else(|_| panic!("{line}"))
        };
        let (api, admin) = (address("API"), address("admin"));
        // It is printed in one write, so whatever follows has been read with it.
        startup_message.push_str(&String::from_utf8_lossy(output.buffer()));
        Self {
            child,
            address: api,
            admin,
            startup_message,
            lines,
            reader,
        }
    }

    /// Its process ID.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How often the thread of this name has waited. A server is ready a moment before its last threads have begun and have names.
    pub fn waits_of(&self, thread: &str) -> u64 {
        let tasks = format!("/proc/{}/task", self.id());
        let mut count = None;
        eventually(Duration::from_secs(10), thread, || {
            let tasks = fs::read_dir(&tasks).expect("threads").flatten();
            let read = |task: &fs::DirEntry, file| fs::read_to_string(task.path().join(file));
            let named =
                |task: &fs::DirEntry| read(task, "comm").is_ok_and(|it| it.trim_end() == thread);
            let status = tasks
                .filter(named)
                .find_map(|task| read(&task, "status").ok());
            let status = status.unwrap_or_default();
            let line =
                (status.lines()).find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            count = line.and_then(|count| count.trim().parse().ok());
            count.is_some()
        });
        count.expect("a count")
    }

    /// A client with this key or none.
    pub fn client(&self, key: Option<&str>) -> Client {
        Client::new(self.address, key.map(str::to_owned))
    }

    /// Sends a signal by its name, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill")
            .args([&format!("-{name}"), &self.id().to_string()])
            .status();
        assert!(sent.expect("kill runs").success());
    }

    /// Kills it as `kill -9` does, and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.read_rest();
    }

    /// Waits until it exits by itself, and returns its exit code.
    pub fn ends_within(&mut self, timeout: Duration) -> Option<i32> {
        let began = Instant::now();
        while began.elapsed() < timeout {
            if let Some(status) = self.child.try_wait().expect("a child") {
                self.read_rest();
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it still runs after {timeout:?}");
    }

    /// Waits until the log of a process that has ended is read. A process that it has started may keep it open.
    fn read_rest(&self) {
        let began = Instant::now();
        while !self.reader.is_finished() && began.elapsed() < Duration::from_secs(5) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What it has logged since the last call: everything, if it has ended.
    pub fn log(&self) -> String {
        self.lines.try_iter().map(|line| line + "\n").collect()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            self.read_rest();
            eprint!("{}", self.log());
        }
    }
}

/// Polls a condition until it holds. Fails after `timeout`, but only after a minimum number of polls: on a machine that was paused
/// for most of that time, the condition was hardly checked.
#[track_caller]
pub fn eventually(timeout: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    let began = Instant::now();
    let mut polls = timeout.as_millis() / 50;
    while !condition() {
        polls = polls.saturating_sub(1);
        let in_time = began.elapsed() < timeout || polls > 0;
        assert!(in_time, "not within {timeout:?}: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "\"sleep 99; true\" did not end within 300ms")]
    fn a_command_that_hangs_fails_its_test() {
        let script = ["-c", "sleep 99; true"];
        finish(
            command_in(Path::new("/"), "sh", &script),
            Duration::from_millis(300),
        );
    }

    #[test]
    #[should_panic(expected = "stdout: \"begun\\n\"")]
    fn what_a_command_printed_before_it_was_killed_is_reported() {
        let script = ["-c", "echo begun; sleep 99; true"];
        finish(
            command_in(Path::new("/"), "sh", &script),
            Duration::from_secs(3),
        );
    }

    #[test]
    fn a_command_reads_no_configuration_file_of_the_machine() {
        let command = command("animal-store");
        let config = command
            .get_envs()
            .find(|(name, _)| *name == "ANIMAL_STORE_CONFIG");
        let value = config.and_then(|(_, value)| value);
        assert_eq!(value, Some("/dev/null".as_ref()));
    }
}
