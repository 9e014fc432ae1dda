//! Group commit on one node: what is waiting is created in one transaction, with one insert of many rows, and answered when
//! the commit has returned. The row of the counter, locked until then, puts the creations of all nodes in one order.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_postgres::Config;

use super::connect::Connections;
use super::trouble::{PATIENCE, Trouble};
use super::{Answer, in_time, pets, transact};
use crate::pet::NewPet;
use crate::store::thread::{WriterThread, dead};
use crate::store::waiting::Waiting;
use crate::store::write_health::WriteHealth;
use crate::store::{Commits, Created, Result, Retry, StoreError};

/// The most creations in one transaction.
const BATCH: usize = 512;

#[derive(Debug)]
pub(super) struct Writer {
    // The queue closes before the thread is waited for, which writes what is in it.
    queue: mpsc::UnboundedSender<Creation>,
    thread: WriterThread,
    waiting: Arc<Waiting>,
    commits: Arc<Commits>,
    health: Arc<WriteHealth>,
}

/// An animal to create, and who waits for it.
#[derive(Debug)]
pub(super) struct Creation {
    pub(super) pet: NewPet,
    pub(super) retry: Option<Retry>,
    reply: oneshot::Sender<Result<Created>>,
}

impl Writer {
    /// Starts the thread that all connections are at home on, and the writer on it.
    pub(super) fn start(
        servers: &[Config],
        max_waiting: usize,
    ) -> anyhow::Result<(Self, Connections)> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let connections = Connections::new(servers, runtime.handle().clone())?;
        let (queue, creations) = mpsc::unbounded_channel();
        let commits: Arc<Commits> = Arc::default();
        let waiting = Arc::new(Waiting::at_most(max_waiting));
        let health: Arc<WriteHealth> = Arc::default();
        let work = Work {
            connections: connections.clone(),
            creations,
            waiting: Arc::clone(&waiting),
            commits: Arc::clone(&commits),
            health: Arc::clone(&health),
        };
        let thread = WriterThread::start("postgres", move |alive| {
            runtime.block_on(async move {
                // Here, and not beside the runtime: that may end slowly, and nobody need wait for it to hear of a death.
                let _alive = alive;
                work.run().await;
            });
        })?;
        let writer = Self {
            queue,
            thread,
            waiting,
            commits,
            health,
        };
        Ok((writer, connections))
    }

    pub(super) async fn create(&self, pet: NewPet, retry: Option<Retry>) -> Result<Created> {
        self.waiting.enter(&self.commits)?;
        let (reply, answer) = oneshot::channel();
        let creation = Creation { pet, retry, reply };
        self.queue.send(creation).map_err(|_| dead())?;
        let answered = async { Ok(answer.await) };
        match in_time(PATIENCE, answered).await {
            Ok(answer) => answer.unwrap_or_else(|_| Err(dead())),
            Err(late) => Err(late.into()),
        }
    }

    pub(super) fn alive(&self) -> Result<()> {
        self.thread.alive()
    }

    pub(super) async fn died(&self) {
        self.thread.died().await;
    }

    pub(super) fn waiting(&self) -> usize {
        self.waiting.count()
    }

    pub(super) fn commits(&self) -> &Commits {
        &self.commits
    }

    pub(super) fn health(&self) -> &WriteHealth {
        &self.health
    }
}

struct Work {
    connections: Connections,
    creations: mpsc::UnboundedReceiver<Creation>,
    waiting: Arc<Waiting>,
    commits: Arc<Commits>,
    health: Arc<WriteHealth>,
}

impl Work {
    async fn run(mut self) {
        let mut taken = Vec::with_capacity(BATCH);
        while self.creations.recv_many(&mut taken, BATCH).await > 0 {
            self.waiting.leave(taken.len());
            // One whose caller has been told that it took too long need not be created any more.
            let batch: Vec<_> = taken
                .drain(..)
                .filter(|creation| !creation.reply.is_closed())
                .collect();
            if !batch.is_empty() {
                self.write(batch).await;
            }
        }
    }

    async fn write(&self, batch: Vec<Creation>) {
        let created = in_time(PATIENCE, create(&self.connections, &batch)).await;
        match created {
            Ok(created) => {
                self.health.succeeded();
                let is_new = |created: &&Created| matches!(created, Created::New(_));
                let rows = created.iter().filter(is_new).count();
                self.commits.committed(rows);
                for (creation, created) in batch.into_iter().zip(created) {
                    // Nobody waiting any more is no failure: the caller has gone away.
                    let _ = creation.reply.send(Ok(created));
                }
            }
            Err(trouble) => {
                self.health.failed(&trouble, "failing");
                let told = StoreError::from(trouble);
                for creation in batch {
                    let _ = creation.reply.send(Err(told.clone()));
                }
            }
        }
    }
}

/// Creates all of a batch, or none.
async fn create(connections: &Connections, batch: &[Creation]) -> Answer<Vec<Created>> {
    let created = transact(connections, async |transaction| {
        pets::create(transaction, batch).await
    })
    .await?;
    if created.len() == batch.len() {
        Ok(created)
    } else {
        Err(Trouble::Failed("a batch came back incomplete".into()))
    }
}
