//! Spans that cannot be exported: no request waits for them, and they are counted.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use harness::{Client, Process, eventually};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceResponse,
};
use prost::Message;
use tempfile::TempDir;

use crate::collector::{Collector, listen};
use crate::{TracedServer, deploy_to, nowhere, parent, serve};

#[test]
fn a_collector_that_is_gone_or_stalled_delays_no_request_and_the_shutdown_by_a_second_at_most() {
    // Connections are taken by the kernel, and nothing responds.
    let stalled = TcpListener::bind("127.0.0.1:0").expect("a port");
    let stalled_url = format!("http://{}", stalled.local_addr().expect("an address"));
    for url in [nowhere(), stalled_url] {
        let vars = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &*url),
            ("OTEL_BSP_SCHEDULE_DELAY", "50"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "64"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "8"),
        ];
        let folder = TempDir::new().expect("a folder");
        let (mut process, key) = serve(&folder, &[], &vars);
        let client = process.client(Some(&key));
        let mut connection = client.connect();
        let began = Instant::now();
        for _ in 0..200 {
            let request = client.request("GET", "/v1/pets");
            assert_eq!(request.send_on(&mut connection).status, 200);
        }
        let took = began.elapsed();
        assert!(took < Duration::from_secs(2), "{took:?}");
        // What waits for the collector is bounded; every other span is dropped, and counted.
        let spans = 400;
        eventually(Duration::from_secs(15), "dropped spans", || {
            let [full, failed, _] = dropped(&process);
            full > 0 && full + failed >= spans - 64
        });
        let mut log = process.log();
        // At the shutdown, an open connection would be given a second, too.
        drop(connection);
        let began = Instant::now();
        process.signal("TERM");
        assert_eq!(process.ends_within(Duration::from_secs(5)), Some(0));
        let took = began.elapsed();
        assert!(took < Duration::from_millis(2_000), "{url}: {took:?}");
        log.push_str(&process.log());
        println!("{url}: shutdown in {took:?}\n{log}");
        let count = |word| log.lines().filter(|line| line.contains(word)).count();
        assert!(count("traces cannot be exported") <= 1, "{log}");
        assert_eq!(count("the queue for the collector is full"), 1, "{log}");
        assert_eq!(count("spans were dropped"), 1, "{log}");
        assert!(count("WARN") + count("ERROR") <= 5, "{log}");
    }
}

#[test]
fn spans_that_wait_at_the_end_of_a_shutdown_are_counted_as_dropped() {
    let stalled = TcpListener::bind("127.0.0.1:0").expect("a port");
    let stalled_url = format!("http://{}", stalled.local_addr().expect("an address"));
    let folder = TempDir::new().expect("a folder");
    let vars = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*stalled_url)];
    let (mut process, key) = serve(&folder, &[], &vars);
    let client = process.client(Some(&key));
    for _ in 0..3 {
        assert_eq!(client.get("/v1/pets").status, 200);
    }
    process.signal("TERM");
    assert_eq!(process.ends_within(Duration::from_secs(5)), Some(0));
    let log = process.log();
    // These three requests and that of `serve`, each with a query, and the lookup of the key.
    let expected = "spans were dropped queue_full=0 export_failed=9 rejected=0";
    assert!(log.contains(expected), "{log}");
}

#[test]
fn when_exports_succeed_again_the_log_has_all_counts() {
    let stalled = listen();
    let url = format!("http://{}", stalled.local_addr().expect("an address"));
    let vars = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", &*url),
        ("OTEL_EXPORTER_OTLP_TIMEOUT", "300"),
        ("OTEL_BSP_SCHEDULE_DELAY", "50"),
        ("OTEL_BSP_MAX_QUEUE_SIZE", "8"),
    ];
    let folder = TempDir::new().expect("a folder");
    let (process, key) = serve(&folder, &[], &vars);
    let client = process.client(Some(&key));
    eventually(Duration::from_secs(15), "both kinds of drops", || {
        assert_eq!(client.get("/v1/pets").status, 200);
        let [full, failed, _] = dropped(&process);
        full > 0 && failed > 0
    });
    let _collector = Collector::on(stalled);
    let mut log = String::new();
    eventually(Duration::from_secs(15), "an export", || {
        assert_eq!(client.get("/v1/pets").status, 200);
        std::thread::sleep(Duration::from_millis(100));
        log.push_str(&process.log());
        log.contains("traces are exported again")
    });
    let [full, failed, rejected] = dropped(&process);
    let expected = format!("queue_full={full} export_failed={failed} rejected={rejected}");
    assert!(log.contains(&expected), "{expected}: {log}");
}

