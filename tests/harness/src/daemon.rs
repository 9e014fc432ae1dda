//! A server program that a test starts, pauses and stops.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::eventually;

/// The time limit for everything that a server does.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// Waits for the end of its input, which is the end of the test process, for whatever reason. Then it resumes the daemon and its
/// children, which may be stalled, stops the daemon, and removes its folder.
const WATCH: &str = r#"
read -r _
for stat in /proc/[0-9]*/stat; do
    read -r id _ _ parent _ <"$stat" && [ "$parent" = "$1" ] && kill -CONT "$id"
done
kill -CONT "$1"
kill "-$2" "$1"
for _ in $(seq 100); do
    # A process that has exited is a zombie until its parent reads its status.
    read -r _ _ state _ <"/proc/$1/stat" && [ "$state" != Z ] || break
    sleep 0.1
done
kill -KILL "$1"
rm -rf "$3"
"#;

/// A process with a folder, which does not outlive the test, not even a test that is killed.
#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
    watcher: Child,
    /// The signal that terminates it immediately.
    stop_signal: Signal,
    log: PathBuf,
}

impl Daemon {
    /// Starts it. What it prints goes to the file `log` in its folder.
    pub(crate) fn spawn(mut command: Command, folder: &Path, stop_signal: Signal) -> Self {
        let log = folder.join("log");
        let output = File::options().append(true).create(true).open(&log);
        let output = output.expect("a log file");
        // Process groups of their own: signals to the group of the tests must not reach them.
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a log file"))
            .stderr(output)
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let watcher = Command::new("sh")
            .args(["-c", WATCH, "watcher"])
            .args([child.id().to_string(), stop_signal.as_raw().to_string()])
            .arg(folder)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("sh runs");
        Self {
            child,
            watcher,
            stop_signal,
            log,
        }
    }

    /// Waits until it is ready to serve.
    #[track_caller]
    pub(crate) fn wait_until(&mut self, mut ready: impl FnMut(u32) -> bool) {
        let began = Instant::now();
        while !ready(self.child.id()) {
            let ended = self.child.try_wait().expect("a child");
            if ended.is_some() || began.elapsed() > TIMEOUT {
                let log = std::fs::read_to_string(&self.log).unwrap_or_default();
                panic!("no server within {TIMEOUT:?}, exit status: {ended:?}, log:\n{log}");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Pauses it and its children. Their sockets stay open.
    #[track_caller]
    pub(crate) fn stall(&self) {
        // The parent first: once it is paused, it starts no more children.
        pause(&[self.id()]);
        pause(&children(self.id()));
    }

    /// Resumes it.
    pub(crate) fn resume(&self) {
        for id in children(self.id()) {
            let _ = kill_process(id, Signal::CONT);
        }
        let _ = kill_process(self.id(), Signal::CONT);
    }

    fn id(&self) -> Pid {
        Pid::from_child(&self.child)
    }
}

impl Drop for Daemon {
    /// Stops it, and returns when it has exited. It does not panic, which would hide the failure of a test.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.resume();
            let _ = kill_process(self.id(), self.stop_signal);
            let began = Instant::now();
            while matches!(self.child.try_wait(), Ok(None)) && began.elapsed() < TIMEOUT {
                std::thread::sleep(Duration::from_millis(2));
            }
        }
        for child in [&mut self.child, &mut self.watcher] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// A port without a listener. It is below those that the system assigns to outgoing connections: none of them takes it, or connects
/// to itself, while the server is down.
pub fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let own = std::process::id().wrapping_mul(16);
    for _ in 0..1000 {
        let offset = own.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % 22_000;
        let port = 10_000 + u16::try_from(offset).expect("a small number");
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
    panic!("no free port");
}

#[track_caller]
fn pause(ids: &[Pid]) {
    for &id in ids {
        let _ = kill_process(id, Signal::STOP);
    }
    for &id in ids {
        eventually(TIMEOUT, "the process is paused", || {
            stat(id).is_none_or(|(state, _)| ["T", "Z", "X"].contains(&state.as_str()))
        });
    }
}

fn children(parent: Pid) -> Vec<Pid> {
    std::fs::read_dir("/proc")
        .expect("/proc")
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter_map(Pid::from_raw)
        .filter(|&id| stat(id).is_some_and(|(_, of)| of == parent.as_raw_nonzero().get()))
        .collect()
}

/// The state of a process and the ID of its parent; none if it has exited.
fn stat(id: Pid) -> Option<(String, i32)> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero())).ok()?;
    // The name before these fields is in parentheses, and can contain anything.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}
