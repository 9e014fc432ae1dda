//! The replies to the creations of a batch.

use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::store::contract::{CreationOutcome, Result, StoreError};
use crate::trace::{CommitSpan, DatabaseSystem};

/// The channel for the outcome of a creation, and the span of the transaction that it waits for.
pub(crate) struct Reply {
    sender: oneshot::Sender<Result<CreationOutcome>>,
    span: CommitSpan,
    /// The runtime of the request.
    runtime: Handle,
}

impl Reply {
    /// A reply to the current request.
    pub(crate) fn channel(
        system: DatabaseSystem,
    ) -> (Self, oneshot::Receiver<Result<CreationOutcome>>) {
        let (sender, receiver) = oneshot::channel();
        let reply = Self {
            sender,
            span: CommitSpan::waiting(system),
            runtime: Handle::current(),
        };
        (reply, receiver)
    }

    /// Whether the request no longer waits.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Begins the span, when the transaction of this many writes begins.
    pub(crate) fn begin(&mut self, batch: usize) {
        self.span.begin(batch);
    }
}

/// Replies to all of these. A closed channel is not a failure: nobody waits for the outcome any more.
///
/// The replies to requests of one runtime are sent by a task there. From the thread of the writer, each would wake the runtime with
/// a system call of its own.
pub(crate) fn reply_all(replies: impl IntoIterator<Item = (Reply, Result<CreationOutcome>)>) {
    let mut by_runtime: Vec<(Handle, Vec<_>)> = Vec::new();
    for (reply, outcome) in replies {
        // First, so that it ends before the request's.
        reply.span.end(outcome.as_ref().err().map(StoreError::kind));
        let runtime = reply.runtime.id();
        let waiting = (reply.sender, outcome);
        match by_runtime
            .iter_mut()
            .find(|(other, _)| other.id() == runtime)
        {
            Some((_, others)) => others.push(waiting),
            None => by_runtime.push((reply.runtime, vec![waiting])),
        }
    }
    for (runtime, waiting) in by_runtime {
        runtime.spawn(async {
            for (sender, outcome) in waiting {
                drop(sender.send(outcome));
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::*;

    #[test]
    fn one_task_of_each_runtime_replies_to_all_of_its_requests() {
        let runtimes = [(); 2].map(|()| Builder::new_current_thread().build().unwrap());
        let requests = || (0..6).map(|number| &runtimes[number % 2]);
        let (replies, received): (Vec<_>, Vec<_>) = requests()
            .map(|runtime| {
                let _context = runtime.enter();
                Reply::channel(DatabaseSystem::Sqlite)
            })
            .unzip();
        let outcome = |reply| (reply, Ok(CreationOutcome::Mismatch));
        reply_all(replies.into_iter().map(outcome));
        for runtime in &runtimes {
            assert_eq!(runtime.metrics().num_alive_tasks(), 1);
        }
        for (runtime, received) in requests().zip(received) {
            let outcome = runtime.block_on(received);
            assert!(matches!(outcome, Ok(Ok(CreationOutcome::Mismatch))));
        }
    }
}
