//! What a run measured, by row. A row that did not run is not there.

use serde::Serialize;

use crate::figure::Figure;
use crate::machine::Machine;

/// Everything.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Results {
    pub(crate) machine: Machine,
    pub(crate) list: Option<Anchored>,
    pub(crate) get: Option<Anchored>,
    pub(crate) refusals: Option<Refusals>,
    pub(crate) post: Option<Post>,
    pub(crate) sizes: Vec<Size>,
    pub(crate) keys: Vec<Keys>,
    pub(crate) start: Option<Start>,
    pub(crate) nodes: Option<Nodes>,
    pub(crate) tail: Vec<Tail>,
    pub(crate) peers: Vec<Peer>,
}

/// The service beside those who send the same bytes with no logic.
#[derive(Debug, Serialize)]
pub(crate) struct Anchored {
    pub(crate) ours: Figure,
    pub(crate) hyper: Figure,
    /// Not there where nginx is not installed.
    pub(crate) nginx: Option<Figure>,
}

/// Refusals beside a success.
#[derive(Debug, Serialize)]
pub(crate) struct Refusals {
    pub(crate) get: Figure,
    pub(crate) unauthorized: Figure,
    pub(crate) limited: Figure,
}

/// Creations.
#[derive(Debug, Serialize)]
pub(crate) struct Post {
    /// On one core: what one costs.
    pub(crate) pinned: Figure,
    /// On every core: how many there are in a second.
    pub(crate) free: Figure,
    /// One commit for each row.
    pub(crate) commits: Figure,
    /// One cached animal, for comparison.
    pub(crate) get: Figure,
}

/// With so many animals.
#[derive(Debug, Serialize)]
pub(crate) struct Size {
    pub(crate) animals: u32,
    pub(crate) list: Figure,
    pub(crate) get: Figure,
    pub(crate) page: Figure,
}

/// With so many keys.
#[derive(Debug, Serialize)]
pub(crate) struct Keys {
    pub(crate) keys: usize,
    pub(crate) list: Figure,
    pub(crate) get: Figure,
}

/// Three nodes that share their data and their counters.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Nodes {
    /// One node with its data embedded.
    pub(crate) embedded: Figure,
    /// The CPU time is that of all three together.
    pub(crate) three: Figure,
    /// Calls to Redis for each request.
    pub(crate) round_trips: f64,
    /// The CPU time of Redis for each of them.
    pub(crate) redis_micros: f64,
}

/// The start, and memory in bytes.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Start {
    pub(crate) animals: u32,
    pub(crate) keys: usize,
    pub(crate) milliseconds: f64,
    pub(crate) memory_at_rest: u64,
    pub(crate) memory_under_load: u64,
}

/// Latency in microseconds, at a rate.
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

/// Another server, or why it is not there.
#[derive(Debug, Serialize)]
pub(crate) struct Peer {
    pub(crate) name: String,
    pub(crate) measured: Result<PeerFigures, String>,
}

/// What it costs there.
#[derive(Debug, Serialize)]
pub(crate) struct PeerFigures {
    pub(crate) list: Figure,
    pub(crate) get: Figure,
}
