//! Streams of HTTP/2 beyond the limit of connections.

use animal_store::access::TrustedProxies;
use animal_store::api::cors::Cors;
use bytes::Bytes;
use h2::RecvStream;
use h2::client::{ResponseFuture, SendRequest};
use harness::{Certificate, Client};
use http::Response;
use http::request::Builder;
use tokio_rustls::TlsConnector;

use crate::http2_slow::server;
use crate::raw::*;

const SHOP: &str = "https://shop.example";

#[test]
fn rejected_streams_are_counted() {
    let (certificate, folder) = (Certificate::new(), crate::folder());
    certificate.write(folder.path());
    let process = crate::serve(folder.path(), &["--max-connections-per-address", "3"]);
    let create = ["keys", "create", "--name", "a", "--plan", "business"];
    let key = crate::run(folder.path(), &create).exits(0).stdout;
    let client = process
        .client(Some(key.trim_end()))
        .over(&certificate.client());
    let rejected = || crate::metric(&process, "animal_store_http2_streams_rejected_total ");
    let mut raw = Raw::connect(&client, &certificate, &[]);
    raw.post(1, &[("content-length", "10")]);
    assert_eq!(rejected(), 0.0);
    for stream in [3, 5, 7, 9] {
        raw.post(stream, &[("content-length", "10")]);
    }
    let head = raw.next_of(HEADERS).expect("a head");
    assert_eq!(status_of(&head.payload), 503);
    // How many depends on when earlier ones were released.
    let count = rejected();
    assert!((1.0..=4.0).contains(&count), "{count}");
}

#[test]
fn a_rejected_stream_does_not_wait_for_a_client_that_has_no_room_for_its_response() {
    let (_app, key, certificate, _folder) = server(|config| config.max_connections_per_address = 3);
    let mut raw = Raw::connect(&key, &certificate, &[(INITIAL_WINDOW, 0)]);
    for stream in (1..200).step_by(2) {
        raw.get(stream, "/livez");
    }
    // Some were within the limit, and wait for room.
    for _ in 0..50 {
        let reset = raw.next_of(RST_STREAM).expect("a reset");
        // REFUSED_STREAM: the client may retry it.
        assert_eq!(reset.error(), 7, "{reset:?}");
    }
    // One at a time is always served.
    assert_eq!(key.get("/v1/pets").status, 200);
}

/// A connection, and creations on it whose bodies do not come: more than there is room for.
struct Full {
    client: SendRequest<Bytes>,
    _creations: Vec<(ResponseFuture, h2::SendStream<Bytes>)>,
}

impl Full {
    async fn connect(key: &Client, certificate: &Certificate) -> Self {
        let tcp = tokio::net::TcpStream::connect(key.address).await;
        let connector = TlsConnector::from(certificate.http2_client().config());
        let (name, tcp) = (key.address.ip().into(), tcp.expect("a connection"));
        let tls = connector.connect(name, tcp).await.expect("a handshake");
        let (mut client, connection) = h2::client::handshake(tls).await.expect("a connection");
        tokio::task::spawn(connection);
        let secret = format!("Bearer {}", key.key.as_deref().expect("a key"));
        let mut creations = Vec::new();
        for _ in 0..5 {
            client = client.ready().await.expect("room for a stream");
            let post = http::Request::post("https://a.example/v1/pets")
                .header("origin", SHOP)
                .header("authorization", &secret)
                .header("content-type", "application/json")
                .header("content-length", "9");
            let post = post.body(()).expect("a request");
            creations.push(client.send_request(post, false).expect("sent"));
        }
        Self {
            client,
            _creations: creations,
        }
    }

    async fn send(&mut self, request: Builder) -> Response<RecvStream> {
        let client = self.client.clone();
        self.client = client.ready().await.expect("room for a stream");
        let request = request.body(()).expect("a request");
        let (response, _) = self.client.send_request(request, true).expect("sent");
        response.await.expect("a response")
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().build().expect("a runtime");
    runtime.block_on(future)
}

#[test]
fn a_rejected_stream_gets_the_headers_of_its_operation_and_of_a_listed_origin() {
    let (_app, key, certificate, _folder) = server(|config| {
        config.max_connections_per_address = 3;
        config.cors = Cors::new(SHOP.parse().into_iter().collect());
    });
    let rejected = block_on(async {
        let mut full = Full::connect(&key, &certificate).await;
        let mut rejected = Vec::new();
        for path in ["/v1/pets/1", "/openapi.json"] {
            let get = http::Request::get(format!("https://a.example{path}"))
                .header("origin", SHOP)
                .header("x-request-id", "mine");
            rejected.push(full.send(get).await);
        }
        // Otherwise no page would send the request whose 503 it may read.
        let preflight = http::Request::options("https://a.example/v1/pets")
            .header("origin", SHOP)
            .header("access-control-request-method", "GET");
        assert_eq!(full.send(preflight).await.status(), 204);
        rejected
    });
    for (response, is_api) in rejected.into_iter().zip([true, false]) {
        assert_eq!(response.status(), 503);
        let headers = response.headers();
        assert_eq!(headers["access-control-allow-origin"], SHOP);
        assert_eq!(headers["x-request-id"], "mine");
        for name in ["x-ratelimit-limit", "deprecation", "sunset", "link"] {
            assert_eq!(headers.contains_key(name), is_api, "{name}");
        }
    }
}

#[test]
fn a_rejected_stream_is_that_of_the_client_that_a_trusted_proxy_names() {
    const CLIENT: &str = "203.0.113.7";
    let (mut app, key, certificate, _folder) = server(|config| {
        config.max_connections = 3;
        let proxy = "127.0.0.1".parse().expect("an address");
        config.trusted_proxies = TrustedProxies::new(vec![proxy]);
    });
    // Of its 60 a minute, the client has used four.
    for _ in 0..4 {
        let anonymous = key.with_key(None);
        let request = anonymous.request("GET", "/v1/pets");
        let failed = request.header("X-Forwarded-For", CLIENT).send();
        assert_eq!(failed.status, 401, "{failed}");
    }
    let rejected = block_on(async {
        let mut full = Full::connect(&key, &certificate).await;
        let get = http::Request::get("https://a.example/v1/pets/1");
        let get = get.header("x-forwarded-for", CLIENT);
        full.send(get.header("x-request-id", "mine")).await
    });
    assert_eq!(rejected.status(), 503);
    assert_eq!(rejected.headers()["x-ratelimit-remaining"], "56");
    app.stop();
    let log = app.log();
    let line = log.lines().find(|line| line.contains("id=mine"));
    let line = line.unwrap_or_else(|| panic!("{log}"));
    let is_clients = line.contains("status=503") && line.contains(&format!("client={CLIENT}"));
    assert!(is_clients, "{line}");
}
