//! As fast as answers come: each connection sends its next request when it has the answer to the one before.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::Serialize;

use super::{Connections, Requests};
use crate::process::Process;
use crate::stop;

/// The first part of a round does not count: connections are opened, caches and branch predictors wake up.
const WARM_UP: Duration = Duration::from_millis(300);

/// How long an answer may take before the round is given up.
const PATIENCE: Duration = Duration::from_secs(10);

/// What one round measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Round {
    /// Requests a second.
    pub(crate) rate: f64,
    /// Microseconds of the server's CPU time for each.
    pub(crate) cpu: f64,
}

/// Loads a server for so long. Fails if an answer has another status than it should.
pub(crate) fn round(server: &Process, requests: &mut Requests, length: Duration) -> Result<Round> {
    round_of(std::slice::from_ref(server), requests, length)
}

/// Loads several servers at once, each with its part of the connections. Their CPU time is added up.
pub(crate) fn round_of(
    servers: &[Process],
    requests: &mut Requests,
    length: Duration,
) -> Result<Round> {
    let addresses: Vec<_> = servers.iter().map(|server| server.address).collect();
    let cpu = || servers.iter().map(Process::cpu).sum::<Result<Duration>>();
    let mut load = Connections::open(&addresses)?;
    for connection in &mut load.all {
        connection.send(requests.next())?;
    }
    drive(&mut load, requests, WARM_UP)?;
    let before = cpu()?;
    let (answered, took) = drive(&mut load, requests, length)?;
    let cpu = cpu()?.saturating_sub(before);
    ensure!(answered > 0, "no answer at all");
    Ok(Round {
        rate: answered as f64 / took.as_secs_f64(),
        cpu: cpu.as_secs_f64() * 1e6 / answered as f64,
    })
}

/// Goes on for so long; gives how many answers there were, and how long it really was.
fn drive(
    load: &mut Connections,
    requests: &mut Requests,
    length: Duration,
) -> Result<(u64, Duration)> {
    let began = Instant::now();
    let mut last = began;
    let mut answered = 0_u64;
    while began.elapsed() < length {
        let before = answered;
        load.wait(Duration::from_millis(100), |_, connection, status| {
            ensure!(
                status == requests.status,
                "answered {status} where {} was expected",
                requests.status
            );
            answered += 1;
            connection.send(requests.next())
        })?;
        if answered > before {
            last = Instant::now();
        }
        ensure!(last.elapsed() < PATIENCE, "no answer within {PATIENCE:?}");
        stop::check()?;
    }
    Ok((answered, began.elapsed()))
}
