//! The spans of a request, and their parents.

use std::time::Duration;

use harness::{Certificate, Postgres, Process, Redis};
use tempfile::TempDir;

use crate::collector::{Collector, Span};
use crate::{TracedServer, deploy, parent, program, rex};

/// The request's span, and its children by name.
#[track_caller]
fn family<'a>(spans: &'a [Span], parent: &str) -> (&'a Span, Vec<&'a str>) {
    let request = spans.iter().find(|span| span.parent == parent);
    let request = request.unwrap_or_else(|| panic!("no child of {parent}: {spans:#?}"));
    let children: Vec<_> = spans.iter().filter(|span| span.id != request.id).collect();
    for child in &children {
        assert_eq!(child.parent, request.id, "{spans:#?}");
        let is_within = request.time.0 <= child.time.0 && child.time.1 <= request.time.1;
        assert!(is_within, "{spans:#?}");
    }
    (request, children.iter().map(|span| &*span.name).collect())
}

#[test]
fn a_read_has_a_span_of_the_store_under_the_span_that_its_traceparent_names() {
    let traced = deploy(&[], &[]);
    let TracedServer {
        client, collector, ..
    } = &traced;
    client.create(&rex());
    let (trace, span, header) = parent(1, "01");
    let request = client
        .request("GET", "/v1/pets/1")
        .header("traceparent", &header);
    let response = request
        .header("tracestate", "a=1")
        .header("tracestate", "b=2")
        .send();
    assert_eq!(response.status, 200);
    let spans = collector.trace(&trace, 2);
    let (request, children) = family(&spans, &span);
    assert_eq!(children, ["SELECT pets"]);
    assert_eq!(request.name, "GET /v1/pets/{petId}");
    assert_eq!((&*request.service, request.kind), ("animal-store", 2));
    assert_eq!(request.state, "a=1,b=2");
    let id = response.header("x-request-id").expect("an ID");
    let expected = [
        ("client.address", "127.0.0.1"),
        ("http.request.method", "GET"),
        ("http.response.header.x-request-id", id),
        ("http.response.status_code", "200"),
        ("http.route", "/v1/pets/{petId}"),
        ("url.path", "/v1/pets/1"),
        ("url.scheme", "http"),
    ];
    let attributes = request.attributes.iter();
    let attributes: Vec<_> = attributes
        .map(|(name, value)| (&**name, &**value))
        .collect();
    assert_eq!(attributes, expected);
    let store = spans.last().expect("a span");
    assert_eq!(store.attribute("db.system.name"), "sqlite");
    assert_eq!(store.attribute("db.operation.name"), "SELECT");
    assert_eq!(store.attribute("db.collection.name"), "pets");

    // A longer state would take memory in every span of the queue; without it the trace goes on.
    let (trace, _, header) = parent(5, "01");
    let members = (0..32).map(|number| format!("k{number}={}", "1".repeat(20)));
    let long = members.collect::<Vec<_>>().join(",");
    let request = client.request("GET", "/v1/store/orders");
    let request = request.header("traceparent", &header);
    assert_eq!(request.header("tracestate", &long).send().status, 200);
    assert!(
        collector
            .trace(&trace, 2)
            .iter()
            .all(|span| span.state.is_empty())
    );

    // The same animal again comes from the cache, so the store has no span. The trace continues although a large head is reduced before
    // its body arrives.
    let (trace, span, header) = parent(10, "01");
    let again = client
        .request("GET", "/v1/pets/1")
        .header("traceparent", &header);
    assert_eq!(
        again.header("x-other", &"x".repeat(4_000)).send().status,
        200
    );
    let spans = collector.trace(&trace, 1);
    assert!(family(&spans, &span).1.is_empty());
}

#[test]
fn over_http2_a_request_continues_its_trace_too() {
    let (folder, collector, certificate) = (
        TempDir::new().expect("a folder"),
        Collector::start(),
        Certificate::new(),
    );
    certificate.write(folder.path());
    let url = format!("http://{}", collector.address);
    let vars = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*url),
        ("OTEL_BSP_SCHEDULE_DELAY", "100"),
    ];
    let args = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    let process = Process::serve_with(&program(), folder.path(), &args, &vars);
    let client = process.client(None).over(&certificate.http2_client());
    let (trace, span, header) = parent(1, "01");
    let request = client.request("GET", "/docs");
    let request = request.header("traceparent", &header);
    assert_eq!(request.header("tracestate", "a=1").send().status, 200);
    let spans = collector.trace(&trace, 1);
    let (request, _) = family(&spans, &span);
    assert_eq!((&*request.name, &*request.state), ("GET /docs", "a=1"));
    assert_eq!(request.attribute("url.scheme"), "https");
}

