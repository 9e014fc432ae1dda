//! The command line options.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

/// Measures the cost of requests, compared with bare hyper and nginx, in one run.
#[derive(Debug, Parser)]
#[command(name = "bench")]
pub(crate) struct Options {
    /// Short rounds and at most 10 thousand animals, as a trial run
    #[arg(long)]
    pub(crate) quick: bool,
    /// Also measure alternatives: FastAPI, Fastify, json-server, Prism
    #[arg(long)]
    pub(crate) alternatives: bool,
    /// Print the results as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The file for the report; plots go to a directory of the same name
    #[arg(long, value_name = "FILE", default_value = "docs/performance.md")]
    pub(crate) out: PathBuf,
    /// Write the report even if this is not a full run
    #[arg(long)]
    pub(crate) write: bool,
    /// Run only this scenario; can be repeated
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<Scenario>,
    /// Only compare this build with another executable
    #[arg(long, value_name = "FILE", conflicts_with_all = ["only", "alternatives", "write"])]
    pub(crate) against: Option<PathBuf>,
}

/// The scenarios, in the order of `--help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Scenario {
    /// A page of 20 animals, compared with the baselines
    List,
    /// One animal, compared with the baselines
    Get,
    /// A page of 20 animals over TLS with HTTP/1.1, compared with nginx
    Https,
    /// A page of 20 animals over HTTP/2 with 100 streams, compared with nginx
    Http2,
    /// A 401 and a 429, compared with a 200
    #[value(alias = "401", alias = "429")]
    Rejections,
    /// Creations, compared with one commit per row
    Post,
    /// Cost by number of animals: list, get, and a page by random cursor
    #[value(alias = "page")]
    Sizes,
    /// Cost by number of keys
    Keys,
    /// Startup time, idle memory and memory under load
    Start,
    /// The import of a million animals, compared with bare SQLite and PostgreSQL
    Import,
    /// Latency at half the peak rate
    Tail,
    /// Three nodes on PostgreSQL and Redis, compared with one embedded node
    Nodes,
    /// Alternatives: FastAPI, Fastify, json-server, Prism
    Alternatives,
}

impl Options {
    /// Whether a scenario is selected.
    pub(crate) fn wants(&self, scenario: Scenario) -> bool {
        match (scenario, self.only.is_empty()) {
            (Scenario::Alternatives, true) => self.alternatives,
            (_, true) => self.against.is_none(),
            (_, false) => self.only.contains(&scenario),
        }
    }

    /// Whether the report is written: a trial run must not replace the results of a full run.
    pub(crate) fn writes(&self) -> bool {
        self.write || (!self.quick && self.only.is_empty() && self.against.is_none())
    }

    /// The durations and sizes of this run.
    pub(crate) fn scale(&self) -> Scale {
        if self.quick {
            Scale {
                rounds: 1,
                round: Duration::from_millis(500),
                warm_up: Duration::from_millis(200),
                tail: Duration::from_secs(1),
                starts: 3,
                sizes: &[5_000, 10_000],
                keys: 1_000,
            }
        } else {
            // Many short rounds, so that all contenders see the same machine.
            Scale {
                rounds: 3,
                round: Duration::from_millis(500),
                warm_up: Duration::from_millis(200),
                tail: Duration::from_millis(1_500),
                starts: 12,
                sizes: &[10_000, 1_000_000, 10_000_000],
                keys: 100_000,
            }
        }
    }
}

/// Durations and sizes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// Measured rounds per contender and start.
    pub(crate) rounds: usize,
    /// The length of a round.
    pub(crate) round: Duration,
    /// The length of the warm-up round.
    pub(crate) warm_up: Duration,
    /// The length of a round that measures latency.
    pub(crate) tail: Duration,
    /// How many times the servers of a scenario are started.
    pub(crate) starts: usize,
    /// Numbers of animals, ascending.
    pub(crate) sizes: &'static [u32],
    /// The larger number of keys.
    pub(crate) keys: usize,
}
