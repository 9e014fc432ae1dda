//! The reply to a creation.

use tokio::sync::oneshot;

use crate::store::contract::{CreationOutcome, Result, StoreError};
use crate::trace::{CommitSpan, System};

/// The channel for the outcome of a creation, and the span of the transaction that it waits for.
pub(crate) struct Reply {
    sender: oneshot::Sender<Result<CreationOutcome>>,
    span: CommitSpan,
}

impl Reply {
    /// A reply to the current request.
    pub(crate) fn channel(system: System) -> (Self, oneshot::Receiver<Result<CreationOutcome>>) {
        let (sender, receiver) = oneshot::channel();
        let span = CommitSpan::waiting(system);
        (Self { sender, span }, receiver)
    }

    /// Whether the request no longer waits.
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Begins the span, when the transaction of this many writes begins.
    pub(crate) fn begin(&mut self, batch: usize) {
        self.span.begin(batch);
    }

    /// Replies. A closed channel is not a failure: nobody waits for the outcome any more.
    pub(crate) fn send(self, outcome: Result<CreationOutcome>) {
        // First, so that it ends before the request's.
        self.span.end(outcome.as_ref().err().map(StoreError::kind));
        drop(self.sender.send(outcome));
    }
}
