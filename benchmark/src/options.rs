//! What may be asked for.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueEnum};

/// Measures what a request costs animal-store, beside bare hyper and nginx, in one run.
#[derive(Debug, Parser)]
#[command(name = "bench")]
pub(crate) struct Options {
    /// Short rounds, and 10 thousand animals at most: to see that it works
    #[arg(long)]
    pub(crate) quick: bool,
    /// Also what people would use instead: FastAPI, Fastify, json-server, Prism
    #[arg(long)]
    pub(crate) peers: bool,
    /// Print the results as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Where the report goes; its plots go into a folder of the same name
    #[arg(long, value_name = "FILE", default_value = "docs/performance.md")]
    pub(crate) out: PathBuf,
    /// Write the report also after a run that was not a full one
    #[arg(long)]
    pub(crate) write: bool,
    /// Only this row; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<Row>,
}

/// The rows, in the order in which they run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Row {
    /// A page of 20 animals, beside the anchors
    List,
    /// One animal, beside the anchors
    Get,
    /// A 401 and a 429, beside a 200
    #[value(alias = "401", alias = "429")]
    Refusals,
    /// Creations, beside one commit for each row
    Post,
    /// Cost as animals grow: list, get, and a page by random cursor
    #[value(alias = "page")]
    Sizes,
    /// Cost as keys grow
    Keys,
    /// Start to ready, memory at rest and under load
    Start,
    /// Latency at half the peak rate
    Tail,
    /// Three nodes on PostgreSQL and Redis, beside one embedded
    Nodes,
    /// What people would use instead
    Peers,
}

impl Options {
    /// Whether a row is to run.
    pub(crate) fn wants(&self, row: Row) -> bool {
        match (row, self.only.is_empty()) {
            (Row::Peers, true) => self.peers,
            (_, true) => true,
            (_, false) => self.only.contains(&row),
        }
    }

    /// Whether the report is written: what was measured in passing must not replace what was measured well.
    pub(crate) fn writes(&self) -> bool {
        self.write || (!self.quick && self.only.is_empty())
    }

    /// How long everything takes.
    pub(crate) fn pace(&self) -> Pace {
        if self.quick {
            Pace {
                rounds: 3,
                round: Duration::from_millis(500),
                warm_up: Duration::from_millis(200),
                tail: Duration::from_secs(1),
                starts: 3,
                sizes: &[5_000, 10_000],
                keys: 1_000,
            }
        } else {
            Pace {
                // Many and short: what runs beside each other should meet the same machine.
                rounds: 15,
                round: Duration::from_secs(1),
                warm_up: Duration::from_secs(1),
                tail: Duration::from_millis(1_500),
                starts: 7,
                sizes: &[10_000, 1_000_000, 10_000_000],
                keys: 100_000,
            }
        }
    }
}

/// How long and how much.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pace {
    /// Rounds of each contender that count.
    pub(crate) rounds: usize,
    /// How long one is.
    pub(crate) round: Duration,
    /// How long the round is that does not count.
    pub(crate) warm_up: Duration,
    /// How long latency is measured in one round.
    pub(crate) tail: Duration,
    /// How many starts are timed.
    pub(crate) starts: usize,
    /// Numbers of animals, ascending.
    pub(crate) sizes: &'static [u32],
    /// The larger number of keys.
    pub(crate) keys: usize,
}
