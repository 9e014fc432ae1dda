use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

use tokio::io::{join, sink};

use super::*;

/// Takes everything that is written, as TLS does, and sends it only if the client reads.
struct Buffered {
    is_read: bool,
}

impl AsyncRead for Buffered {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

impl AsyncWrite for Buffered {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.is_read {
            true => Poll::Ready(Ok(())),
            false => Poll::Pending,
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}

/// What a client sends that never pauses: many small frames, and now and then a request.
#[derive(Default)]
struct Flood {
    unread: VecDeque<u8>,
    requests: u32,
}

impl Flood {
    fn send(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
        self.unread.extend([0, 0, payload.len() as u8, kind, flags]);
        self.unread.extend(stream.to_be_bytes());
        self.unread.extend(payload);
    }

    fn send_more(&mut self) {
        if self.requests == 0 {
            self.unread.extend(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
            self.send(4, 0, 0, &[]);
        }
        // GET https:/, and a thousand updates of the connection's window.
        self.send(1, 5, 2 * self.requests + 1, &[0x82, 0x87, 0x84]);
        for _ in 0..1_000 {
            self.send(8, 0, 0, &[0, 0, 0, 1]);
        }
        self.requests += 1;
    }
}

impl AsyncRead for Flood {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.unread.is_empty() {
            self.send_more();
        }
        let count = self.unread.len().min(buf.remaining());
        for byte in self.unread.drain(..count) {
            buf.put_slice(&[byte]);
        }
        Poll::Ready(Ok(()))
    }
}

/// Whether the task was woken.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_client_that_sends_without_a_pause_gives_others_their_turn() {
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(Arc::clone(&woken));
    let cx = &mut Context::from_waker(&waker);
    let wire = Wire::new(join(Flood::default(), sink()));
    let mut handshake = h2::server::handshake(wire.clone());
    let mut connection = loop {
        wire.begin_turn();
        if let Poll::Ready(done) = Pin::new(&mut handshake).poll(cx) {
            break done.unwrap();
        }
    };
    for _ in 0..10 {
        wire.begin_turn();
        woken.0.store(false, Ordering::Relaxed);
        let mut requests = 0;
        while let Poll::Ready(request) = connection.poll_accept(cx) {
            request.unwrap().unwrap();
            requests += 1;
            assert!(requests < 10, "it does not pause");
        }
        let read = wire.0.borrow().read;
        assert!(requests > 0 && read < 2 * MAX_READ_PER_TURN, "{read}");
        assert!(woken.0.load(Ordering::Relaxed));
    }
}

#[test]
fn a_client_is_blocked_until_what_it_was_sent_is_flushed() {
    let cx = &mut Context::from_waker(Waker::noop());
    let mut wire = Wire::new(Buffered { is_read: false });
    assert!(Pin::new(&mut wire).poll_write(cx, b"frame").is_ready());
    assert_eq!(wire.blocked_since(), None);
    assert!(wire.poll_send(cx).is_pending());
    let since = wire.blocked_since();
    assert!(since.is_some());
    assert!(wire.poll_send(cx).is_pending());
    assert_eq!(wire.blocked_since(), since);
    wire.0.borrow_mut().io.is_read = true;
    assert!(wire.poll_send(cx).is_ready());
    assert_eq!(wire.blocked_since(), None);
}
