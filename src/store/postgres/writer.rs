//! Group commit on one node: all waiting animals are created in one transaction, with one insert of many rows, and acknowledged
//! when the commit has returned. The row of the counter, locked until then, puts the creations of all nodes in one order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio_postgres::Config;

use super::connector::Connector;
use super::creation::create;
use super::error::PgError;
use super::pool::Pool;
use super::timeout::{REQUEST_TIMEOUT, with_timeout};
use super::transaction::transact_within;
use crate::store::contract::{Creation, CreationOutcome, Result, StoreError};
use crate::store::writer::{Reply, WriterMonitor, WriterState, reply_all, writer_stopped};
use crate::tls::ClientTls;
use crate::trace::DatabaseSystem;

const MAX_BATCH: usize = 512;

pub(super) struct PgWriter {
    // Dropped before the monitor, which waits for the thread to write the rest of the queue.
    queue: mpsc::UnboundedSender<QueuedCreation>,
    pub(super) monitor: WriterMonitor,
}

/// An animal to create, and the request that waits for it.
type QueuedCreation = (Creation, Waiter);

/// A request that waits for the outcome of its creation.
struct Waiter {
    reply: Reply,
    /// Whether the creation may have been committed. Set before the creation becomes part of the transaction; read by a request
    /// that has stopped waiting.
    may_be_committed: Arc<AtomicBool>,
}

impl Waiter {
    /// Marks the creation as possibly committed. Returns whether the request still waits.
    fn claim(&self) -> bool {
        self.may_be_committed.store(true, Relaxed);
        fence(SeqCst);
        !self.reply.is_closed()
    }
}

impl PgWriter {
    /// Starts the thread of all connections, which prepare these statements, and the writer on it. A connection on which sent data
    /// stays unacknowledged for `tcp_user_timeout` counts as lost.
    pub(super) fn start(
        servers: &[Config],
        tls: ClientTls,
        statements: Vec<&'static str>,
        tcp_user_timeout: Duration,
        max_waiting: usize,
    ) -> anyhow::Result<(Self, Pool)> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let connector = Connector::new(
            servers,
            tls,
            statements,
            tcp_user_timeout,
            runtime.handle().clone(),
        )?;
        let pool = Pool::new(connector)?;
        let (queue, waiting) = mpsc::unbounded_channel();
        let state = WriterState::new(max_waiting);
        let creation_loop = CreationLoop {
            pool: pool.clone(),
            waiting,
            state: Arc::clone(&state),
        };
        let monitor = WriterMonitor::start(state, "postgres", move |alive| {
            runtime.block_on(async move {
                // Dropped here, and not with the runtime, which may end slowly: a death is detected immediately.
                let _alive = alive;
                creation_loop.run().await;
            });
            // Does not wait for the lookup of a host by a resolver that hangs.
            runtime.shutdown_background();
        })?;
        Ok((Self { queue, monitor }, pool))
    }

    pub(super) async fn create(&self, creation: Creation) -> Result<CreationOutcome> {
        self.monitor.state.enter()?;
        let (reply, created) = Reply::channel(DatabaseSystem::Postgres);
        let may_be_committed = Arc::new(AtomicBool::new(false));
        let waiter = Waiter {
            reply,
            may_be_committed: Arc::clone(&may_be_committed),
        };
        self.queue
            .send((creation, waiter))
            .map_err(|_| writer_stopped())?;
        match with_timeout(REQUEST_TIMEOUT, async { Ok(created.await) }).await {
            Ok(created) => created.unwrap_or_else(|_| Err(writer_stopped())),
            Err(late) => {
                // The channel is closed, so a creation that is not carried out by now never is.
                fence(SeqCst);
                Err(match may_be_committed.load(Relaxed) {
                    true => StoreError::Unconfirmed(late.to_string()),
                    false => late.into(),
                })
            }
        }
    }
}

/// The work of the thread, besides that of the connections.
struct CreationLoop {
    pool: Pool,
    waiting: mpsc::UnboundedReceiver<QueuedCreation>,
    state: Arc<WriterState>,
}

impl CreationLoop {
    async fn run(mut self) {
        let mut taken = Vec::with_capacity(MAX_BATCH);
        while self.waiting.recv_many(&mut taken, MAX_BATCH).await > 0 {
            self.state.leave(taken.len());
            // A creation whose deadline has passed need not be carried out any more.
            let (creations, waiters): (Vec<_>, Vec<_>) = taken
                .drain(..)
                .filter(|(_, waiter)| !waiter.reply.is_closed())
                .unzip();
            if !creations.is_empty() {
                self.write(&creations, waiters).await;
            }
        }
    }

    async fn write(&self, creations: &[Creation], mut waiters: Vec<Waiter>) {
        waiters
            .iter_mut()
            .for_each(|waiter| waiter.reply.begin(creations.len()));
        let creating = transact_within(REQUEST_TIMEOUT, &self.pool, async |transaction| {
            let claim = |index: usize| waiters.get(index).is_some_and(Waiter::claim);
            create(transaction, creations, claim).await
        });
        match creating.await {
            Ok(created) => {
                self.state.committed(created.iter().flatten());
                let created = waiters.into_iter().zip(created);
                reply_all(
                    created.filter_map(|(waiter, created)| Some((waiter.reply, Ok(created?)))),
                );
            }
            Err(error) => {
                self.state.failed.add(1);
                // When an outage is over, or a lock is released, all writes succeed again, so any write shows that this failure is
                // over.
                let needs_creation = matches!(
                    error,
                    PgError::DiskFull(_)
                        | PgError::UniqueViolation(_)
                        | PgError::Denied(_)
                        | PgError::Failed(_)
                );
                let reason = "writes fail: see the log";
                self.state.health.failed(&error, reason, needs_creation);
                let failure = StoreError::from(error);
                let failed = |waiter: Waiter| (waiter.reply, Err(failure.clone()));
                reply_all(waiters.into_iter().map(failed));
            }
        }
    }
}
