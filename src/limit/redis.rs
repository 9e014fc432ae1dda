//! The counters of all nodes together, in Redis: one script decides about ban, minute and day in one step, on Redis' own
//! clock. Redis may be late or gone at any moment; then this node goes on with the counters it has, and knows them as well as
//! Redis did when it was last heard.

mod health;
mod ruling;

pub use health::Health;
pub use ruling::{Known, Ruling};

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{
    AsyncConnectionConfig, Cmd, ErrorKind, RedisError, RedisResult, Script, ServerErrorKind,
};
use tokio::time::{sleep, timeout};

use super::{BanPolicy, Decision, Meter};
use crate::clock::Clock;
use crate::fault::Fault;
use crate::key::KeyId;
use crate::plan::Limits;

/// What decides.
const DECIDE: &str = include_str!("decide.lua");

/// Redis does not know the script it was asked to run.
const NO_SCRIPT: ErrorKind = ErrorKind::Server(ServerErrorKind::NoScript);

/// How long a request waits for Redis.
const PATIENCE: Duration = Duration::from_millis(50);

/// How often it is looked whether Redis is back.
const LOOK: Duration = Duration::from_millis(250);

/// Where Redis is: `redis://HOST:PORT`.
#[derive(Clone)]
pub struct RedisUrl(redis::Client);

/// A text that names no Redis. It may hold a password, so it is not repeated.
#[derive(Debug, thiserror::Error)]
#[error("takes redis://USER:PASSWORD@HOST:PORT/NUMBER, for example redis://127.0.0.1:6379")]
pub struct NotARedisUrl;

impl FromStr for RedisUrl {
    type Err = NotARedisUrl;

    fn from_str(text: &str) -> Result<Self, NotARedisUrl> {
        redis::Client::open(text)
            .map(Self)
            .map_err(|_| NotARedisUrl)
    }
}

/// Without the password.
impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({})", self.0.get_connection_info().addr())
    }
}

/// The limiter of one thread. Each has one connection, which all its requests share at once.
#[derive(Debug)]
pub struct Redis(Arc<Line>);

#[derive(Debug)]
struct Line {
    url: RedisUrl,
    script: Script,
    bans: BanPolicy,
    clock: Clock,
    health: Arc<Health>,
    connection: Mutex<Option<MultiplexedConnection>>,
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
            connection: Mutex::default(),
            connecting: tokio::sync::Mutex::default(),
        }))
    }

    /// Decides about one request of a key.
    pub async fn decide(&self, key: KeyId, meter: &Meter, limits: Limits) -> Decision {
        let line = &self.0;
        if line.health.is_well() {
            match line.ask_in_time(key, meter, limits).await {
                Ok(ruling) => return meter.adopt(limits, &ruling),
                Err(cause) => line.fell_ill(&cause),
            }
        }
        meter.decide(limits, &line.bans, line.clock.now())
    }
}

impl Line {
    async fn ask_in_time(
        &self,
        key: KeyId,
        meter: &Meter,
        limits: Limits,
    ) -> Result<Ruling, String> {
        match timeout(PATIENCE, self.ask(key, meter, limits)).await {
            Ok(Ok(ruling)) => Ok(ruling),
            Ok(Err(error)) => Err(error.to_string()),
            Err(_) => Err(format!("no answer within {PATIENCE:?}")),
        }
    }

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
        match known_script.query_async(&mut connection).await {
            // Redis has forgotten the script, or a new one never knew it. Sent whole, it cannot be forgotten in between.
            Err(error) if error.kind() == NO_SCRIPT => {
                call("EVAL", DECIDE).query_async(&mut connection).await
            }
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

    async fn connection(&self) -> RedisResult<MultiplexedConnection> {
        if let Some(connection) = self.connected() {
            return Ok(connection);
        }
        let _alone = self.connecting.lock().await;
        if let Some(connection) = self.connected() {
            return Ok(connection);
        }
        // The time-outs are ours: one for each request, over all its steps.
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(None)
            .set_response_timeout(None);
        let connection = self
            .url
            .0
            .get_multiplexed_async_connection_with_config(&config)
            .await?;
        self.keep(Some(connection.clone()));
        Ok(connection)
    }

    fn connected(&self) -> Option<MultiplexedConnection> {
        let connection = self.connection.lock();
        connection.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn keep(&self, connection: Option<MultiplexedConnection>) {
        *self
            .connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = connection;
    }

    /// From now on this node decides alone, until Redis answers in time again.
    fn fell_ill(self: &Arc<Self>, cause: &str) {
        self.keep(None);
        if self.health.fall_ill() {
            tracing::warn!(
                cause,
                "Redis is late or gone: limits hold for this node alone"
            );
            tokio::task::spawn_local(Arc::clone(self).nurse());
        }
    }

    async fn nurse(self: Arc<Self>) {
        loop {
            sleep(LOOK).await;
            let answer = timeout(PATIENCE, async {
                let mut connection = self.connection().await?;
                redis::cmd("PING")
                    .query_async::<String>(&mut connection)
                    .await?;
                Ok::<_, RedisError>(())
            });
            match answer.await {
                Ok(Ok(())) => break,
                _ => self.keep(None),
            }
        }
        self.health.recover();
        tracing::info!("Redis is back: limits hold for all nodes together again");
    }
}
