//! The load: prebuilt requests over keep-alive connections, from one thread that does as little as it can, so that the
//! server is what is measured. `closed` sends as fast as answers come; `open` sends on a schedule, whatever comes.

mod closed;
mod connection;
mod open;
mod requests;

pub(crate) use closed::{Round, round, round_of};
pub(crate) use open::scheduled;
pub(crate) use requests::Requests;

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Result};
use mio::{Events, Interest, Poll, Token};

use connection::Connection;

/// How many connections there are.
pub(crate) const CONNECTIONS: usize = 64;

/// The open connections of one round.
struct Connections {
    poll: Poll,
    events: Events,
    all: Vec<Connection>,
}

impl Connections {
    /// To each address in turn.
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

    /// Waits until something arrived, and tells each connection whose answer is complete.
    fn wait(
        &mut self,
        patience: Duration,
        mut answered: impl FnMut(usize, &mut Connection, u16) -> Result<()>,
    ) -> Result<()> {
        if let Err(error) = self.poll.poll(&mut self.events, Some(patience))
            && error.kind() != std::io::ErrorKind::Interrupted
        {
            return Err(error.into());
        }
        for event in &self.events {
            let number = event.token().0;
            let connection = self.all.get_mut(number).context("an unknown connection")?;
            if let Some(status) = connection.receive()? {
                answered(number, connection, status)?;
            }
        }
        Ok(())
    }
}
