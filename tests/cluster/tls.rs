//! TLS to PostgreSQL and Redis: every mode against servers with and without it, certificates that are refused, and certificates of
//! clients.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use harness::{Authority, Output, Postgres, Process, Redis, Signed, eventually, run};
use tempfile::TempDir;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion, version};

use crate::{PROGRAM, rex};

/// Lets everybody in over TCP, with or without TLS.
pub(crate) const EVERYBODY: &str = "host all all 127.0.0.1/32 trust";

/// Lets those in who have a certificate with the name of their role.
const WITH_CERTIFICATE: &str = "hostssl all all 127.0.0.1/32 trust clientcert=verify-full";

fn folder() -> TempDir {
    TempDir::new().expect("a folder")
}

/// Runs `migrate` on this database.
fn migrate(url: &str, words: &[&str]) -> Output {
    let words = [&["20", PROGRAM, "migrate", "--database", url][..], words].concat();
    run("timeout", folder().path(), &words)
}

/// Has `migrate` fail with one line that ends so.
#[track_caller]
fn is_refused(url: &str, words: &[&str], end: &str) {
    let output = migrate(url, words).exits(1);
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
fn serve(url: &str, words: &[&str]) -> Process {
    let words = [&["--no-first-key", "--database", url][..], words].concat();
    Process::serve(PROGRAM, folder().path(), &words)
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
    // The mode, the CA, whether it works without TLS, and how it fails with.
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
            Err(end) => is_refused(&on_plain, &[], end),
        }
        match with_tls {
            None => {
                let process = serve(&on_encrypted, &[]);
                assert_eq!(connections(&encrypted), is_encrypted, "{parameters}");
                drop(process);
            }
            Some(end) => is_refused(&on_encrypted, &[], end),
        }
    }
    // Without a word it is prefer.
    let process = serve(&encrypted.url(), &[]);
    assert_eq!(connections(&encrypted), "t");
    drop(process);
    migrate(&plain.url(), &[]).exits(0);
}

#[test]
fn a_certificate_of_another_ca_for_another_name_or_expired_is_refused_by_every_command() {
    let (authority, other) = (Authority::new(), Authority::new());
    let postgres = Postgres::start_with_tls(&authority.server(), EVERYBODY);
    let url = with(&postgres.url(), "sslmode=verify-full");
    let (right, wrong) = (authority.ca(), other.ca());
    let (right, wrong) = (["--ca-cert", shown(&right)], ["--ca-cert", shown(&wrong)]);
    migrate(&url, &right).exits(0);

    let not_signed = format!(
        "--database: PostgreSQL at 127.0.0.1: its certificate is not signed by a CA in {}",
        wrong[1]
    );
    let serve = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    for command in [
        &["keys", "list"][..],
        &["orders", "list"],
        &["pets", "set-status", "1", "sold"],
        &[&["serve"], &serve[..]].concat(),
    ] {
        let words = [&["20", PROGRAM], command, &wrong, &["--database", &url]].concat();
        let line = run("timeout", folder().path(), &words).refuses(1);
        assert!(line.ends_with(&not_signed), "{line}");
    }
    is_refused(
        &url,
        &[],
        "its certificate is not signed by a CA that this system trusts",
    );
    for (certificate, end) in [
        (
            authority.sign("other", &["db.example", "db2.example"], 2049),
            "PostgreSQL at 127.0.0.1: its certificate is for db.example, db2.example, not for 127.0.0.1",
        ),
        (
            authority.sign("nobody", &[], 2049),
            "its certificate has no subjectAltName, so it is not for 127.0.0.1",
        ),
        (
            authority.sign("old", &["127.0.0.1"], 2026),
            "PostgreSQL at 127.0.0.1: its certificate expired on 2026-01-01",
        ),
    ] {
        postgres.set_certificate(&certificate);
        postgres.restart_immediately();
        is_refused(&url, &right, end);
    }
}

#[test]
fn a_self_signed_certificate_that_is_named_itself_is_trusted() {
    let authority = Authority::new();
    let own = harness::Certificate::claiming_to_be_a_ca();
    let folder = folder();
    let (cert, key) = own.write(folder.path());
    let ca = authority.ca();
    let postgres = Postgres::start_with_tls(&Signed { cert, key, ca }, EVERYBODY);
    let url = with(&postgres.url(), "sslmode=verify-full");
    let cert = folder.path().join("cert.pem");
    migrate(&url, &["--ca-cert", shown(&cert)]).exits(0);
    let ca = authority.ca();
    is_refused(&url, &["--ca-cert", shown(&ca)], "ca.pem");

    // What it says is checked nevertheless.
    let elsewhere = url.replace("127.0.0.1", "db.example") + "&hostaddr=127.0.0.1";
    let not_named = "its certificate is for localhost, 127.0.0.1, not for db.example";
    is_refused(&elsewhere, &["--ca-cert", shown(&cert)], not_named);
    for (own, end) in [
        (
            harness::Certificate::until(2026),
            "its certificate expired on 2026-01-01",
        ),
        (
            harness::Certificate::between(2048, 2049),
            "its certificate is not valid before 2048-01-01",
        ),
    ] {
        let (_, key) = own.write(folder.path());
        postgres.set_certificate(&Signed {
            cert: cert.clone(),
            key,
            ca: authority.ca(),
        });
        postgres.restart_immediately();
        is_refused(&url, &["--ca-cert", shown(&cert)], end);
    }
}

