//! One connection, from accept to close.

use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::answers::Answers;
use super::raw;
use super::stream::{Stream, Timeouts};
use crate::api::ApiError;

/// Bytes of a head that are read at most; what is larger gets hyper's bare 431.
const HEAD: usize = 64 * 1024;

/// Serves one connection until it ends, or until the server stops and its last request is answered.
pub(super) async fn serve(
    tcp: TcpStream,
    peer: IpAddr,
    answers: &impl Answers,
    timeouts: Timeouts,
    mut stopping: watch::Receiver<bool>,
) {
    let too_slow = || raw::unasked(answers, &ApiError::RequestTimeout, peer);
    let stream = Stream::new(tcp, timeouts, &too_slow);
    let progress = stream.progress();
    let service = service_fn(|request| answers.answer(request, peer, progress.begin()));
    let mut connection = pin!(
        http1::Builder::new()
            .max_buf_size(HEAD)
            .writev(false)
            // One who has said all may close its side, and hyper need not read on to see it (docs/decisions.md).
            .half_close(true)
            .serve_connection(TokioIo::new(stream), service)
    );
    // A connection that ends badly is the other side's affair: what there was to tell about its requests is told.
    tokio::select! {
        biased;
        _ = connection.as_mut() => return,
        _ = stopping.wait_for(|stop| *stop) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// How many connections there may be, over all workers.
#[derive(Clone, Debug)]
pub(super) struct Cap {
    most: usize,
    open: Arc<AtomicUsize>,
}

impl Cap {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            open: Arc::default(),
        }
    }

    /// A place for one more connection, until it is dropped.
    pub(super) fn enter(&self) -> Option<Place> {
        // Raised first and looked at then: two workers can never both take the last place.
        let before = self.open.fetch_add(1, Ordering::Relaxed);
        let place = Place(Arc::clone(&self.open));
        (before < self.most).then_some(place)
    }
}

/// The place of one connection.
#[derive(Debug)]
pub(super) struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_free_again_when_it_is_dropped() {
        let cap = Cap::new(2);
        let (one, two) = (cap.enter(), cap.enter());
        assert!(one.is_some() && two.is_some() && cap.enter().is_none() && cap.enter().is_none());
        drop(one);
        assert!(cap.enter().is_some());
    }
}
