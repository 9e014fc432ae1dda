//! On a schedule, whatever the server does: a request that is due goes out, or waits for a connection, and its time runs
//! from the moment it was due. A load that waits for slow answers before it sends more would hide them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::{CONNECTIONS, Connections, Requests};
use crate::process::Process;
use crate::stop;

/// Times of the first part do not count.
const WARM_UP: Duration = Duration::from_millis(500);

/// Sends so many requests a second for so long, and gives how long each took, in ascending order.
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
        // The wait is none: a timer is coarser than the time between two requests, and this core has nothing else to do.
        load.wait(Duration::ZERO, |number, _, status| {
            ensure!(
                status == requests.status,
                "answered {status} where {} was expected",
                requests.status
            );
            free.push(number);
            if due_of[number] >= WARM_UP {
                times.push(began.elapsed().saturating_sub(due_of[number]));
            }
            Ok(())
        })?;
        stop::check()?;
    }
    // What was due and has no answer yet took at least until now.
    let now = began.elapsed();
    let busy = (0..CONNECTIONS).filter(|number| !free.contains(number));
    let unanswered = busy.map(|number| due_of[number]).chain(waiting);
    times.extend(
        unanswered
            .filter(|due| *due >= WARM_UP)
            .map(|due| now.saturating_sub(due)),
    );
    ensure!(!times.is_empty(), "no answer at all");
    times.sort_unstable();
    Ok(times)
}
