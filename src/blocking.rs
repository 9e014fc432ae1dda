//! Blocking work, each piece on a separate thread that nobody joins: it may hang. tokio's own threads for such work panic if the
//! system cannot start one, which would end the task that waits.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use tokio::sync::{Semaphore, oneshot};

/// The maximum number of lookups at a time. They may hang, and those who wait for them give up and try again.
const MAX_LOOKUPS: usize = 64;

/// Does the work on a new thread with this name. The error is that there is no thread for it, or that it has panicked.
pub(crate) async fn run_blocking<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (reply, done) = oneshot::channel();
    let thread = std::thread::Builder::new().name(name.into());
    thread
        .spawn(move || drop(reply.send(work())))
        .map_err(|error| io::Error::other(format!("cannot start a thread: {error}")))?;
    done.await
        .map_err(|_| io::Error::other("a thread has panicked; see the log"))
}

/// Looks up hosts. There is one for each kind of server, so that lookups of one kind that hang do not block those of another.
pub(crate) struct Resolver(Semaphore);

impl Resolver {
    pub(crate) const fn new() -> Self {
        Self(Semaphore::const_new(MAX_LOOKUPS))
    }

    /// The addresses of a host.
    pub(crate) async fn lookup(
        &'static self,
        host: &str,
        port: u16,
    ) -> io::Result<Vec<SocketAddr>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![(address, port).into()]);
        }
        let hang = |_| io::Error::other("too many host lookups are hanging: check the name server");
        let slot = self.0.try_acquire().map_err(hang)?;
        let host = host.to_owned();
        let lookup = move || {
            let _slot = slot;
            (host, port).to_socket_addrs()
        };
        Ok(run_blocking("lookup", lookup).await??.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_result_of_the_work_or_why_there_is_none() {
        assert_eq!(run_blocking("test", || 7).await.expect("a result"), 7);
        let panicked = run_blocking("test", || panic!("on purpose")).await;
        let error = panicked.expect_err("a panic").to_string();
        assert_eq!(error, "a thread has panicked; see the log");
    }

    #[tokio::test]
    async fn a_host_has_its_addresses() {
        static RESOLVER: Resolver = Resolver::new();
        let address = "127.0.0.1:80".parse().expect("an address");
        for host in ["127.0.0.1", "localhost"] {
            let addresses = RESOLVER.lookup(host, 80).await.expect("addresses");
            assert!(addresses.contains(&address), "{host}: {addresses:?}");
        }
        assert!(RESOLVER.lookup("no host", 80).await.is_err());
    }

    #[tokio::test]
    async fn lookups_of_one_kind_that_hang_do_not_block_those_of_another() {
        static HANGING: Resolver = Resolver::new();
        static OTHER: Resolver = Resolver::new();
        let _hanging = HANGING.0.try_acquire_many(MAX_LOOKUPS as u32);
        let error = HANGING.lookup("localhost", 80).await.expect_err("no slot");
        assert!(error.to_string().contains("are hanging"), "{error}");
        assert!(HANGING.lookup("127.0.0.1", 80).await.is_ok());
        assert!(OTHER.lookup("localhost", 80).await.is_ok());
    }
}
