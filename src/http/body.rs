//! The body of a response: shared bytes, or a stream.
//!
//! hyper copies what it gets into the buffer of the connection. So it gets bodies in pieces, and polls for the next one when the
//! client has read the last one: a client that reads nothing costs a few KiB, however large the body is.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::io;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use bytes::Bytes;
use futures_util::Stream;
use hyper::body::{Frame, SizeHint};

use super::progress::InFlightRequest;

/// Bytes of a piece. Most bodies are one piece.
const PIECE: usize = 8 * 1024;

/// The most bytes of large bodies that are held for clients that have not read them: a client with a key can request many large
/// pages that no other client needs.
const MAX_HELD: usize = 64 * 1024 * 1024;

/// Bodies up to this size are small: the buffers of a connection are larger.
const SMALL: usize = 16 * 1024;

/// The large bodies that are held, over all threads.
static HELD: Mutex<HeldBodies> = Mutex::new(HeldBodies::new());

/// The large bodies that are held, each counted once: of a cached page, all clients read the same bytes.
#[derive(Debug)]
struct HeldBodies {
    /// Size and clients of each, by the address of its bytes.
    by_address: BTreeMap<usize, (usize, usize)>,
    bytes: usize,
}

impl HeldBodies {
    const fn new() -> Self {
        Self {
            by_address: BTreeMap::new(),
            bytes: 0,
        }
    }

    fn add(&mut self, address: usize, size: usize) {
        let (_, clients) = self.by_address.entry(address).or_insert_with(|| {
            self.bytes += size;
            (size, 0)
        });
        *clients += 1;
    }

    fn remove(&mut self, address: usize) {
        if let Entry::Occupied(mut entry) = self.by_address.entry(address) {
            entry.get_mut().1 -= 1;
            if let (size, 0) = *entry.get() {
                entry.remove();
                self.bytes -= size;
            }
        }
    }
}

fn held() -> MutexGuard<'static, HeldBodies> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The body of a response.
#[derive(Debug, Default)]
pub struct Body {
    /// Dropped before `bytes`, so that no other body can have the same address while this one is held.
    held: Held,
    /// The rest of a body that is not streamed.
    bytes: Bytes,
    stream: Option<Box<Streamed>>,
}

/// The address of a large body that is held until this is dropped.
#[derive(Debug, Default)]
struct Held(Option<NonZeroUsize>);

/// A body that is generated while it is sent. Its request stays in flight until it ends.
struct Streamed {
    parts: Pin<Box<dyn Stream<Item = io::Result<Bytes>>>>,
    request: Option<InFlightRequest>,
}

impl Streamed {
    /// Whether the server shuts down: it does not wait for a body that may have no end.
    fn is_draining(&self) -> bool {
        let request = self.request.as_ref();
        request.is_some_and(|request| request.progress().is_draining())
    }
}

impl fmt::Debug for Streamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Streamed")
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(address) = self.0 {
            held().remove(address.get());
        }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self {
            bytes,
            ..Self::default()
        }
    }
}

impl Body {
    /// A body that is generated while it is sent. An error aborts the connection, so that the client notices the missing rest.
    pub fn streamed(parts: impl Stream<Item = io::Result<Bytes>> + 'static) -> Self {
        Self {
            stream: Some(Box::new(Streamed {
                parts: Box::pin(parts),
                request: None,
            })),
            ..Self::default()
        }
    }

    /// Counts the body of one response among those that are held, if it is large. Returns false if the limit is reached.
    pub fn hold(&mut self) -> bool {
        let size = self.bytes.len();
        if size <= SMALL {
            return true;
        }
        let address = self.bytes.as_ptr().addr();
        let mut held = held();
        held.add(address, size);
        self.held = Held(NonZeroUsize::new(address));
        held.bytes <= MAX_HELD
    }

    /// The bytes of a body that is not streamed.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// The next bytes of a body that is not streamed, at most so many, and whether they are the last.
    pub(super) fn split(&mut self, most: usize) -> (Bytes, bool) {
        if most < self.bytes.len() {
            return (self.bytes.split_to(most), false);
        }
        let last = std::mem::take(&mut self.bytes);
        // The last bytes of a large body are copied: they may stay for long, and would keep all of it in memory, uncounted.
        let is_held = std::mem::take(&mut self.held).0.is_some();
        match is_held {
            true => (Bytes::copy_from_slice(&last), true),
            false => (last, true),
        }
    }

    /// Whether it is generated while it is sent.
    pub(super) fn is_streamed(&self) -> bool {
        self.stream.is_some()
    }

    /// Keeps the request in flight until the body has been sent.
    pub(super) fn keep(&mut self, request: InFlightRequest) {
        if let Some(stream) = &mut self.stream {
            request.progress().stream();
            stream.request = Some(request);
        }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        let piece = match self.bytes.len() {
            0 => {
                return match &mut self.stream {
                    Some(stream) if stream.is_draining() => {
                        Poll::Ready(Some(Err(io::ErrorKind::ConnectionAborted.into())))
                    }
                    Some(stream) => {
                        let next = stream.parts.as_mut().poll_next(cx);
                        next.map(|part| part.map(|part| part.map(Frame::data)))
                    }
                    None => Poll::Ready(None),
                };
            }
            1..=PIECE => {
                self.held = Held::default();
                std::mem::take(&mut self.bytes)
            }
            _ => self.bytes.split_to(PIECE),
        };
        Poll::Ready(Some(Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.bytes.is_empty() && self.stream.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.stream {
            Some(_) => SizeHint::default(),
            None => SizeHint::with_exact(self.bytes.len() as u64),
        }
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;
    use hyper::body::Body as _;

    use super::*;

    #[tokio::test]
    async fn a_body_is_sent_in_small_pieces_that_share_its_memory() {
        let bytes = Bytes::from(vec![b'x'; 3 * PIECE + 1]);
        let mut body = Body::from(bytes.clone());
        assert_eq!(body.size_hint().exact(), Some(bytes.len() as u64));
        let mut sent = 0;
        while let Some(frame) = body.frame().await {
            let piece = frame.unwrap().into_data().unwrap();
            assert!((1..=PIECE).contains(&piece.len()));
            assert_eq!(piece.as_ptr(), bytes[sent..].as_ptr(), "a copy");
            sent += piece.len();
        }
        assert_eq!(sent, bytes.len());
        assert!(body.is_end_stream());
    }

    #[test]
    fn large_bodies_are_held_up_to_a_limit_and_small_ones_always() {
        let large = || Bytes::from(vec![b'x'; 1 << 20]);
        let hold = |bytes: Bytes| {
            let mut body = Body::from(bytes);
            body.hold().then_some(body)
        };
        let mut bodies: Vec<_> = (0..64).map(|_| hold(large()).unwrap()).collect();
        assert!(hold(large()).is_none() && hold(large()).is_none());
        assert!(hold(large().slice(..SMALL)).is_some());
        // Bytes that are held already need no further memory, however many clients read them.
        let shared = bodies[0].bytes().clone();
        bodies.extend((0..1_000).map(|_| hold(shared.clone()).unwrap()));
        assert!(hold(large()).is_none());
        bodies.drain(..64);
        bodies.truncate(1);
        bodies.extend((0..63).map(|_| hold(large()).unwrap()));
        assert!(hold(large()).is_none(), "the shared bytes are still held");
        drop(bodies);
        assert!(hold(large()).is_some());
        assert!(held().by_address.is_empty());
    }
}
