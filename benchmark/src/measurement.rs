//! The results of one contender.

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

use crate::load::Round;

/// The rounds of one contender in one scenario.
#[derive(Clone, Debug)]
pub(crate) struct Measurement {
    /// The name of the contender.
    pub(crate) name: String,
    /// Its rounds, in the order in which they ran.
    pub(crate) rounds: Vec<Round>,
}

impl Measurement {
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            rounds: Vec::new(),
        }
    }

    /// Requests per second.
    pub(crate) fn rate(&self) -> f64 {
        median(self.rounds.iter().map(|round| round.rate))
    }

    /// CPU time per request in microseconds.
    pub(crate) fn cpu(&self) -> f64 {
        median(self.rounds.iter().map(|round| round.cpu))
    }

    /// The ratio of CPU times. Each round is compared with the round that ran next to it: a machine that is temporarily slower is
    /// slower for both.
    pub(crate) fn cpu_over(&self, other: &Self) -> f64 {
        median(self.cpu_ratios(other))
    }

    /// The range in which the middle half of these ratios is.
    pub(crate) fn cpu_range_over(&self, other: &Self) -> [f64; 2] {
        let mut ratios: Vec<f64> = self.cpu_ratios(other).collect();
        ratios.sort_by(f64::total_cmp);
        let quarter = ratios.len() / 4;
        [quarter, ratios.len() - 1 - quarter].map(|place| ratios[place])
    }

    fn cpu_ratios(&self, other: &Self) -> impl Iterator<Item = f64> {
        let pairs = self.rounds.iter().zip(&other.rounds);
        pairs.map(|(mine, others)| mine.cpu / others.cpu)
    }

    /// The ratio of rates.
    pub(crate) fn rate_over(&self, other: &Self) -> f64 {
        let pairs = self.rounds.iter().zip(&other.rounds);
        median(pairs.map(|(mine, others)| mine.rate / others.rate))
    }
}

impl Serialize for Measurement {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut measurement = serializer.serialize_struct("Measurement", 4)?;
        measurement.serialize_field("name", &self.name)?;
        measurement.serialize_field("requestsPerSecond", &self.rate())?;
        measurement.serialize_field("cpuMicroseconds", &self.cpu())?;
        measurement.serialize_field("rounds", &self.rounds)?;
        measurement.end()
    }
}

/// The median.
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
    fn rounds_are_compared_with_those_next_to_them() {
        let measurement = |costs: [f64; 3]| Measurement {
            name: String::new(),
            rounds: costs.map(|cpu| Round { rate: 1.0, cpu }).to_vec(),
        };
        let slow_machine_in_the_middle = measurement([2.0, 20.0, 2.0]);
        let other = measurement([1.0, 10.0, 1.0]);
        assert_eq!(slow_machine_in_the_middle.cpu_over(&other), 2.0);
        assert_eq!(slow_machine_in_the_middle.cpu_range_over(&other), [2.0; 2]);
    }

    #[test]
    fn the_range_is_that_of_the_middle_half() {
        let measurement = |costs: [f64; 8]| Measurement {
            name: String::new(),
            rounds: costs.map(|cpu| Round { rate: 1.0, cpu }).to_vec(),
        };
        let ours = measurement([9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 0.1]);
        assert_eq!(ours.cpu_range_over(&measurement([1.0; 8])), [2.0, 5.0]);
    }
}
