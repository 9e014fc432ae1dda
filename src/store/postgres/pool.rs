//! The pool of connections of one node.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use deadpool::managed::{self, Object};
use deadpool_postgres::{ClientWrapper, Transaction};
use tokio::runtime::Handle;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Config, Row};

use super::connector::{CONNECTIONS, Connector};
use super::deadline::in_time;
use super::error::PgResult;

pub(super) use super::connector::SET_LIMITS;

/// A pool of connections.
#[derive(Clone, Debug)]
pub(super) struct Pool(managed::Pool<Connector>);

impl Pool {
    /// A pool of connections to whichever of these servers accepts writes. Their tasks run on `thread`, and they prepare these
    /// statements.
    pub(super) fn new(
        servers: &[Config],
        statements: Vec<&'static str>,
        thread: Handle,
    ) -> anyhow::Result<Self> {
        let connector = Connector::new(servers, statements, thread)?;
        Ok(Self(
            managed::Pool::builder(connector)
                .max_size(CONNECTIONS)
                .build()?,
        ))
    }

    /// Borrows a connection.
    pub(super) async fn borrow(&self) -> PgResult<Lease> {
        Ok(Lease(Some(self.0.get().await?)))
    }

    /// Borrows a connection for work with this timeout, within half of it. A connection to a server that is far away would
    /// otherwise be opened, and closed because no time was left to use it.
    pub(super) async fn borrow_within(&self, timeout: Duration) -> PgResult<Lease> {
        in_time(timeout / 2, self.borrow()).await
    }
}

/// A borrowed connection. Only [`release`](Self::release) returns it to the pool: one that is dropped because of an error or
/// a deadline, may still have a statement in flight, and is closed.
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

/// A connection, or a transaction on one: both use the statement cache of the connection.
pub(super) trait Session {
    /// The rows of a statement, which is prepared once.
    fn rows(
        &self,
        statement: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> impl Future<Output = Result<Vec<Row>, tokio_postgres::Error>> + Send;
}

impl Session for ClientWrapper {
    async fn rows(
        &self,
        statement: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.prepare_cached(statement).await?;
        self.query(&statement, values).await
    }
}

impl Session for Transaction<'_> {
    async fn rows(
        &self,
        statement: &str,
        values: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, tokio_postgres::Error> {
        let statement = self.prepare_cached(statement).await?;
        self.query(&statement, values).await
    }
}
