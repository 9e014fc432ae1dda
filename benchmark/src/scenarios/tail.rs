//! Tail latency at half the peak rate.

use std::time::Duration;

use anyhow::{Context, Result};

use super::{FEW, LIST};
use crate::baselines;
use crate::bench::Bench;
use crate::cores::Affinity;
use crate::data::Data;
use crate::exchange::Response;
use crate::load::{self, Requests};
use crate::measurement::median;
use crate::process::Process;
use crate::results::Tail;

/// The percentiles of a scenario.
const PERCENTILES: [f64; 3] = [0.5, 0.99, 0.999];

pub(super) fn run(bench: &Bench) -> Result<Vec<Tail>> {
    let data = Data::new(bench, FEW)?;
    let ours = data.serve(Affinity::Server, &[])?;

    let list = Requests::get(LIST, &data.key);
    let half = peak(bench, &ours, &list)? / 2.0;
    let authorization = format!("Authorization: Bearer {}\r\n", data.key);
    let response = Response::to_get(ours.address, LIST, &authorization)?;
    let hyper = baselines::hyper(bench, &response)?;
    let nginx = baselines::nginx(bench, &response, None)?;
    let mut servers = vec![("animal-store", &ours), ("bare hyper", &hyper)];
    servers.extend(nginx.as_ref().map(|(nginx, _)| ("nginx", nginx)));
    let mut tails = row(bench, "list", &servers, &list, half)?;

    let creations = Requests::creations(&data.key);
    let half = peak(bench, &ours, &creations)? / 2.0;
    tails.extend(row(bench, "post", &servers[..1], &creations, half)?);
    Ok(tails)
}

/// The peak rate in requests per second.
fn peak(bench: &Bench, server: &Process, requests: &Requests) -> Result<f64> {
    bench.progress.show("tail", "peak rate");
    load::round(server, &mut requests.clone(), bench.scale.warm_up)?;
    Ok(load::round(server, &mut requests.clone(), bench.scale.round)?.rate)
}

/// Alternating rounds of all servers, and the medians of each: a single disturbance of the machine would decide the 99th percentile
/// of one long run.
fn row(
    bench: &Bench,
    row: &str,
    servers: &[(&str, &Process)],
    requests: &Requests,
    rate: f64,
) -> Result<Vec<Tail>> {
    let rounds = bench.scale.rounds;
    bench.progress.expect(servers.len() * rounds);
    let mut measured = vec![Vec::new(); servers.len()];
    for _ in 0..rounds {
        for ((name, server), percentiles) in servers.iter().zip(&mut measured) {
            bench.progress.show("tail", &format!("{row}, {name}"));
            let times = load::scheduled(server, &mut requests.clone(), rate, bench.scale.tail)
                .with_context(|| format!("tail: {row}, {name}"))?;
            percentiles.push(PERCENTILES.map(|part| percentile(&times, part)));
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

/// The percentile of ascending times, in microseconds.
fn percentile(times: &[Duration], part: f64) -> f64 {
    let place = (times.len() as f64 * part).ceil() as usize;
    let time = times.get(place.saturating_sub(1)).or(times.last());
    time.map_or(f64::NAN, |time| time.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_time_that_this_share_does_not_exceed() {
        let times: Vec<Duration> = (1..=1000).map(Duration::from_micros).collect();
        assert_eq!(percentile(&times, 0.5).round(), 500.0);
        assert_eq!(percentile(&times, 0.999).round(), 999.0);
        assert_eq!(percentile(&times[..1], 0.5).round(), 1.0);
    }
}
