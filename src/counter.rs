//! Counters, gauges and histograms that any layer may change and `/metrics` reads. They have no names, labels or format.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that rises and falls.
#[derive(Debug, Default)]
pub(crate) struct Gauge(AtomicI64);

impl Gauge {
    pub(crate) fn set(&self, value: i64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Adds `n`, which may be negative.
    pub(crate) fn add(&self, n: i64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A histogram with `N` bounded buckets, one unbounded bucket, and the sum.
pub(crate) struct Histogram<const N: usize> {
    bounds: [u64; N],
    buckets: [Counter; N],
    above: Counter,
    sum: Counter,
}

impl<const N: usize> Histogram<N> {
    /// An empty histogram with these bounds, ascending, each included in its bucket.
    pub(crate) fn new(bounds: [u64; N]) -> Self {
        Self {
            bounds,
            buckets: std::array::from_fn(|_| Counter::default()),
            above: Counter::default(),
            sum: Counter::default(),
        }
    }

    pub(crate) fn record(&self, value: u64) {
        match self.bounds.iter().position(|bound| value <= *bound) {
            Some(index) => self.buckets[index].add(1),
            None => self.above.add(1),
        }
        self.sum.add(value);
    }

    /// Adds the counts of another histogram with the same bounds.
    pub(crate) fn add(&self, other: &Self) {
        for (bucket, more) in self.buckets.iter().zip(&other.buckets) {
            bucket.add(more.get());
        }
        self.above.add(other.above.get());
        self.sum.add(other.sum.get());
    }

    pub(crate) fn sum(&self) -> u64 {
        self.sum.get()
    }

    /// Each bound with the count of its own bucket, the last one without a bound.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = (Option<u64>, u64)> {
        let bounded = self
            .bounds
            .iter()
            .zip(&self.buckets)
            .map(|(bound, count)| (Some(*bound), count.get()));
        bounded.chain(std::iter::once_with(|| (None, self.above.get())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_falls_into_the_first_bucket_that_holds_it() {
        let histogram = Histogram::new([1, 10]);
        for value in [1, 2, 10, 11] {
            histogram.record(value);
        }
        assert_eq!(
            histogram.buckets().collect::<Vec<_>>(),
            [(Some(1), 1), (Some(10), 2), (None, 1)]
        );
        assert_eq!(histogram.sum(), 24);
    }
}
