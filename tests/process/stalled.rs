//! A server whose output is not read: it serves, it shuts down, and a second signal always ends it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use harness::{Client, eventually};
use socket2::SockRef;
use tempfile::TempDir;

use crate::metrics::value_at;
use crate::{FREE_PORTS, PROGRAM, folder, large_key};

/// A server that has logged more than a pipe holds.
struct Stalled {
    child: Child,
    client: Client,
    /// The address of the admin listener.
    admin: SocketAddr,
    _folder: TempDir,
}

impl Stalled {
    fn start(stderr: impl Into<Stdio>) -> Self {
        let folder = folder();
        let key = large_key(folder.path());
        let mut child = harness::command(PROGRAM)
            .arg("serve")
            .args(FREE_PORTS)
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .spawn()
            .expect("the program starts");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut lines = output.lines().map_while(Result::ok);
        let mut address_of = |name: &str| -> SocketAddr {
            let line = lines.find(|line| line.contains(name)).expect("a line");
            let url = line.split_whitespace().last().expect("an address");
            let address = url.trim_start_matches("http://").trim_end_matches("/v1");
            address.parse().expect("an address")
        };
        let (api, admin) = (address_of("API "), address_of("admin "));
        let client = Client::new(api, Some(key));
        let mut connection = client.connect();
        // A pipe takes 64 KiB, and a line has more than a hundred bytes.
        for _ in 0..1_500 {
            let response = client.request("GET", "/v1/pets").send_on(&mut connection);
            assert_eq!(response.status, 200);
        }
        Self {
            child,
            client,
            admin,
            _folder: folder,
        }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &pid]).status();
        assert!(sent.expect("kill runs").success());
    }

    fn ends_within(&mut self, time: Duration) -> Option<i32> {
        let began = Instant::now();
        while began.elapsed() < time {
            if let Some(status) = self.child.try_wait().expect("a child") {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        panic!("it still runs after {time:?}");
    }
}

impl Drop for Stalled {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_log_that_nobody_reads_does_not_keep_a_server_from_shutting_down() {
    let mut server = Stalled::start(Stdio::piped());
    server.signal("TERM");
    assert_eq!(server.ends_within(Duration::from_secs(5)), Some(0));
}

#[test]
fn lines_that_cannot_be_written_are_counted() {
    let full = File::options().write(true).open("/dev/full");
    let server = Stalled::start(full.expect("a device"));
    eventually(Duration::from_secs(5), "all lines are counted", || {
        value_at(server.admin, "animal_store_log_lines_lost_total") >= 1_500.0
    });
}

#[test]
fn a_second_signal_ends_a_server_whose_log_nobody_reads() {
    let mut server = Stalled::start(Stdio::piped());
    let mut half = server.client.connect();
    half.send(b"POST /v1/pets HTTP/1.1\r\nHost: x\r\nContent-Le");
    std::thread::sleep(Duration::from_millis(500));
    server.signal("TERM");
    std::thread::sleep(Duration::from_millis(500));
    // Another one: the same signal twice within a pause of the machine is one.
    server.signal("INT");
    assert_eq!(server.ends_within(Duration::from_secs(5)), Some(1));
}

#[test]
fn a_non_blocking_log_whose_reader_pauses_loses_nothing() {
    let (log, stderr) = UnixStream::pair().expect("a pair");
    stderr.set_nonblocking(true).expect("a socket");
    let small = SockRef::from(&stderr).set_send_buffer_size(4_608);
    small.expect("a small buffer");
    let _server = Stalled::start(OwnedFd::from(stderr));
    let timeout = log.set_read_timeout(Some(Duration::from_secs(5)));
    timeout.expect("a socket");
    let log = BufReader::new(log).lines().map_while(Result::ok);
    let requests = log.filter(|line| line.contains("operation=listPets"));
    assert_eq!(requests.take(1_500).count(), 1_500);
}
