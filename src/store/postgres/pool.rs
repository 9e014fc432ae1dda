//! The pool of connections of one node.

use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use deadpool::managed::{self, Object};
use deadpool_postgres::{ClientWrapper, StatementCache, Transaction};
use tokio::runtime::Handle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use super::connector::{Connector, MAX_CONNECTIONS};
use super::error::{PgError, PgResult, keeps_connection};
use super::timeout::{LONG_TIMEOUT, REQUEST_TIMEOUT, with_timeout, with_timeout_since};
use crate::tls::ClientTls;

pub(super) use super::connector::SET_LIMITS;

#[derive(Clone)]
pub(super) struct Pool(managed::Pool<Connector>);

impl Pool {
    pub(super) fn new(connector: Connector) -> anyhow::Result<Self> {
        Self::of_size(MAX_CONNECTIONS - 1, connector)
    }

    /// A pool of one connection to the same servers, which requests do not use: a poll for changes must not wait for them. It is open
    /// already, because a poll has little time to connect.
    pub(super) async fn for_polls(&self) -> anyhow::Result<Self> {
        let polls = Self::of_size(1, self.0.manager().clone())?;
        with_timeout(LONG_TIMEOUT, polls.borrow()).await?.release();
        Ok(polls)
    }

    fn of_size(size: usize, connector: Connector) -> anyhow::Result<Self> {
        let pool = managed::Pool::builder(connector).max_size(size);
        Ok(Self(pool.build()?))
    }

    pub(super) fn tls(&self) -> ClientTls {
        self.0.manager().tls()
    }

    pub(super) async fn borrow(&self) -> PgResult<Lease> {
        Ok(Lease {
            connection: Some(self.0.get().await?),
            borrowed: Instant::now(),
            has_responded: false,
            finishes_statements: false,
        })
    }

    /// Borrows a connection for work with this timeout, within half of it. A connection to a server that is far away would
    /// otherwise be opened, and closed because no time was left to use it.
    pub(super) async fn borrow_within(&self, timeout: Duration) -> PgResult<Lease> {
        with_timeout(timeout / 2, self.borrow()).await
    }
}

/// A borrowed connection. Only [`release`](Self::release) returns it to the pool: one that is dropped because of an error or
/// a deadline may still have a statement in flight, and is closed.
pub(super) struct Lease {
    connection: Option<Object<Connector>>,
    borrowed: Instant,
    /// Whether the server has responded to what was sent last, though with an error.
    has_responded: bool,
    /// Whether a lease that is dropped waits for the statement in flight, and returns the connection then.
    finishes_statements: bool,
}

impl Lease {
    /// Reads outside of a transaction, until `timeout` has passed since `began`. If its request is cancelled, which costs a client of
    /// HTTP/2 one frame, the connection is kept: opening another is expensive.
    pub(super) async fn read<T>(
        mut self,
        began: Instant,
        timeout: Duration,
        read: impl AsyncFn(&Self) -> PgResult<T>,
    ) -> PgResult<T> {
        self.finishes_statements = true;
        let result = with_timeout_since(began, timeout, read(&self)).await;
        self.finishes_statements = false;
        self.release_after(&result);
        result
    }

    /// Returns the connection to the pool if it can be used again after this result. Otherwise it is closed.
    pub(super) fn release_after<T>(self, result: &PgResult<T>) {
        match keeps_connection(result) {
            true => self.release(),
            false => self.close_after(result),
        }
    }

    /// Closes the connection because of this result.
    pub(super) fn close_after<T>(mut self, result: &PgResult<T>) {
        self.has_responded = !matches!(result, Err(PgError::Unavailable(_)));
    }

    /// When the connection was opened. No other connection of the pool has the same time, so it identifies this one.
    pub(super) fn connected_at(&self) -> Option<Instant> {
        let connection = self.connection.as_ref()?;
        Some(Object::metrics(connection).created)
    }

    pub(super) fn release(mut self) {
        self.connection = None;
    }

    /// Returns the connection as soon as its last statement has ended, unless that takes too long.
    async fn finish(self) {
        let finishing = async { Ok(self.batch_execute(SET_LIMITS).await?) };
        if with_timeout(REQUEST_TIMEOUT, finishing).await.is_ok() {
            self.release();
        }
    }
}

impl Deref for Lease {
    type Target = ClientWrapper;

    #[expect(
        clippy::expect_used,
        reason = "only release takes the connection, and it consumes the lease"
    )]
    fn deref(&self) -> &ClientWrapper {
        self.connection.as_ref().expect("a connection")
    }
}

impl DerefMut for Lease {
    #[expect(
        clippy::expect_used,
        reason = "only release takes the connection, and it consumes the lease"
    )]
    fn deref_mut(&mut self) -> &mut ClientWrapper {
        self.connection.as_mut().expect("a connection")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(connection) = self.connection.take() else {
            return;
        };
        match Handle::try_current() {
            Ok(runtime) if self.finishes_statements => {
                let lease = Self {
                    connection: Some(connection),
                    borrowed: self.borrowed,
                    has_responded: false,
                    finishes_statements: false,
                };
                drop(runtime.spawn(lease.finish()));
            }
            _ => {
                if !self.has_responded {
                    discard_idle(&connection, self.borrowed);
                }
                drop(Object::take(connection));
            }
        }
    }
}

/// If a connection has waited long for its server, the server may have stopped responding without closing its connections: those that were
/// not borrowed since are closed. Otherwise each of them would cost a request its timeout.
fn discard_idle(connection: &Object<Connector>, borrowed: Instant) {
    let waited = borrowed.elapsed();
    if waited >= REQUEST_TIMEOUT / 2
        && let Some(pool) = Object::pool(connection)
    {
        pool.retain(|_, metrics| metrics.last_used() < waited);
        pool.manager().discard_spares();
    }
}

pub(super) type SqlValue<'a> = &'a (dyn ToSql + Sync + 'a);

/// A connection, or a transaction on one. Statements are prepared once per connection.
pub(super) trait Executor {
    fn parts(&self) -> (&Client, &StatementCache);

    async fn query_cached(&self, sql: &str, values: &[SqlValue<'_>]) -> PgResult<Vec<Row>> {
        let (client, statements) = self.parts();
        let statement = statements.prepare(client, sql).await?;
        Ok(client.query(&statement, values).await?)
    }

    /// Returns the number of rows that were changed.
    async fn execute_cached(&self, sql: &str, values: &[SqlValue<'_>]) -> PgResult<u64> {
        let (client, statements) = self.parts();
        let statement = statements.prepare(client, sql).await?;
        Ok(client.execute(&statement, values).await?)
    }
}

impl Executor for ClientWrapper {
    fn parts(&self) -> (&Client, &StatementCache) {
        (self, &self.statement_cache)
    }
}

impl Executor for Transaction<'_> {
    fn parts(&self) -> (&Client, &StatementCache) {
        (self.client(), &self.statement_cache)
    }
}
