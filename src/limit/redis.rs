//! The counters of all nodes together, in Redis: one script decides about ban, minute and day in one step, on Redis' own
//! clock. Redis may be late or gone at any moment; then this node goes on with the counters it has, and knows them as well as
//! Redis did when it was last heard.

mod health;
mod script;
mod waiting;
mod wire;

pub use health::Health;
pub use wire::{NotARedisUrl, RedisUrl};

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use redis::RedisResult;
use tokio::time::{sleep, timeout};

use super::ruling::Ruling;
use super::{BanPolicy, Decision, Meter};
use crate::clock::Clock;
use crate::fault::Fault;
use crate::key::KeyId;
use crate::plan::Limits;
use health::Finding;
use script::{Question, Script};
use waiting::Waiting;
use wire::Wire;

/// How long connecting may take, while no request waits for it: to a cluster it is several steps.
const CONNECT: Duration = Duration::from_secs(1);

/// How long a thread waits for Redis before it serves its first request: without it, it would have to count alone.
const START: Duration = Duration::from_millis(500);

/// In what time Redis has to decide before requests are sent to it again. Less than they would wait: one that is slower is not
/// left and found again all the time.
const TRIAL: Duration = Duration::from_millis(40);

/// How often each thread looks whether Redis is there.
const LOOK: Duration = Duration::from_millis(250);

/// The limiter of one thread. Each has one connection, which all its requests share at once.
#[derive(Debug)]
pub struct Redis(Arc<Line>);

#[derive(Debug)]
struct Line {
    url: RedisUrl,
    script: Script,
    bans: BanPolicy,
    clock: Clock,
    /// What all threads of the node find, and what this one does.
    health: Arc<Health>,
    finding: Finding,
    /// There is one while Redis is well.
    wire: Mutex<Option<Wire>>,
    /// The key whose question failed last. Of a cluster, its node is the one to try.
    suspect: AtomicI64,
    waiting: Waiting,
}

impl Redis {
    /// A limiter that bans by this policy. All threads of a node share its `health`. It goes by Redis' clock, except where
    /// this one stands still. What it knows in Redis has `deployment` in its name, so that others may have the same Redis.
    pub fn new(
        url: RedisUrl,
        deployment: &str,
        bans: BanPolicy,
        clock: Clock,
        health: Arc<Health>,
    ) -> Self {
        Self(Arc::new(Line {
            url,
            script: Script::new(deployment, bans),
            bans,
            clock,
            health,
            finding: Finding::default(),
            wire: Mutex::default(),
            suspect: AtomicI64::default(),
            waiting: Waiting::default(),
        }))
    }

    /// Connects, before the first request needs it, and looks after the connection from then on.
    pub async fn begin(&self) {
        let connected = match timeout(START, self.0.connect(START)).await {
            Ok(connected) => connected,
            Err(_) => Err(late(START)),
        };
        if let Err(cause) = connected {
            self.0.fell_ill(&cause);
        }
        tokio::task::spawn_local(Arc::clone(&self.0).look_after());
        tokio::task::spawn_local(Arc::clone(&self.0).mind_the_time());
    }

    /// Decides about one request of a key.
    pub async fn decide(&self, key: KeyId, meter: &Meter, limits: Limits) -> Decision {
        let line = &self.0;
        let wire = line.wire().clone();
        if let Some(wire) = wire {
            match line.ask(wire, key, meter, limits).await {
                Ok(ruling) => return meter.adopt(limits, &ruling),
                Err(error) => {
                    line.suspect.store(key.0, Ordering::Relaxed);
                    line.fell_ill(&error.to_string());
                }
            }
        }
        meter.decide(limits, &line.bans, line.clock.now())
    }
}

impl Line {
    async fn ask(
        &self,
        mut wire: Wire,
        key: KeyId,
        meter: &Meter,
        limits: Limits,
    ) -> RedisResult<Ruling> {
        let _waits = self.waiting.begin();
        let question = Question {
            key,
            is_trial: false,
            limits,
            known: meter.known(),
            now: self.clock.standing(),
        };
        let ruling = match Fault::ReadThenWrite.is_on() {
            true => Box::pin(self.script.read_then_write(&mut wire, &question)).await,
            false => self.script.ask(&mut wire, &question).await,
        };
        ruling.map(|ruling| Ruling {
            asked_after: question.known.pardoned,
            ..ruling
        })
    }

    fn wire(&self) -> MutexGuard<'_, Option<Wire>> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on this thread decides alone, until Redis answers in time again. Whoever still waits on it goes on at once.
    fn fell_ill(&self, cause: &str) {
        let wire = self.wire().take();
        if let Some(wire) = wire {
            wire.end();
        }
        if self.finding.fall_ill(&self.health) {
            tracing::warn!(
                cause,
                "Redis is late or gone: limits hold for this node alone"
            );
        }
    }

    /// Connects, which may take its time, gives Redis the script, so that no request has to (on a cluster each node needs it), and
    /// sees whether it decides.
    async fn connect(&self, trial: Duration) -> Result<(), String> {
        let mut wire = within(CONNECT, Wire::connect(&self.url)).await?;
        let _: String = within(trial, wire.ask(&Script::load())).await?;
        // One that answers but cannot write, because it is full or a replica, would fail the next request.
        let question = Question::trial(KeyId(self.suspect.load(Ordering::Relaxed)));
        within(trial, self.script.ask(&mut wire, &question)).await?;
        *self.wire() = Some(wire);
        if self.finding.recover(&self.health) {
            tracing::info!("Redis is back: limits hold for all nodes together again");
        }
        Ok(())
    }

    /// Looks whether Redis is there, so that requests find it connected: a thread with nothing to do would otherwise learn from
    /// its next request that Redis had been away.
    async fn look_after(self: Arc<Self>) {
        loop {
            sleep(LOOK).await;
            let wire = self.wire().clone();
            let found = match wire {
                Some(mut wire) => within(CONNECT, wire.ask(&redis::cmd("PING"))).await,
                None => self.connect(TRIAL).await,
            };
            if let Err(cause) = found {
                self.fell_ill(&cause);
            }
        }
    }

    /// Sees to it that nobody waits too long.
    async fn mind_the_time(self: Arc<Self>) {
        loop {
            self.waiting.too_long().await;
            self.fell_ill(&late(waiting::PATIENCE));
        }
    }
}

/// Waits for Redis, but not for ever; says why there is no answer.
async fn within<T>(
    time: Duration,
    work: impl Future<Output = RedisResult<T>>,
) -> Result<T, String> {
    match timeout(time, work).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(late(time)),
    }
}

fn late(time: Duration) -> String {
    format!("no answer within {time:?}")
}
