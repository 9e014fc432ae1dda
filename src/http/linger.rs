//! Lingering close: after a response whose client may still send, what arrives is read and discarded: the rest of a body or of a
//! head that was rejected, requests after the last one that a shutdown completes, window updates of HTTP/2. A socket that is closed
//! with unread data, or that receives data afterwards, resets the connection, and the client loses the response.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep, timeout};

use super::RequestBody;
use super::progress::Progress;
use super::timeouts::SHUTDOWN_GRACE;

/// How long the client may pause.
pub(super) const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);

/// The total time for which the client may continue to send.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum number of connections of one thread that linger at the same time, and of request bodies over HTTP/2 that are discarded.
/// Others are closed immediately.
const MAX_LINGERING: usize = 1_024;

/// Bytes read at a time.
const READ_BYTES: usize = 16 * 1024;

pub(super) struct Linger<'a> {
    count: &'a Cell<usize>,
    end: Instant,
    silent_since: Instant,
}

impl<'a> Linger<'a> {
    /// Begins to linger, unless too many do already.
    pub(super) fn begin(count: &'a Cell<usize>) -> Option<Self> {
        if count.get() >= MAX_LINGERING {
            return None;
        }
        count.set(count.get() + 1);
        let now = Instant::now();
        Some(Self {
            count,
            end: now + TOTAL_TIMEOUT,
            silent_since: now,
        })
    }

    /// Reads and discards the rest of a body over HTTP/2, until the client pauses for too long. Without this, the stream would be
    /// reset immediately, and some clients, such as curl 7.88, would lose the response.
    pub(super) async fn discard(count: &'a Cell<usize>, body: &mut RequestBody, silence: Duration) {
        let Some(_lingering) = Self::begin(count) else {
            return;
        };
        let all = async { while let Ok(Ok(Some(_))) = timeout(silence, body.next()).await {} };
        let _ = timeout(TOTAL_TIMEOUT, all).await;
    }

    /// Reads and discards until the client has closed, its time has expired, or its connection is evicted. A shutdown
    /// shortens the pauses that it may make.
    pub(super) fn poll(
        &mut self,
        io: &mut (impl AsyncRead + Unpin),
        mut timer: Pin<&mut Sleep>,
        progress: &Progress,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        if progress.activity().is_evicted() {
            return Poll::Ready(());
        }
        let mut discarded = [0; READ_BYTES];
        let mut read = false;
        loop {
            let mut buffer = ReadBuf::new(&mut discarded);
            match Pin::new(&mut *io).poll_read(cx, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => read = true,
                Poll::Ready(_) => return Poll::Ready(()),
                Poll::Pending => break,
            }
        }
        let now = Instant::now();
        if read {
            self.silent_since = now;
        }
        let silence = match progress.draining.get() {
            true => SHUTDOWN_GRACE,
            false => SILENCE_TIMEOUT,
        };
        let deadline = self.end.min(self.silent_since + silence);
        if now >= deadline {
            return Poll::Ready(());
        }
        timer.as_mut().reset(deadline);
        timer.as_mut().poll(cx)
    }
}

impl Drop for Linger<'_> {
    fn drop(&mut self) {
        self.count.set(self.count.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_lingering_connections_is_limited() {
        let count = Cell::new(0);
        let mut lingering: Vec<_> = (0..MAX_LINGERING)
            .filter_map(|_| Linger::begin(&count))
            .collect();
        assert_eq!(lingering.len(), MAX_LINGERING);
        assert!(Linger::begin(&count).is_none());
        lingering.pop();
        assert!(Linger::begin(&count).is_some());
    }
}
