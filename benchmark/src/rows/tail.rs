//! How long the slowest answers take, at half of what the service can do.

use std::time::Duration;

use anyhow::{Context, Result};

use super::{FEW, LIST};
use crate::anchors;
use crate::bench::Bench;
use crate::cores::Place;
use crate::data::Data;
use crate::exchange::Answer;
use crate::figure::median;
use crate::load::{self, Requests};
use crate::process::Process;
use crate::results::Tail;

/// The parts of all answers that a row tells of.
const PARTS: [f64; 3] = [0.5, 0.99, 0.999];

pub(super) fn run(bench: &Bench) -> Result<Vec<Tail>> {
    let data = Data::new(bench, FEW)?;
    let ours = data.serve(Place::Server, &[])?;

    let list = Requests::get(LIST, &data.key);
    let half = peak(bench, &ours, &list)? / 2.0;
    let authorization = format!("Authorization: Bearer {}\r\n", data.key);
    let answer = Answer::to_get(ours.address, LIST, &authorization)?;
    let hyper = anchors::hyper(bench, &answer)?;
    let nginx = anchors::nginx(bench, &answer)?;
    let mut servers = vec![("animal-store", &ours), ("bare hyper", &hyper)];
    servers.extend(nginx.as_ref().map(|(nginx, _)| ("nginx", nginx)));
    let mut tails = row(bench, "list", &servers, &list, half)?;

    let creations = Requests::creations(&data.key);
    let half = peak(bench, &ours, &creations)? / 2.0;
    tails.extend(row(bench, "post", &servers[..1], &creations, half)?);
    Ok(tails)
}

/// The most requests a second that it answers.
fn peak(bench: &Bench, server: &Process, requests: &Requests) -> Result<f64> {
    bench.progress.show("tail", "peak rate");
    load::round(server, &mut requests.clone(), bench.pace.warm_up)?;
    Ok(load::round(server, &mut requests.clone(), bench.pace.round)?.rate)
}

/// Rounds of all servers in turn, and of each the medians: one moment in which the machine was busy elsewhere would make the
/// 99th percentile of a whole run.
fn row(
    bench: &Bench,
    row: &str,
    servers: &[(&str, &Process)],
    requests: &Requests,
    rate: f64,
) -> Result<Vec<Tail>> {
    let rounds = bench.pace.rounds;
    bench.progress.expect(servers.len() * rounds);
    let mut measured = vec![Vec::new(); servers.len()];
    for _ in 0..rounds {
        for ((name, server), percentiles) in servers.iter().zip(&mut measured) {
            bench.progress.show("tail", &format!("{row}, {name}"));
            let times = load::scheduled(server, &mut requests.clone(), rate, bench.pace.tail)
                .with_context(|| format!("tail: {row}, {name}"))?;
            percentiles.push(PARTS.map(|part| within(&times, part)));
            bench.progress.step();
        }
    }
    let tail = |((name, _), percentiles): (&(&str, &Process), Vec<[f64; 3]>)| {
        let of = |part: usize| median(percentiles.iter().map(|round| round[part]));
        Tail {
            row: row.to_owned(),
            name: (*name).to_owned(),
            requests_per_second: rate,
            p50: of(0),
            p99: of(1),
            p999: of(2),
        }
    };
    Ok(servers.iter().zip(measured).map(tail).collect())
}

/// The time within which this part of all ascending times lies, in microseconds.
fn within(times: &[Duration], part: f64) -> f64 {
    let place = (times.len() as f64 * part).ceil() as usize;
    let time = times.get(place.saturating_sub(1)).or(times.last());
    time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_time_within_which_that_part_lies() {
        let times: Vec<Duration> = (1..=1000).map(Duration::from_micros).collect();
        assert_eq!(within(&times, 0.5).round(), 500.0);
        assert_eq!(within(&times, 0.999).round(), 999.0);
        assert_eq!(within(&times[..1], 0.5).round(), 1.0);
    }
}
