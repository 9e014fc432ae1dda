//! A closed loop: each connection sends its next request when it has received a response.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use serde::Serialize;

use super::{Connections, Requests};
use crate::process::Process;
use crate::stop;

/// The first part of a round is not measured: connections are opened, caches and branch predictors warm up.
pub(super) const WARM_UP: Duration = Duration::from_millis(300);

/// The time without a response after which the round fails.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The result of one round.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Round {
    /// Requests per second.
    pub(crate) rate: f64,
    /// CPU time of the server per request, in microseconds.
    pub(crate) cpu: f64,
}

/// Loads a server for this time. Fails on an unexpected status.
pub(crate) fn round(server: &Process, requests: &mut Requests, length: Duration) -> Result<Round> {
    round_of(std::slice::from_ref(server), requests, length)
}

/// Loads several servers at once, each with its share of the connections, and adds up their CPU time.
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
    let (completed, took) = drive(&mut load, requests, length)?;
    let cpu = cpu()?.saturating_sub(before);
    ensure!(completed > 0, "no response");
    Ok(Round {
        rate: completed as f64 / took.as_secs_f64(),
        cpu: cpu.as_secs_f64() * 1e6 / completed as f64,
    })
}

/// Sends requests for this time. Returns the number of responses and the actual time.
fn drive(
    load: &mut Connections,
    requests: &mut Requests,
    length: Duration,
) -> Result<(u64, Duration)> {
    let began = Instant::now();
    let mut last = began;
    let mut completed = 0_u64;
    while began.elapsed() < length {
        let before = completed;
        load.wait(
            Duration::from_millis(100),
            requests.status,
            |_, connection| {
                completed += 1;
                connection.send(requests.next())
            },
        )?;
        if completed > before {
            last = Instant::now();
        }
        ensure!(last.elapsed() < TIMEOUT, "no response within {TIMEOUT:?}");
        stop::check()?;
    }
    Ok((completed, began.elapsed()))
}
