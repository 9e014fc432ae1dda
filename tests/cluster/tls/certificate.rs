//! Certificates of servers: which are trusted, and how one that is not is reported.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use harness::{Authority, Postgres, Signed, eventually, run};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;
use tokio_rustls::rustls::{ServerConfig, ServerConnection, SupportedProtocolVersion, version};

use super::{EVERYBODY, folder, is_rejected, migrate, serve, shown, with};
use crate::{PROGRAM, rex};

/// Every command under this one that can use PostgreSQL, as the help has them.
fn commands(parent: &str) -> Vec<String> {
    let words: Vec<_> = parent.split_whitespace().chain(["-h"]).collect();
    let help = run(PROGRAM, folder().path(), &words).exits(0).stdout;
    let Some((_, children)) = help.split_once("\nCommands:\n") else {
        // These two are for the embedded database alone.
        let is_meant =
            help.contains("--database <URL>") && !["backup", "restore"].contains(&parent);
        return is_meant.then(|| parent.to_owned()).into_iter().collect();
    };
    let children = children.lines().take_while(|line| !line.is_empty());
    // More than two spaces continue the description of the one before.
    let names = children.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names = names.filter(|name| !name.is_empty());
    names
        .flat_map(|name| commands(format!("{parent} {name}").trim_start()))
        .collect()
}

/// What a command needs beside its options for the database.
fn arguments(command: &str) -> &'static str {
    match command {
        "serve" => "--listen 127.0.0.1:0 --admin-listen 127.0.0.1:0",
        "keys create" => "--name a --plan free",
        "keys set-plan" => "1 free",
        "keys rotate" | "pets remove" => "1 --yes",
        "pets set-status" => "1 sold",
        "pets import" => "a.csv",
        "pets export" => "b.csv",
        "orders place" => "--pet 1",
        "keys list" | "keys usage" | "pets list" | "orders list" | "migrate" => "",
        _ => "1",
    }
}

#[test]
fn a_certificate_of_another_ca_for_another_name_or_expired_is_rejected_by_every_command() {
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
    let commands = commands("");
    assert!(commands.len() >= 20, "{commands:?}");
    for command in commands {
        let folder = folder();
        std::fs::write(folder.path().join("a.csv"), "name,categoryId\n").expect("a file");
        let args = command.split(' ').chain(arguments(&command).split(' '));
        let args: Vec<_> = args.filter(|arg| !arg.is_empty()).collect();
        let args = [&args[..], &wrong, &["--database", &url]].concat();
        let line = run(PROGRAM, folder.path(), &args).fails_with(1);
        assert!(line.ends_with(&not_signed), "{command}: {line}");
    }
    is_rejected(
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
        is_rejected(&url, &right, end);
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
    let of_ca = format!(
        "its certificate is self-signed or that of a CA: it must be a server certificate signed by a CA in {}",
        shown(&ca)
    );
    is_rejected(&url, &["--ca-cert", shown(&ca)], &of_ca);

    // Its name and dates are checked nevertheless.
    let elsewhere = url.replace("127.0.0.1", "db.example") + "&hostaddr=127.0.0.1";
    let not_named = "its certificate is for localhost, 127.0.0.1, not for db.example";
    is_rejected(&elsewhere, &["--ca-cert", shown(&cert)], not_named);
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
        is_rejected(&url, &["--ca-cert", shown(&cert)], end);
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
fn a_server_without_the_key_of_its_certificate_is_rejected_in_every_mode() {
    let authority = Authority::new();
    let (signed, ca) = (authority.server(), authority.ca());
    for version in [&version::TLS12, &version::TLS13] {
        let url = thief(&signed, version);
        for mode in ["require", "verify-ca", "verify-full"] {
            let url = with(&url, &format!("sslmode={mode}&sslrootcert={}", shown(&ca)));
            let line = migrate(&url, &[]).fails_with(1);
            assert!(line.contains("its certificate"), "{mode}: {line}");
        }
    }
}

#[test]
fn a_node_logs_why_it_rejects_a_certificate_and_recovers_when_it_is_replaced() {
    let authority = Authority::new();
    let good = authority.server();
    let old = authority.sign("old", &["127.0.0.1"], 2026);
    let postgres = Postgres::start_with_tls(&good, EVERYBODY);
    let url = with(&postgres.url(), "sslmode=verify-full");
    let ca = authority.ca();
    let ca = ["--ca-cert", shown(&ca)];
    let create = ["keys", "create", "--name", "a", "--plan", "business"];
    migrate(&url, &ca).exits(0);
    let args = [&create[..], &ca, &["--database", &url]].concat();
    let key = run(PROGRAM, folder().path(), &args).exits(0).stdout;
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
