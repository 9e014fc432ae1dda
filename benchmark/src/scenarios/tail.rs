//! Tail latency at half the peak rate.

use std::time::Duration;

use anyhow::{Context, Result};

use super::{FEW, LIST};
use crate::baselines;
use crate::bench::Bench;
use crate::cores::Affinity;
use crate::data::Data;
use crate::load::{self, Requests};
use crate::measurement::median;
use crate::process::Process;
use crate::results::Tail;

/// The percentiles of a scenario.
const PERCENTILES: [f64; 3] = [0.5, 0.99, 0.999];

pub(super) fn run(bench: &Bench) -> Result<Vec<Tail>> {
    let data = Data::new(bench, FEW)?;
    let response = data.response(LIST)?;
    let ours = || data.serve(Affinity::Server, &[]);
    let all = || {
        let mut servers = vec![ours()?];
        servers.extend(baselines::start(bench, &response)?);
        Ok(servers)
    };
    let mut names = vec!["animal-store"];
    names.extend(baselines::names(bench));

    let list = Requests::get(LIST, &data.key);
    let mut tails = measure(bench, "list", &names, all, &list)?;
    let creations = Requests::creations(&data.key);
    let only_ours = || Ok(vec![ours()?]);
    tails.extend(measure(bench, "post", &names[..1], only_ours, &creations)?);
    Ok(tails)
}

/// The peak rate in requests per second, the median of several rounds.
fn peak(bench: &Bench, server: &Process, requests: &Requests) -> Result<f64> {
    bench.progress.set_message("tail: peak rate");
    let round = || load::round(server, &mut requests.clone(), bench.scale.round);
    let rounds = (0..bench.scale.starts).map(|_| round());
    let rounds = rounds.collect::<Result<Vec<_>>>()?;
    Ok(median(rounds.iter().map(|round| round.rate)))
}

/// Alternating rounds of all servers, the first of which is ours, and the medians of each: a single disturbance of the machine would
/// decide the 99th percentile of one long run.
fn measure(
    bench: &Bench,
    request: &str,
    names: &[&str],
    start: impl Fn() -> Result<Vec<Process>>,
    requests: &Requests,
) -> Result<Vec<Tail>> {
    let rate = peak(bench, &start()?[0], requests)? / 2.0;
    let steps = names.len() * bench.scale.starts;
    bench.progress.inc_length(steps as u64);
    let mut measured = vec![Vec::new(); names.len()];
    for _ in 0..bench.scale.starts {
        let servers = start()?;
        for ((name, server), percentiles) in names.iter().zip(&servers).zip(&mut measured) {
            let step = format!("tail: {request}, {name}");
            bench.progress.set_message(step.clone());
            let times = load::scheduled(server, &mut requests.clone(), rate, bench.scale.tail)
                .context(step)?;
            percentiles.push(PERCENTILES.map(|part| percentile(&times, part)));
            bench.progress.inc(1);
        }
    }
    let tail = |(name, percentiles): (&&str, Vec<[f64; 3]>)| {
        let of = |part: usize| median(percentiles.iter().map(|round| round[part]));
        Tail {
            request: request.to_owned(),
            name: (*name).to_owned(),
            requests_per_second: rate,
            p50: of(0),
            p99: of(1),
            p999: of(2),
        }
    };
    Ok(names.iter().zip(measured).map(tail).collect())
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
