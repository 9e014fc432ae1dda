//! Whether traces are exported, and how, as the standard environment variables say. The endpoint, the sampler and the settings of
//! batches (except the size of the queue) are only checked here: the exporter and the SDK read them again, and the SDK would use
//! a default instead of an invalid value, without an error. The SDK also reads those of the resource. The exporter
//! reads those of the headers, but there an empty one counts as set, so they are read here, too.

use std::collections::HashMap;
use std::env;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use http::{HeaderName, HeaderValue, Uri};
use opentelemetry::KeyValue;
use opentelemetry_otlp::{WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider};

use super::collector::Collector;
use super::delivery::{Delivery, Exporter, Queue};
use crate::percent;
use crate::tls::{ClientFiles, ClientTls, Roots, Verification};
use crate::trace;

/// The names of a variable: the one for traces alone, which wins, and the one for all signals.
macro_rules! otlp {
    ($name:literal) => {
        [
            concat!("OTEL_EXPORTER_OTLP_TRACES_", $name),
            concat!("OTEL_EXPORTER_OTLP_", $name),
        ]
    };
}

/// The traces of this process: exported, or none.
pub(crate) struct Traces(Option<Settings>);

struct Settings {
    /// The files for TLS, if the URL begins with `https`.
    tls: Option<ClientFiles>,
    headers: HashMap<String, String>,
    timeout: Duration,
    /// The number of spans that may wait.
    queue: usize,
}

impl Traces {
    /// Reads the variables. Without an endpoint there are no traces.
    pub(crate) fn from_environment() -> Result<Self, String> {
        let is_disabled =
            variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"));
        let Some((variable, url)) = first(&otlp!("ENDPOINT")).filter(|_| !is_disabled) else {
            return Ok(Self(None));
        };
        let exporter = one_of(
            &["OTEL_TRACES_EXPORTER"],
            &["otlp", "none"],
            "otlp or none: other exporters are not supported",
        )?;
        if exporter.as_deref() == Some("none") {
            return Ok(Self(None));
        }
        let url: Option<Uri> = url.parse().ok();
        let is_https = match url.as_ref().map(|url| (url.scheme_str(), url.host())) {
            Some((Some("http"), Some(_))) => false,
            Some((Some("https"), Some(_))) => true,
            _ => {
                return Err(invalid(variable, "a URL such as http://127.0.0.1:4318"));
            }
        };
        let http = "http/protobuf: other protocols are not supported";
        one_of(&otlp!("PROTOCOL"), &["http/protobuf"], http)?;
        let none = "none: compression is not supported";
        one_of(&otlp!("COMPRESSION"), &["none"], none)?;
        check_sampler()?;
        let timeout = milliseconds(&otlp!("TIMEOUT"))?;
        let queue = spans(&["OTEL_BSP_MAX_QUEUE_SIZE"])?;
        spans(&["OTEL_BSP_MAX_EXPORT_BATCH_SIZE"])?;
        milliseconds(&["OTEL_BSP_SCHEDULE_DELAY"])?;
        Ok(Self(Some(Settings {
            tls: is_https.then(files).transpose()?,
            headers: headers()?,
            // The defaults of the specification.
            timeout: Duration::from_millis(timeout.unwrap_or(10_000).into()),
            queue: queue.map_or(2048, |queue| queue as usize),
        })))
    }

    /// Starts the thread that exports. A queue that is full drops spans, so that no request waits for the collector.
    pub(crate) fn start(self) -> anyhow::Result<()> {
        self.0.map_or(Ok(()), |settings| {
            settings.start().context("cannot export traces")
        })
    }
}

impl Settings {
    fn start(self) -> anyhow::Result<()> {
        let load = |files| ClientTls::load(&files, Verification::Full, &[b"http/1.1"]);
        let tls = self.tls.map(load).transpose()?;
        let delivery = Arc::new(Delivery::new(self.queue));
        let collector = Collector::new(self.timeout, tls, Arc::clone(&delivery))?;
        let otlp = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(collector)
            .with_headers(self.headers)
            .with_timeout(self.timeout)
            .build()?;
        let exporter = Exporter {
            otlp,
            delivery: Arc::clone(&delivery),
        };
        let dropped = Arc::clone(&delivery.dropped);
        let config = BatchConfigBuilder::default().with_max_queue_size(self.queue);
        let batches = BatchSpanProcessor::builder(exporter)
            .with_batch_config(config.build())
            .build();
        let provider = SdkTracerProvider::builder()
            .with_resource(resource())
            .with_span_processor(Queue { batches, delivery })
            .build();
        trace::install(provider, dropped);
        Ok(())
    }
}

