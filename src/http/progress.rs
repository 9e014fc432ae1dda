//! The phase of a connection, and the time of its last step. Written by requests and by their connection (`TimeoutStream`, or
//! `http2`), which reads it for its timeouts.

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
    /// The first byte of the next request. Over HTTP/1 this begins when the previous response is ready, and lasts while that is written
    /// (unless its body is streamed). It includes the rest of a head that arrived together with the previous request: hyper does not
    /// show what it has buffered.
    Idle,
    /// The rest of a head. Only over HTTP/1.
    Head,
    /// The service. A body has a separate deadline, where it is read.
    Busy,
    /// The service or the client: the body of the response is streamed. Only over HTTP/1.
    Streaming,
}

/// The progress of one connection. The clock is read once for each step, and the time of each step is shared.
pub(super) struct Progress {
    pub(super) phase: Cell<Phase>,
    /// When the connection entered `New` or `Idle`, a part of a head arrived, or its last request in flight ended. `Busy` and `Streaming`
    /// do not set it.
    pub(super) since: Cell<Instant>,
    /// Requests in flight: at most one in HTTP/1.
    in_flight: Cell<usize>,
    /// Those of them that wait for the client: for a body to arrive, or for a response to be read.
    waiting: Cell<usize>,
    /// Whether the server is shutting down: the connection ends with its next response.
    pub(super) draining: Rc<Cell<bool>>,
    /// Whether a connection without a request ends now.
    pub(super) ending: Cell<bool>,
    /// Whether the connection lingers when it is closed: the server ends it with its last response, and the client may send more.
    pub(super) lingers: Cell<bool>,
    /// Whether the shutdown of the stream has begun.
    pub(super) is_shut_down: Cell<bool>,
    slot: Slot,
}

impl Progress {
    pub(super) fn new(slot: Slot, draining: &Rc<Cell<bool>>, now: Instant) -> Rc<Self> {
        Rc::new(Self {
            phase: Cell::new(Phase::New),
            since: Cell::new(now),
            in_flight: Cell::new(0),
            waiting: Cell::new(0),
            draining: Rc::clone(draining),
            ending: Cell::new(false),
            lingers: Cell::new(false),
            is_shut_down: Cell::new(false),
            slot,
        })
    }

    /// Records that a head has arrived. Its request is in flight until the return value is dropped.
    pub(super) fn begin(self: &Rc<Self>) -> InFlightRequest {
        // It is unknown when a head arrived that came together with the previous request, or over HTTP/2, where it may arrive among
        // frames of other requests. Both count as arriving now.
        let began = match self.phase.replace(Phase::Busy) {
            Phase::Head => self.since.get(),
            _ => Instant::now(),
        };
        self.in_flight.set(self.in_flight.get() + 1);
        self.activity().mark_busy();
        InFlightRequest {
            progress: Rc::clone(self),
            began,
            ended: None,
        }
    }

    /// Sets the phase, and the time of the last step to now.
    pub(super) fn enter(&self, phase: Phase) -> Instant {
        let now = Instant::now();
        self.phase.set(phase);
        self.since.set(now);
        now
    }

    /// Records that a request in flight waits for the client, until the return value is dropped. While all requests of a connection
    /// do, it can be evicted.
    pub(super) fn begin_client_wait(&self) -> ClientWait<'_> {
        self.begin_wait(Activity::mark_waiting)
    }

    /// The same for a client that does not read from its socket what it was sent: its connection is evicted later, unless another
    /// request on it ends meanwhile.
    pub(super) fn begin_reader_wait(&self) -> ClientWait<'_> {
        self.begin_wait(Activity::mark_writing)
    }

    fn begin_wait(&self, mark: fn(&Activity, Instant)) -> ClientWait<'_> {
        self.waiting.set(self.waiting.get() + 1);
        if self.waiting.get() == self.in_flight.get() {
            mark(self.activity(), Instant::now());
        }
        ClientWait(self)
    }

    /// Whether the request that began last may be served: those beyond the first of a connection are limited over all connections
    /// and by address.
    pub(super) fn reserve_stream(&self) -> bool {
        self.slot.reserve(self.in_flight.get() - 1)
    }

    /// Releases what was reserved beyond what the requests in flight need.
    pub(super) fn release_streams(&self) {
        self.slot.release_beyond(self.in_flight.get());
    }

    /// The activity, as other threads see it.
    pub(super) fn activity(&self) -> &Activity {
        self.slot.activity()
    }
}

/// A request that waits for its client, until this is dropped.
pub(super) struct ClientWait<'a>(&'a Progress);

impl Drop for ClientWait<'_> {
    fn drop(&mut self) {
        let waiting = &self.0.waiting;
        waiting.set(waiting.get() - 1);
        self.0.activity().mark_busy();
    }
}

/// A request in flight, until this is dropped.
pub(super) struct InFlightRequest {
    pub(super) progress: Rc<Progress>,
    /// When its head had arrived, as far as that is known ([`Progress::begin`]).
    pub(super) began: Instant,
    /// When it ended, if that is known: the clock need not be read again.
    pub(super) ended: Option<Instant>,
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        let Progress {
            phase,
            since,
            in_flight,
            waiting,
            draining,
            ..
        } = &*self.progress;
        in_flight.set(in_flight.get() - 1);
        if in_flight.get() == 0 {
            let now = self.ended.unwrap_or_else(Instant::now);
            // A streamed body that ends at shutdown still waits for its client to read the end: if the client does not, it is
            // aborted.
            if !(draining.get() && phase.get() == Phase::Streaming) {
                phase.set(Phase::Idle);
            }
            since.set(now);
            self.progress.activity().mark_waiting(now);
        } else if in_flight.get() == waiting.get() {
            self.progress.activity().mark_waiting(Instant::now());
        }
    }
}
