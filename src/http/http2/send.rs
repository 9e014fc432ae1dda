//! Sends the body of a response, as far as its client has room for it. If a client opens its window too slowly or not at all, the
//! stream is reset, as a connection of HTTP/1 is closed if its client does not read.

use std::future::poll_fn;
use std::time::Duration;

use bytes::Bytes;
use h2::{Reason, SendStream};
use http_body_util::BodyExt;
use tokio::time::{Instant, sleep, timeout};

use super::super::body::CHUNK_BYTES;
use super::super::{Body, Service, Timeouts};
use super::SHUTDOWN_GRACE;
use super::context::ConnectionContext;

/// What happens to a stream whose client has no room for its response.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WhenFull {
    Wait,
    /// For a stream over the limit: it counts against no limit, so there could be any number of them.
    Reset,
}

/// Sends a body to its end, or until the client no longer reads.
pub(super) async fn send_body<S: Service>(
    stream: SendStream<Bytes>,
    body: Body,
    context: &ConnectionContext<S>,
    when_full: WhenFull,
) {
    let mut sending = Sending {
        stream,
        context,
        timeouts: context.thread.timeouts,
        when_full,
        waited: Duration::ZERO,
        sent: 0,
    };
    let sent = match body.is_streamed() {
        true => sending.send_streamed(body).await,
        false => sending.send_bytes(body).await,
    };
    if sent.is_none() {
        sending.stream.send_reset(match when_full {
            WhenFull::Wait => Reason::CANCEL,
            WhenFull::Reset => Reason::REFUSED_STREAM,
        });
    }
}

struct Sending<'a, S: Service> {
    stream: SendStream<Bytes>,
    context: &'a ConnectionContext<S>,
    timeouts: Timeouts,
    when_full: WhenFull,
    /// How long the server has waited for the client, and how much the client has read, since the rate was last checked.
    waited: Duration,
    sent: usize,
}

impl<S: Service> Sending<'_, S> {
    async fn send_bytes(&mut self, mut body: Body) -> Option<()> {
        loop {
            let rest = body.bytes().len();
            let room = self.room(rest).await?;
            let (chunk, ends) = body.split(room);
            self.send(chunk, ends).await?;
            if ends {
                return Some(());
            }
        }
    }

    async fn send_streamed(&mut self, mut body: Body) -> Option<()> {
        let outgoing = &self.context.outgoing;
        loop {
            let part = tokio::select! {
                biased;
                // The next part may never arrive.
                () = outgoing.draining() => None,
                part = body.frame() => part,
            };
            let Some(part) = part else {
                return self.stream.send_data(Bytes::new(), true).ok();
            };
            let part = part.ok()?.into_data().unwrap_or_default();
            let not_read = async {
                outgoing.draining().await;
                sleep(SHUTDOWN_GRACE).await;
            };
            tokio::select! {
                sent = self.send_part(part) => sent?,
                () = not_read => return None,
            }
        }
    }

    async fn send_part(&mut self, mut part: Bytes) -> Option<()> {
        while !part.is_empty() {
            let room = self.room(part.len()).await?;
            let chunk = part.split_to(room);
            self.send(chunk, false).await?;
        }
        Some(())
    }

    async fn send(&mut self, chunk: Bytes, ends: bool) -> Option<()> {
        let length = chunk.len();
        let ConnectionContext {
            outgoing, progress, ..
        } = self.context;
        if outgoing.is_full() {
            self.may_wait()?;
            let _waiting = progress.begin_reader_wait();
            outgoing.room().await;
        }
        if !outgoing.add(length) {
            return None;
        }
        self.stream.send_data(chunk, ends).ok()?;
        self.sent += length;
        Some(())
    }

    fn may_wait(&self) -> Option<()> {
        (self.when_full == WhenFull::Wait).then_some(())
    }

    /// Waits until the client has room for a part of the body. Returns how many bytes it has room for, at most those that are left.
    async fn room(&mut self, left: usize) -> Option<usize> {
        let length = left.min(CHUNK_BYTES);
        self.stream.reserve_capacity(length);
        loop {
            if let capacity @ 1.. = self.stream.capacity() {
                return Some(capacity.min(length));
            }
            self.may_wait()?;
            let began = Instant::now();
            let time_left = self.timeouts.idle.saturating_sub(self.waited);
            let waiting = self.context.progress.begin_client_wait();
            let stream = &mut self.stream;
            let room = timeout(time_left, poll_fn(|cx| stream.poll_capacity(cx))).await;
            drop(waiting);
            self.waited += began.elapsed();
            match room {
                Ok(Some(Ok(_))) => {}
                // The stream was reset, or the connection has ended.
                Ok(_) => return None,
                Err(_) if self.sent >= self.timeouts.min_bytes() => {
                    (self.waited, self.sent) = (Duration::ZERO, 0);
                }
                Err(_) => return None,
            }
        }
    }
}