/// The name, version and attributes of this service.
fn resource() -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder().with_attribute(version);
    let has_name = variable("OTEL_RESOURCE_ATTRIBUTES")
        .is_some_and(|attributes| attributes.split(',').any(is_service_name));
    match variable("OTEL_SERVICE_NAME").is_none() && !has_name {
        true => resource.with_service_name(env!("CARGO_PKG_NAME")),
        false => resource,
    }
    .build()
}

/// Whether an attribute such as `service.name=shop` is the name of the service.
fn is_service_name(attribute: &str) -> bool {
    let name = attribute.split_once('=').map(|(name, _)| name.trim());
    name == Some("service.name")
}

/// The problem with a variable whose value cannot be used.
fn invalid(variable: &str, expected: &str) -> String {
    format!("{variable}: must be {expected}")
}

/// The CAs for the collector, and the client certificate.
fn files() -> Result<ClientFiles, String> {
    let path = |(_, path)| PathBuf::from(path);
    let pair = match (
        first(&otlp!("CLIENT_CERTIFICATE")),
        first(&otlp!("CLIENT_KEY")),
    ) {
        (None, None) => None,
        (Some(cert), Some(key)) => Some((path(cert), path(key))),
        (Some(_), None) => {
            return Err(invalid(
                "OTEL_EXPORTER_OTLP_CLIENT_KEY",
                "set: the client certificate needs its key",
            ));
        }
        (None, Some(_)) => {
            return Err(invalid(
                "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
                "set: the client key needs its certificate",
            ));
        }
    };
    let roots = first(&otlp!("CERTIFICATE")).map(path).map(Roots::File);
    Ok(ClientFiles { roots, pair })
}

/// The headers for the collector, such as a token.
fn headers() -> Result<HashMap<String, String>, String> {
    let Some((variable, text)) = first(&otlp!("HEADERS")) else {
        return Ok(HashMap::new());
    };
    let header = |item: &str| {
        let (name, value) = item.split_once('=')?;
        let (name, value) = (name.trim(), value.trim());
        // Decoded only for this check, as the exporter will decode it: a value that is not a valid encoding is sent as it is.
        let decoded = percent::decode(value).unwrap_or(value.into());
        let is_valid = HeaderName::try_from(name).is_ok()
            && HeaderValue::try_from(&*decoded).is_ok()
            && !value.is_empty();
        is_valid.then(|| (name.to_owned(), value.to_owned()))
    };
    let items = text.split(',').filter(|item| !item.trim().is_empty());
    let headers: Option<_> = items.map(header).collect();
    headers.ok_or_else(|| invalid(variable, "a list such as authorization=Bearer%20TOKEN"))
}

/// The value of a variable that takes one of these.
fn one_of(
    names: &[&'static str],
    values: &[&str],
    expected: &'static str,
) -> Result<Option<String>, String> {
    match first(names) {
        Some((variable, value)) if !values.contains(&&*value) => Err(invalid(variable, expected)),
        found => Ok(found.map(|(_, value)| value)),
    }
}

/// Checks the sampler, and the ratio of those that take one. Without a ratio they record all traces, as the specification has it.
fn check_sampler() -> Result<(), String> {
    let samplers = [
        "always_on",
        "always_off",
        "traceidratio",
        "parentbased_always_on",
        "parentbased_always_off",
        "parentbased_traceidratio",
    ];
    let expected = "always_on, always_off or traceidratio, or one of these after parentbased_: other samplers are not supported";
    let sampler = one_of(&["OTEL_TRACES_SAMPLER"], &samplers, expected)?;
    let takes_ratio = sampler.is_some_and(|sampler| sampler.ends_with("traceidratio"));
    let name = "OTEL_TRACES_SAMPLER_ARG";
    let is_ratio = |text: &str| text.parse().is_ok_and(|n: f64| (0.0..=1.0).contains(&n));
    match variable(name) {
        Some(text) if takes_ratio && !is_ratio(&text) => {
            Err(invalid(name, "a number from 0 to 1, such as 0.01"))
        }
        _ => Ok(()),
    }
}

fn milliseconds(names: &[&'static str]) -> Result<Option<u32>, String> {
    let expected = "a number of milliseconds from 1 to 600000";
    number(names, 1..=600_000, expected)
}

fn spans(names: &[&'static str]) -> Result<Option<u32>, String> {
    number(names, 1..=65_536, "a number from 1 to 65536")
}

/// The value of a variable that takes a number in this range.
fn number(
    names: &[&'static str],
    range: RangeInclusive<u32>,
    expected: &'static str,
) -> Result<Option<u32>, String> {
    let parse = |(variable, text): (_, String)| match text.parse() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(invalid(variable, expected)),
    };
    first(names).map(parse).transpose()
}

/// The first of these variables that is set, and its value.
fn first(names: &[&'static str]) -> Option<(&'static str, String)> {
    let mut values = names
        .iter()
        .filter_map(|name| Some((*name, variable(name)?)));
    values.next()
}

/// The value of a variable. An empty one counts as unset, as the specification has it.
fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}
