//! What the requests of a connection share.

use std::net::IpAddr;
use std::rc::Rc;

use super::super::Service;
use super::super::progress::Progress;
use super::super::service::ThreadState;
use super::outgoing::Outgoing;

pub(super) struct ConnectionContext<S: Service> {
    pub(super) thread: Rc<ThreadState<S>>,
    pub(super) peer: IpAddr,
    pub(super) per_connection: S::PerConnection,
    pub(super) progress: Rc<Progress>,
    pub(super) outgoing: Rc<Outgoing>,
}
