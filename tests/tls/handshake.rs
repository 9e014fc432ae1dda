//! What a handshake negotiates, and what is served then.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use animal_store::access::TrustedProxies;
use animal_store::config::TlsFiles;
use harness::{App, Certificate, Client, eventually};
use serde_json::json;
use tokio_rustls::rustls::HandshakeKind;
use tokio_rustls::rustls::ProtocolVersion::{TLSv1_2, TLSv1_3};
use tokio_rustls::rustls::version::{TLS12, TLS13};

use crate::{folder, metric, run, serve, serve_admin, start};

#[test]
fn tls_1_2_and_1_3_are_served_and_alpn_chooses_the_protocol() {
    let certificate = Certificate::new();
    let (app, key, _folder) = start(&certificate);
    for (version, expected) in [(&TLS12, TLSv1_2), (&TLS13, TLSv1_3)] {
        for (protocols, chosen) in [
            (&["http/1.1"][..], Some(&b"http/1.1"[..])),
            (&["h2"], Some(b"h2")),
            (&["http/1.1", "h2"], Some(b"h2")),
            (&[], None),
        ] {
            let tls = certificate.client_with(&[version], protocols);
            let stream = tls.handshake(app.address()).expect("a handshake");
            assert_eq!(stream.conn.protocol_version(), Some(expected));
            assert_eq!(stream.conn.alpn_protocol(), chosen);
            if protocols.len() < 2 {
                assert_eq!(key.over(&tls).get("/v1/pets").status, 200);
            }
        }
    }
    let unknown = certificate.client_with(&[&TLS13], &["smtp"]);
    let rejected = unknown.handshake(app.address()).expect_err("no protocol");
    assert!(
        rejected.to_string().contains("NoApplicationProtocol"),
        "{rejected}"
    );
}

#[test]
fn sessions_are_resumed_with_tickets_and_without_early_data() {
    let certificate = Certificate::new();
    let (app, key, _folder) = start(&certificate);
    for version in [&TLS12, &TLS13] {
        let tls = certificate.client_with(&[version], &["http/1.1"]);
        let tls = tls.with_early_data();
        // With TLS 1.3, tickets come after the handshake.
        assert_eq!(key.over(&tls).get("/v1/pets").status, 200);
        let stream = tls.handshake(app.address()).expect("a handshake");
        let kind = stream.conn.handshake_kind();
        assert_eq!(kind, Some(HandshakeKind::Resumed), "{version:?}");
        assert!(!stream.conn.is_early_data_accepted(), "{version:?}");
    }
}

#[test]
fn links_use_https_unless_a_trusted_proxy_forwards_http() {
    let certificate = Certificate::new();
    let folder = folder();
    let (cert, key) = certificate.write(folder.path());
    let (_app, _, client) = App::start_with(|config| {
        config.tls = Some(TlsFiles { cert, key });
        config.trusted_proxies = TrustedProxies::new(vec!["127.0.0.1".parse().expect("a range")]);
    });
    let client = client.over(&certificate.client());
    let pet = json!({"name": "Rex", "categoryId": 1});
    for (forwarded, scheme) in [
        (None, "https"),
        (Some("https"), "https"),
        (Some("http"), "http"),
    ] {
        let send = |method: &str, target: &str| {
            let request = client.request(method, target);
            let request = match forwarded {
                Some(proto) => request.header("X-Forwarded-Proto", proto),
                None => request,
            };
            match method {
                "POST" => request.json(&pet).send(),
                _ => request.send(),
            }
        };
        let start = format!("{scheme}://{}/v1/pets", client.address);
        let (made, _) = (send("POST", "/v1/pets"), send("POST", "/v1/pets"));
        assert!(
            made.header("location").expect("a link").starts_with(&start),
            "{made}"
        );
        let page = send("GET", "/v1/pets?limit=1");
        assert!(page.next().expect("a link").starts_with(&start), "{page}");
        let one = send("GET", "/v1/pets/1");
        let links = one.header("link").expect("links");
        assert!(links.contains(&format!("<{start}")), "{one}");
    }
    let mut connection = client.connect();
    let key = client.key.as_deref().expect("a key");
    connection.send(
        format!("GET /v1/pets?limit=1 HTTP/1.0\r\nAuthorization: Bearer {key}\r\n\r\n").as_bytes(),
    );
    let response = connection.response();
    let start = format!("https://{}/v1/pets", client.address);
    assert!(
        response.next().expect("a link").starts_with(&start),
        "{response}"
    );
}

