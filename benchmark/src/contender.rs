//! The contenders of a scenario and their rounds. Rounds alternate between contenders, so that all see the same machine.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::bench::Bench;
use crate::cores::Affinity;
use crate::load::{self, Requests, Round};
use crate::measurement::Measurement;
use crate::process::Process;

/// One server, or another program that is measured.
pub(crate) struct Contender<'a> {
    name: String,
    measure: Box<dyn FnMut(Duration) -> Result<Round> + 'a>,
}

impl<'a> Contender<'a> {
    pub(crate) fn new(
        name: impl Into<String>,
        measure: impl FnMut(Duration) -> Result<Round> + 'a,
    ) -> Self {
        Self {
            name: name.into(),
            measure: Box::new(measure),
        }
    }

    /// A server on its core, with the load generator on another.
    pub(crate) fn pinned(
        name: impl Into<String>,
        server: &'a Process,
        mut requests: Requests,
    ) -> Self {
        Self::new(name, move |length| {
            load::round(server, &mut requests, length)
        })
    }

    /// Several servers on one core, loaded at once.
    pub(crate) fn several(
        name: impl Into<String>,
        servers: &'a [Process],
        mut requests: Requests,
    ) -> Self {
        Self::new(name, move |length| {
            load::round_of(servers, &mut requests, length)
        })
    }

    /// A server that may use all cores, as may the load generator.
    pub(crate) fn free(
        name: impl Into<String>,
        server: &'a Process,
        mut requests: Requests,
    ) -> Self {
        Self::new(name, move |length| {
            Affinity::Anywhere.enter()?;
            let round = load::round(server, &mut requests, length);
            Affinity::Load.enter()?;
            round
        })
    }
}

/// Runs the rounds of one scenario.
pub(crate) fn compete(
    bench: &Bench,
    scenario: &str,
    mut contenders: Vec<Contender<'_>>,
) -> Result<Vec<Measurement>> {
    let scale = bench.scale;
    let mut measurements: Vec<Measurement> = contenders
        .iter()
        .map(|contender| Measurement::new(contender.name.clone()))
        .collect();
    bench.progress.expect(contenders.len() * (scale.rounds + 1));
    for round in 0..=scale.rounds {
        for (contender, measurement) in contenders.iter_mut().zip(&mut measurements) {
            bench.progress.show(scenario, &contender.name);
            let length = if round == 0 {
                scale.warm_up
            } else {
                scale.round
            };
            let measured = (contender.measure)(length)
                .with_context(|| format!("{scenario}: {}", contender.name))?;
            if round > 0 {
                measurement.rounds.push(measured);
            }
            bench.progress.step();
        }
    }
    Ok(measurements)
}
