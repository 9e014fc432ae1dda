//! The pool of connections of one node.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use deadpool::managed::{self, Object};
use deadpool_postgres::{ClientWrapper, StatementCache, Transaction};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use super::connector::{Connector, MAX_CONNECTIONS};
use super::deadline::with_timeout;
use super::error::PgResult;
use crate::tls::ClientTls;

pub(super) use super::connector::SET_LIMITS;

#[derive(Clone)]
pub(super) struct Pool(managed::Pool<Connector>);

impl Pool {
    pub(super) fn new(connector: Connector) -> anyhow::Result<Self> {
        let pool = managed::Pool::builder(connector).max_size(MAX_CONNECTIONS);
        Ok(Self(pool.build()?))
    }

    pub(super) fn tls(&self) -> ClientTls {
        self.0.manager().tls()
    }

    pub(super) async fn borrow(&self) -> PgResult<Lease> {
        Ok(Lease(Some(self.0.get().await?)))
    }

    /// Borrows a connection for work with this timeout, within half of it. A connection to a server that is far away would
    /// otherwise be opened, and closed because no time was left to use it.
    pub(super) async fn borrow_within(&self, timeout: Duration) -> PgResult<Lease> {
        with_timeout(timeout / 2, self.borrow()).await
    }
}

/// A borrowed connection. Only [`release`](Self::release) returns it to the pool: one that is dropped because of an error or
/// a deadline may still have a statement in flight, and is closed.
pub(super) struct Lease(Option<Object<Connector>>);

impl Lease {
    pub(super) fn release(mut self) {
        self.0 = None;
    }
}

impl Deref for Lease {
    type Target = ClientWrapper;

    #[expect(
        clippy::expect_used,
        reason = "only release empties it, and consumes it"
    )]
    fn deref(&self) -> &ClientWrapper {
        self.0.as_ref().expect("a connection")
    }
}

impl DerefMut for Lease {
    #[expect(
        clippy::expect_used,
        reason = "only release empties it, and consumes it"
    )]
    fn deref_mut(&mut self) -> &mut ClientWrapper {
        self.0.as_mut().expect("a connection")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            drop(Object::take(object));
        }
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
