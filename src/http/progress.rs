//! The phase of a connection, and when it began. Written by requests, and read by the stream for its timeouts.

use std::cell::Cell;
use std::rc::Rc;

use tokio::time::Instant;

use super::activity::Activity;
use super::connections::Slot;

/// The phase of a connection: what it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The first byte of its first request.
    New,
    /// The first byte of a request, since the end of the previous response.
    Idle,
    /// The rest of a head.
    Head,
    /// The service. A body has a separate deadline, where it is read.
    Busy,
    /// The service or the client: the body of the response is streamed.
    Streaming,
}

/// The progress of one connection. The clock is read once for each step, and the time of each step is shared.
#[derive(Clone)]
pub(super) struct Progress(Rc<ConnectionState>);

struct ConnectionState {
    phase: Cell<Phase>,
    since: Cell<Instant>,
    /// Requests in flight: at most one in HTTP/1.
    open: Cell<usize>,
    /// Those of them that wait for the client: for a body to arrive, or for a response to be read.
    waiting: Cell<usize>,
    /// Whether the server is shutting down: the connection ends with its next response.
    draining: Rc<Cell<bool>>,
    /// Whether a connection without a request ends now.
    ending: Cell<bool>,
    /// Whether a response was sent before the body of its request was read.
    lingers: Cell<bool>,
    slot: Slot,
}

impl Progress {
    pub(super) fn new(slot: Slot, draining: &Rc<Cell<bool>>, now: Instant) -> Self {
        Self(Rc::new(ConnectionState {
            phase: Cell::new(Phase::New),
            since: Cell::new(now),
            open: Cell::new(0),
            waiting: Cell::new(0),
            draining: Rc::clone(draining),
            ending: Cell::new(false),
            lingers: Cell::new(false),
            slot,
        }))
    }

    /// Records that a head has arrived. Its request is in flight until the return value is dropped.
    pub(super) fn begin(&self) -> InFlightRequest {
        let ConnectionState {
            phase, since, open, ..
        } = &*self.0;
        // A head that arrived together with the previous request, or concurrently with others, began now.
        let began = match phase.replace(Phase::Busy) {
            Phase::Head => since.get(),
            _ => Instant::now(),
        };
        open.set(open.get() + 1);
        self.activity().mark_busy();
        InFlightRequest {
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

    /// Begins to stream the body of a response.
    pub(super) fn stream(&self) {
        self.0.phase.set(Phase::Streaming);
    }

    /// Records that a request in flight waits for the client, until the return value is dropped. While all requests of a connection
    /// do, it can be evicted.
    pub(super) fn wait_for_client(&self) -> Waiting<'_> {
        let ConnectionState { open, waiting, .. } = &*self.0;
        waiting.set(waiting.get() + 1);
        if waiting.get() == open.get() {
            self.activity().mark_idle(Instant::now());
        }
        Waiting(self)
    }

    /// Whether the request that began last may be served: those beyond the first of a connection are limited over all connections
    /// and by address.
    pub(super) fn reserve_stream(&self) -> bool {
        self.0.slot.reserve(self.0.open.get() - 1)
    }

    /// Releases what was reserved, if no request is in flight.
    pub(super) fn release_streams(&self) {
        if self.0.open.get() == 0 {
            self.0.slot.release();
        }
    }

    pub(super) fn phase(&self) -> Phase {
        self.0.phase.get()
    }

    pub(super) fn since(&self) -> Instant {
        self.0.since.get()
    }

    /// The activity, as other threads see it.
    pub(super) fn activity(&self) -> &Activity {
        self.0.slot.activity()
    }

    /// Whether the server is shutting down.
    pub(super) fn is_draining(&self) -> bool {
        self.0.draining.get()
    }

    /// Stops waiting for a first request.
    pub(super) fn end(&self) {
        self.0.ending.set(true);
    }

    /// Whether the connection no longer waits for a first request.
    pub(super) fn is_ending(&self) -> bool {
        self.0.ending.get()
    }

    /// Makes the connection linger when it is closed: its client is still sending.
    pub(super) fn linger(&self) {
        self.0.lingers.set(true);
    }

    /// Whether the connection lingers when it is closed.
    pub(super) fn lingers(&self) -> bool {
        self.0.lingers.get()
    }
}

/// A request that waits for its client, until this is dropped.
pub(super) struct Waiting<'a>(&'a Progress);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let waiting = &self.0.0.waiting;
        waiting.set(waiting.get() - 1);
        self.0.activity().mark_busy();
    }
}

/// A request in flight, until this is dropped.
pub(super) struct InFlightRequest {
    progress: Progress,
    /// When its head began to arrive.
    pub(super) began: Instant,
    /// When it ended, if that is known: the clock need not be read again.
    pub(super) ended: Option<Instant>,
}

impl InFlightRequest {
    pub(super) fn progress(&self) -> &Progress {
        &self.progress
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        let ConnectionState {
            phase,
            since,
            open,
            waiting,
            draining,
            ..
        } = &*self.progress.0;
        open.set(open.get() - 1);
        if open.get() == 0 {
            let now = self.ended.unwrap_or_else(Instant::now);
            // A stream that ends at shutdown still waits for its client to read the end, and is aborted if the client does not.
            if !(draining.get() && phase.get() == Phase::Streaming) {
                phase.set(Phase::Idle);
            }
            since.set(now);
            self.progress.activity().mark_idle(now);
        } else if open.get() == waiting.get() {
            self.progress.activity().mark_idle(Instant::now());
        }
    }
}