#[test]
fn a_creation_has_the_span_of_its_commit_although_other_requests_share_the_commit() {
    let traced = deploy(&[], &[]);
    let TracedServer {
        client, collector, ..
    } = &traced;
    let parents: Vec<_> = (1..=32).map(|number| parent(number * 100, "01")).collect();
    std::thread::scope(|scope| {
        for (_, _, header) in &parents {
            let large = "x".repeat(4_000);
            let request = client.request("POST", "/v1/pets").json(&rex());
            let request = request
                .header("traceparent", header)
                .header("x-other", &large);
            scope.spawn(move || assert_eq!(request.send().status, 201));
        }
    });
    for (trace, span, _) in &parents {
        let spans = collector.trace(trace, 3);
        let (request, children) = family(&spans, span);
        assert_eq!(request.name, "POST /v1/pets");
        assert_eq!(request.attribute("http.response.status_code"), "201");
        assert_eq!(children, ["INSERT pets", "COMMIT"]);
        let commit = spans.last().expect("a span");
        assert_eq!(commit.attribute("db.operation.name"), "COMMIT");
        let batch: usize = commit
            .attribute("db.operation.batch.size")
            .parse()
            .expect("a number");
        assert!((1..=32).contains(&batch), "{commit:#?}");
    }
}

#[test]
fn on_several_nodes_the_spans_are_those_of_redis_and_postgresql() {
    let (redis, postgres) = (Redis::start(), Postgres::start());
    let (redis, database) = (redis_url(&redis), postgres.create_database("traces"));
    let args = ["--redis", &redis.0, "--database", &database];
    let traced = deploy(&args, &[]);
    let TracedServer {
        client, collector, ..
    } = &traced;
    let (trace, span, header) = parent(1, "01");
    let request = client.request("POST", "/v1/pets").json(&rex());
    assert_eq!(request.header("traceparent", &header).send().status, 201);
    let spans = collector.trace(&trace, 4);
    let (_, children) = family(&spans, &span);
    let expected = ["EVALSHA", "INSERT pets", "COMMIT"];
    assert_eq!(children, expected);
    let systems: Vec<_> = spans[1..]
        .iter()
        .map(|span| span.attribute("db.system.name"))
        .collect();
    assert_eq!(systems, ["redis", "postgresql", "postgresql"]);
    assert!(spans[1..].iter().all(|span| span.kind == 3));

    // A Redis that does not respond is an error of its span, and not of the request.
    redis.1.stall();
    let (trace, span, header) = parent(10, "01");
    let request = client
        .request("GET", "/v1/store/orders")
        .header("traceparent", &header);
    assert_eq!(request.send().status, 200);
    redis.1.resume();
    let spans = collector.trace(&trace, 3);
    let (request, children) = family(&spans, &span);
    assert_eq!(children, ["EVALSHA", "SELECT orders"]);
    assert!(spans[1].is_error && !request.is_error);
}

#[test]
fn a_postgresql_that_does_not_respond_is_an_error_of_its_span_and_of_the_request() {
    let postgres = Postgres::start();
    let database = postgres.create_database("traces");
    let traced = deploy(&["--database", &database], &[]);
    let TracedServer {
        client, collector, ..
    } = &traced;
    postgres.stop_immediately();
    let (trace, span, header) = parent(1, "01");
    let request = client
        .request("GET", "/v1/store/orders")
        .header("traceparent", &header);
    assert_eq!(request.send().status, 503);
    let spans = collector.trace(&trace, 2);
    let (request, _) = family(&spans, &span);
    assert!(request.is_error && request.attribute("error.type") == "503");
    let query = spans.iter().find(|span| span.name == "SELECT orders");
    assert_eq!(
        query.expect("a span").attribute("error.type"),
        "unavailable"
    );
}

fn redis_url(redis: &Redis) -> (String, &Redis) {
    (redis.url(), redis)
}

#[test]
fn a_request_without_a_valid_traceparent_begins_a_trace() {
    let traced = deploy(&[], &[]);
    let TracedServer {
        client, collector, ..
    } = &traced;
    let (_, _, header) = parent(1, "01");
    let upper = format!("00-{:032X}-{:016X}-01", 0xabcdef, 0xabcdef);
    let (longer, newest) = (format!("{header}-00"), format!("ff{}", &header[2..]));
    let (zeros, zero) = ("0".repeat(32), "0".repeat(16));
    let no_trace = format!("00-{zeros}-{:016x}-01", 1);
    let no_span = format!("00-{:032x}-{zero}-01", 1);
    let long = "0".repeat(8_000);
    let invalid = [
        "",
        "nonsense",
        "00-0-0-01",
        &header[..54],
        &upper,
        &longer,
        &newest,
        &no_trace,
        &no_span,
        &long,
    ];
    for value in invalid {
        let request = client
            .request("GET", "/v1/pets")
            .header("traceparent", value);
        assert_eq!(request.send().status, 200, "{value}");
    }
    let twice = client
        .request("GET", "/v1/pets")
        .header("traceparent", &header);
    assert_eq!(twice.header("traceparent", &header).send().status, 200);
    let requests = || {
        let spans = collector.all().into_iter();
        spans
            .filter(|span| span.name == "GET /v1/pets")
            .collect::<Vec<_>>()
    };
    let count = invalid.len() + 1;
    harness::eventually(Duration::from_secs(10), "all spans", || {
        requests().len() == count
    });
    let mut traces: Vec<_> = requests()
        .into_iter()
        .map(|span| (span.parent, span.trace))
        .collect();
    assert!(
        traces.iter().all(|(parent, _)| parent.is_empty()),
        "{traces:#?}"
    );
    traces.sort();
    traces.dedup();
    assert_eq!(traces.len(), count, "each has its own: {traces:#?}");
}
