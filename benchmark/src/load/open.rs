//! An open loop: requests are sent on a fixed schedule, or wait for a free connection, and latency is measured from the scheduled
//! time. A closed loop would hide slow responses, because it waits for them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{CONNECTIONS, Connections, Requests};
use crate::process::Process;
use crate::stop;

/// The first part is not measured.
const WARM_UP: Duration = Duration::from_millis(500);

/// Sends requests at this rate for this time. Returns the latencies in ascending order.
pub(crate) fn scheduled(
    server: &Process,
    requests: &mut Requests,
    rate: f64,
    length: Duration,
) -> Result<Vec<Duration>> {
    let mut load = Connections::open(&[server.address])?;
    let mut free: Vec<usize> = (0..CONNECTIONS).collect();
    let mut due_of = [Duration::ZERO; CONNECTIONS];
    let mut waiting = VecDeque::new();
    let mut times = Vec::with_capacity((rate * length.as_secs_f64()) as usize + 1);
    let mut scheduled = 0_u64;

    let began = Instant::now();
    loop {
        let now = began.elapsed();
        if now >= WARM_UP + length {
            break;
        }
        loop {
            let due = Duration::from_secs_f64(scheduled as f64 / rate);
            if due > now {
                break;
            }
            waiting.push_back(due);
            scheduled += 1;
        }
        while let (Some(due), Some(number)) = (waiting.front().copied(), free.last().copied()) {
            waiting.pop_front();
            free.pop();
            due_of[number] = due;
            load.all[number].send(requests.next())?;
        }
        // No wait: a timer is coarser than the time between two requests, and this core has no other work.
        load.wait(Duration::ZERO, requests.status, |number, _| {
            free.push(number);
            if due_of[number] >= WARM_UP {
                times.push(began.elapsed().saturating_sub(due_of[number]));
            }
            Ok(())
        })?;
        stop::check()?;
    }
    // Requests without a response so far took at least until now.
    let now = began.elapsed();
    let busy = (0..CONNECTIONS).filter(|number| !free.contains(number));
    let outstanding = busy.map(|number| due_of[number]).chain(waiting);
    times.extend(
        outstanding
            .filter(|due| *due >= WARM_UP)
            .map(|due| now.saturating_sub(due)),
    );
    ensure!(!times.is_empty(), "no response");
    times.sort_unstable();
    Ok(times)
}
