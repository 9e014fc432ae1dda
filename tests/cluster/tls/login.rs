//! What a server requires of its clients: a certificate, a password, or a connection without TLS.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use harness::{Authority, Postgres, Process, Redis, Signed};

use super::redis::{counts_alone, counts_in};
use super::{connections, folder, is_rejected, migrate, serve, shown, with};
use crate::PROGRAM;

/// Admits clients that have a certificate with the name of their role.
const WITH_CERTIFICATE: &str = "hostssl all all 127.0.0.1/32 trust clientcert=verify-full";

#[test]
fn a_server_that_requires_a_certificate_of_its_clients_gets_one() {
    let authority = Authority::new();
    let server = authority.server();
    let postgres = Postgres::start_with_tls(&server, WITH_CERTIFICATE);
    let redis = Redis::start_with_tls(&server, true);
    let (right, wrong) = (
        authority.sign("animals", &[], 2049),
        authority.sign("somebody", &[], 2049),
    );
    let pair = |signed: &Signed| {
        let (cert, key) = (shown(&signed.cert), shown(&signed.key));
        format!("sslcert={cert}&sslkey={key}")
    };
    let ca = authority.ca();
    let ca = ["--ca-cert", shown(&ca)];
    let url = with(&postgres.url(), "sslmode=verify-full");
    is_rejected(
        &url,
        &ca,
        "FATAL: connection requires a valid client certificate",
    );
    let certificate_of_another = format!("{url}&{}", pair(&wrong));
    is_rejected(
        &certificate_of_another,
        &ca,
        "FATAL: \"trust\" authentication failed for user \"animals\"",
    );
    let url = format!("{url}&{}", pair(&right));
    migrate(&url, &ca).exits(0);

    let cache = with(&redis.url(), &pair(&right));
    let process = serve(&url, &[&ca[..], &["--redis", &cache]].concat());
    let redis = [redis];
    counts_in(&redis);
    drop(process);
    let process = serve(&url, &[&ca[..], &["--redis", &redis[0].url()]].concat());
    let cause = "Redis at 127.0.0.1: it requires a client certificate: add sslcert and sslkey";
    counts_alone(&process, cause);
}

#[test]
fn a_password_login_uses_channel_binding_and_the_password_can_come_from_a_file() {
    let authority = Authority::new();
    let rules = "hostssl all all 127.0.0.1/32 scram-sha-256";
    let postgres = Postgres::start_with_tls(&authority.server(), rules);
    postgres.psql("postgres", "alter role animals password 'a pass word'");
    let folder = folder();
    let file = folder.path().join("password");
    std::fs::write(&file, "a pass word\nignored\n").expect("a file");
    let mode = std::fs::Permissions::from_mode(0o600);
    std::fs::set_permissions(&file, mode).expect("permissions");
    let url = with(&postgres.url(), "sslmode=require&channel_binding=require");
    migrate(&url, &["--database-password-file", shown(&file)]).exits(0);
    std::fs::write(&file, "another\n").expect("a file");
    is_rejected(
        &url,
        &["--database-password-file", shown(&file)],
        "FATAL: password authentication failed for user \"animals\"",
    );
}

#[test]
fn a_password_in_a_flag_is_warned_of_once_and_one_in_a_variable_is_not() {
    let postgres = Postgres::start();
    let url = postgres.url().replacen("animals@", "animals:pass@", 1);
    for (words, vars, warnings) in [
        (&["--database", &url][..], &[][..], 1),
        (&[], &[("ANIMAL_STORE_DATABASE", &*url)], 0),
        (&["--database", &postgres.url()], &[], 0),
    ] {
        let mut process = Process::serve_with(PROGRAM, folder().path(), words, vars);
        process.signal("TERM");
        assert_eq!(process.ends_within(Duration::from_secs(10)), Some(0));
        let log = process.log();
        let warning = "options=\"--database\"";
        let lines = log
            .lines()
            .filter(|line| line.contains("list of processes"));
        let lines: Vec<_> = lines.collect();
        assert_eq!(lines.len(), warnings, "{log}");
        assert!(lines.iter().all(|line| line.contains(warning)), "{log}");
        assert!(log.contains("ready") && !log.contains("pass@"), "{log}");
    }
}

#[test]
fn a_server_that_takes_no_tls_from_this_client_is_reached_without_it_if_tls_is_preferred() {
    let authority = Authority::new();
    let rules = "hostnossl all all 127.0.0.1/32 trust";
    let postgres = Postgres::start_with_tls(&authority.server(), rules);
    let process = serve(&postgres.url(), &[]);
    assert_eq!(connections(&postgres), "f");
    drop(process);
    // PostgreSQL says so only of a connection without TLS, which must not have been tried.
    let without_tls = "no encryption";
    let line = migrate(&with(&postgres.url(), "sslmode=require"), &[]).exits(1);
    assert!(
        !line.stderr.contains(without_tls) && line.stderr.contains("pg_hba.conf"),
        "{line:?}"
    );
}
