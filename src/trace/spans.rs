//! Spans that are exported. The span of a request is the current one while its future is polled, so that the layers below find
//! their parent without an argument. The writer, on its own thread, gets the parent with each creation.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use opentelemetry::context::FutureExt;
use opentelemetry::propagation::{Extractor, TextMapPropagator};
use opentelemetry::trace::{
    Span as _, SpanKind, Status, TraceContextExt, Tracer, TracerProvider as _,
};
use opentelemetry::{Array, Context, KeyValue, StringValue, Value};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{SdkTracer, SdkTracerProvider, Span};

use super::{DatabaseSystem, NewRequest, OTHER_METHOD};
use crate::counter::Counter;

/// The longest time that the last spans delay the end of the process.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// The longest `tracestate` that is kept. The standard requires no more, and a span in the queue has a copy of it.
const MAX_STATE: usize = 512;

/// One for the process, like the environment variables that configure it.
static TRACES: OnceLock<InstalledTraces> = OnceLock::new();

struct InstalledTraces {
    provider: SdkTracerProvider,
    tracer: SdkTracer,
    dropped: Arc<Dropped>,
}

/// The number of spans that no collector has received, for each reason.
#[derive(Debug, Default)]
pub(crate) struct Dropped {
    /// Too many spans waited for the collector.
    pub(crate) queue_full: Counter,
    /// The collector was not reached, or returned an error.
    pub(crate) export_failed: Counter,
    /// The collector accepted only the other spans of an export.
    pub(crate) rejected: Counter,
}

impl Dropped {
    pub(crate) fn by_reason(&self) -> [(&'static str, u64); 3] {
        [
            ("queue_full", self.queue_full.get()),
            ("export_failed", self.export_failed.get()),
            ("rejected", self.rejected.get()),
        ]
    }
}

/// Records spans from now on. Only the first call in a process has an effect.
pub(crate) fn install(provider: SdkTracerProvider, dropped: Arc<Dropped>) {
    let traces = InstalledTraces {
        tracer: provider.tracer(env!("CARGO_PKG_NAME")),
        provider,
        dropped,
    };
    // A second server in the same process uses the first one's.
    drop(TRACES.set(traces));
}

/// Exports the last spans, unless the collector is slow or unavailable.
pub(crate) fn shut_down() {
    if let Some(traces) = TRACES.get() {
        // The counts below show what a failure has lost.
        drop(traces.provider.shutdown_with_timeout(FLUSH_TIMEOUT));
        let [queue_full, export_failed, rejected] = traces.dropped.by_reason().map(|(_, n)| n);
        if queue_full + export_failed + rejected > 0 {
            tracing::warn!(queue_full, export_failed, rejected, "spans were dropped");
        }
    }
}

/// Dropped spans by reason, if spans are exported.
pub(crate) fn dropped() -> Option<[(&'static str, u64); 3]> {
    TRACES.get().map(|traces| traces.dropped.by_reason())
}

fn tracer() -> Option<&'static SdkTracer> {
    TRACES.get().map(|traces| &traces.tracer)
}

/// The span of a request, and the context of its children.
pub(crate) struct RequestSpan(Context);

impl RequestSpan {
    /// Starts a span, as a child of the client's if the request names one.
    pub(crate) fn start<'a>(request: impl FnOnce() -> NewRequest<'a>) -> Self {
        let Some(tracer) = tracer() else {
            return Self::none();
        };
        let request = request();
        let parent = TraceContextPropagator::new().extract_with_context(&Context::new(), &request);
        // The conventions for a method that is not known.
        let (method, in_name) = match request.method {
            OTHER_METHOD => ("_OTHER", "HTTP"),
            method => (method, method),
        };
        let name = match request.route {
            Some(route) => format!("{in_name} {route}"),
            None => in_name.to_owned(),
        };
        let id = Array::String(vec![StringValue::from(request.id.to_owned())]);
        let mut attributes = vec![
            KeyValue::new("http.request.method", method),
            KeyValue::new("url.scheme", if request.https { "https" } else { "http" }),
            KeyValue::new("client.address", request.client.to_canonical().to_string()),
            KeyValue::new("http.response.header.x-request-id", Value::Array(id)),
        ];
        let route = request.route.map(|route| ("http.route", route.to_owned()));
        let path = request.path.map(|path| ("url.path", path.to_owned()));
        let known = route.into_iter().chain(path);
        attributes.extend(known.map(|(name, value)| KeyValue::new(name, value)));
        let span = tracer
            .span_builder(name)
            .with_kind(SpanKind::Server)
            .with_attributes(attributes)
            .start_with_context(tracer, &parent);
        Self(parent.with_span(span))
    }

    /// No span: for a health check, for what is not a request, or if spans are not exported.
    pub(crate) fn none() -> Self {
        Self(Context::new())
    }

