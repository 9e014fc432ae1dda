//! Timeouts.

use std::time::{Duration, Instant};

use super::error::{PgError, PgResult};
use super::fault;

/// The timeout of everything that a request waits for. Half of it may be spent on connecting. The 503 of a request that times out is
/// sent within 2.5 s.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// The timeout of each step of a poll for changed keys. It takes milliseconds, and a server that has stopped responding may have been
/// replaced by another one, which the next poll finds.
pub(super) const POLL_TIMEOUT: Duration = Duration::from_secs(3);

/// The timeout of large reads, such as one chunk of all keys, and of the changes of commands: no request of the API waits for
/// them, and they may take many round trips.
pub(super) const LONG_TIMEOUT: Duration = Duration::from_secs(30);

/// The timeout of each statement, for PostgreSQL: it cancels a statement before this process stops waiting, so that the connection
/// can be kept. On a new connection, a poll would read all keys again, as after an outage.
pub(super) const fn statement_timeout(timeout: Duration) -> Duration {
    timeout.saturating_sub(Duration::from_millis(500))
}

pub(super) async fn with_timeout<T>(
    timeout: Duration,
    work: impl Future<Output = PgResult<T>>,
) -> PgResult<T> {
    with_timeout_since(Instant::now(), timeout, work).await
}

/// The same for the rest of something that began earlier.
pub(super) async fn with_timeout_since<T>(
    began: Instant,
    timeout: Duration,
    work: impl Future<Output = PgResult<T>>,
) -> PgResult<T> {
    let rest = fault::timeout(timeout).saturating_sub(began.elapsed());
    tokio::time::timeout(rest, work).await.unwrap_or_else(|_| {
        let late = format!("PostgreSQL did not respond within {timeout:?}");
        Err(PgError::Unavailable(late))
    })
}

#[cfg(test)]
mod tests {
    use super::super::connector::{PREPARE_LIMITS, SET_LIMITS};
    use super::super::{import, pets};
    use super::*;

    #[test]
    fn the_limits_in_scripts_are_those_of_the_timeouts() {
        let limit = |timeout| {
            format!(
                "statement_timeout = {};",
                statement_timeout(timeout).as_millis()
            )
        };
        for script in [SET_LIMITS, PREPARE_LIMITS] {
            assert!(script.contains(&limit(REQUEST_TIMEOUT)), "{script}");
        }
        assert!(pets::BEGIN_SNAPSHOT.contains(&limit(LONG_TIMEOUT)));
        let idle = REQUEST_TIMEOUT.as_millis() / 2;
        let idle = format!("idle_in_transaction_session_timeout = {idle};");
        assert!(import::SET_UP.contains(&idle));
    }
}
