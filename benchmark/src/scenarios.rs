//! The scenarios of the benchmark, one file each. A scenario starts its servers, measures, and cleans up.

mod alternatives;
mod builds;
mod compared;
mod encrypted;
mod growth;
mod import;
mod nodes;
mod post;
mod rejections;
mod start;
mod tail;

use anyhow::{Context, Result};

use crate::bench::Bench;
use crate::data::Data;
use crate::machine::Machine;
use crate::measurement::Measurement;
use crate::options::{Options, Scenario};
use crate::results::Results;
use encrypted::Protocol;

/// The paths that are measured.
const LIST: &str = "/v1/pets";
const GET: &str = "/v1/pets/1";

/// The number of animals where it does not matter.
const FEW: u32 = 10_000;

/// Runs the selected scenarios.
pub(crate) fn run(bench: &Bench, options: &Options, machine: Machine) -> Result<Results> {
    let wants = |scenario| options.wants(scenario);
    let mut results = Results {
        machine,
        ..Results::default()
    };
    if let Some(other) = &options.against {
        results.builds = builds::run(bench, other)?;
    }
    if wants(Scenario::List) {
        results.list = Some(compared::run(bench, "list", LIST)?);
    }
    if wants(Scenario::Get) {
        results.get = Some(compared::run(bench, "get", GET)?);
    }
    if wants(Scenario::Https) {
        results.https = Some(encrypted::run(bench, "https", Protocol::Http1)?);
    }
    if wants(Scenario::Http2) {
        results.http2 = Some(encrypted::run(bench, "http2", Protocol::Http2)?);
    }
    if wants(Scenario::Rejections) {
        results.rejections = Some(rejections::run(bench)?);
    }
    if wants(Scenario::Post) {
        results.post = Some(post::run(bench)?);
    }
    if wants(Scenario::Tail) {
        results.tail = tail::run(bench)?;
    }
    if wants(Scenario::Keys) {
        results.keys = growth::keys(bench)?;
    }
    if wants(Scenario::Nodes) {
        results.nodes = nodes::run(bench)?;
    }
    if wants(Scenario::Alternatives) {
        results.alternatives = alternatives::run(bench)?;
    }
    if wants(Scenario::Import) {
        results.imports = import::run(bench)?;
    }
    // Filling the largest database takes long, so both scenarios share it.
    let mut largest = None;
    if wants(Scenario::Sizes) {
        let (sizes, data) = growth::sizes(bench)?;
        results.sizes = sizes;
        largest = data;
    }
    if wants(Scenario::Start) {
        let most = bench.scale.sizes.last().copied().unwrap_or(FEW);
        let data = largest.map_or_else(|| Data::new(bench, most), Ok)?;
        results.start = Some(start::run(bench, &data)?);
    }
    Ok(results)
}

/// The measurements of a scenario, in the order of its contenders.
fn take<const N: usize>(measurements: Vec<Measurement>) -> Result<[Measurement; N]> {
    <[Measurement; N]>::try_from(measurements)
        .ok()
        .context("a measurement is missing")
}
