//! HTTPS and HTTP/2: handshakes, certificates that are replaced, and clients that are slow, silent or hostile.
//! Each test is named by the sentence it proves.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot continue has failed"
)]

mod files;
mod handshake;
mod hostile;
mod http2;
mod http2_frames;
mod http2_hostile;
mod http2_memory;
mod http2_redis;
mod http2_rejected;
mod http2_slow;
mod http2_table;
mod raw;
mod reload;

use std::path::Path;
use std::time::Duration;

use animal_store::config::TlsFiles;
use harness::{App, Certificate, Client, Output, Process, eventually};
use tempfile::TempDir;

/// The program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_animal-store");

fn folder() -> TempDir {
    TempDir::new().expect("a folder")
}

/// Runs the program to its end.
fn run(folder: &Path, args: &[&str]) -> Output {
    harness::run(PROGRAM, folder, args)
}

/// A server with a certificate inside this process, and a client with a key that trusts it.
fn start(certificate: &Certificate) -> (App, Client, TempDir) {
    let folder = folder();
    let (cert, key) = certificate.write(folder.path());
    let (app, _, client) = App::start_with(|config| config.tls = Some(TlsFiles { cert, key }));
    let client = client.over(&certificate.client());
    (app, client, folder)
}

/// A server with the certificate of this folder, as a process of its own.
fn serve(folder: &Path, args: &[&str]) -> Process {
    serve_admin(folder, "127.0.0.1:0", args)
}

/// The same, with the admin listener at this address.
fn serve_admin(folder: &Path, admin: &str, args: &[&str]) -> Process {
    let listen = ["serve", "--listen", "127.0.0.1:0", "--admin-listen", admin];
    let tls = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    Process::start(PROGRAM, folder, &[&listen[..], &tls, args].concat(), &[])
}

/// Waits until the log has a line with all of these texts, and returns all that was logged until then.
#[track_caller]
fn logged(process: &Process, words: &[&str]) -> String {
    let mut log = String::new();
    let what = format!("a line with {words:?}");
    eventually(Duration::from_secs(15), &what, || {
        log.push_str(&process.log());
        log.lines()
            .any(|line| words.iter().all(|word| line.contains(word)))
    });
    log
}

/// The value of a metric.
#[track_caller]
fn metric(process: &Process, name: &str) -> f64 {
    let page = Client::new(process.admin, None).get("/metrics");
    let page = String::from_utf8(page.body).expect("text");
    let line = page.lines().find_map(|line| line.strip_prefix(name));
    let value = line.unwrap_or_else(|| panic!("no {name}: {page}"));
    value.trim().parse().expect("a number")
}
