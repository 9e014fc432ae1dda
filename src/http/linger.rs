//! Lingering close: after a response that was sent before the body of its request was read, the rest of the body is read and
//! discarded. A socket that is closed with unread data resets the connection, and the client loses the response.

use std::cell::Cell;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Instant, Sleep, timeout};

use super::RequestBody;
use super::timeouts::SHUTDOWN_GRACE;

/// How long the client may pause.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);

/// The total time for which the client may continue to send.
const TOTAL_TIMEOUT: Duration = Duration::from_secs(10);

/// The maximum number of connections of one thread that linger at the same time. Others are closed immediately.
const MAX_LINGERING: usize = 1_024;

/// Bytes read at a time.
const CHUNK_BYTES: usize = 16 * 1024;

pub(super) struct Linger<'a> {
    count: &'a Cell<usize>,
    end: Instant,
    silent_until: Instant,
}

impl<'a> Linger<'a> {
    /// Begins to linger, unless too many connections do already.
    pub(super) fn begin(count: &'a Cell<usize>) -> Option<Self> {
        if count.get() >= MAX_LINGERING {
            return None;
        }
        count.set(count.get() + 1);
        let now = Instant::now();
        Some(Self {
            count,
            end: now + TOTAL_TIMEOUT,
            silent_until: now + SILENCE_TIMEOUT,
        })
    }

    /// Reads and discards the rest of a body over HTTP/2. Otherwise the stream would be reset immediately, and some clients,
    /// such as curl 7.88, would lose the response.
    pub(super) async fn discard(count: &'a Cell<usize>, body: &mut RequestBody) {
        let Some(_lingering) = Self::begin(count) else {
            return;
        };
        let all =
            async { while let Ok(Ok(Some(_))) = timeout(SILENCE_TIMEOUT, body.next()).await {} };
        let _ = timeout(TOTAL_TIMEOUT, all).await;
    }

    /// Reads and discards until the client has closed, or its time has expired. A shutdown shortens it.
    pub(super) fn poll(
        &mut self,
        io: &mut (impl AsyncRead + Unpin),
        timer: &mut Pin<Box<Sleep>>,
        is_draining: bool,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        let mut discarded = [0; CHUNK_BYTES];
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
            self.silent_until = now + SILENCE_TIMEOUT;
        }
        if is_draining {
            self.end = self.end.min(now + SHUTDOWN_GRACE);
        }
        let deadline = self.end.min(self.silent_until);
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
