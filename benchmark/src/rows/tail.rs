//! How long the slowest answers take, at half of what the service can do.

use std::time::Duration;

use anyhow::{Context, Result};

use super::{FEW, LIST};
use crate::anchors;
use crate::bench::Bench;
use crate::cores::Place;
use crate::data::Data;
use crate::exchange::Answer;
use crate::load::{self, Requests};
use crate::process::Process;
use crate::results::Tail;

pub(super) fn run(bench: &Bench) -> Result<Vec<Tail>> {
    let mut tails = Vec::new();
    let data = Data::new(bench, FEW)?;
    let ours = data.serve(Place::Server, &[])?;
    bench
        .progress
        .expect(if anchors::nginx_version(bench).is_some() {
            4
        } else {
            3
        });

    let creations = Requests::creations(&data.key);
    let list = Requests::get(LIST, &data.key);
    let half = peak(bench, &ours, &list)? / 2.0;
    let authorization = format!("Authorization: Bearer {}\r\n", data.key);
    let answer = Answer::to_get(ours.address, LIST, &authorization)?;
    tails.push(tail(bench, "list", "animal-store", &ours, &list, half)?);
    let hyper = anchors::hyper(bench, &answer)?;
    tails.push(tail(bench, "list", "bare hyper", &hyper, &list, half)?);
    if anchors::nginx_version(bench).is_some() {
        let (nginx, _folder) = anchors::nginx(bench, &answer)?;
        tails.push(tail(bench, "list", "nginx", &nginx, &list, half)?);
    }
    let half = peak(bench, &ours, &creations)? / 2.0;
    tails.push(tail(
        bench,
        "post",
        "animal-store",
        &ours,
        &creations,
        half,
    )?);
    Ok(tails)
}

/// The most requests a second that it answers.
fn peak(bench: &Bench, server: &Process, requests: &Requests) -> Result<f64> {
    bench.progress.show("tail", "peak rate");
    load::round(server, &mut requests.clone(), bench.pace.warm_up)?;
    Ok(load::round(server, &mut requests.clone(), bench.pace.round)?.rate)
}

fn tail(
    bench: &Bench,
    row: &str,
    name: &str,
    server: &Process,
    requests: &Requests,
    rate: f64,
) -> Result<Tail> {
    bench.progress.show("tail", &format!("{row}, {name}"));
    let times = load::scheduled(server, &mut requests.clone(), rate, bench.pace.tail)
        .with_context(|| format!("tail: {row}, {name}"))?;
    bench.progress.step();
    Ok(Tail {
        row: row.to_owned(),
        name: name.to_owned(),
        requests_per_second: rate,
        p50: within(&times, 0.5),
        p99: within(&times, 0.99),
        p999: within(&times, 0.999),
    })
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
