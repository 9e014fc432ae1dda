//! State shared by the connections of one thread.

use std::cell::Cell;
use std::rc::Rc;

use super::request_id::RequestIds;
use super::timeouts::Timeouts;

/// The state of a worker thread, shared by its connections.
pub(super) struct Worker<S> {
    pub(super) service: S,
    pub(super) ids: RequestIds,
    pub(super) timeouts: Timeouts,
    /// Whether the server is shutting down.
    pub(super) draining: Rc<Cell<bool>>,
    /// How many connections linger.
    pub(super) lingering: Cell<usize>,
}
