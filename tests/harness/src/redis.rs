//! A Redis server of the tests' own.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::daemon::{Daemon, free_port};
use crate::{Signed, eventually};

/// A Redis server that keeps nothing on disk. It stops when this is dropped, or when the test process ends.
#[derive(Debug)]
pub struct Redis {
    port: u16,
    /// Whether it is part of a cluster.
    is_shard: bool,
    tls: Option<RedisTls>,
    // Before the folder: a server that is dropped first leaves nothing in it.
    daemon: Mutex<Option<Daemon>>,
    folder: TempDir,
}

/// The TLS configuration of a server, which then accepts only TLS.
#[derive(Clone, Debug)]
struct RedisTls {
    certificate: Signed,
    /// Whether clients need a certificate.
    verifies_clients: bool,
}

impl Redis {
    /// Starts a server on a free port, and waits until it responds.
    #[track_caller]
    pub fn start() -> Self {
        Self::start_as(false, None)
    }

    /// The same with TLS, and with or without certificates of clients.
    #[track_caller]
    pub fn start_with_tls(certificate: &Signed, verifies_clients: bool) -> Self {
        let tls = RedisTls {
            certificate: certificate.clone(),
            verifies_clients,
        };
        Self::start_as(false, Some(tls))
    }

    /// Starts a cluster of three, each with a third of all slots, and waits until they agree about that.
    #[track_caller]
    pub fn cluster() -> [Self; 3] {
        Self::cluster_with(None)
    }

    /// The same with TLS.
    #[track_caller]
    pub fn cluster_with_tls(certificate: &Signed) -> [Self; 3] {
        Self::cluster_with(Some(RedisTls {
            certificate: certificate.clone(),
            verifies_clients: false,
        }))
    }

    fn cluster_with(tls: Option<RedisTls>) -> [Self; 3] {
        let all = [(); 3].map(|()| Self::start_as(true, tls.clone()));
        let addresses = all.each_ref().map(|one| format!("127.0.0.1:{}", one.port));
        let mut create = Command::new("redis-cli");
        create.args(["--cluster-yes", "--cluster", "create"]);
        create.args(addresses).args(all[0].tls_options());
        let made = create.output().expect("redis-cli runs");
        assert!(made.status.success(), "{made:?}");
        eventually(Duration::from_secs(10), "a cluster", || {
            let agrees = |one: &Self| one.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok");
            all.iter().all(agrees)
        });
        all
    }

    /// Starts a replica of a shard of the cluster that this one belongs to, and waits until it follows.
    #[track_caller]
    pub fn add_replica(&self) -> Self {
        let replica = Self::start_as(true, self.tls.clone());
        let addresses = [&replica, self].map(|one| format!("127.0.0.1:{}", one.port));
        let mut add = Command::new("redis-cli");
        add.args(["--cluster-yes", "--cluster", "add-node"]);
        add.args(addresses)
            .arg("--cluster-slave")
            .args(self.tls_options());
        let added = add.output().expect("redis-cli runs");
        assert!(added.status.success(), "{added:?}");
        eventually(Duration::from_secs(10), "a replica", || {
            let info = replica.cli(&["INFO", "replication"]);
            info.contains("master_link_status:up")
        });
        replica
    }

    fn start_as(is_shard: bool, tls: Option<RedisTls>) -> Self {
        let redis = Self {
            port: free_port(),
            is_shard,
            tls,
            daemon: Mutex::new(None),
            folder: TempDir::with_prefix("redis-").expect("a folder"),
        };
        redis.start_again();
        redis
    }

    /// Its URL.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() {
            "rediss"
        } else {
            "redis"
        };
        format!("{scheme}://127.0.0.1:{}", self.port)
    }

    /// The options with which `redis-cli` connects.
    fn tls_options(&self) -> Vec<OsString> {
        let Some(RedisTls { certificate, .. }) = &self.tls else {
            return Vec::new();
        };
        let files = [
            ("--cacert", &certificate.ca),
            ("--cert", &certificate.cert),
            ("--key", &certificate.key),
        ];
        let files = files.map(|(option, file)| [option.into(), file.into()]);
        [vec!["--tls".into()], files.concat()].concat()
    }

    /// Its port on 127.0.0.1. It stays the same.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// What `redis-cli` prints for this command. Panics if it fails.
    #[track_caller]
    pub fn cli(&self, args: &[&str]) -> String {
        let output = Command::new("redis-cli")
            .args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-e"])
            .args(self.tls_options())
            .args(args)
            .output()
            .expect("redis-cli runs");
        assert!(output.status.success(), "{args:?}: {output:?}");
        let text = String::from_utf8(output.stdout).expect("text");
        text.trim_end().to_owned()
    }

    /// Kills it as `kill -9` does. Its data is lost.
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
            .args(["--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(self.folder.path());
        let port = self.port.to_string();
        match &self.tls {
            None => command.args(["--port", &port]),
            Some(RedisTls {
                certificate: Signed { cert, key, ca },
                verifies_clients,
            }) => {
                let clients = if *verifies_clients { "yes" } else { "no" };
                command.args(["--port", "0", "--tls-port", &port]);
                command.arg("--tls-cert-file").arg(cert);
                command.arg("--tls-key-file").arg(key);
                command.arg("--tls-ca-cert-file").arg(ca);
                command.args(["--tls-auth-clients", clients])
            }
        };
        if self.is_shard && self.tls.is_some() {
            command.args(["--tls-cluster", "yes"]);
        }
        match self.is_shard {
            // By default, it would talk to the others on a port that may be taken.
            true => command
                .args(["--cluster-enabled", "yes", "--cluster-port"])
                .arg(free_port().to_string()),
            // One for each test that shares it.
            false => command.args(["--databases", "10000"]),
        };
        let mut daemon = Daemon::spawn(command, self.folder.path(), Signal::KILL);
        match self.tls {
            None => daemon.wait_until(|_| self.responds().is_ok()),
            // It listens only once it serves.
            Some(_) => daemon.wait_until(|_| self.connect().is_ok()),
        }
        *running = Some(daemon);
    }

    /// Pauses it: connections stay open and new ones are accepted, but nothing responds.
    #[track_caller]
    pub fn stall(&self) {
        self.daemon().as_ref().expect("it runs").stall();
    }

    /// Resumes it after [`stall`](Self::stall).
    #[track_caller]
    pub fn resume(&self) {
        self.daemon().as_ref().expect("it runs").resume();
    }

    fn responds(&self) -> std::io::Result<()> {
        let mut stream = self.connect()?;
        stream.set_read_timeout(Some(Duration::from_secs(1)))?;
        stream.write_all(b"PING\r\n")?;
        stream.read_exact(&mut [0; b"+PONG\r\n".len()])
    }

    fn connect(&self) -> std::io::Result<TcpStream> {
        TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))
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
