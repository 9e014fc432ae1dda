//! The counters of all nodes together, in Redis: one script decides about ban, minute and day in one step, on Redis' own
//! clock. Redis may be late or gone at any moment; then this node goes on with the counters it has, and knows them as well as
//! Redis did when it was last heard.

mod health;
mod ruling;
mod wire;

pub use health::Health;
pub use ruling::{Known, Ruling};
pub use wire::{NotARedisUrl, RedisUrl};

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::{Cmd, ErrorKind, RedisResult, Script, ServerErrorKind};
use tokio::time::{sleep, timeout};

use super::{BanPolicy, Decision, Meter};
use crate::clock::Clock;
use crate::fault::Fault;
use crate::key::KeyId;
use crate::plan::Limits;
use health::Finding;
use wire::Wire;

/// What decides.
const DECIDE: &str = include_str!("decide.lua");

/// Redis does not know the script it was asked to run.
const NO_SCRIPT: ErrorKind = ErrorKind::Server(ServerErrorKind::NoScript);

/// How long a request waits for Redis.
const PATIENCE: Duration = Duration::from_millis(50);

/// How long connecting may take, while no request waits for it: to a cluster it is several steps.
const CONNECT: Duration = Duration::from_secs(1);

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
    connection: Mutex<Option<Wire>>,
    /// One connects at a time; the others wait and find it connected.
    connecting: tokio::sync::Mutex<()>,
}

impl Redis {
    /// A limiter that bans by this policy. All threads of a node share its `health`. It goes by Redis' clock, except where
    /// this one stands still.
    pub fn new(url: RedisUrl, bans: BanPolicy, clock: Clock, health: Arc<Health>) -> Self {
        Self(Arc::new(Line {
            url,
            script: Script::new(DECIDE),
            bans,
            clock,
            health,
            finding: Finding::default(),
            connection: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
        }))
    }

    /// Connects, before the first request has to wait for it, and looks after the connection from then on.
    pub async fn begin(&self) {
        if let Err(cause) = self.0.prepare(CONNECT).await {
            self.0.fell_ill(&cause);
        }
        tokio::task::spawn_local(Arc::clone(&self.0).watch());
    }

    /// Decides about one request of a key.
    pub async fn decide(&self, key: KeyId, meter: &Meter, limits: Limits) -> Decision {
        let line = &self.0;
        if line.finding.is_well() {
            match within(PATIENCE, line.ask(key, meter, limits)).await {
                Ok(ruling) => return meter.adopt(limits, &ruling),
                Err(cause) => line.fell_ill(&cause),
            }
        }
        meter.decide(limits, &line.bans, line.clock.now())
    }
}

impl Line {
    async fn ask(&self, key: KeyId, meter: &Meter, limits: Limits) -> RedisResult<Ruling> {
        let mut connection = self.connection().await?;
        let known = meter.known();
        // In braces what Redis Cluster chooses the node by.
        let name = format!("animal-store:{{{}}}", key.0);
        if Fault::ReadThenWrite.is_on() {
            return ruling::read_then_write(&mut connection, &name, limits).await;
        }
        let call = |command: &str, script: &str| {
            let mut call = redis::cmd(command);
            call.arg(script).arg(1).arg(&name);
            self.tell(&mut call, limits);
            known.tell(&mut call);
            call
        };
        let known_script = call("EVALSHA", self.script.get_hash());
        match connection.ask(&known_script).await {
            // Redis has forgotten the script, or a new one never knew it. Sent whole, it cannot be forgotten in between.
            Err(error) if error.kind() == NO_SCRIPT => connection.ask(&call("EVAL", DECIDE)).await,
            decided => decided,
        }
    }

    /// Appends the time, the limits and what brings a ban to the arguments.
    fn tell(&self, call: &mut Cmd, limits: Limits) {
        let standing = self.clock.standing();
        let now = standing.map_or_else(String::new, |now| now.as_millis().to_string());
        let first_ban = u64::try_from(self.bans.first.as_millis()).unwrap_or(u64::MAX);
        call.arg(now)
            .arg(limits.per_minute())
            .arg(limits.per_day())
            .arg(self.bans.after)
            .arg(first_ban);
    }

    async fn connection(&self) -> RedisResult<Wire> {
        if let Some(connection) = self.connected() {
            return Ok(connection);
        }
        let _alone = self.connecting.lock().await;
        if let Some(connection) = self.connected() {
            return Ok(connection);
        }
        let connection = Wire::connect(&self.url).await?;
        self.keep(Some(connection.clone()));
        Ok(connection)
    }

    fn connected(&self) -> Option<Wire> {
        let connection = self.connection.lock();
        connection.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keep(&self, connection: Option<Wire>) {
        *self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = connection;
    }

    /// From now on this thread decides alone, until Redis answers in time again.
    fn fell_ill(&self, cause: &str) {
        self.keep(None);
        if self.finding.fall_ill(&self.health) {
            tracing::warn!(
                cause,
                "Redis is late or gone: limits hold for this node alone"
            );
        }
    }

    /// Connects, which may take its time, and gives Redis the script, so that no request has to: on a cluster each node needs
    /// it.
    async fn prepare(&self, patience: Duration) -> Result<(), String> {
        let mut wire = within(CONNECT, self.connection()).await?;
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(DECIDE);
        let _: String = within(patience, wire.ask(&load)).await?;
        Ok(())
    }

    /// Looks whether Redis still answers, though no request may ask.
    async fn look(&self) -> Result<(), String> {
        let mut wire = within(CONNECT, self.connection()).await?;
        let _: String = within(CONNECT, wire.ask(&redis::cmd("PING"))).await?;
        Ok(())
    }

    /// Looks after the connection, so that it is there when a request needs it: a thread with nothing to do would otherwise
    /// find out with its next request that Redis had been away.
    async fn watch(self: Arc<Self>) {
        loop {
            sleep(LOOK).await;
            let found = match self.finding.is_well() {
                true => self.look().await,
                false => self.prepare(PATIENCE).await,
            };
            match found {
                Ok(()) if self.finding.recover(&self.health) => {
                    tracing::info!("Redis is back: limits hold for all nodes together again");
                }
                Ok(()) => {}
                Err(cause) => self.fell_ill(&cause),
            }
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
        Err(_) => Err(format!("no answer within {time:?}")),
    }
}
