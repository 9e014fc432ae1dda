//! What the requests of a connection share.

use std::net::IpAddr;
use std::rc::Rc;

use super::super::Service;
use super::super::progress::Progress;
use super::super::worker::Worker;
use super::outgoing::Outgoing;

pub(super) struct RequestContext<S: Service> {
    pub(super) worker: Rc<Worker<S>>,
    pub(super) peer: IpAddr,
    pub(super) connection: S::Connection,
    pub(super) progress: Progress,
    pub(super) outgoing: Rc<Outgoing>,
}
