//! TLS to PostgreSQL and Redis: every mode of libpq, and the files that it needs.

mod certificate;
mod login;
mod redis;

use std::os::unix::fs::PermissionsExt;

use harness::{Authority, Output, Postgres, Process, run};
use tempfile::TempDir;

use crate::PROGRAM;

/// Admits everybody over TCP, with or without TLS.
pub(crate) const EVERYBODY: &str = "host all all 127.0.0.1/32 trust";

fn folder() -> TempDir {
    TempDir::new().expect("a folder")
}

/// Runs `migrate` on this database.
fn migrate(url: &str, args: &[&str]) -> Output {
    let args = [&["migrate", "--database", url][..], args].concat();
    run(PROGRAM, folder().path(), &args)
}

/// Checks that `migrate` fails with one line that ends like this.
#[track_caller]
fn is_rejected(url: &str, args: &[&str], end: &str) {
    let output = migrate(url, args).exits(1);
    let line = output.stderr.trim_end();
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.ends_with(end), "{url}: {line}");
}

fn with(url: &str, parameters: &str) -> String {
    format!("{url}?{parameters}")
}

fn shown(path: &std::path::Path) -> &str {
    path.to_str().expect("text")
}

/// Whether the connections that a server has on this database are encrypted.
#[track_caller]
fn connections(postgres: &Postgres) -> String {
    postgres.psql(
        "postgres",
        "select distinct ssl from pg_stat_ssl natural join pg_stat_activity
         where application_name = 'animal-store'",
    )
}

/// A server on this database.
fn serve(url: &str, args: &[&str]) -> Process {
    let args = [&["--no-first-key", "--database", url][..], args].concat();
    Process::serve(PROGRAM, folder().path(), &args)
}

#[test]
fn each_mode_encrypts_and_verifies_as_in_libpq() {
    let (authority, other) = (Authority::new(), Authority::new());
    let wrong_name = authority.sign("elsewhere", &["db.example"], 2049);
    let (right, wrong) = (authority.ca(), other.ca());
    let (right, wrong) = (shown(&right), shown(&wrong));
    let encrypted = Postgres::start_with_tls(&wrong_name, EVERYBODY);
    let plain = Postgres::start();
    let no_tls = "127.0.0.1: error performing TLS handshake: server does not support TLS";
    let not_signed = format!("its certificate is not signed by a CA in {wrong}");
    let not_named = "its certificate is for db.example, not for 127.0.0.1";
    // The mode, the CA, whether it works without TLS, and how it fails with TLS.
    let modes = [
        ("disable", wrong, Ok(()), None, "f"),
        ("prefer", wrong, Ok(()), None, "t"),
        ("require", "", Err(no_tls), None, "t"),
        ("require", right, Err(no_tls), None, "t"),
        ("require", wrong, Err(no_tls), Some(&*not_signed), ""),
        ("verify-ca", right, Err(no_tls), None, "t"),
        ("verify-ca", wrong, Err(no_tls), Some(&not_signed), ""),
        ("verify-full", right, Err(no_tls), Some(not_named), ""),
        ("verify-full", wrong, Err(no_tls), Some(&not_signed), ""),
    ];
    for (mode, ca, without, with_tls, is_encrypted) in modes {
        let parameters = match ca {
            "" => format!("sslmode={mode}"),
            ca => format!("sslmode={mode}&sslrootcert={ca}"),
        };
        let (on_plain, on_encrypted) = (
            with(&plain.url(), &parameters),
            with(&encrypted.url(), &parameters),
        );
        match without {
            Ok(()) => drop(migrate(&on_plain, &[]).exits(0)),
            Err(end) => is_rejected(&on_plain, &[], end),
        }
        match with_tls {
            None => {
                let process = serve(&on_encrypted, &[]);
                assert_eq!(connections(&encrypted), is_encrypted, "{parameters}");
                drop(process);
            }
            Some(end) => is_rejected(&on_encrypted, &[], end),
        }
    }
    // The default is prefer.
    let process = serve(&encrypted.url(), &[]);
    assert_eq!(connections(&encrypted), "t");
    drop(process);
    migrate(&plain.url(), &[]).exits(0);
}

#[test]
fn roots_of_the_system_are_needed_only_where_they_are_used() {
    let authority = Authority::new();
    let postgres = Postgres::start_with_tls(&authority.server(), EVERYBODY);
    let (ca, empty) = (authority.ca(), folder());
    let nothing = empty.path().join("none.pem");
    std::fs::write(&nothing, "").expect("a file");
    let run_with = |roots: &std::path::Path, parameters: &str, args: &[&str]| {
        let url = with(&postgres.url(), parameters);
        let variable = format!("SSL_CERT_FILE={}", shown(roots));
        let env = [
            "-u",
            "SSL_CERT_DIR",
            &variable,
            PROGRAM,
            "migrate",
            "--database",
        ];
        run("env", empty.path(), &[&env[..], &[&url], args].concat())
    };
    run_with(&ca, "sslmode=verify-full", &[]).exits(0);
    run_with(&ca, "sslrootcert=system", &[]).exits(0);
    run_with(&nothing, "sslmode=require", &[]).exits(0);
    run_with(&nothing, "sslmode=verify-full", &["--ca-cert", shown(&ca)]).exits(0);
    // Any of them could have signed the certificate of another server.
    let line = run_with(&ca, "sslmode=verify-ca", &[]).fails_with(2);
    assert!(
        line.contains("sslmode=verify-ca requires --ca-cert FILE or sslrootcert=FILE"),
        "{line}"
    );
    run_with(&nothing, "sslmode=verify-ca", &["--ca-cert", shown(&ca)]).exits(0);
    let output = run_with(&nothing, "sslmode=verify-full", &[]).exits(1);
    let line = output.stderr.trim_end();
    assert!(
        line.contains("--database: cannot verify servers: this system has no CA certificates"),
        "{line}"
    );
    assert!(
        line.ends_with("use --ca-cert (for traces: OTEL_EXPORTER_OTLP_CERTIFICATE)"),
        "{line}"
    );
}

#[test]
fn a_file_that_cannot_be_used_is_named() {
    let authority = Authority::new();
    let client = authority.sign("animals", &[], 2049);
    let url = "postgres://animals@127.0.0.1:1/x?sslmode=verify-full";
    is_rejected(
        url,
        &["--ca-cert", "missing.pem"],
        "animal-store: --ca-cert missing.pem: file not found",
    );
    is_rejected(
        &format!("{url}&sslrootcert=missing.pem"),
        &["--ca-cert", "other.pem"],
        "animal-store: --database: missing.pem: file not found",
    );
    let key = shown(&client.key);
    is_rejected(
        url,
        &["--ca-cert", key],
        &format!("animal-store: --ca-cert {key}: contains no certificate in PEM format"),
    );
    let cert = shown(&client.cert);
    let url = format!("{url}&sslcert={cert}&sslkey={key}&sslrootcert={cert}");
    let mode = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(&client.key, mode).expect("permissions");
    let open = format!("{key}: every user can read this private key: run `chmod o-r {key}`");
    is_rejected(&url, &[], &open);
}
