//! The results of a run, by row. Rows that did not run are absent.

use serde::Serialize;

use crate::figure::Figure;
use crate::machine::Machine;

/// All results.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) list: Option<Compared>,
    pub(crate) get: Option<Compared>,
    pub(crate) https: Option<Encrypted>,
    pub(crate) http2: Option<Encrypted>,
    pub(crate) refusals: Option<Refusals>,
    pub(crate) post: Option<Post>,
    pub(crate) sizes: Vec<Size>,
    pub(crate) keys: Vec<Keys>,
    pub(crate) start: Option<Start>,
    pub(crate) imports: Vec<Import>,
    pub(crate) nodes: Option<Nodes>,
    pub(crate) tail: Vec<Tail>,
    pub(crate) alternatives: Vec<Alternative>,
}

/// The service compared with the baselines.
#[derive(Debug, Serialize)]
pub(crate) struct Compared {
    pub(crate) ours: Figure,
    pub(crate) hyper: Figure,
    /// Absent if nginx is not installed.
    pub(crate) nginx: Option<Figure>,
}

/// The service over TLS compared with nginx.
#[derive(Debug, Serialize)]
pub(crate) struct Encrypted {
    pub(crate) ours: Figure,
    /// Absent if nginx is not installed.
    pub(crate) nginx: Option<Figure>,
}

/// Rejected requests compared with a success.
#[derive(Debug, Serialize)]
pub(crate) struct Refusals {
    pub(crate) get: Figure,
    pub(crate) unauthorized: Figure,
    pub(crate) limited: Figure,
}

/// Creations.
#[derive(Debug, Serialize)]
pub(crate) struct Post {
    /// On one core, for the CPU time.
    pub(crate) pinned: Figure,
    /// On all cores, for the rate.
    pub(crate) free: Figure,
    /// One commit per row.
    pub(crate) commits: Figure,
    /// One cached animal, for comparison.
    pub(crate) get: Figure,
}

/// Results for a number of animals.
#[derive(Debug, Serialize)]
pub(crate) struct Size {
    pub(crate) animals: u32,
    pub(crate) list: Figure,
    pub(crate) get: Figure,
    pub(crate) page: Figure,
}

/// Results for a number of keys.
#[derive(Debug, Serialize)]
pub(crate) struct Keys {
    pub(crate) keys: usize,
    pub(crate) list: Figure,
    pub(crate) get: Figure,
}

/// Three nodes that share data and counters.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Nodes {
    /// One node with the embedded database.
    pub(crate) embedded: Figure,
    /// The CPU time is the sum of all three.
    pub(crate) three: Figure,
    /// Calls to Redis per request.
    pub(crate) round_trips: f64,
    /// CPU time of Redis per call, in microseconds.
    pub(crate) redis_micros: f64,
}

/// Startup time, and memory in bytes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Start {
    pub(crate) animals: u32,
    pub(crate) keys: usize,
    pub(crate) milliseconds: f64,
    pub(crate) memory_at_rest: u64,
    pub(crate) memory_under_load: u64,
}

/// The import of many animals on an engine, in seconds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Import {
    pub(crate) engine: String,
    pub(crate) animals: usize,
    /// The engine alone, inserting the same animals.
    pub(crate) bare_seconds: f64,
    pub(crate) seconds: f64,
    /// The part that makes staged animals visible.
    pub(crate) insert_seconds: f64,
}

impl Import {
    /// The rate, relative to that of the engine alone.
    pub(crate) fn ratio(&self) -> f64 {
        self.bare_seconds / self.seconds
    }
}

/// Latency in microseconds at a fixed rate.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tail {
    pub(crate) row: String,
    pub(crate) name: String,
    pub(crate) requests_per_second: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

/// An alternative, or the reason why it could not be measured.
#[derive(Debug, Serialize)]
pub(crate) struct Alternative {
    pub(crate) name: String,
    pub(crate) measured: Result<AlternativeFigures, String>,
}

/// The figures of an alternative.
#[derive(Debug, Serialize)]
pub(crate) struct AlternativeFigures {
    pub(crate) list: Figure,
    pub(crate) get: Figure,
}
