//! The byte stream below h2. It collects what h2 writes: h2 flushes after every frame with data, and each flush would be a TLS
//! record and a system call. The connection sends what was collected when h2 has nothing more to do.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::super::timeouts::Timeouts;
use super::frames::Frames;

/// The maximum number of bytes that are collected: one TLS record.
const MAX_COLLECTED: usize = 16 * 1024;

/// The bytes that are read in one turn of the connection's task. Then the other connections of the thread have theirs: a client that
/// sends small frames as fast as it can would delay them for as long as it takes to process megabytes.
const MAX_READ_PER_TURN: usize = 16 * 1024;

thread_local! {
    /// A buffer that no connection needs at the moment. Only a connection with something to send has one.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The bytes after which a client that still uses a large dynamic table of HPACK is asked to reconnect. An entry of the table can
/// keep a buffer with what arrived before it.
const RECONNECT_AFTER_BYTES: usize = 64 * 1024;

/// The bytes after which it is disconnected: enough for what a client may have sent before it knows that it has to reconnect.
const DISCONNECT_AFTER_BYTES: usize = 4 * RECONNECT_AFTER_BYTES;

/// The byte stream of a connection. Clones share it: h2 has one, and the connection has one.
pub(super) struct Wire<IO>(Rc<RefCell<WireState<IO>>>);

struct WireState<IO> {
    io: IO,
    /// What was collected. The first `sent` bytes are sent already.
    collected: Vec<u8>,
    sent: usize,
    frames: Frames,
    /// The number of the head that has arrived in part, and since when.
    head: Option<(u64, Instant)>,
    /// Since when the client has not been reading all that is sent, and how much it has read since.
    blocked: Option<(Instant, usize)>,
    has_received: bool,
    /// How many bytes have been read in this turn.
    read: usize,
}

impl<IO> Clone for Wire<IO> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> Wire<IO> {
    pub(super) fn new(io: IO) -> Self {
        Self(Rc::new(RefCell::new(WireState {
            io,
            collected: Vec::new(),
            sent: 0,
            frames: Frames::new(),
            head: None,
            blocked: None,
            has_received: false,
            read: 0,
        })))
    }

    /// Begins a turn of the connection's task, which may read [`MAX_READ_PER_TURN`] bytes. Not when the wire pauses: h2 would read on
    /// in the same turn, once it has handed over the requests that it has.
    pub(super) fn begin_turn(&self) {
        self.0.borrow_mut().read = 0;
    }

    /// Sends what was collected, and flushes it.
    pub(super) fn poll_send(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.0.borrow_mut();
        ready!(inner.poll_write_collected(cx))?;
        // TLS buffers what is written, so only this shows that everything was sent.
        let flushed = Pin::new(&mut inner.io).poll_flush(cx);
        match flushed.is_pending() {
            true => inner.block(),
            false => inner.blocked = None,
        }
        flushed
    }

    /// Since when a head has arrived only in part.
    pub(super) fn head_since(&self) -> Option<Instant> {
        self.0.borrow().head.map(|(_, since)| since)
    }

    /// Since when the client has not read all that was sent.
    pub(super) fn blocked_since(&self) -> Option<Instant> {
        self.0.borrow().blocked.map(|(since, _)| since)
    }

    /// Whether the client has sent something since the last call.
    pub(super) fn take_received(&self) -> bool {
        std::mem::take(&mut self.0.borrow_mut().has_received)
    }

    /// Whether the client has used a large dynamic table of HPACK for too long.
    pub(super) fn must_reconnect(&self) -> bool {
        self.0.borrow().frames.received_at_last_addition() > RECONNECT_AFTER_BYTES
    }

    /// Whether a client that does not read everything has read enough since the last check.
    pub(super) fn reads_enough(&self, timeouts: Timeouts) -> bool {
        let mut inner = self.0.borrow_mut();
        match inner.blocked {
            Some((_, read)) if read >= timeouts.min_bytes() => {
                inner.blocked = Some((Instant::now(), 0));
                true
            }
            _ => false,
        }
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> WireState<IO> {
    fn poll_write_collected(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.collected.len() {
            let rest = &self.collected[self.sent..];
            match Pin::new(&mut self.io).poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => {
                    self.sent += written;
                    if let Some((_, read)) = &mut self.blocked {
                        *read += written;
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.block();
                    return Poll::Pending;
                }
            }
        }
        self.sent = 0;
        if self.collected.capacity() > 0 {
            self.collected.clear();
            SPARE.set(std::mem::take(&mut self.collected));
        }
        Poll::Ready(Ok(()))
    }

    /// Records that the client does not read all that is sent.
    fn block(&mut self) {
        self.blocked.get_or_insert_with(|| (Instant::now(), 0));
    }

    /// Collects bytes. Returns how many there was room for.
    fn collect(&mut self, bytes: &[u8]) -> usize {
        if self.collected.capacity() == 0 {
            self.collected = SPARE.take();
        }
        let taken = bytes
            .len()
            .min(MAX_COLLECTED.saturating_sub(self.collected.len()));
        self.collected.extend_from_slice(&bytes[..taken]);
        taken
    }

    /// Makes room, if there is none.
    fn poll_room(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.collected.len() {
            0..MAX_COLLECTED => Poll::Ready(Ok(())),
            _ => self.poll_write_collected(cx),
        }
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for Wire<IO> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let inner = &mut *self.0.borrow_mut();
        if inner.read >= MAX_READ_PER_TURN {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut inner.io).poll_read(cx, buf))?;
        inner.read += buf.filled().len() - before;
        inner.has_received = true;
        inner.head = match (inner.frames.read(&buf.filled()[before..]), inner.head) {
            (None, _) => None,
            (Some(number), Some((same, since))) if same == number => Some((number, since)),
            (Some(number), _) => Some((number, Instant::now())),
        };
        if inner.frames.received_at_last_addition() > DISCONNECT_AFTER_BYTES {
            return Poll::Ready(Err(io::ErrorKind::InvalidData.into()));
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Wire<IO> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let mut inner = self.0.borrow_mut();
        ready!(inner.poll_room(cx))?;
        Poll::Ready(Ok(inner.collect(bytes)))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut inner = self.0.borrow_mut();
        ready!(inner.poll_room(cx))?;
        let mut taken = 0;
        for slice in slices {
            let more = inner.collect(slice);
            taken += more;
            if more < slice.len() {
                break;
            }
        }
        Poll::Ready(Ok(taken))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut inner = self.0.borrow_mut();
        ready!(inner.poll_write_collected(cx))?;
        Pin::new(&mut inner.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
