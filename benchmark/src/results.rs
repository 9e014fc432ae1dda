//! The results of a run, by scenario. Scenarios that did not run are absent.

use serde::Serialize;

use crate::machine::Machine;
use crate::measurement::Measurement;

/// All results.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) list: Option<Compared>,
    pub(crate) get: Option<Compared>,
    pub(crate) https: Option<Encrypted>,
    pub(crate) http2: Option<Encrypted>,
    pub(crate) rejections: Option<Rejections>,
    pub(crate) post: Option<Post>,
    pub(crate) sizes: Vec<Size>,
    pub(crate) keys: Vec<Keys>,
    pub(crate) start: Option<Start>,
    pub(crate) imports: Vec<Import>,
    pub(crate) nodes: Option<Nodes>,
    pub(crate) tail: Vec<Tail>,
    pub(crate) alternatives: Vec<Alternative>,
    pub(crate) builds: Vec<BuildComparison>,
}

/// The service compared with the baselines.
#[derive(Debug, Serialize)]
pub(crate) struct Compared {
    pub(crate) ours: Measurement,
    pub(crate) hyper: Measurement,
    /// Absent if nginx is not installed.
    pub(crate) nginx: Option<Measurement>,
}

/// The service over TLS compared with nginx.
#[derive(Debug, Serialize)]
pub(crate) struct Encrypted {
    pub(crate) ours: Measurement,
    /// Absent if nginx is not installed.
    pub(crate) nginx: Option<Measurement>,
}

/// Rejected requests compared with a success.
#[derive(Debug, Serialize)]
pub(crate) struct Rejections {
    pub(crate) get: Measurement,
    pub(crate) unauthorized: Measurement,
    pub(crate) limited: Measurement,
}

/// Creations.
#[derive(Debug, Serialize)]
pub(crate) struct Post {
    /// On one core, for the CPU time.
    pub(crate) pinned: Measurement,
    /// On all cores, for the rate.
    pub(crate) free: Measurement,
    /// One commit per row.
    pub(crate) commits: Measurement,
    /// One cached animal, for comparison.
    pub(crate) get: Measurement,
}

/// Results for a number of animals.
#[derive(Debug, Serialize)]
pub(crate) struct Size {
    pub(crate) animals: u32,
    pub(crate) list: Measurement,
    pub(crate) get: Measurement,
    pub(crate) page: Measurement,
}

/// Results for a number of keys.
#[derive(Debug, Serialize)]
pub(crate) struct Keys {
    pub(crate) keys: usize,
    pub(crate) list: Measurement,
    pub(crate) get: Measurement,
}

/// Three nodes that share data and counters.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Nodes {
    /// One node with the embedded database.
    pub(crate) embedded: Measurement,
    /// The CPU time is the sum of all three.
    pub(crate) three: Measurement,
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
    pub(crate) idle_memory: u64,
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
    pub(crate) request: String,
    pub(crate) name: String,
    pub(crate) requests_per_second: f64,
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

/// One request, sent to this build and to another one.
#[derive(Debug, Serialize)]
pub(crate) struct BuildComparison {
    pub(crate) ours: Measurement,
    pub(crate) other: Measurement,
}

/// An alternative, or the reason why it could not be measured.
#[derive(Debug, Serialize)]
pub(crate) struct Alternative {
    pub(crate) name: String,
    pub(crate) measured: Result<AlternativeMeasurements, String>,
}

/// The measurements of an alternative.
#[derive(Debug, Serialize)]
pub(crate) struct AlternativeMeasurements {
    pub(crate) list: Measurement,
    pub(crate) get: Measurement,
}