#[test]
fn many_requests_on_one_connection_and_a_body_larger_than_a_record_arrive_whole() {
    let certificate = Certificate::new();
    let (_app, key, _folder) = start(&certificate);
    key.create_many(3);
    let mut connection = key.connect();
    for _ in 0..50 {
        let list = key.request("GET", "/v1/pets").send_on(&mut connection);
        assert_eq!(list.ids(), [1, 2, 3]);
    }
    let asset = key.get("/docs");
    assert!(asset.status == 200 && asset.body.len() > 80_000);
}

#[test]
fn the_startup_lines_name_https_and_healthcheck_works_over_it() {
    let folder = folder();
    Certificate::new().write(folder.path());
    let token = ["--admin-token", "0123456789abcdef"];
    let process = serve_admin(folder.path(), "0.0.0.0:0", &token);
    let (api, admin) = (process.address, process.admin);
    assert!(
        process
            .startup_message
            .contains(&format!("https://{api}/v1")),
        "{}",
        process.startup_message
    );
    assert!(
        process
            .startup_message
            .contains(&format!("https://{admin}")),
        "{}",
        process.startup_message
    );
    let admin = format!("https://127.0.0.1:{}", admin.port());
    for args in [
        &["healthcheck", &format!("https://{api}/readyz")][..],
        &["healthcheck", &format!("https://localhost:{}", api.port())],
        &["healthcheck", &admin],
        &["healthcheck", &format!("{admin}/livez")],
        &[
            "healthcheck",
            "--listen",
            &api.to_string(),
            "--tls-cert",
            "cert.pem",
        ],
    ] {
        assert_eq!(run(folder.path(), args).exits(0).stdout, "");
    }
    let line = run(folder.path(), &["healthcheck", &format!("http://{api}")]).fails_with(1);
    assert!(line.contains("status 400; use https://"), "{line}");
}

#[test]
fn the_admin_listener_on_loopback_stays_plain_and_elsewhere_it_has_the_certificate() {
    let folder = folder();
    let certificate = Certificate::new();
    certificate.write(folder.path());
    let process = serve(folder.path(), &[]);
    assert!(
        process
            .startup_message
            .contains(&format!("http://{}", process.admin))
    );
    assert_eq!(Client::new(process.admin, None).get("/livez").status, 200);
    let token = ["--admin-token", "0123456789abcdef"];
    drop(process);
    let process = serve_admin(folder.path(), "0.0.0.0:0", &token);
    let address = ([127, 0, 0, 1], process.admin.port()).into();
    let admin = Client::new(address, Some("0123456789abcdef".into()));
    assert_eq!(
        admin.over(&certificate.client()).get("/metrics").status,
        200
    );
    admin.get("/metrics").is_error(400, "https_required");
}

#[test]
fn a_client_that_ends_its_side_with_close_notify_still_gets_its_response() {
    let certificate = Certificate::new();
    let (app, key, _folder) = start(&certificate);
    let mut stream = certificate
        .client()
        .handshake(app.address())
        .expect("a handshake");
    let secret = key.key.as_deref().expect("a key");
    let request =
        format!("GET /v1/pets HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {secret}\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("a request");
    stream.conn.send_close_notify();
    stream.flush().expect("sent");
    let mut start = [0; 12];
    std::io::Read::read_exact(&mut stream, &mut start).expect("a response");
    assert_eq!(&start, b"HTTP/1.1 200");
}

#[test]
fn failed_handshakes_are_counted_and_connections_that_are_only_opened_are_not() {
    let (certificate, folder) = (Certificate::new(), folder());
    certificate.write(folder.path());
    let process = serve(folder.path(), &[]);
    let address = process.client(None).address;
    let failed = || metric(&process, "animal_store_tls_handshake_failures_total ");
    drop(TcpStream::connect(address).expect("a connection"));
    certificate
        .client()
        .handshake(address)
        .expect("a handshake");
    assert_eq!(failed(), 0.0);
    let distrusting = Certificate::new().client();
    distrusting
        .handshake(address)
        .expect_err("another certificate");
    let mut nonsense = TcpStream::connect(address).expect("a connection");
    nonsense
        .write_all(&[0x16, 3, 1, 0, 4, 9, 9, 9, 9])
        .expect("sent");
    eventually(Duration::from_secs(5), "two failures", || failed() == 2.0);
}
