//! The log on standard error: one line for each request to the API listener, except health checks, and events. Lines are buffered
//! and written by a separate thread, so that no request waits for a slow terminal or pipe. Query strings, paths and headers of requests are not logged, because they could
//! contain a misplaced secret. The exceptions: the path of a change by the admin API, in which only IDs vary; a valid
//! `X-Request-Id`; and, from a trusted proxy, the client's address.

mod events;
mod format;
mod request;
mod sink;

pub use events::RecentEvents;
#[cfg(test)]
pub(crate) use events::recorded;
pub use format::LogFormat;
pub(crate) use format::json_error;
pub use request::{RequestLine, RequestLog};
pub use sink::{Buffer, Sink};
/// The least severe level that is written. Requests are written at `INFO`.
pub use tracing::Level as LogLevel;

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::clock::Clock;
use events::Recorder;

/// The events of this program, as opposed to those of libraries.
const OWN_TARGET: &str = env!("CARGO_CRATE_NAME");

/// Sends events of `tracing` to the sink, in this format. Only the first call in a process has an effect.
pub fn init(sink: &Sink, format: LogFormat, level: LogLevel, clock: Clock) {
    let filter = LevelFilter::from(level);
    // Libraries warn of what clients send, which would let a client without a key fill the log.
    let others = match level {
        LogLevel::DEBUG | LogLevel::TRACE => filter,
        _ => LevelFilter::ERROR,
    };
    let filter = Targets::new()
        .with_default(others)
        // It logs paths and hosts that are malformed, and those may contain a key.
        .with_target("h2", LevelFilter::ERROR)
        .with_target(OWN_TARGET, filter);
    let buffer = sink.buffer();
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(move || buffer.clone())
        .with_timer(ClockTimer(clock.clone()))
        .with_ansi(false)
        .with_target(false);
    let events = Recorder {
        events: sink.events(),
        clock,
    };
    let events = events.with_filter(Targets::new().with_target(OWN_TARGET, LevelFilter::INFO));
    let registry = tracing_subscriber::registry();
    // The SDK logs each failed or delayed export; the exporter logs when exports begin to fail and when they succeed again.
    #[cfg(feature = "otel")]
    let registry = registry.with(tracing_subscriber::filter::filter_fn(|event| {
        !event.name().starts_with("Export.")
    }));
    let registry = registry.with(events);
    let result = match format {
        LogFormat::Text => registry.with(layer.with_filter(filter)).try_init(),
        LogFormat::Json => {
            let layer = layer.json().flatten_event(true);
            registry.with(layer.with_filter(filter)).try_init()
        }
    };
    // A second server in the same process writes to the first one's sink.
    drop(result);
}

struct ClockTimer(Clock);

impl FormatTime for ClockTimer {
    fn format_time(&self, w: &mut tracing_subscriber::fmt::format::Writer<'_>) -> std::fmt::Result {
        w.write_str(&format::time(self.0.now()))
    }
}