    /// Makes this the parent of the spans that are started while `steps` is polled.
    pub(crate) fn within<F: Future>(&self, steps: F) -> impl Future<Output = F::Output> {
        steps.with_context(self.0.clone())
    }

    /// Ends it with the status of the response, or without one if the request was cancelled.
    pub(crate) fn end(&self, status: Option<u16>) {
        let span = self.0.span();
        let error = match status {
            Some(status) => {
                let code = KeyValue::new("http.response.status_code", i64::from(status));
                span.set_attribute(code);
                (status >= 500).then(|| status.to_string())
            }
            None => Some("cancelled".to_owned()),
        };
        if let Some(kind) = error {
            span.set_attribute(KeyValue::new("error.type", kind));
            span.set_status(Status::error(""));
        }
        span.end();
    }
}

/// `traceparent` and `tracestate`.
impl Extractor for NewRequest<'_> {
    fn get(&self, name: &str) -> Option<&str> {
        let value = match name {
            "traceparent" => self.traceparent.filter(|value| is_well_formed(value))?,
            "tracestate" => Some(&*self.tracestate).filter(|value| value.len() <= MAX_STATE)?,
            _ => return None,
        };
        std::str::from_utf8(value).ok()
    }

    fn keys(&self) -> Vec<&str> {
        vec!["traceparent", "tracestate"]
    }
}

/// Whether a `traceparent` has the form of the standard. The SDK also accepts fields of other lengths.
fn is_well_formed(traceparent: &[u8]) -> bool {
    let is_field = |(at, byte): (usize, &u8)| match at {
        2 | 35 | 52 => *byte == b'-',
        _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
    };
    let head = traceparent.get(..55);
    head.is_some_and(|head| head.iter().enumerate().all(is_field))
}

/// The span of one query of a database or of Redis, in a request. Other queries have none.
pub(crate) struct QuerySpan(Option<Span>);

impl QuerySpan {
    /// Starts a span, as a child of the current request's.
    pub(crate) fn start(
        system: DatabaseSystem,
        operation: &'static str,
        target: &'static str,
    ) -> Self {
        Self(start(&Context::current(), system, operation, target))
    }

    /// Ends it. An error is its kind; the log has the cause.
    pub(crate) fn end(self, error: Option<&'static str>) {
        if let Some(span) = self.0 {
            end(span, error);
        }
    }
}

/// The span of the transaction that commits a creation. Every request whose animal is in the transaction has such a span.
pub(crate) enum CommitSpan {
    Waiting(Context, DatabaseSystem),
    /// Boxed, because what waits is far smaller.
    Begun(Option<Box<Span>>),
}

impl CommitSpan {
    /// A span that has not begun, for the current request.
    pub(crate) fn waiting(system: DatabaseSystem) -> Self {
        Self::Waiting(Context::current(), system)
    }

    /// Begins it, for a transaction of this many writes.
    pub(crate) fn begin(&mut self, batch: usize) {
        if let Self::Waiting(parent, system) = self {
            let mut span = start(parent, *system, "COMMIT", "");
            if let Some(span) = &mut span {
                let batch = i64::try_from(batch).unwrap_or(i64::MAX);
                span.set_attribute(KeyValue::new("db.operation.batch.size", batch));
            }
            *self = Self::Begun(span.map(Box::new));
        }
    }

    /// Ends it, if it has begun. An error is its kind; the log has the cause.
    pub(crate) fn end(self, error: Option<&'static str>) {
        if let Self::Begun(Some(span)) = self {
            end(*span, error);
        }
    }
}

/// Starts a span, unless the parent is not recorded.
fn start(
    parent: &Context,
    system: DatabaseSystem,
    operation: &'static str,
    target: &'static str,
) -> Option<Span> {
    let tracer = tracer().filter(|_| parent.span().is_recording())?;
    let (name, kind) = match system {
        // In this process.
        DatabaseSystem::Sqlite => ("sqlite", SpanKind::Internal),
        DatabaseSystem::Postgres => ("postgresql", SpanKind::Client),
        DatabaseSystem::Redis => ("redis", SpanKind::Client),
    };
    let mut attributes = vec![
        KeyValue::new("db.system.name", name),
        KeyValue::new("db.operation.name", operation),
    ];
    let name = match target {
        "" => operation.into(),
        _ => {
            attributes.push(KeyValue::new("db.collection.name", target));
            format!("{operation} {target}").into()
        }
    };
    let span = tracer
        .span_builder::<std::borrow::Cow<'static, str>>(name)
        .with_kind(kind)
        .with_attributes(attributes);
    Some(span.start_with_context(tracer, parent))
}

fn end(mut span: Span, error: Option<&'static str>) {
    if let Some(kind) = error {
        span.set_attribute(KeyValue::new("error.type", kind));
        span.set_status(Status::error(""));
    }
    span.end();
}
