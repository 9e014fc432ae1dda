//! The load generator: prebuilt requests over keep-alive connections, from one thread that does as little as possible. `closed` is a
//! closed loop, in which each connection sends after a response; `open` sends on a fixed schedule.

mod closed;
mod connection;
mod encrypted;
mod open;
mod requests;

pub(crate) use closed::{Round, round, round_of};
pub(crate) use encrypted::{http2, https};
pub(crate) use open::scheduled;
pub(crate) use requests::Requests;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mio::{Events, Interest, Poll, Token};

use connection::Connection;

/// The number of connections.
pub(crate) const CONNECTIONS: usize = 64;

/// The open connections of one round.
struct Connections {
    poll: Poll,
    events: Events,
    all: Vec<Connection>,
}

impl Connections {
    /// Opens connections to each address in turn.
    fn open(addresses: &[SocketAddr]) -> Result<Self> {
        let poll = Poll::new()?;
        let mut all = Vec::with_capacity(CONNECTIONS);
        for (number, address) in addresses.iter().cycle().take(CONNECTIONS).enumerate() {
            let mut connection = Connection::open(*address)?;
            let tcp = connection.tcp();
            poll.registry()
                .register(tcp, Token(number), Interest::READABLE)?;
            all.push(connection);
        }
        Ok(Self {
            poll,
            events: Events::with_capacity(2 * CONNECTIONS),
            all,
        })
    }

    /// Waits for events, and calls `completed` for each connection with a complete response, which must have the expected status.
    fn wait(
        &mut self,
        timeout: Duration,
        expected: u16,
        mut completed: impl FnMut(usize, &mut Connection) -> Result<()>,
    ) -> Result<()> {
        if let Err(error) = self.poll.poll(&mut self.events, Some(timeout))
            && error.kind() != std::io::ErrorKind::Interrupted
        {
            return Err(error.into());
        }
        for event in &self.events {
            let number = event.token().0;
            let connection = self.all.get_mut(number).context("an unknown connection")?;
            if let Some(status) = connection.receive()? {
                ensure!(
                    status == expected,
                    "unexpected status {status} instead of {expected}"
                );
                completed(number, connection)?;
            }
        }
        Ok(())
    }
}
