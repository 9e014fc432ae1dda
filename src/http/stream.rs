//! A stream with timeouts for slow clients. hyper has one timeout for a head, which also runs before its first byte and between
//! requests, and none for a client that does not read its response. This stream tells them apart, with one timer that is rarely
//! re-armed.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::connections::Slot;
use super::linger::Linger;
use super::progress::{Phase, Progress};
use super::service::ThreadState;
use super::timeouts::Timeouts;
use super::tls::MAX_BUFFERED_BYTES;

pub(super) struct TimeoutStream<'a, IO> {
    io: IO,
    timeouts: Timeouts,
    pub(super) progress: Rc<Progress>,
    /// The deadline of the client, in phases that have one.
    deadline: Instant,
    /// Fires at or before the deadline: it is re-armed when it fires, not each time the deadline is reset.
    timer: Pin<Box<Sleep>>,
    timer_has_waker: bool,
    /// Whether a write is pending because the client does not read. Nothing else, such as a 408, may be written then.
    stalled: bool,
    /// Whether the server has waited for the client to read this response.
    slow: bool,
    /// How many bytes the stream itself may hold, as TLS does: the client need not have read the last of what was written.
    buffered: usize,
    /// Bytes written since the deadline was last reset.
    written: usize,
    /// When the response that is being written was ready. For a streamed body, the time of an earlier step.
    ready_at: Instant,
    /// The response to a client that sent only a part of a head.
    timeout_response: &'a dyn Fn() -> Vec<u8>,
    /// How many of this thread linger, and whether this connection does.
    lingering: &'a Cell<usize>,
    linger: Option<Linger<'a>>,
}

impl<'a, IO: AsyncRead + AsyncWrite + Unpin> TimeoutStream<'a, IO> {
    pub(super) fn new<S>(
        io: IO,
        slot: Slot,
        thread: &'a ThreadState<S>,
        timeout_response: &'a dyn Fn() -> Vec<u8>,
    ) -> Self {
        let (now, timeouts) = (Instant::now(), thread.timeouts);
        let deadline = now + timeouts.request;
        Self {
            io,
            timeouts,
            progress: Progress::new(slot, &thread.draining, now),
            deadline,
            timer: Box::pin(sleep_until(deadline)),
            timer_has_waker: false,
            stalled: false,
            slow: false,
            buffered: 0,
            written: 0,
            ready_at: now,
            timeout_response,
            lingering: &thread.lingering,
            linger: None,
        }
    }

