//! What a connection is doing, and since when. Requests write it; the stream keeps the timeouts by it.

use std::cell::Cell;
use std::rc::Rc;

use tokio::time::Instant;

use super::connections::{Activity, Slot};

/// What a connection waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The first byte of its first request.
    New,
    /// The first byte of a request, since the end of the response before.
    Idle,
    /// The rest of a head.
    Head,
    /// The service. A body has its own deadline, where it is read.
    Busy,
}

/// What one connection is doing. The clock is read once for each step, and all who need the time of a step look here.
#[derive(Clone, Debug)]
pub(super) struct Progress(Rc<State>);

#[derive(Debug)]
struct State {
    phase: Cell<Phase>,
    since: Cell<Instant>,
    /// Requests at work: at most one in HTTP/1.
    open: Cell<usize>,
    /// The server shuts down: the connection ends with its next response.
    draining: Rc<Cell<bool>>,
    /// A connection without a request ends now.
    ending: Cell<bool>,
    /// A response was sent before the body of its request was read.
    lingers: Cell<bool>,
    slot: Slot,
}

impl Progress {
    pub(super) fn new(slot: Slot, draining: &Rc<Cell<bool>>, now: Instant) -> Self {
        Self(Rc::new(State {
            phase: Cell::new(Phase::New),
            since: Cell::new(now),
            open: Cell::new(0),
            draining: Rc::clone(draining),
            ending: Cell::new(false),
            lingers: Cell::new(false),
            slot,
        }))
    }

    /// A head has arrived: its request is at work until what is returned is dropped.
    pub(super) fn begin(&self) -> OpenRequest {
        let State {
            phase, since, open, ..
        } = &*self.0;
        // Where the head came in one piece with the request before, or beside others, it began now.
        let began = match phase.replace(Phase::Busy) {
            Phase::Head => since.get(),
            _ => Instant::now(),
        };
        open.set(open.get() + 1);
        self.activity().is_busy();
        OpenRequest {
            progress: self.clone(),
            began,
            ended: None,
        }
    }

    /// Begins a phase now.
    pub(super) fn enter(&self, phase: Phase) -> Instant {
        let now = Instant::now();
        self.0.phase.set(phase);
        self.0.since.set(now);
        now
    }

    /// The phase.
    pub(super) fn phase(&self) -> Phase {
        self.0.phase.get()
    }

    /// When the phase began.
    pub(super) fn since(&self) -> Instant {
        self.0.since.get()
    }

    /// What others may see of the connection.
    pub(super) fn activity(&self) -> &Activity {
        self.0.slot.activity()
    }

    /// Whether the server shuts down.
    pub(super) fn is_draining(&self) -> bool {
        self.0.draining.get()
    }

    /// No first request is waited for from now on.
    pub(super) fn end(&self) {
        self.0.ending.set(true);
    }

    /// Whether a first request is not waited for.
    pub(super) fn is_ending(&self) -> bool {
        self.0.ending.get()
    }

    /// The connection is to be closed with a linger: its client is still sending.
    pub(super) fn linger(&self) {
        self.0.lingers.set(true);
    }

    /// Whether it is.
    pub(super) fn lingers(&self) -> bool {
        self.0.lingers.get()
    }
}

/// A request at work, until this is dropped.
#[derive(Debug)]
pub(super) struct OpenRequest {
    progress: Progress,
    /// When its head began to arrive.
    pub(super) began: Instant,
    /// When it ended, where that is known: the clock need not be read again.
    pub(super) ended: Option<Instant>,
}

impl OpenRequest {
    /// The progress of its connection.
    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        let State {
            phase, since, open, ..
        } = &*self.progress.0;
        open.set(open.get() - 1);
        if open.get() == 0 {
            let now = self.ended.unwrap_or_else(Instant::now);
            phase.set(Phase::Idle);
            since.set(now);
            self.progress.activity().is_idle(now);
        }
    }
}
