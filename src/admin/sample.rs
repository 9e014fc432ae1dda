//! One second of the server in numbers, for the plots of the dashboard.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::AdminSources;
use super::process;
use crate::api::Operation;
use crate::counter::Histogram;
use crate::metrics::{DURATION_BOUNDS, OperationLabel};

/// The numbers of a sample, in their order: `time` in Unix seconds; those of requests by outcome, `bans`, `commits`, `creatingCommits`
/// and `rows` (new animals) per second; durations in milliseconds; `hits` (of the cache) as a fraction; `connections` and `waiting`
/// (creations) as counts; `memory` and `wal` in bytes.
pub(super) const NAMES: [&str; 18] = [
    "time",
    "succeeded",
    "clientErrors",
    "unauthorized",
    "limited",
    "failed",
    "p50",
    "p99",
    "p999",
    "bans",
    "commits",
    "creatingCommits",
    "rows",
    "hits",
    "connections",
    "waiting",
    "memory",
    "wal",
];

const LIST_PETS: OperationLabel = OperationLabel::Operation(Operation::ListPets);
const GET_PET: OperationLabel = OperationLabel::Operation(Operation::GetPet);

/// A number for each name. What is unknown, such as the latency of no request, is NaN.
pub(super) type Sample = [f64; NAMES.len()];

/// The number of samples that are kept, one for each second: 15 minutes.
pub(super) const MAX_SAMPLES: usize = 900;

pub(super) fn keep(samples: &mut VecDeque<Sample>, sample: Sample) {
    // The clock may have been set back, and a plot needs ascending times.
    while samples.pop_back_if(|last| last[0] >= sample[0]).is_some() {}
    if samples.len() == MAX_SAMPLES {
        samples.pop_front();
    }
    samples.push_back(sample);
}

/// Counters whose differences between two samples are shown.
pub(super) struct Counts {
    at: Instant,
    /// By outcome: succeeded, other client errors, unauthorized, limited, failed.
    outcomes: [u64; 5],
    /// Requests by duration, of all operations, each with the bound of its bucket in microseconds.
    durations: Vec<(Option<u64>, u64)>,
    /// Animals, and pages of animals, that were sent.
    reads: u64,
    /// Those of them that were not in the cache.
    misses: u64,
    bans: u64,
    commits: u64,
    /// The commits with new animals; others store usage, for example.
    creating_commits: u64,
    /// The new animals of those commits.
    rows: u64,
    /// Not a counter: how many are open now.
    connections: i64,
}

impl Counts {
    pub(super) fn read(sources: &AdminSources) -> Self {
        let total = sources.metrics.total();
        let mut outcomes = [0; 5];
        let mut reads = 0;
        for (label, status, count) in total.requests() {
            // Everything but health checks, which are not logged either.
            if label != OperationLabel::Health {
                outcomes[outcome(status)] += count;
            }
            if matches!(label, LIST_PETS | GET_PET) && status == 200 {
                reads += count;
            }
        }
        let durations = Histogram::new(DURATION_BOUNDS);
        for (label, histogram) in OperationLabel::all().zip(&total.durations) {
            // Of operations only: health checks and pages would hide the latency of the API, and a request that was not read says
            // nothing about the server.
            if matches!(label, OperationLabel::Operation(_)) {
                durations.add(histogram);
            }
        }
        let writer = &sources.store.writer().state;
        Self {
            at: Instant::now(),
            outcomes,
            durations: durations.buckets().collect(),
            reads,
            misses: sources.store.cache_misses(),
            bans: total.bans.get(),
            commits: writer.commits.get(),
            creating_commits: writer.rows.buckets().map(|(_, count)| count).sum(),
            rows: writer.rows.sum(),
            connections: total.open_connections.get(),
        }
    }