    /// Checks the deadline while waiting for the client. Ready when the connection has to end: the deadline has passed, it was evicted,
    /// or the server shuts down.
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let (phase, activity) = (self.progress.phase.get(), self.progress.activity());
        let ends = match phase {
            Phase::New => self.progress.ending.get(),
            // At shutdown, a streamed body that its client does not read is aborted here; one that is read ends with its body.
            Phase::Streaming => self.stalled && self.progress.draining.get(),
            Phase::Busy | Phase::Idle | Phase::Head => false,
        };
        if ends || activity.is_evicted() {
            return Poll::Ready(io::ErrorKind::ConnectionAborted.into());
        }
        if phase == Phase::Busy || (phase == Phase::Streaming && !self.stalled) {
            // The client has no deadline, but its connection may be evicted while its body arrives, or the server may shut down.
            activity.store_waker(cx.waker());
            return match activity.is_evicted() {
                true => Poll::Ready(io::ErrorKind::ConnectionAborted.into()),
                false => Poll::Pending,
            };
        }
        if self.timer.deadline() > self.deadline {
            self.timer.as_mut().reset(self.deadline);
        } else if self.timer_has_waker && !self.timer.is_elapsed() {
            return Poll::Pending;
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= self.deadline {
                if phase == Phase::Head && !self.stalled {
                    // A part of a head has arrived: sends a 408, if it can be written without blocking.
                    let rejection = (self.timeout_response)();
                    let _ = Pin::new(&mut self.io).poll_write(cx, &rejection);
                }
                return Poll::Ready(io::ErrorKind::TimedOut.into());
            }
            self.timer.as_mut().reset(self.deadline);
        }
        if !self.timer_has_waker {
            self.timer_has_waker = true;
            activity.store_waker(cx.waker());
            // It may have been evicted before its waker was stored.
            if activity.is_evicted() {
                return Poll::Ready(io::ErrorKind::ConnectionAborted.into());
            }
        }
        Poll::Pending
    }

    /// Checks the deadline while the client does not read.
    fn wait_for_reader(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let now = Instant::now();
        let is_streaming = self.progress.phase.get() == Phase::Streaming;
        if is_streaming && !self.slow {
            // The time that the service took for this part does not count.
            self.reset_deadline(now);
        }
        if is_streaming || !self.slow {
            self.progress.activity().mark_writing(now);
        }
        self.stalled = true;
        self.slow = true;
        self.wait(cx)
    }

    /// Resets the deadline after progress of the client.
    fn reset_deadline(&mut self, now: Instant) {
        self.written = 0;
        self.deadline = now + self.timeouts.idle;
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for TimeoutStream<'_, IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.io).poll_read(cx, buf) {
            Poll::Pending => {
                if self.slow && !self.stalled && self.progress.phase.get() == Phase::Idle {
                    // hyper waits for the next request, so the response has been written.
                    let now = Instant::now();
                    self.slow = false;
                    self.reset_deadline(now);
                    self.progress.activity().mark_waiting(now);
                }
                self.wait(cx).map(Err)
            }
            done => {
                let arrived = &buf.filled()[before..];
                // Empty lines before a request are not part of it (RFC 9112).
                let begins = || arrived.iter().any(|byte| !b"\r\n".contains(byte));
                match self.progress.phase.get() {
                    Phase::New | Phase::Idle if begins() => {
                        self.deadline = self.progress.enter(Phase::Head) + self.timeouts.request;
                    }
                    // The deadline stays. The duration of the request begins with the last part of its head: how long the earlier
                    // parts take is up to the client.
                    Phase::Head if !arrived.is_empty() => {
                        self.progress.enter(Phase::Head);
                    }
                    _ => {}
                }
                done
            }
        }
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TimeoutStream<'_, IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        let result = Pin::new(&mut this.io).poll_write(cx, bytes);
        let Poll::Ready(done) = result else {
            return this.wait_for_reader(cx).map(Err);
        };
        this.stalled = false;
        let ready_at = this.progress.since.get();
        if ready_at != this.ready_at {
            // The first write of a new response.
            this.ready_at = ready_at;
            this.slow = false;
            this.written = 0;
            this.deadline = ready_at + this.timeouts.idle;
        } else if this.slow {
            this.written += done.as_ref().map_or(0, |written| *written);
            let now = Instant::now();
            let min_bytes = this.timeouts.min_bytes();
            if this.written + this.buffered.min(min_bytes / 2) >= min_bytes {
                this.reset_deadline(now);
            }
            this.progress.activity().mark_writing(now);
        }
        if this.progress.phase.get() == Phase::Streaming {
            this.progress.activity().mark_busy();
        }
        // A read may be pending since before the response, when there was no deadline; now there is one.
        let _ = this.wait(cx);
        Poll::Ready(done)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        // TLS buffers what is written, so only this shows that its client does not read.
        let Poll::Ready(flushed) = Pin::new(&mut this.io).poll_flush(cx) else {
            this.buffered = MAX_BUFFERED_BYTES;
            return this.wait_for_reader(cx).map(Err);
        };
        this.stalled = false;
        if this.progress.phase.get() == Phase::Streaming {
            let activity = this.progress.activity();
            if this.slow {
                // The client has read all that was streamed, but for what is in the buffer of the socket.
                this.slow = false;
                activity.mark_busy();
            }
            // It may have been evicted just before the streamed body began or was busy again, and nothing else would notice it.
            if activity.is_evicted() {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
        }
        Poll::Ready(flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        this.progress.is_shut_down.set(true);
        if this.linger.is_none() {
            // With TLS, there is a last record to write.
            let Poll::Ready(shut_down) = Pin::new(&mut this.io).poll_shutdown(cx) else {
                return this.wait_for_reader(cx).map(Err);
            };
            shut_down?;
            let Progress {
                lingers,
                phase,
                ending,
                ..
            } = &*this.progress;
            // A connection that a shutdown ends without a response has none to lose, and must not delay the shutdown.
            let has_rejected_head = phase.get() == Phase::Head && !ending.get();
            if lingers.get() || this.slow || has_rejected_head {
                this.linger = Linger::begin(this.lingering);
            }
        }
        match &mut this.linger {
            Some(linger) => linger
                .poll(&mut this.io, this.timer.as_mut(), &this.progress, cx)
                .map(Ok),
            None => Poll::Ready(Ok(())),
        }
    }
}