#[test]
fn a_collector_that_rejects_fails_or_sends_nonsense_costs_spans_and_a_line_in_the_log_only() {
    let partial = ExportTraceServiceResponse {
        partial_success: Some(ExportTracePartialSuccess {
            rejected_spans: 1,
            error_message: "\x1b[2J\nfake".repeat(5_000),
        }),
    };
    let partial = partial.encode_to_vec();
    let ok = |length: usize, body: &[u8]| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n");
        [head.as_bytes(), body].concat()
    };
    let throttled = b"HTTP/1.1 429 No\r\nRetry-After: 100000\r\nContent-Length: 0\r\n\r\n";
    for (response, reason) in [
        (ok(partial.len(), &partial), "rejected"),
        (ok(1 << 40, &vec![0; 1 << 20]), "export_failed"),
        (throttled.to_vec(), "export_failed"),
        (b"\0\xffnonsense\r\n\r\n".to_vec(), "export_failed"),
        (
            b"HTTP/1.1 100 Continue\r\n\r\n".repeat(10_000),
            "export_failed",
        ),
        // The text of a proxy is not a rejection.
        (ok(5, b"hello"), ""),
    ] {
        let vars = [("OTEL_EXPORTER_OTLP_TIMEOUT", "300")];
        let traced = deploy_to(Collector::responding(&response), "http", &[], &vars);
        let TracedServer {
            process,
            client,
            collector,
            ..
        } = &traced;
        let (trace, _, header) = parent(1, "01");
        for _ in 0..100 {
            let request = client.request("GET", "/v1/pets");
            assert_eq!(request.header("traceparent", &header).send().status, 200);
        }
        let what = format!("dropped spans: {reason}");
        eventually(Duration::from_secs(15), &what, || match reason {
            "" => {
                collector
                    .all()
                    .iter()
                    .filter(|span| span.trace == trace)
                    .count()
                    == 200
            }
            "rejected" => dropped(process)[2] > 0,
            _ => dropped(process)[1] > 0,
        });
        let [full, failed, rejected] = dropped(process);
        assert_eq!(
            (full > 0, failed > 0, rejected > 0),
            (false, reason == "export_failed", reason == "rejected")
        );
        let mut log = String::new();
        eventually(Duration::from_secs(10), "the line", || {
            log.push_str(&process.log());
            reason.is_empty() || log.contains("WARN")
        });
        // It is the only one.
        std::thread::sleep(Duration::from_millis(700));
        log.push_str(&process.log());
        let lines: Vec<_> = log.lines().filter(|line| !line.contains(" 200 ")).collect();
        let warnings = lines.iter().filter(|line| line.contains("WARN")).count();
        assert_eq!(warnings, usize::from(!reason.is_empty()), "{log}");
        assert!(
            lines
                .iter()
                .all(|line| line.len() < 2_000 && !line.contains('\x1b')),
            "{log}"
        );
    }
}

/// The counts of dropped spans: the queue was full, the export failed, the collector rejected them.
pub(crate) fn dropped(process: &Process) -> [u64; 3] {
    let page = Client::new(process.admin, None).get("/metrics");
    let page = String::from_utf8(page.body).expect("text");
    ["queue_full", "export_failed", "rejected"].map(|reason| {
        let name = format!("animal_store_spans_dropped_total{{reason=\"{reason}\"}} ");
        let value = page.lines().find_map(|line| line.strip_prefix(&*name));
        value
            .and_then(|value| value.parse().ok())
            .unwrap_or_else(|| panic!("{name}: {page}"))
    })
}
