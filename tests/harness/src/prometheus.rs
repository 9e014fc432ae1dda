//! A Prometheus server of the tests' own.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::process::Command;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::daemon::{Daemon, free_port};

/// A Prometheus server. It stops when this is dropped, or when the test process ends.
#[derive(Debug)]
pub struct Prometheus {
    port: u16,
    // Before the folder: a server that is dropped first leaves nothing in it.
    _daemon: Daemon,
    _folder: TempDir,
}

impl Prometheus {
    /// Starts a server with this configuration on a free port, and waits until it is ready.
    #[track_caller]
    pub fn start(config: &str) -> Self {
        let folder = TempDir::with_prefix("prometheus-").expect("a folder");
        let path = folder.path().join("prometheus.yaml");
        std::fs::write(&path, config).expect("a file");
        let port = free_port();
        let mut command = Command::new("prometheus");
        command
            .arg(format!("--config.file={}", path.display()))
            .arg(format!(
                "--storage.tsdb.path={}/data",
                folder.path().display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--log.level=warn");
        let mut daemon = Daemon::spawn(command, folder.path(), Signal::KILL);
        daemon.wait_until(|_| get(port, "/-/ready").is_ok_and(|(status, _)| status == 200));
        Self {
            port,
            _daemon: daemon,
            _folder: folder,
        }
    }

    /// The `data` of a response of its API. Panics if there is an error instead.
    #[track_caller]
    pub fn api(&self, path: &str, parameters: &[(&str, &str)]) -> Value {
        let mut target = format!("/api/v1/{path}?");
        for (name, value) in parameters {
            let _ = write!(target, "{name}=");
            for byte in value.bytes() {
                let _ = write!(target, "%{byte:02X}");
            }
            target.push('&');
        }
        let (status, body) = get(self.port, &target).expect("a response");
        let mut body: Value =
            serde_json::from_str(&body).unwrap_or_else(|_| panic!("{path}: {status}: {body}"));
        assert_eq!(status, 200, "{path} {parameters:?}: {body}");
        body["data"].take()
    }

    /// The values of a query now, each with its labels.
    #[track_caller]
    pub fn query(&self, expression: &str) -> Vec<(Value, f64)> {
        let data = self.api("query", &[("query", expression)]);
        let series = data["result"].as_array().expect("a list").iter();
        let value = |one: &Value| one["value"][1].as_str()?.parse().ok();
        series
            .map(|one| (one["metric"].clone(), value(one).expect("a number")))
            .collect()
    }
}

/// The status and the body of a response. In HTTP/1.0 the body ends with the connection.
fn get(port: u16, target: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {target} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut response = String::new();
    stream.read_to_string(&mut response)?;
    let status = response
        .split(' ')
        .nth(1)
        .and_then(|text| text.parse().ok());
    let body = response.split_once("\r\n\r\n").map(|(_, body)| body);
    Ok((status.unwrap_or(0), body.unwrap_or_default().to_owned()))
}
