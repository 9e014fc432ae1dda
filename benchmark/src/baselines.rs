//! The baselines: servers that send the same bytes as the service, without any logic.

use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::bench::Bench;
use crate::cores::Affinity;
use crate::exchange::Response;
use crate::process::Process;

/// The names of the baselines: nginx only if it is installed.
pub(crate) fn names(bench: &Bench) -> impl Iterator<Item = &'static str> {
    let nginx = nginx_version(bench).map(|_| "nginx");
    std::iter::once("bare hyper").chain(nginx)
}

/// Starts the baselines with this response, in the order of their names.
pub(crate) fn start(bench: &Bench, response: &Response) -> Result<Vec<Process>> {
    let mut servers = vec![hyper(bench, response)?];
    servers.extend(nginx(bench, response, None)?);
    Ok(servers)
}

/// Starts bare hyper with this response. It prints its address after it has read the file.
fn hyper(bench: &Bench, response: &Response) -> Result<Process> {
    let folder = bench.folder()?;
    let file = folder.path().join("response");
    std::fs::write(&file, response.to_bytes())?;
    let mut command = Affinity::Server.command(bench.program("bare_hyper"));
    command.arg(file);
    Process::announced(command, |line| line.trim().parse().ok())
}

/// Starts nginx with this response, if it is installed, independent of the system's configuration. With a certificate and its key,
/// it speaks TLS, with HTTP/2 and HTTP/1.1.
pub(crate) fn nginx(
    bench: &Bench,
    response: &Response,
    tls: Option<(&Path, &Path)>,
) -> Result<Option<Process>> {
    if nginx_version(bench).is_none() {
        return Ok(None);
    }
    // nginx writes to it until it stops. It is deleted with the directory of this run.
    let folder = bench.folder()?.keep();
    let address = free_address()?;
    let file = folder.join("nginx.conf");
    std::fs::write(&file, configuration(response, address, tls)?)?;
    let mut command = Affinity::Server.command(nginx_program(bench));
    command
        .args(["-e", "stderr", "-p"])
        .arg(folder)
        .arg("-c")
        .arg(file);
    Process::listening_on(command, address).map(Some)
}

/// The version of nginx, if it is installed.
pub(crate) fn nginx_version(bench: &Bench) -> Option<String> {
    let output = Command::new(nginx_program(bench)).arg("-v").output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr);
    Some(text.trim().rsplit('/').next()?.to_owned())
}

/// The program that `./bench` unpacked, or the system's.
fn nginx_program(bench: &Bench) -> PathBuf {
    let unpacked = bench.installed("bench-nginx").join("usr/sbin/nginx");
    if unpacked.exists() {
        unpacked
    } else {
        "nginx".into()
    }
}

fn configuration(
    response: &Response,
    address: SocketAddr,
    tls: Option<(&Path, &Path)>,
) -> Result<String> {
    let (options, certificate) = match tls {
        Some((cert, key)) => (
            " ssl http2",
            format!(
                "ssl_certificate {};\nssl_certificate_key {};\n",
                cert.display(),
                key.display()
            ),
        ),
        None => ("", String::new()),
    };
    let body = std::str::from_utf8(&response.body)?;
    let mut kind = None;
    let mut headers = String::new();
    for (name, value) in &response.headers {
        if name.eq_ignore_ascii_case("content-type") {
            kind = Some(value);
        } else {
            headers.push_str(&format!("add_header {name} {} always;\n", quoted(value)?));
        }
    }
    let kind = quoted(kind.context("the response has no Content-Type")?)?;
    let (status, body) = (response.status, quoted(body)?);
    Ok(format!(
        "daemon off;
worker_processes 1;
pid nginx.pid;
error_log stderr crit;
events {{ worker_connections 1024; }}
http {{
access_log off;
keepalive_requests 1000000000;
keepalive_timeout 600s;
client_body_temp_path body;
proxy_temp_path proxy;
fastcgi_temp_path fastcgi;
uwsgi_temp_path uwsgi;
scgi_temp_path scgi;
default_type {kind};
server {{
listen {address}{options};
{certificate}location / {{
{headers}return {status} {body};
}}
}}
}}
"
    ))
}

/// A text quoted for the configuration of nginx.
fn quoted(text: &str) -> Result<String> {
    ensure!(
        !text.contains(['\'', '$', '\\']),
        "cannot quote for nginx: {text}"
    );
    Ok(format!("'{text}'"))
}

/// A free port on loopback.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
