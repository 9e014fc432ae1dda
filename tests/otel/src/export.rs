//! What is exported, and when.

use std::net::TcpListener;
use std::time::Duration;

use harness::{Authority, eventually, run};
use tempfile::TempDir;

use crate::collector::Collector;
use crate::dropped::dropped;
use crate::{TracedServer, deploy, deploy_to, nowhere, parent, program, rex, serve};

#[test]
fn a_trace_that_its_client_does_not_sample_is_not_exported() {
    let mut traced = deploy(&[], &[]);
    let TracedServer {
        process,
        client,
        collector,
        ..
    } = &mut traced;
    let (unsampled, _, header) = parent(1, "00");
    let request = client.request("POST", "/v1/pets").json(&rex());
    assert_eq!(request.header("traceparent", &header).send().status, 201);
    let (sampled, _, header) = parent(10, "01");
    let request = client
        .request("GET", "/v1/pets")
        .header("traceparent", &header);
    assert_eq!(request.send().status, 200);
    collector.trace(&sampled, 2);
    process.signal("TERM");
    assert_eq!(process.ends_within(Duration::from_secs(5)), Some(0));
    assert!(collector.all().iter().all(|span| span.trace != unsampled));
}

#[test]
fn the_standard_variables_choose_the_sampler_and_the_name() {
    let vars = [
        ("OTEL_TRACES_SAMPLER", "always_on"),
        ("OTEL_SERVICE_NAME", "shop"),
    ];
    let traced = deploy(&[], &vars);
    let TracedServer {
        client, collector, ..
    } = &traced;
    let (trace, _, header) = parent(1, "00");
    client
        .request("GET", "/v1/pets")
        .header("traceparent", &header)
        .send();
    let spans = collector.trace(&trace, 2);
    assert!(
        spans.iter().all(|span| span.service == "shop"),
        "{spans:#?}"
    );
}

#[test]
fn the_collector_gets_the_headers_of_the_variable_that_is_not_empty() {
    let vars = [
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            "authorization=Bearer%20token, x-a=b%2541=, x-b=50%",
        ),
        ("OTEL_EXPORTER_OTLP_TRACES_HEADERS", ""),
    ];
    let traced = deploy(&[], &vars);
    eventually(Duration::from_secs(10), "a span", || {
        !traced.collector.all().is_empty()
    });
    for span in traced.collector.all() {
        for line in ["authorization: bearer token", "x-a: b%41=", "x-b: 50%"] {
            assert!(span.request.iter().any(|sent| sent == line), "{span:#?}");
        }
    }
}

#[test]
fn the_last_spans_are_exported_at_shutdown() {
    let vars = [("OTEL_BSP_SCHEDULE_DELAY", "60000")];
    let mut traced = deploy(&[], &vars);
    let TracedServer {
        process,
        client,
        collector,
        ..
    } = &mut traced;
    let (trace, _, header) = parent(1, "01");
    client
        .request("GET", "/v1/pets")
        .header("traceparent", &header)
        .send();
    assert!(collector.all().is_empty());
    process.signal("TERM");
    assert_eq!(process.ends_within(Duration::from_secs(5)), Some(0));
    collector.trace(&trace, 2);
}

#[test]
fn no_span_contains_a_key_wherever_a_client_puts_it() {
    let traced = deploy(&[], &[]);
    let TracedServer {
        client,
        collector,
        key,
        ..
    } = &traced;
    client.get(&format!("/v1/pets/{key}"));
    client.get(&format!("/v1/{key}"));
    client.get(&format!("/{key}"));
    client.get(&format!("/v1/pets?cursor={key}"));
    client
        .request("GET", "/v1/pets")
        .header("X-Request-Id", key)
        .send();
    client
        .request("GET", "/v1/pets")
        .header("traceparent", key)
        .send();
    client
        .request("GET", "/v1/pets")
        .header("User-Agent", key)
        .send();
    let (trace, _, header) = parent(1, "01");
    client
        .request("GET", "/v1/pets")
        .header("traceparent", &header)
        .header("tracestate", &format!("shop={key}"))
        .send();
    collector.trace(&trace, 2);
    let spans = collector.all();
    assert!(spans.len() >= 8);
    let text = format!("{spans:?}");
    assert!(
        !text.contains(&**key) && !text.contains("as_"),
        "{spans:#?}"
    );
}

#[test]
fn health_checks_have_no_spans() {
    let traced = deploy(&[], &[]);
    let TracedServer {
        client, collector, ..
    } = &traced;
    for path in ["/livez", "/readyz"] {
        assert_eq!(client.with_key(None).get(path).status, 200);
    }
    let (trace, _, header) = parent(1, "01");
    client
        .request("GET", "/v1/pets")
        .header("traceparent", &header)
        .send();
    collector.trace(&trace, 2);
    assert!(collector.all().iter().all(|span| !span.name.ends_with('z')));
}

