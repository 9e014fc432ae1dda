//! A server program that a test starts, stalls and ends.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::eventually;

/// How long a server may take for anything.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// Waits for the end of its input, which is the end of the test process, however that came. Then it wakes the daemon and
/// its children, which may be stalled, ends the daemon, and removes its folder.
const WATCH: &str = r#"
read -r _
for stat in /proc/[0-9]*/stat; do
    read -r id _ _ parent _ <"$stat" && [ "$parent" = "$1" ] && kill -CONT "$id"
done
kill -CONT "$1"
kill "-$2" "$1"
for _ in $(seq 100); do
    # What has ended may stay in the list until its status is read.
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
    /// The signal that ends it at once.
    farewell: Signal,
    log: PathBuf,
}

impl Daemon {
    /// Starts it. What it prints goes to the file `log` in its folder.
    pub(crate) fn spawn(mut command: Command, folder: &Path, farewell: Signal) -> Self {
        let log = folder.join("log");
        let output = File::options().append(true).create(true).open(&log);
        let output = output.expect("a log file");
        // Groups of their own: what is sent to the group of the tests is not for the server, and the watcher must live on.
        let child = command
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a log file"))
            .stderr(output)
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
        let watcher = Command::new("sh")
            .args(["-c", WATCH, "watcher"])
            .args([child.id().to_string(), farewell.as_raw().to_string()])
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
            farewell,
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
                panic!("no server within {TIMEOUT:?}, its end: {ended:?}, its log:\n{log}");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Stops it and its children where they are. Their sockets stay open.
    #[track_caller]
    pub(crate) fn stall(&self) {
        // The parent first: once it stands, no child comes after those that are listed.
        stop(&[self.id()]);
        stop(&children(self.id()));
    }

    /// Lets it go on.
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
    /// Ends it, and returns when it is gone. It does not panic: a test that fails would not be heard.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.resume();
            let _ = kill_process(self.id(), self.farewell);
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

/// A port without a listener. It is below those that the system gives to outgoing connections: none of them takes it,
/// nor connects to itself, while the server is away.
pub(crate) fn free_port() -> u16 {
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
fn stop(ids: &[Pid]) {
    for &id in ids {
        let _ = kill_process(id, Signal::STOP);
    }
    for &id in ids {
        eventually(TIMEOUT, "the process is stopped", || {
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

/// The state of a process and the id of its parent; none if it is gone.
fn stat(id: Pid) -> Option<(String, i32)> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.as_raw_nonzero())).ok()?;
    // The name before them is in brackets, and can hold anything.
    let mut words = stat.rsplit_once(')')?.1.split_whitespace();
    Some((words.next()?.to_owned(), words.next()?.parse().ok()?))
}
