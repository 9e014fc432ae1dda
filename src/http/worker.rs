//! State shared by the connections of one thread.

use std::cell::Cell;
use std::rc::Rc;

use super::request_id::RequestIds;
use super::timeouts::Timeouts;

pub(super) struct Worker<S> {
    pub(super) service: S,
    pub(super) ids: RequestIds,
    pub(super) timeouts: Timeouts,
    pub(super) draining: Rc<Cell<bool>>,
    pub(super) lingering: Cell<usize>,
}
