//! The server under a service manager: notifications, the watchdog, and sockets that stay open across a restart. A test plays
//! systemd, because no test can rely on a machine that runs it; the units are checked with systemd's own tools.

mod notifications;
mod restarts;
mod units;

use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use harness::{Certificate, Client, Connection, eventually, free_port};

use crate::slow::is_raw_error;
use crate::{PROGRAM, folder, run};

/// Passes its standard input as the only socket, and becomes the program.
const ACTIVATE: &str = r#"exec 3<&0 </dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec "$@""#;

/// A service manager: it holds the socket of the API, and reads notifications.
struct Manager {
    folder: tempfile::TempDir,
    socket: TcpListener,
    notified: UnixDatagram,
}

impl Manager {
    fn new() -> Self {
        let folder = folder();
        let notified = UnixDatagram::bind(folder.path().join("notify")).expect("a socket");
        let timeout = Some(Duration::from_millis(100));
        notified.set_read_timeout(timeout).expect("a timeout");
        Self {
            socket: TcpListener::bind("127.0.0.1:0").expect("a port"),
            folder,
            notified,
        }
    }

    fn address(&self) -> SocketAddr {
        self.socket.local_addr().expect("an address")
    }

    /// Starts a server with the socket.
    fn start(&self, vars: &[(&str, &str)]) -> Service {
        let socket: OwnedFd = self.socket.try_clone().expect("a socket").into();
        let options = ["serve", "--no-first-key", "--admin-listen", "127.0.0.1:0"];
        let log = std::fs::File::create(self.folder.path().join("log"));
        let child = Command::new("bash")
            .args(["-c", ACTIVATE, "bash", PROGRAM])
            .args(options)
            .args(["--log-level", "warn"])
            .current_dir(self.folder.path())
            .env("NOTIFY_SOCKET", self.folder.path().join("notify"))
            .envs(vars.iter().copied())
            .stdin(Stdio::from(socket))
            .stdout(Stdio::null())
            .stderr(log.expect("a log"))
            .spawn();
        Service(child.expect("bash runs"))
    }

    /// The notifications until one has this line.
    #[track_caller]
    fn wait_for(&self, line: &str, timeout: Duration) -> Vec<String> {
        let mut all = Vec::new();
        let began = Instant::now();
        while !all.iter().any(|found: &String| found.starts_with(line)) {
            assert!(began.elapsed() < timeout, "no {line} in {all:?}");
            all.extend(self.read());
        }
        all
    }

    /// The lines of the next notification, if one comes soon.
    fn read(&self) -> Vec<String> {
        let mut buffer = [0; 4096];
        match self.notified.recv(&mut buffer) {
            Ok(n) => {
                let text = String::from_utf8_lossy(&buffer[..n]);
                text.lines().map(str::to_owned).collect()
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                Vec::new()
            }
        }
    }
}

/// A server of the manager. It is killed when this is dropped.
struct Service(Child);

impl Service {
    fn terminate(&self) {
        let id = self.0.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status();
        assert!(sent.expect("kill runs").success());
    }