/// A certificate with the key of another.
#[derive(Debug)]
struct Stolen(Arc<CertifiedKey>);

impl ResolvesServerCert for Stolen {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

/// Accepts TLS as PostgreSQL does, with a certificate whose key it does not have. Returns the URL.
fn thief(signed: &Signed, version: &'static SupportedProtocolVersion) -> String {
    let chain = CertificateDer::pem_file_iter(&signed.cert).expect("a file");
    let chain = chain.collect::<Result<_, _>>().expect("a certificate");
    let folder = folder();
    let (_, key) = harness::Certificate::new().write(folder.path());
    let key = PrivateKeyDer::from_pem_file(key).expect("a key");
    let key = ring::sign::any_supported_type(&key).expect("a key");
    let stolen = Stolen(Arc::new(CertifiedKey::new(chain, key)));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[version])
        .expect("versions")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(stolen));
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            let mut socket = socket.expect("a connection");
            let mut request = [0; 8];
            socket.read_exact(&mut request).expect("a request for TLS");
            socket.write_all(b"S").expect("a connection");
            let mut tls = ServerConnection::new(Arc::clone(&config)).expect("TLS");
            // The client ends it; one that does not would now send its password.
            while tls.complete_io(&mut socket).is_ok() && tls.is_handshaking() {}
        }
    });
    format!("postgres://animals@127.0.0.1:{port}/x")
}

#[test]
fn a_server_without_the_key_of_its_certificate_is_refused_in_every_mode() {
    let authority = Authority::new();
    let (signed, ca) = (authority.server(), authority.ca());
    for version in [&version::TLS12, &version::TLS13] {
        let url = thief(&signed, version);
        for mode in ["require", "verify-ca", "verify-full"] {
            let url = with(&url, &format!("sslmode={mode}&sslrootcert={}", shown(&ca)));
            let line = migrate(&url, &[]).refuses(1);
            assert!(line.contains("its certificate"), "{mode}: {line}");
        }
    }
}

#[test]
fn roots_of_the_system_are_needed_only_where_they_are_used() {
    let authority = Authority::new();
    let postgres = Postgres::start_with_tls(&authority.server(), EVERYBODY);
    let (ca, empty) = (authority.ca(), folder());
    let nothing = empty.path().join("none.pem");
    std::fs::write(&nothing, "").expect("a file");
    let run_with = |roots: &std::path::Path, parameters: &str, words: &[&str]| {
        let url = with(&postgres.url(), parameters);
        let variable = format!("SSL_CERT_FILE={}", shown(roots));
        let env = [
            "-u",
            "SSL_CERT_DIR",
            &variable,
            "timeout",
            "20",
            PROGRAM,
            "migrate",
            "--database",
        ];
        run("env", empty.path(), &[&env[..], &[&url], words].concat())
    };
    run_with(&ca, "sslmode=verify-full", &[]).exits(0);
    run_with(&ca, "sslrootcert=system", &[]).exits(0);
    run_with(&nothing, "sslmode=require", &[]).exits(0);
    run_with(&nothing, "sslmode=verify-full", &["--ca-cert", shown(&ca)]).exits(0);
    let output = run_with(&nothing, "sslmode=verify-ca", &[]).exits(1);
    let line = output.stderr.trim_end();
    assert!(
        line.contains("--database: this system has no CA certificates"),
        "{line}"
    );
    assert!(line.ends_with("use --ca-cert"), "{line}");
}