    /// The sample of the time between an earlier reading and this one.
    pub(super) fn since(&self, before: &Self, sources: &AdminSources) -> Sample {
        let seconds = (self.at - before.at)
            .max(Duration::from_millis(1))
            .as_secs_f64();
        let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
        let [succeeded, client_errors, unauthorized, limited, failed] =
            std::array::from_fn(|index| rate(self.outcomes[index], before.outcomes[index]));
        let new: Vec<_> = self
            .durations
            .iter()
            .zip(&before.durations)
            .map(|((bound, now), (_, then))| (*bound, now.saturating_sub(*then)))
            .collect();
        let reads = self.reads.saturating_sub(before.reads);
        let misses = self.misses.saturating_sub(before.misses);
        let hits = match reads {
            0 => f64::NAN,
            reads => (1.0 - misses as f64 / reads as f64).max(0.0),
        };
        [
            sources.clock.now().as_millis() as f64 / 1e3,
            succeeded,
            client_errors,
            unauthorized,
            limited,
            failed,
            quantile(&new, 0.5),
            quantile(&new, 0.99),
            quantile(&new, 0.999),
            rate(self.bans, before.bans),
            rate(self.commits, before.commits),
            rate(self.creating_commits, before.creating_commits),
            rate(self.rows, before.rows),
            hits,
            self.connections as f64,
            sources.store.writer().state.waiting() as f64,
            process::resident_bytes().map_or(f64::NAN, |bytes| bytes as f64),
            sources
                .store
                .wal_bytes()
                .map_or(f64::NAN, |bytes| bytes as f64),
        ]
    }
}

/// The index of the outcome of a response with this status.
const fn outcome(status: u16) -> usize {
    match status {
        0..400 => 0,
        401 => 2,
        429 => 3,
        400..500 => 1,
        _ => 4,
    }
}

/// The duration in milliseconds within which this fraction of the requests ended: interpolated linearly within a bucket, as in
/// Prometheus.
fn quantile(buckets: &[(Option<u64>, u64)], fraction: f64) -> f64 {
    let total: u64 = buckets.iter().map(|(_, count)| count).sum();
    if total == 0 {
        return f64::NAN;
    }
    let rank = fraction * total as f64;
    let (mut below, mut lower) = (0.0, 0.0);
    for (bound, count) in buckets {
        let count = *count as f64;
        let Some(upper) = bound.map(|bound| bound as f64) else {
            break;
        };
        if below + count >= rank && count > 0.0 {
            return (lower + (upper - lower) * (rank - below) / count) / 1e3;
        }
        below += count;
        lower = upper;
    }
    lower / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_15_minutes_are_kept() {
        let mut samples = VecDeque::new();
        for second in 1..=1_000 {
            keep(&mut samples, [f64::from(second); NAMES.len()]);
        }
        let times: Vec<f64> = samples.iter().map(|sample| sample[0]).collect();
        let expected: Vec<f64> = (101..=1_000).map(f64::from).collect();
        assert_eq!((times.len(), times), (15 * 60, expected));
    }

    #[test]
    fn times_ascend_even_if_the_clock_is_set_back() {
        let mut samples = VecDeque::new();
        for time in [1, 2, 3, 4, 3, 4, 2] {
            keep(&mut samples, [f64::from(time); NAMES.len()]);
            assert!(samples.iter().is_sorted_by(|one, next| one[0] < next[0]));
        }
        assert_eq!(samples.len(), 2);
    }

    #[test]
    fn a_quantile_is_linear_within_its_bucket() {
        let buckets = [(Some(1_000), 50), (Some(3_000), 50), (None, 0)];
        assert!((quantile(&buckets, 0.5) - 1.0).abs() < 1e-9);
        assert!((quantile(&buckets, 0.75) - 2.0).abs() < 1e-9);
        let beyond = [(Some(1_000), 0), (Some(3_000), 0), (None, 9)];
        assert!((quantile(&beyond, 0.5) - 3.0).abs() < 1e-9);
        assert!(quantile(&[(Some(1), 0), (None, 0)], 0.5).is_nan());
    }
}
