//! The rows of the benchmark, one file each. A row starts its servers, measures, and cleans up.

mod alternatives;
mod compared;
mod encrypted;
mod growth;
mod import;
mod nodes;
mod post;
mod refusals;
mod start;
mod tail;

use anyhow::{Context, Result};

use crate::bench::Bench;
use crate::data::Data;
use crate::figure::Figure;
use crate::machine::Machine;
use crate::options::{Options, Row};
use crate::results::Results;
use encrypted::Protocol;

/// The paths that are measured.
const LIST: &str = "/v1/pets";
const GET: &str = "/v1/pets/1";

/// The number of animals where it does not matter.
const FEW: u32 = 10_000;

/// Runs the selected rows.
pub(crate) fn run(bench: &Bench, options: &Options, machine: Machine) -> Result<Results> {
    let wants = |row| options.wants(row);
    let mut results = Results {
        machine,
        list: None,
        get: None,
        https: None,
        http2: None,
        refusals: None,
        post: None,
        sizes: Vec::new(),
        keys: Vec::new(),
        start: None,
        imports: Vec::new(),
        nodes: None,
        tail: Vec::new(),
        alternatives: Vec::new(),
    };
    if wants(Row::List) {
        results.list = Some(compared::run(bench, "list", LIST)?);
    }
    if wants(Row::Get) {
        results.get = Some(compared::run(bench, "get", GET)?);
    }
    if wants(Row::Https) {
        results.https = Some(encrypted::run(bench, "https", Protocol::Http1)?);
    }
    if wants(Row::Http2) {
        results.http2 = Some(encrypted::run(bench, "http2", Protocol::Http2)?);
    }
    if wants(Row::Refusals) {
        results.refusals = Some(refusals::run(bench)?);
    }
    if wants(Row::Post) {
        results.post = Some(post::run(bench)?);
    }
    if wants(Row::Tail) {
        results.tail = tail::run(bench)?;
    }
    if wants(Row::Keys) {
        results.keys = growth::keys(bench)?;
    }
    if wants(Row::Nodes) {
        results.nodes = nodes::run(bench)?;
    }
    if wants(Row::Alternatives) {
        results.alternatives = alternatives::run(bench)?;
    }
    if wants(Row::Import) {
        results.imports = import::run(bench)?;
    }
    // Filling the largest database takes long, so both rows share it.
    let mut largest = None;
    if wants(Row::Sizes) {
        let (sizes, data) = growth::sizes(bench)?;
        results.sizes = sizes;
        largest = data;
    }
    if wants(Row::Start) {
        let most = bench.pace.sizes.last().copied().unwrap_or(FEW);
        let data = largest.map_or_else(|| Data::new(bench, most), Ok)?;
        results.start = Some(start::run(bench, &data)?);
    }
    Ok(results)
}

/// The figures of a row, in the order of its contenders.
fn take<const N: usize>(figures: Vec<Figure>) -> Result<[Figure; N]> {
    <[Figure; N]>::try_from(figures)
        .ok()
        .context("a figure is missing")
}
