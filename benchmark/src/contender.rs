//! The contenders of a scenario and their rounds. Rounds alternate between contenders, so that all see the same machine.

use std::ops::RangeInclusive;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::bench::Bench;
use crate::cores::Affinity;
use crate::load::{self, Requests, Round};
use crate::measurement::Measurement;
use crate::process::Process;

/// Measures one round of this length with the servers of the scenario.
type Measure<'a> = dyn FnMut(&[Process], Duration) -> Result<Round> + 'a;

/// What is measured: one of the scenario's servers with certain requests, or something else.
pub(crate) struct Contender<'a> {
    name: String,
    measure: Box<Measure<'a>>,
}

impl<'a> Contender<'a> {
    pub(crate) fn new(
        name: impl Into<String>,
        measure: impl FnMut(&[Process], Duration) -> Result<Round> + 'a,
    ) -> Self {
        Self {
            name: name.into(),
            measure: Box::new(measure),
        }
    }

    /// The server at this index, on its core, with the load generator on another.
    pub(crate) fn pinned(name: impl Into<String>, server: usize, requests: Requests) -> Self {
        Self::several(name, server..=server, requests)
    }

    /// Several servers on one core, loaded at once.
    pub(crate) fn several(
        name: impl Into<String>,
        range: RangeInclusive<usize>,
        mut requests: Requests,
    ) -> Self {
        Self::new(name, move |servers, length| {
            load::round_of(&servers[range.clone()], &mut requests, length)
        })
    }

    /// A server that may use all cores, as may the load generator.
    pub(crate) fn free(name: impl Into<String>, server: usize, mut requests: Requests) -> Self {
        Self::new(name, move |servers, length| {
            Affinity::Anywhere.enter()?;
            let round = load::round(&servers[server], &mut requests, length);
            Affinity::Load.enter()?;
            round
        })
    }
}

/// Runs the rounds of one scenario. `start` starts its servers, several times: one process can be 10 % slower than another of the
/// same build, for as long as both run.
pub(crate) fn compete(
    bench: &Bench,
    scenario: &str,
    start: impl Fn() -> Result<Vec<Process>>,
    mut contenders: Vec<Contender<'_>>,
) -> Result<Vec<Measurement>> {
    let scale = bench.scale;
    let mut measurements: Vec<Measurement> = contenders
        .iter()
        .map(|contender| Measurement::new(contender.name.clone()))
        .collect();
    let steps = contenders.len() * scale.starts * (scale.rounds + 1);
    bench.progress.inc_length(steps as u64);
    for _ in 0..scale.starts {
        let servers = start().with_context(|| scenario.to_owned())?;
        for round in 0..=scale.rounds {
            for (contender, measurement) in contenders.iter_mut().zip(&mut measurements) {
                let step = format!("{scenario}: {}", contender.name);
                bench.progress.set_message(step.clone());
                let length = if round == 0 {
                    scale.warm_up
                } else {
                    scale.round
                };
                let measured = (contender.measure)(&servers, length).context(step)?;
                if round > 0 {
                    measurement.rounds.push(measured);
                }
                bench.progress.inc(1);
            }
        }
    }
    Ok(measurements)
}
