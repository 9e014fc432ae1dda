//! What the service is measured against: servers that send the very bytes of its answer, with no logic behind them.

use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::bench::Bench;
use crate::cores::Place;
use crate::exchange::Answer;
use crate::process::Process;

/// Bare hyper with this answer. It has read the file when it says where it is.
pub(crate) fn hyper(bench: &Bench, answer: &Answer) -> Result<Process> {
    let folder = bench.folder()?;
    let file = folder.path().join("answer");
    std::fs::write(&file, answer.to_bytes())?;
    let mut command = Place::Server.command(bench.program("anchor"));
    command.arg(file);
    Process::announced(command, |line| line.trim().parse().ok())
}

/// Nginx with this answer, if there is one, and with nothing of the system's own. The folder holds what it writes.
pub(crate) fn nginx(bench: &Bench, answer: &Answer) -> Result<Option<(Process, TempDir)>> {
    if nginx_version(bench).is_none() {
        return Ok(None);
    }
    let folder = bench.folder()?;
    let address = free_address()?;
    let file = folder.path().join("nginx.conf");
    std::fs::write(&file, configuration(answer, address)?)?;
    let mut command = Place::Server.command(nginx_program(bench));
    command
        .args(["-e", "stderr", "-p"])
        .arg(folder.path())
        .arg("-c")
        .arg(file);
    Ok(Some((Process::told(command, address)?, folder)))
}

/// The version of nginx, if there is one.
pub(crate) fn nginx_version(bench: &Bench) -> Option<String> {
    let output = Command::new(nginx_program(bench)).arg("-v").output().ok()?;
    let text = String::from_utf8_lossy(&output.stderr);
    Some(text.trim().rsplit('/').next()?.to_owned())
}

/// The system's program, or the one that `./bench` unpacked.
fn nginx_program(bench: &Bench) -> PathBuf {
    let unpacked = bench.installed("bench-nginx").join("usr/sbin/nginx");
    if unpacked.exists() {
        unpacked
    } else {
        "nginx".into()
    }
}

fn configuration(answer: &Answer, address: SocketAddr) -> Result<String> {
    let body = std::str::from_utf8(&answer.body)?;
    let mut kind = None;
    let mut headers = String::new();
    for (name, value) in &answer.headers {
        if name.eq_ignore_ascii_case("content-type") {
            kind = Some(value);
        } else {
            headers.push_str(&format!("add_header {name} {} always;\n", quoted(value)?));
        }
    }
    let kind = quoted(kind.context("an answer without a type")?)?;
    let (status, body) = (answer.status, quoted(body)?);
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
listen {address};
location / {{
{headers}return {status} {body};
}}
}}
}}
"
    ))
}

/// A text as nginx reads it.
fn quoted(text: &str) -> Result<String> {
    ensure!(
        !text.contains(['\'', '$', '\\']),
        "nginx cannot be given this text: {text}"
    );
    Ok(format!("'{text}'"))
}

/// A free port on loopback.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}