    fn code(&mut self) -> Option<i32> {
        self.0.wait().expect("a child").code()
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const SOON: Duration = Duration::from_secs(10);

/// The origin of pages that may call the API.
const SHOP: &str = "https://shop.example";

#[test]
fn a_long_migration_extends_the_start_timeout_and_livez_responds_meanwhile() {
    let manager = Manager::new();
    let began = Instant::now();
    let admin_address = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let listen = admin_address.to_string();
    let vars = [
        ("ANIMAL_STORE_FAULT", "slow-migration"),
        ("ANIMAL_STORE_ADMIN_LISTEN", &listen),
        ("ANIMAL_STORE_CORS_ORIGIN", SHOP),
    ];
    let socket: OwnedFd = manager.socket.try_clone().expect("a socket").into();
    let log_path = manager.folder.path().join("log");
    let log = std::fs::File::create(&log_path);
    let child = Command::new("bash")
        .args(["-c", ACTIVATE, "bash", PROGRAM, "serve"])
        .current_dir(manager.folder.path())
        .env("NOTIFY_SOCKET", manager.folder.path().join("notify"))
        .envs(vars)
        .stdin(Stdio::from(socket))
        .stdout(Stdio::null())
        .stderr(log.expect("a log"))
        .spawn();
    let mut service = Service(child.expect("bash runs"));
    let (api, admin) = (
        Client::new(manager.address(), None),
        Client::new(admin_address, None),
    );
    let lines = manager.wait_for("EXTEND_TIMEOUT_USEC=30000000", SOON);
    assert!(
        lines.iter().any(|line| line.starts_with("STATUS=Opening")),
        "{lines:?}"
    );
    for client in [&api, &admin] {
        assert_eq!(client.get("/livez").status, 200);
        let response = client.get("/readyz");
        assert_eq!(
            (response.status, response.code()),
            (503, "unavailable".into()),
            "{response}"
        );
    }
    // A key sent as an ID is not repeated, and the connection is closed, so that the next request goes to the server that is starting.
    let key = format!("as_{}", "0".repeat(38));
    let request = api.request("GET", "/v1/pets").header("X-Request-Id", &key);
    let response = request.send_on(&mut api.connect());
    assert_eq!(response.status, 503, "{response}");
    assert_eq!(response.header("retry-after"), Some("1"), "{response}");
    let id = response.header("x-request-id").expect("an ID").to_owned();
    assert_ne!(response.header("x-request-id"), Some(&*key), "{response}");
    assert_eq!(response.header("connection"), Some("close"), "{response}");
    // What every response of an operation has is there already, also if the path is encoded.
    for path in ["/v1/pets/1", "/%761/pets/1"] {
        let response = api.get(path);
        assert_eq!(response.status, 503, "{response}");
        for header in ["deprecation", "sunset", "link", "x-ratelimit-limit"] {
            assert!(
                response.header(header).is_some(),
                "{path} {header}: {response}"
            );
        }
    }
    // A page can read it: its browser asks first, and gets what it needs to go on.
    for (client, method, path, status, allowed) in [
        (&api, "OPTIONS", "/v1/pets", 204, Some(SHOP)),
        (&api, "GET", "/v1/pets", 503, Some(SHOP)),
        (&api, "GET", "/livez", 200, Some(SHOP)),
        (&api, "HEAD", "/livez", 200, Some(SHOP)),
        (&api, "POST", "/livez", 503, Some(SHOP)),
        (&admin, "OPTIONS", "/", 503, None),
    ] {
        let request = client.request(method, path).header("Origin", SHOP);
        let response = request
            .header("Access-Control-Request-Method", "GET")
            .send();
        let origin = response.header("access-control-allow-origin");
        assert_eq!((response.status, origin), (status, allowed), "{response}");
    }
    let log = || std::fs::read_to_string(&log_path).expect("a log");
    let connect = |_| TcpStream::connect(manager.address()).expect("a connection");
    // More than the 256 connections that a server accepts while it starts.
    let mut crowd: Vec<TcpStream> = (0..260).map(connect).collect();
    let rejection = "operation=connection client=127.0.0.1 status=503 ms=0.000 reason=address";
    eventually(SOON, "a rejection", || log().contains(rejection));
    let mut rejected: Connection = crowd.pop().expect("a connection").into();
    is_raw_error(&rejected.response(), 503, "unavailable");
    drop(crowd);
    assert!(
        began.elapsed() < Duration::from_secs(8),
        "the migration ended before the checks"
    );
    // The second notification, and then the end of the migration.
    manager.wait_for("EXTEND_TIMEOUT_USEC", SOON);
    manager.wait_for("READY=1", SOON);
    assert!(
        began.elapsed() > Duration::from_secs(8),
        "the migration was not slow"
    );
    for client in [&api, &admin] {
        assert_eq!(client.get("/readyz").status, 200);
    }
    service.terminate();
    assert_eq!(service.code(), Some(0));
    // Each request to the API has its line, except for health checks.
    let log = log();
    let line = format!(" id={id} method=GET operation=listPets client=127.0.0.1 status=503 ms=");
    assert!(log.contains(&line), "{log}");
    assert_eq!(log.matches(" method=").count(), 6, "{log}");
}

#[test]
fn a_server_that_migrates_can_be_stopped() {
    let manager = Manager::new();
    let vars = [("ANIMAL_STORE_FAULT", "slow-migration")];
    let mut service = manager.start(&vars);
    manager.wait_for("EXTEND_TIMEOUT_USEC", SOON);
    let began = Instant::now();
    service.terminate();
    assert_eq!(service.code(), Some(1));
    assert!(began.elapsed() < Duration::from_secs(2));
}

#[test]
fn the_sockets_of_both_listeners_can_be_passed_by_their_names() {
    let folder = folder();
    let [admin, api] = [(); 2].map(|()| SocketAddr::from((Ipv4Addr::LOCALHOST, free_port())));
    let listen = [format!("--listen={admin}"), format!("--listen={api}")];
    let child = Command::new("systemd-socket-activate")
        .args(listen)
        .args(["--fdname=admin:api", PROGRAM, "serve"])
        .current_dir(folder.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut service = Service(child.expect("systemd-socket-activate runs"));
    let metrics = || std::panic::catch_unwind(|| Client::new(admin, None).get("/metrics").status);
    // The first connection starts the server.
    eventually(SOON, "a server", || TcpStream::connect(admin).is_ok());
    assert_eq!(metrics().ok(), Some(200));
    assert_eq!(Client::new(api, None).get("/docs").status, 200);
    service.terminate();
    assert_eq!(service.code(), Some(0));
}

#[test]
fn a_passed_socket_of_the_admin_listener_serves_tls_and_requires_a_token_unless_it_is_on_loopback()
{
    let folder = folder();
    let socket = TcpListener::bind("0.0.0.0:0").expect("a port");
    let address = socket.local_addr().expect("an address");
    let command = |args: &[&str]| {
        let socket: OwnedFd = socket.try_clone().expect("a socket").into();
        let mut command = Command::new("timeout");
        command
            .args(["30", "bash", "-c", ACTIVATE, "bash", PROGRAM, "serve"])
            .arg("--listen=127.0.0.1:0")
            .args(args)
            .env("LISTEN_FDNAMES", "admin")
            .current_dir(folder.path())
            .stdin(Stdio::from(socket));
        command
    };
    let output = command(&[]).output().expect("bash runs");
    let line = String::from_utf8(output.stderr).expect("text");
    let expected = format!(
        "animal-store: the socket named admin, {address}: an address that is not loopback requires --admin-token-file or --admin-token\n"
    );
    assert_eq!((output.status.code(), line), (Some(1), expected));
    assert!(!folder.path().join("animal-store.db").exists());

    let certificate = Certificate::new();
    certificate.write(folder.path());
    let tls = ["--tls-cert=cert.pem", "--tls-key=key.pem"];
    let token = "0123456789abcdef";
    let child = command(&[&tls[..], &["--admin-token", token]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let mut service = Service(child.expect("bash runs"));
    let admin = Client::new(
        ([127, 0, 0, 1], address.port()).into(),
        Some(token.to_owned()),
    );
    // The socket listens already, so requests wait until the server accepts them; a slow start responds with 503.
    eventually(SOON, "metrics", || {
        admin.over(&certificate.client()).get("/metrics").status == 200
    });
    admin.get("/metrics").is_error(400, "https_required");
    service.terminate();
    assert_eq!(service.code(), Some(0));
}

#[test]
fn a_socket_that_cannot_be_used_is_reported_in_one_line() {
    let folder = folder();
    let passed = |socket: OwnedFd, count: u32| {
        let script = format!("exec 3<&0 4<&0; LISTEN_FDS={count} LISTEN_PID=$$ exec \"$@\"");
        let output = Command::new("bash")
            .args(["-c", &script, "bash", PROGRAM, "serve"])
            .current_dir(folder.path())
            .stdin(Stdio::from(socket))
            .output()
            .expect("bash runs");
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).expect("text")
    };
    let connect = TcpListener::bind("127.0.0.1:0").expect("a port");
    let stream = TcpStream::connect(connect.local_addr().expect("an address")).expect("a stream");
    let file = std::fs::File::open(file!()).expect("this file");
    let what = "the service manager passed a socket that is not a listening TCP socket";
    for (socket, count, what) in [
        (OwnedFd::from(file), 1, what),
        (OwnedFd::from(stream), 1, what),
        (
            OwnedFd::from(connect),
            2,
            "passed two sockets for one listener",
        ),
    ] {
        let line = passed(socket, count);
        assert!(line.contains(what) && line.lines().count() == 1, "{line}");
    }
    // One that is meant for another process is ignored.
    let args = ["serve", "--listen", "192.0.2.1:1"];
    let vars = [("LISTEN_FDS", "1"), ("LISTEN_PID", "1")];
    let line = run(folder.path(), &vars, &args).fails_with(1);
    assert!(line.contains("--listen 192.0.2.1:1"), "{line}");
    assert!(!folder.path().join("animal-store.db").exists());
}
