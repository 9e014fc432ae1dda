//! A collector: an HTTP server that decodes and keeps the spans it receives.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use harness::{Signed, eventually};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::Span as RawSpan;
use prost::Message;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, ServerConnection, StreamOwned};

/// A span as it was received. IDs are in hexadecimal; a root has an empty parent.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub(crate) service: String,
    pub(crate) name: String,
    pub(crate) trace: String,
    pub(crate) id: String,
    pub(crate) parent: String,
    pub(crate) state: String,
    /// 2 is a server, 3 a client, 1 internal.
    pub(crate) kind: i32,
    pub(crate) is_error: bool,
    pub(crate) time: (u64, u64),
    pub(crate) attributes: BTreeMap<String, String>,
    /// The lines of the request that it came with, in lower case.
    pub(crate) request: Vec<String>,
}

impl Span {
    #[track_caller]
    pub(crate) fn attribute(&self, name: &str) -> &str {
        let value = self.attributes.get(name);
        value.unwrap_or_else(|| panic!("no {name}: {self:#?}"))
    }
}

const ACCEPTED: &[u8] =
    b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n";

/// A listener on a free port. Until something accepts its connections, the kernel takes them and nothing responds.
pub(crate) fn listen() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a port")
}

/// A collector. Its thread ends with the process.
pub(crate) struct Collector {
    pub(crate) address: SocketAddr,
    spans: Arc<Mutex<Vec<Span>>>,
}

impl Collector {
    pub(crate) fn start() -> Self {
        Self::responding(ACCEPTED)
    }

    /// One that returns these bytes.
    pub(crate) fn responding(response: &[u8]) -> Self {
        Self::with(listen(), response, None)
    }

    /// One that accepts the connections of this listener.
    pub(crate) fn on(listener: TcpListener) -> Self {
        Self::with(listener, ACCEPTED, None)
    }

    /// One with this certificate.
    pub(crate) fn over_tls(signed: &Signed) -> Self {
        let chain = CertificateDer::pem_file_iter(&signed.cert).expect("a file");
        let chain = chain.collect::<Result<_, _>>().expect("a certificate");
        let key = PrivateKeyDer::from_pem_file(&signed.key).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .expect("a pair");
        Self::with(listen(), ACCEPTED, Some(Arc::new(config)))
    }

    fn with(listener: TcpListener, response: &[u8], tls: Option<Arc<ServerConfig>>) -> Self {
        let collector = Self {
            address: listener.local_addr().expect("an address"),
            spans: Arc::default(),
        };
        let spans = Arc::clone(&collector.spans);
        let response = response.to_vec();
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                let connection = connection.expect("a connection");
                let received = match &tls {
                    Some(tls) => {
                        let tls = ServerConnection::new(Arc::clone(tls)).expect("TLS");
                        receive(StreamOwned::new(tls, connection), &response)
                    }
                    None => receive(connection, &response),
                };
                // A client may reject the certificate or a part of the response.
                spans
                    .lock()
                    .expect("spans")
                    .extend(received.unwrap_or_default());
            }
        });
        collector
    }

    pub(crate) fn all(&self) -> Vec<Span> {
        self.spans.lock().expect("spans").clone()
    }

    /// Waits for this many spans of a trace, and returns them in the order in which they started.
    #[track_caller]
    pub(crate) fn trace(&self, trace: &str, count: usize) -> Vec<Span> {
        let of_trace = || {
            let spans = self.all().into_iter();
            spans.filter(|span| span.trace == trace).collect::<Vec<_>>()
        };
        let what = format!("{count} spans of {trace}");
        eventually(Duration::from_secs(10), &what, || of_trace().len() >= count);
        let mut spans = of_trace();
        spans.sort_by_key(|span| span.time.0);
        assert_eq!(spans.len(), count, "{spans:#?}");
        spans
    }
}

/// Reads a request, responds, and returns its spans.
fn receive(connection: impl Read + Write, response: &[u8]) -> io::Result<Vec<Span>> {
    let mut reader = BufReader::new(connection);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 || line == "\r\n" {
            break;
        }
        lines.push(line.trim().to_ascii_lowercase());
    }
    assert_eq!(
        lines.first().map(String::as_str),
        Some("post /v1/traces http/1.1")
    );
    assert!(
        lines
            .iter()
            .any(|line| line == "content-type: application/x-protobuf"),
        "{lines:?}"
    );
    let length = lines
        .iter()
        .find_map(|line| line.strip_prefix("content-length: "))
        .expect("a length");
    let mut body = vec![0; length.parse().expect("a number")];
    reader.read_exact(&mut body)?;
    reader.get_mut().write_all(response)?;
    reader.get_mut().flush()?;

    let request = ExportTraceServiceRequest::decode(&*body).expect("a request of OTLP");
    let resources = request.resource_spans.into_iter();
    let spans = resources.flat_map(|resource| {
        let about = attributes(resource.resource.map(|about| about.attributes));
        let service = about.get("service.name").cloned().unwrap_or_default();
        let spans = resource
            .scope_spans
            .into_iter()
            .flat_map(|scope| scope.spans);
        spans
            .map(|raw| span(service.clone(), lines.clone(), raw))
            .collect::<Vec<_>>()
    });
    Ok(spans.collect())
}

fn span(service: String, request: Vec<String>, raw: RawSpan) -> Span {
    Span {
        service,
        name: raw.name,
        trace: hex(&raw.trace_id),
        id: hex(&raw.span_id),
        parent: hex(&raw.parent_span_id),
        state: raw.trace_state,
        kind: raw.kind,
        is_error: raw.status.is_some_and(|status| status.code == 2),
        time: (raw.start_time_unix_nano, raw.end_time_unix_nano),
        attributes: attributes(Some(raw.attributes)),
        request,
    }
}

fn attributes(list: Option<Vec<KeyValue>>) -> BTreeMap<String, String> {
    let list = list.into_iter().flatten();
    list.map(|pair| (pair.key, text(pair.value))).collect()
}

fn text(value: Option<AnyValue>) -> String {
    match value.and_then(|value| value.value) {
        Some(Value::StringValue(text)) => text,
        Some(Value::IntValue(number)) => number.to_string(),
        Some(Value::ArrayValue(array)) => {
            let texts: Vec<_> = array
                .values
                .into_iter()
                .map(|one| text(Some(one)))
                .collect();
            texts.join(",")
        }
        other => panic!("{other:?}"),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