#[test]
fn a_file_that_cannot_be_used_is_named() {
    let authority = Authority::new();
    let client = authority.sign("animals", &[], 2049);
    let url = "postgres://animals@127.0.0.1:1/x?sslmode=verify-full";
    is_refused(
        url,
        &["--ca-cert", "missing.pem"],
        "--database: missing.pem: file not found",
    );
    let key = shown(&client.key);
    is_refused(
        url,
        &["--ca-cert", key],
        &format!("{key}: contains no certificate in PEM format"),
    );
    let cert = shown(&client.cert);
    let url = format!("{url}&sslcert={cert}&sslkey={key}&sslrootcert={cert}");
    let mode = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(&client.key, mode).expect("permissions");
    let open = format!("{key}: every user can read this private key: run `chmod o-r {key}`");
    is_refused(&url, &[], &open);
}

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
    is_refused(
        &url,
        &ca,
        "FATAL: connection requires a valid client certificate",
    );
    let certificate_of_another = format!("{url}&{}", pair(&wrong));
    is_refused(
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

/// Waits until a node counts in one of these.
#[track_caller]
fn counts_in(redis: &[Redis]) {
    eventually(Duration::from_secs(5), "the script runs", || {
        let runs = |one: &Redis| one.cli(&["INFO", "commandstats"]).contains("evalsha");
        redis.iter().any(runs)
    });
}

/// Waits until a node counts alone, for this reason.
#[track_caller]
fn counts_alone(process: &Process, cause: &str) {
    let mut log = String::new();
    eventually(Duration::from_secs(5), cause, || {
        log.push_str(&process.log());
        log.contains("limits are counted by this node alone") || log.contains("panicked")
    });
    assert!(log.contains(cause), "{cause}: {log}");
}

#[test]
fn a_certificate_of_redis_that_is_refused_leaves_the_node_on_its_own_with_the_cause_in_the_log() {
    let (authority, other, folder) = (Authority::new(), Authority::new(), folder());
    let (right, wrong) = (authority.ca(), other.ca());
    let plain = Redis::start();
    let shards = Redis::cluster_with_tls(&authority.server());
    let ports = shards
        .each_ref()
        .map(|one| format!("127.0.0.1:{}", one.port()));
    let cluster = format!("rediss://{}", ports.join(","));
    for (certificate, ca, cause) in [
        (authority.server(), &right, String::new()),
        (
            authority.server(),
            &wrong,
            format!("its certificate is not signed by a CA in {}", shown(&wrong)),
        ),
        (
            authority.sign("other", &["cache.example"], 2049),
            &right,
            "its certificate is for cache.example, not for 127.0.0.1".into(),
        ),
        (
            authority.sign("old", &["127.0.0.1"], 2026),
            &right,
            "its certificate expired on 2026-01-01".into(),
        ),
    ] {
        let redis = [Redis::start_with_tls(&certificate, false)];
        let mut targets = vec![(redis[0].url(), &redis[..])];
        // Nodes of a cluster verify each other: they would not run with a certificate that has expired.
        if certificate.cert.ends_with("server.pem") {
            targets.push((cluster.clone(), &shards));
        }
        for (url, servers) in targets {
            let words = ["--no-first-key", "--redis", &url, "--ca-cert", shown(ca)];
            let process = Process::serve(PROGRAM, folder.path(), &words);
            match &*cause {
                "" => counts_in(servers),
                cause => counts_alone(&process, &format!("Redis at 127.0.0.1: {cause}")),
            }
        }
    }
    let url = plain.url().replace("redis:", "rediss:");
    let words = [
        "--no-first-key",
        "--redis",
        &url,
        "--ca-cert",
        shown(&right),
    ];
    let process = Process::serve(PROGRAM, folder.path(), &words);
    // It takes the handshake for a command, and waits for its end.
    counts_alone(&process, "no response within");
    drop(process);
    let line = run(
        PROGRAM,
        folder.path(),
        &["serve", "--redis", "rediss://a", "--ca-cert", "none.pem"],
    )
    .refuses(1);
    assert!(
        line.ends_with("--redis: none.pem: file not found"),
        "{line}"
    );
}

#[test]
fn a_node_logs_why_it_refuses_a_certificate_and_recovers_when_it_is_replaced() {
    let authority = Authority::new();
    let good = authority.server();
    let old = authority.sign("old", &["127.0.0.1"], 2026);
    let postgres = Postgres::start_with_tls(&good, EVERYBODY);
    let url = with(&postgres.url(), "sslmode=verify-full");
    let ca = authority.ca();
    let ca = ["--ca-cert", shown(&ca)];
    let create = ["keys", "create", "--name", "a", "--plan", "business"];
    migrate(&url, &ca).exits(0);
    let words = [&create[..], &ca, &["--database", &url]].concat();
    let key = run(PROGRAM, folder().path(), &words).exits(0).stdout;
    let process = serve(&url, &ca);
    let client = process.client(Some(key.trim_end()));
    assert_eq!(client.create(&rex()).status, 201);

    postgres.set_certificate(&old);
    postgres.restart_immediately();
    let mut log = String::new();
    eventually(Duration::from_secs(10), "the cause is logged", || {
        log.push_str(&process.log());
        log.contains("PostgreSQL at 127.0.0.1: its certificate expired on 2026-01-01")
    });
    assert_eq!(client.create(&rex()).status, 503);
    postgres.set_certificate(&good);
    postgres.restart_immediately();
    eventually(Duration::from_secs(5), "it works again", || {
        client.create(&rex()).status == 201
    });
}

#[test]
fn a_password_is_bound_to_the_connection_and_can_come_from_a_file() {
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
    is_refused(
        &url,
        &["--database-password-file", shown(&file)],
        "FATAL: password authentication failed for user \"animals\"",
    );
}

#[test]
fn a_server_that_takes_no_tls_from_this_client_is_reached_without_it_if_tls_is_preferred() {
    let authority = Authority::new();
    let rules = "hostnossl all all 127.0.0.1/32 trust";
    let postgres = Postgres::start_with_tls(&authority.server(), rules);
    let process = serve(&postgres.url(), &[]);
    assert_eq!(connections(&postgres), "f");
    drop(process);
    let end = "no encryption";
    let line = migrate(&with(&postgres.url(), "sslmode=require"), &[]).exits(1);
    assert!(
        !line.stderr.contains(end) && line.stderr.contains("pg_hba.conf"),
        "{line:?}"
    );
}
