//! What is written while serving, to standard error: one line for each request, and what else happens.
//! Lines are put into memory and written by a thread of their own, so that no request waits for a slow terminal or pipe.
//! No path, no query, no header of a caller is ever part of a line: a secret that was sent in the wrong place stays out.

mod request;
mod sink;

pub use request::{RequestLine, RequestLog};
pub use sink::Sink;

use std::str::FromStr;

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::clock::Clock;

/// How lines look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For machines: one JSON object a line.
    Json,
}

/// A word that names no format.
#[derive(Debug, thiserror::Error)]
#[error("takes text or json")]
pub struct NotAFormat;

impl FromStr for LogFormat {
    type Err = NotAFormat;

    fn from_str(word: &str) -> Result<Self, NotAFormat> {
        match word {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err(NotAFormat),
        }
    }
}

/// How much is written. Requests are written at `Info` and finer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Only what failed.
    Error,
    /// Also what may come to fail.
    Warn,
    /// Also each request.
    #[default]
    Info,
    /// Also what helps to find a fault.
    Debug,
    /// Everything.
    Trace,
}

/// A word that names no level.
#[derive(Debug, thiserror::Error)]
#[error("takes error, warn, info, debug or trace")]
pub struct NotALevel;

impl FromStr for LogLevel {
    type Err = NotALevel;

    fn from_str(word: &str) -> Result<Self, NotALevel> {
        Ok(match word {
            "error" => Self::Error,
            "warn" => Self::Warn,
            "info" => Self::Info,
            "debug" => Self::Debug,
            "trace" => Self::Trace,
            _ => return Err(NotALevel),
        })
    }
}

/// Sends everything that is told with `tracing` to the sink, in this format. To be called once in a process.
pub fn init(sink: &Sink, format: LogFormat, level: LogLevel, clock: Clock) {
    let filter = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let buffer = sink.buffer();
    let layer = tracing_subscriber::fmt::layer()
        .with_writer(move || buffer.clone())
        .with_timer(Stamp(clock))
        .with_ansi(false);
    let lines = tracing_subscriber::registry().with(filter);
    let done = match format {
        LogFormat::Text => lines.with(layer.with_target(false)).try_init(),
        LogFormat::Json => lines
            .with(layer.json().flatten_event(true).with_target(false))
            .try_init(),
    };
    // A second server in the same process writes to the first one's sink.
    drop(done);
}

struct Stamp(Clock);

impl FormatTime for Stamp {
    fn format_time(&self, w: &mut tracing_subscriber::fmt::format::Writer<'_>) -> std::fmt::Result {
        w.write_str(&request::time(self.0.now()))
    }
}
