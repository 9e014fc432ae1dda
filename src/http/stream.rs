//! A connection that notices when its client is too slow. hyper has no timeout for a first byte, for silence between requests
//! or for a client that does not take its response; this stream has, with one timer that is hardly ever re-armed.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::connections::Slot;
use super::linger::Linger;
use super::progress::{Phase, Progress};
use super::timeouts::Timeouts;
use super::worker::Worker;

/// The stream.
pub(super) struct Stream<'a, IO> {
    io: IO,
    timeouts: Timeouts,
    progress: Progress,
    /// When the time of the client is up, in a phase that has an end.
    deadline: Instant,
    /// Fires at or before the deadline: it is set again when it fires, not each time the deadline moves on.
    timer: Pin<Box<Sleep>>,
    /// The timer knows whom to wake: always the task of this connection.
    watched: bool,
    /// The client has not taken all that there was to send: nothing of ours may be put behind it.
    stalled: bool,
    /// The client has let us wait while it took this response.
    slow: bool,
    /// Bytes it took since the deadline was last moved on.
    taken: usize,
    /// When the response was made that is being written.
    made: Instant,
    /// What to send to a client that sent only half a head.
    timed_out: &'a dyn Fn() -> Vec<u8>,
    /// How many connections of this thread linger, and whether this one does.
    lingering: &'a Cell<usize>,
    linger: Option<Linger<'a>>,
}

impl<'a, IO: AsyncRead + AsyncWrite + Unpin> Stream<'a, IO> {
    pub(super) fn new<S>(
        io: IO,
        slot: Slot,
        worker: &'a Worker<S>,
        timed_out: &'a dyn Fn() -> Vec<u8>,
    ) -> Self {
        let (now, timeouts) = (Instant::now(), worker.timeouts);
        let deadline = now + timeouts.request;
        Self {
            io,
            timeouts,
            progress: Progress::new(slot, &worker.draining, now),
            deadline,
            timer: Box::pin(sleep_until(deadline)),
            watched: false,
            stalled: false,
            slow: false,
            taken: 0,
            made: now,
            timed_out,
            lingering: &worker.lingering,
            linger: None,
        }
    }

    pub(super) fn progress(&self) -> Progress {
        self.progress.clone()
    }

    /// The client lets us wait: is it too long?
    fn wait(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let (phase, activity) = (self.progress.phase(), self.progress.activity());
        if phase == Phase::Busy {
            return Poll::Pending;
        }
        if activity.is_evicted() || (phase == Phase::New && self.progress.is_ending()) {
            return Poll::Ready(io::ErrorKind::ConnectionAborted.into());
        }
        if self.timer.deadline() > self.deadline {
            self.timer.as_mut().reset(self.deadline);
        } else if self.watched && !self.timer.is_elapsed() {
            return Poll::Pending;
        }
        while self.timer.as_mut().poll(cx).is_ready() {
            if Instant::now() >= self.deadline {
                if phase == Phase::Head && !self.stalled {
                    // Half a request came: say why there is no response. If that cannot be sent at once, it is not.
                    let rejection = (self.timed_out)();
                    let _ = Pin::new(&mut self.io).poll_write(cx, &rejection);
                }
                return Poll::Ready(io::ErrorKind::TimedOut.into());
            }
            self.timer.as_mut().reset(self.deadline);
        }
        if !self.watched {
            self.watched = true;
            activity.watch(cx.waker());
            // It may have been evicted before anyone could be woken.
            if activity.is_evicted() {
                return Poll::Ready(io::ErrorKind::ConnectionAborted.into());
            }
        }
        Poll::Pending
    }

    fn wrote(
        &mut self,
        result: Poll<io::Result<usize>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        self.stalled = result.is_pending();
        let Poll::Ready(done) = result else {
            self.slow = true;
            return self.wait(cx).map(Err);
        };
        let made = self.progress.since();
        if made != self.made {
            // The first of a new response.
            self.made = made;
            self.slow = false;
            self.taken = 0;
            self.deadline = made + self.timeouts.idle;
        } else if self.slow {
            self.taken += done.as_ref().map_or(0, |taken| *taken);
            if self.taken >= self.timeouts.quota() {
                self.move_on();
            } else {
                // One that reads, however slowly, is not the one that has been idle longest.
                self.progress.activity().is_idle(Instant::now());
            }
        }
        // Reading may be waiting since before the response, when there was no deadline; from now on there is.
        let _ = self.wait(cx);
        Poll::Ready(done)
    }

    /// The client has done what it had to: its time begins anew.
    fn move_on(&mut self) {
        let now = Instant::now();
        self.taken = 0;
        self.deadline = now + self.timeouts.idle;
        self.progress.activity().is_idle(now);
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<'_, IO> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.io).poll_read(cx, buf) {
            Poll::Pending => {
                if self.slow && self.progress.phase() == Phase::Idle {
                    // The next request is waited for, so the last of the response has been taken.
                    self.slow = false;
                    self.move_on();
                }
                self.wait(cx).map(Err)
            }
            done => {
                let waits = matches!(self.progress.phase(), Phase::New | Phase::Idle);
                if buf.filled().len() > before && waits {
                    self.deadline = self.progress.enter(Phase::Head) + self.timeouts.request;
                }
                done
            }
        }
    }
}

impl<IO: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<'_, IO> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.io).poll_write(cx, bytes);
        self.wrote(result, cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.io).poll_write_vectored(cx, slices);
        self.wrote(result, cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if this.linger.is_none() {
            ready!(Pin::new(&mut this.io).poll_shutdown(cx))?;
            if this.progress.lingers() {
                this.linger = Linger::begin(this.lingering);
            }
        }
        let evicted = this.progress.activity().is_evicted();
        match &mut this.linger {
            Some(linger) if !evicted => linger.poll(&mut this.io, &mut this.timer, cx).map(Ok),
            _ => Poll::Ready(Ok(())),
        }
    }
}
