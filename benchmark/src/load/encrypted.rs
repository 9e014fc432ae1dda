//! A closed loop over TLS: HTTP/1.1 on keep-alive connections, or HTTP/2 with many streams on one connection. The load generator is
//! allowed to be expensive here, because only the CPU time of the server is compared.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, ensure};
use harness::TlsClient;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;

use super::closed::{Round, WARM_UP};
use super::connection::complete;
use super::{CONNECTIONS, Requests};
use crate::process::Process;
use crate::stop;

/// The number of streams.
pub(crate) const STREAMS: usize = 100;

/// Loads a server with HTTP/1.1 for this time. Fails on an unexpected status.
pub(crate) fn https(
    server: &Process,
    tls: &TlsClient,
    requests: &mut Requests,
    length: Duration,
) -> Result<Round> {
    let (address, status) = (server.address, requests.status);
    let request: Rc<[u8]> = requests.next().into();
    measure(server, length, async |clients| {
        for _ in 0..CONNECTIONS {
            let mut stream = connect(tls, address).await?;
            let request = Rc::clone(&request);
            clients.spawn(async move |completed| {
                let mut buffer = vec![0; 64 * 1024];
                loop {
                    stream.write_all(&request).await?;
                    let mut filled = 0;
                    let got = loop {
                        let read = stream.read(&mut buffer[filled..]).await?;
                        ensure!(read > 0, "the server closed a connection");
                        filled += read;
                        if let Some(got) = complete(&buffer[..filled])? {
                            break got;
                        }
                    };
                    ensure!(got == status, "a response with status {got}");
                    completed.set(completed.get() + 1);
                }
            });
        }
        Ok(())
    })
}

/// Loads a server with [`STREAMS`] streams of one HTTP/2 connection for this time. Fails on an unexpected status.
pub(crate) fn http2(
    server: &Process,
    tls: &TlsClient,
    path: &str,
    key: &str,
    length: Duration,
) -> Result<Round> {
    let address = server.address;
    measure(server, length, async |clients| {
        let stream = connect(tls, address).await?;
        let (client, connection) = h2::client::Builder::new()
            .initial_window_size(1 << 20)
            .initial_connection_window_size(1 << 24)
            .handshake::<_, bytes::Bytes>(stream)
            .await?;
        tokio::task::spawn_local(connection);
        for _ in 0..STREAMS {
            let mut client = client.clone();
            let request = http::Request::get(format!("https://{address}{path}"))
                .version(http::Version::HTTP_2)
                .header("authorization", format!("Bearer {key}"))
                .body(())?;
            clients.spawn(async move |completed| {
                loop {
                    let (response, _) = client.send_request(request.clone(), true)?;
                    let response = response.await?;
                    let status = response.status();
                    ensure!(status == 200, "a response with status {status}");
                    let mut body = response.into_body();
                    while let Some(data) = body.data().await {
                        let data = data?;
                        let _ = body.flow_control().release_capacity(data.len());
                    }
                    completed.set(completed.get() + 1);
                }
            });
        }
        Ok(())
    })
}

async fn connect(tls: &TlsClient, address: SocketAddr) -> Result<TlsStream<TcpStream>> {
    let tcp = TcpStream::connect(address).await?;
    tcp.set_nodelay(true)?;
    let connector = TlsConnector::from(tls.config());
    Ok(connector
        .connect(ServerName::from(address.ip()), tcp)
        .await?)
}

/// The clients of a round.
#[derive(Default)]
struct Clients {
    /// The responses that all of them have received.
    completed: Rc<Cell<u64>>,
    /// Why one of them has ended: none should before the end of the round.
    failure: Rc<RefCell<Option<Error>>>,
}

impl Clients {
    /// Starts a client, which counts its responses.
    fn spawn(&self, client: impl AsyncFnOnce(&Cell<u64>) -> Result<Infallible> + 'static) {
        let (completed, failure) = (Rc::clone(&self.completed), Rc::clone(&self.failure));
        tokio::task::spawn_local(async move {
            let Err(error) = client(&completed).await;
            failure.borrow_mut().get_or_insert(error);
        });
    }
}

/// Starts clients, and measures the server while they send requests.
fn measure(
    server: &Process,
    length: Duration,
    start: impl AsyncFnOnce(&Clients) -> Result<()>,
) -> Result<Round> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let tasks = LocalSet::new();
    let clients = Clients::default();
    let completed = &clients.completed;
    tasks
        .block_on(&runtime, async {
            start(&clients).await?;
            tokio::time::sleep(WARM_UP).await;
            let (began, before, cpu) = (Instant::now(), completed.get(), server.cpu()?);
            tokio::time::sleep(length).await;
            stop::check()?;
            let cpu = server.cpu()?.saturating_sub(cpu);
            let (took, count) = (began.elapsed(), completed.get() - before);
            if let Some(error) = clients.failure.take() {
                return Err(error);
            }
            // A server that hangs ends no client.
            let last = completed.get();
            tokio::time::sleep(Duration::from_millis(20)).await;
            ensure!(completed.get() > last, "the server no longer responds");
            Ok(Round {
                rate: count as f64 / took.as_secs_f64(),
                cpu: cpu.as_secs_f64() * 1e6 / count as f64,
            })
        })
        .context("over TLS")
}
