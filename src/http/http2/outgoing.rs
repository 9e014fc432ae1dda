//! Data of responses that h2 holds because its client does not read. Requests wait before they hand over more than a connection may
//! hold: otherwise a client with large windows that does not read could have a chunk of each of its streams in memory. Requests
//! that wait here also learn that the server shuts down.

use std::cell::Cell;

use tokio::sync::Notify;

/// The maximum number of bytes that h2 holds for the streams of a connection.
const MAX_BYTES: usize = 32 * 1024;

/// What h2 needs for each chunk besides its bytes, at least: it keeps the memory for as many as it ever held until the connection ends,
/// and a client that opens its window by one byte at a time gets chunks of one byte.
const CHUNK_OVERHEAD: usize = 512;

/// The data that h2 holds for a connection.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    bytes: Cell<usize>,
    closed: Cell<bool>,
    draining: Cell<bool>,
    changed: Notify,
}

impl Outgoing {
    /// Whether another chunk has to wait.
    pub(super) fn is_full(&self) -> bool {
        self.bytes.get() >= MAX_BYTES && !self.closed.get()
    }

    /// Waits until there is room for another chunk.
    pub(super) async fn room(&self) {
        while self.is_full() {
            self.changed.notified().await;
        }
    }

    /// Counts a chunk. Returns false when the connection has ended.
    pub(super) fn add(&self, bytes: usize) -> bool {
        self.bytes.set(self.bytes.get() + bytes + CHUNK_OVERHEAD);
        !self.closed.get()
    }

    /// Records that h2 holds no more data: it has passed everything on to the socket or its buffer.
    pub(super) fn passed_on(&self) {
        if self.bytes.replace(0) >= MAX_BYTES {
            self.changed.notify_waiters();
        }
    }

    /// Records that the server shuts down.
    pub(super) fn drain(&self) {
        if !self.draining.replace(true) {
            self.changed.notify_waiters();
        }
    }

    /// Waits until the server shuts down.
    pub(super) async fn draining(&self) {
        while !self.draining.get() {
            self.changed.notified().await;
        }
    }

    /// Ends all waits: the connection has ended.
    pub(super) fn close(&self) {
        self.closed.set(true);
        self.changed.notify_waiters();
    }
}
