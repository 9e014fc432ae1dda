//! The metrics, the log line and the span of a request.

use std::cell::Cell;
use std::net::IpAddr;

use crate::clock::Timestamp;
use crate::http::{Exchange, RequestId};
use crate::key::KeyId;
use crate::limit::Quota;
use crate::log::{RequestLine, RequestLog};
use crate::metrics::{CANCELLED_STATUS, OperationLabel, WorkerMetrics};
use crate::trace::RequestSpan;

/// A request, for the metrics, the log and the trace. It is written when this is dropped, so that cancelled requests are recorded too.
pub(super) struct RequestRecord<'a> {
    pub(super) metrics: &'a WorkerMetrics,
    pub(super) log: &'a RequestLog,
    pub(super) now: Timestamp,
    /// None if the request was not read.
    pub(super) exchange: Option<&'a Exchange>,
    pub(super) id: &'a RequestId,
    pub(super) method: Option<&'static str>,
    pub(super) label: OperationLabel,
    pub(super) client: IpAddr,
    pub(super) status: u16,
    /// Why a connection or a stream was rejected.
    pub(super) reason: Option<&'static str>,
    pub(super) state: RequestState,
    pub(super) span: RequestSpan,
}

/// What the pipeline finds out about a request: the quota for its response, and the key and the cause of a 5xx for its record.
#[derive(Default)]
pub(super) struct RequestState {
    pub(super) key: Cell<Option<KeyId>>,
    pub(super) quota: Cell<Option<Quota>>,
    pub(super) cause: Cell<Option<Box<str>>>,
}

impl Drop for RequestRecord<'_> {
    fn drop(&mut self) {
        let took = self.exchange.map(Exchange::end).unwrap_or_default();
        self.metrics.count(self.label, self.status, took);
        let is_complete = self.status != CANCELLED_STATUS;
        self.span.end(is_complete.then_some(self.status));
        let key = self.state.key.get();
        self.metrics.watched.record(key, self.status);
        if self.label.is_logged() {
            self.log.write(&RequestLine {
                at: self.now,
                id: self.id.as_bytes(),
                method: self.method,
                operation: self.label.name(),
                client: self.client,
                status: self.status,
                took,
                key,
                reason: self.reason,
                cause: self.state.cause.take().as_deref(),
            });
        }
    }
}
