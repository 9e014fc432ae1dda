//! The pipeline without sockets: requests go in as heads and bodies, responses come out as values.

use std::path::Path;

use bytes::Bytes;
use clap::{Args, Command, FromArgMatches};
use tokio::sync::watch;
use tokio::time::Instant;

use super::*;
use crate::api::BaseUrls;
use crate::clock::Clock;
use crate::config::{Config, ServeOptions};
use crate::log::Sink;
use crate::plan::Plan;
use crate::store::{Mode, Store};

const NOW: Timestamp = Timestamp::from_secs(1_794_830_400);

struct Fixture {
    pipeline: Pipeline,
    key: String,
    clock: Clock,
    _folder: tempfile::TempDir,
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let clock = Clock::manual(NOW);
        let config = config(folder.path());
        let store = Store::open(&config.database, Mode::Serve { migrate: true }, 10);
        let store = Arc::new(store.await.unwrap());
        let issued = crate::keys::create(&store, "test".parse().unwrap(), Plan::Free, None, NOW);
        let key = issued.await.unwrap().secret.reveal().to_owned();
        let base_urls = BaseUrls {
            public: None,
            local: "http://local.example/v1".parse().unwrap(),
        };
        let (_, shutdown) = watch::channel(false);
        let shared = Shared::new(&config, store, clock.clone(), None, base_urls, 1, shutdown);
        let shared = shared.unwrap();
        let log = RequestLog::new(
            &Sink::to(std::io::sink(), config.log, clock.clone()).unwrap(),
            config.log,
            config.log_level,
        );
        let limiter = Limiter::Memory(config.bans);
        Self {
            pipeline: Pipeline::new(Arc::new(shared), 0, limiter, log),
            key,
            clock,
            _folder: folder,
        }
    }

    /// Sends a request, with the key unless it has an `Authorization`.
    async fn send(&self, request: http::request::Builder, body: &str) -> Response {
        let (mut parts, body) = request.body(body.to_owned()).unwrap().into_parts();
        let bearer = format!("Bearer {}", self.key).parse().unwrap();
        parts.headers.entry("authorization").or_insert(bearer);
        let mut body = RequestBody::whole(Bytes::from(body));
        let id = RequestId::new(b"test");
        let exchange = Exchange::new("192.0.2.1".parse().unwrap(), id, Instant::now());
        let head = Head::new(&parts);
        let last_key = LastKey::default();
        self.pipeline
            .respond(&head, &mut body, &exchange, &last_key)
            .await
    }

    async fn get(&self, target: &str) -> Response {
        let request = http::Request::get(target).header("host", "a.example");
        self.send(request, "").await
    }
}

fn config(folder: &Path) -> Config {
    let database = format!("sqlite:{}", folder.join("test.db").display());
    let args = ["serve", "--database", &database, "--log-level", "error"];
    let matches = ServeOptions::augment_args(Command::new("serve")).get_matches_from(args);
    let options = ServeOptions::from_arg_matches(&matches).unwrap();
    Config::try_from(options).unwrap()
}

#[tokio::test]
async fn an_animal_that_is_created_can_be_read_and_each_request_counts() {
    let fixture = Fixture::new().await;
    let request = http::Request::post("/v1/pets")
        .header("host", "a.example")
        .header("content-type", "application/json");
    let created = fixture
        .send(request, r#"{"name":"Rex","categoryId":1}"#)
        .await;
    assert_eq!(created.status, 201);
    let read = fixture.get("/v1/pets/1").await;
    assert_eq!(read.body.bytes(), created.body.bytes());
    assert!(read.deprecation.is_some());
    let list = fixture.get("/v1/pets").await;
    assert_eq!(list.status, 200);
    assert_eq!(list.rate_limit.unwrap().remaining, 60 - 3);
}

#[tokio::test]
async fn a_response_to_an_unknown_key_has_the_rate_of_its_address() {
    let fixture = Fixture::new().await;
    let request = http::Request::get("/v1/pets").header("authorization", "Bearer wrong");
    let response = fixture.send(request, "").await;
    assert_eq!(response.status, 401);
    assert_eq!(response.rate_limit.unwrap().remaining, 59);
    assert!(response.challenge.is_some());
}

#[tokio::test]
async fn the_sixty_first_request_of_a_minute_is_rejected_until_the_next() {
    let fixture = Fixture::new().await;
    for _ in 0..60 {
        assert_eq!(fixture.get("/v1/pets").await.status, 200);
    }
    let rejected = fixture.get("/v1/pets").await;
    assert_eq!(rejected.status, 429);
    assert_eq!(rejected.retry_after, Some(60));
    fixture.clock.advance(std::time::Duration::from_secs(60));
    assert_eq!(fixture.get("/v1/pets").await.status, 200);
}