#[test]
fn without_an_endpoint_nothing_is_exported_and_the_server_works() {
    // The default endpoint of the specification, which no server may take unless it is told to.
    let collector = TcpListener::bind("127.0.0.1:4318");
    let nowhere = nowhere();
    let disabled = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*nowhere),
        ("OTEL_SDK_DISABLED", "true"),
    ]
    .to_vec();
    for vars in [vec![("OTEL_EXPORTER_OTLP_ENDPOINT", "")], disabled] {
        let folder = TempDir::new().expect("a folder");
        let (mut process, key) = serve(&folder, &[], &vars);
        let client = process.client(Some(&key));
        let (_, _, header) = parent(1, "01");
        let request = client.request("POST", "/v1/pets").json(&rex());
        assert_eq!(request.header("traceparent", &header).send().status, 201);
        process.signal("TERM");
        assert_eq!(process.ends_within(Duration::from_secs(5)), Some(0));
        assert!(!process.log().contains("traces"));
    }
    if let Ok(collector) = collector {
        collector.set_nonblocking(true).expect("a socket");
        assert!(collector.accept().is_err(), "something was exported");
    }
}

#[test]
fn a_variable_that_cannot_be_used_is_rejected_with_its_name() {
    let folder = TempDir::new().expect("a folder");
    // A server that starts would not end.
    let rejects = |code: i32, vars: &[&str]| {
        let program = program();
        let serve = [&*program, "serve", "--listen", "127.0.0.1:0"];
        let args = [&["10", "env"], vars, &serve].concat();
        run("timeout", folder.path(), &args).fails_with(code)
    };
    let endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT";
    let valid = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=https://127.0.0.1:4318";
    for (name, value) in [
        (endpoint, "127.0.0.1:4318"),
        (endpoint, "ftp://a"),
        (endpoint, "http://"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_COMPRESSION", "gzip"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "0"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization: Bearer TOKEN"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=b,no header=c"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a=b%0A"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "a="),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "0"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "1000000000000"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "0"),
        ("OTEL_BSP_SCHEDULE_DELAY", "5s"),
        ("OTEL_TRACES_SAMPLER", "sometimes"),
        ("OTEL_TRACES_EXPORTER", "console"),
    ] {
        let valid = if name == endpoint { "A=" } else { valid };
        let line = rejects(2, &[valid, &format!("{name}={value}")]);
        assert!(line.contains(&format!("{name}: must be")), "{line}");
    }
    for (sampler, ratio) in [
        ("traceidratio", "0,01"),
        ("traceidratio", "2"),
        ("parentbased_traceidratio", "NaN"),
    ] {
        let sampler = format!("OTEL_TRACES_SAMPLER={sampler}");
        let ratio = format!("OTEL_TRACES_SAMPLER_ARG={ratio}");
        let line = rejects(2, &[valid, &sampler, &ratio]);
        assert!(line.contains("OTEL_TRACES_SAMPLER_ARG: must be"), "{line}");
    }
    let line = rejects(
        2,
        &[valid, "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=cert.pem"],
    );
    assert!(
        line.contains("OTEL_EXPORTER_OTLP_CLIENT_KEY: must be set"),
        "{line}"
    );
    let line = rejects(1, &[valid, "OTEL_EXPORTER_OTLP_CERTIFICATE=missing.pem"]);
    assert!(
        line.contains("cannot export traces") && line.contains("missing.pem"),
        "{line}"
    );
}

#[test]
fn a_collector_is_verified_over_https_and_the_log_says_why_it_is_not_trusted() {
    let (trusted, other) = (Authority::new(), Authority::new());
    let ca = trusted.ca().display().to_string();
    let vars = [("OTEL_EXPORTER_OTLP_CERTIFICATE", &*ca)];
    let collector = Collector::over_tls(&trusted.server());
    let traced = deploy_to(collector, "https", &[], &vars);
    let (trace, _, header) = parent(1, "01");
    let request = traced.client.request("GET", "/v1/pets");
    assert_eq!(request.header("traceparent", &header).send().status, 200);
    traced.collector.trace(&trace, 2);

    let expired = trusted.sign("old", &["localhost", "127.0.0.1"], 2021);
    let misnamed = trusted.sign("misnamed", &["collector.example"], 2049);
    for (signed, reason) in [
        (other.server(), "a CA in"),
        (expired, "expired"),
        (misnamed, "127.0.0.1"),
    ] {
        let traced = deploy_to(Collector::over_tls(&signed), "https", &[], &vars);
        let mut log = String::new();
        eventually(Duration::from_secs(10), reason, || {
            log.push_str(&traced.process.log());
            log.contains("traces cannot be exported")
        });
        let line = log
            .lines()
            .find(|line| line.contains("traces cannot be exported"));
        assert!(
            line.is_some_and(|line| line.contains(reason)),
            "{reason}: {log}"
        );
        assert!(dropped(&traced.process)[1] > 0);
        assert!(traced.collector.all().is_empty());
    }
}
