//! A Redis server of the tests' own.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::daemon::{Daemon, free_port};
use crate::eventually;

/// A Redis server that keeps nothing on disk. It ends with this value, or with the test process.
#[derive(Debug)]
pub struct Redis {
    port: u16,
    /// Whether it is part of a cluster.
    is_shard: bool,
    // Before the folder: a server that is dropped first leaves nothing in it.
    daemon: Mutex<Option<Daemon>>,
    folder: TempDir,
}

impl Redis {
    /// Starts a server on a free port, and waits until it responds.
    #[track_caller]
    pub fn start() -> Self {
        Self::start_as(false)
    }

    /// Starts a cluster of three, each with a third of all slots, and waits until they agree about that.
    #[track_caller]
    pub fn cluster() -> [Self; 3] {
        let all = [(); 3].map(|()| Self::start_as(true));
        let addresses = all.each_ref().map(|one| format!("127.0.0.1:{}", one.port));
        let made = Command::new("redis-cli")
            .args(["--cluster-yes", "--cluster", "create"])
            .args(addresses)
            .output()
            .expect("redis-cli runs");
        assert!(made.status.success(), "{made:?}");
        eventually(Duration::from_secs(10), "a cluster", || {
            let agrees = |one: &Self| one.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok");
            all.iter().all(agrees)
        });
        all
    }

    fn start_as(is_shard: bool) -> Self {
        let redis = Self {
            port: free_port(),
            is_shard,
            daemon: Mutex::new(None),
            folder: TempDir::with_prefix("redis-").expect("a folder"),
        };
        redis.start_again();
        redis
    }

    /// Where it is, as a URL.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// Its port on 127.0.0.1. It stays the same.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What `redis-cli` prints for this command. Panics if the server refuses it.
    #[track_caller]
    pub fn cli(&self, words: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-e"])
            .args(words)
            .output()
            .expect("redis-cli runs");
        assert!(output.status.success(), "{words:?}: {output:?}");
        let text = String::from_utf8(output.stdout).expect("text");
        text.trim_end().to_owned()
    }

    /// Kills it as `kill -9` does. All it knew is lost.
    pub fn kill(&self) {
        self.daemon().take();
    }

    /// Starts it again on the same port, empty, and waits until it responds.
    #[track_caller]
    pub fn start_again(&self) {
        let mut running = self.daemon();
        assert!(running.is_none(), "it runs");
        let mut command = Command::new("redis-server");
        command
            .args(["--bind", "127.0.0.1", "--port", &self.port.to_string()])
            .args(["--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(self.folder.path());
        match self.is_shard {
            // Left to itself, it would talk to the others on a port that may be taken.
            true => command
                .args(["--cluster-enabled", "yes", "--cluster-port"])
                .arg(free_port().to_string()),
            // One for each test that shares it.
            false => command.args(["--databases", "10000"]),
        };
        let mut daemon = Daemon::spawn(command, self.folder.path(), Signal::KILL);
        daemon.wait_until(|_| self.responds().is_ok());
        *running = Some(daemon);
    }

    /// Stops it where it is: connections stay open and new ones are taken, but nothing responds.
    #[track_caller]
    pub fn stall(&self) {
        self.daemon().as_ref().expect("it runs").stall();
    }

    /// Lets it go on after [`stall`](Self::stall).
    #[track_caller]
    pub fn resume(&self) {
        self.daemon().as_ref().expect("it runs").resume();
    }

    fn responds(&self) -> std::io::Result<()> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"PING\r\n")?;
        stream.read_exact(&mut [0; b"+PONG\r\n".len()])
    }

    fn daemon(&self) -> MutexGuard<'_, Option<Daemon>> {
        self.daemon.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn it_starts_again_on_its_port_and_is_empty() {
        let redis = Redis::start();
        assert_eq!(redis.cli(&["set", "animal", "cat"]), "OK");
        assert_eq!(redis.cli(&["get", "animal"]), "cat");
        redis.kill();
        assert!(redis.responds().is_err());
        redis.start_again();
        assert_eq!(redis.cli(&["dbsize"]), "0");
    }

    #[test]
    fn it_responds_to_nothing_while_it_is_stalled() {
        let redis = Redis::start();
        redis.stall();
        thread::scope(|scope| {
            let response = scope.spawn(|| redis.cli(&["ping"]));
            thread::sleep(Duration::from_millis(300));
            let early = response.is_finished();
            redis.resume();
            assert_eq!(response.join().expect("a response"), "PONG");
            assert!(!early, "a stalled server responded");
        });
    }
}
