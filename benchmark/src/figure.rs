//! What the rounds of one contender come to.

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use crate::load::Round;

/// The rounds of one contender in one row.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// Who it is.
    pub(crate) name: String,
    /// Its rounds, in the order in which they ran.
    pub(crate) rounds: Vec<Round>,
}

impl Figure {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            rounds: Vec::new(),
        }
    }

    /// Requests a second.
    pub(crate) fn rate(&self) -> f64 {
        median(self.rounds.iter().map(|round| round.rate))
    }

    /// Microseconds of CPU time for each request.
    pub(crate) fn cpu(&self) -> f64 {
        median(self.rounds.iter().map(|round| round.cpu))
    }

    /// How many times the CPU time of another it takes. Rounds are compared one by one, each with the one that ran beside
    /// it: a machine that is slower for a while is slower for both.
    pub(crate) fn cpu_over(&self, other: &Self) -> f64 {
        let pairs = self.rounds.iter().zip(&other.rounds);
        median(pairs.map(|(mine, others)| mine.cpu / others.cpu))
    }

    /// How many times the rate of another it has.
    pub(crate) fn rate_over(&self, other: &Self) -> f64 {
        let pairs = self.rounds.iter().zip(&other.rounds);
        median(pairs.map(|(mine, others)| mine.rate / others.rate))
    }
}

impl Serialize for Figure {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut figure = serializer.serialize_struct("Figure", 4)?;
        figure.serialize_field("name", &self.name)?;
        figure.serialize_field("requestsPerSecond", &self.rate())?;
        figure.serialize_field("cpuMicroseconds", &self.cpu())?;
        figure.serialize_field("rounds", &self.rounds)?;
        figure.end()
    }
}

/// The one in the middle.
pub(crate) fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => values[count / 2],
        count => (values[count / 2 - 1] + values[count / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        assert_eq!(median([3.0, 1.0, 2.0].into_iter()), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0].into_iter()), 2.5);
    }

    #[test]
    fn rounds_are_compared_with_those_beside_them() {
        let figure = |costs: [f64; 3]| Figure {
            name: String::new(),
            rounds: costs.map(|cpu| Round { rate: 1.0, cpu }).to_vec(),
        };
        let slow_machine_in_the_middle = figure([2.0, 20.0, 2.0]);
        assert_eq!(
            slow_machine_in_the_middle.cpu_over(&figure([1.0, 10.0, 1.0])),
            2.0
        );
    }
}
