//! A closed loop over TLS: HTTP/1.1 on keep-alive connections, or HTTP/2 with many streams on one connection. The load generator is
//! allowed to be expensive here, because only the CPU time of the server is compared.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
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
    measure(server, length, async |completed| {
        for _ in 0..CONNECTIONS {
            let mut stream = connect(tls, address).await?;
            let (request, completed) = (Rc::clone(&request), Rc::clone(&completed));
            tokio::task::spawn_local(async move {
                let mut buffer = vec![0; 64 * 1024];
                while stream.write_all(&request).await.is_ok() {
                    let mut filled = 0;
                    let got = loop {
                        match stream.read(&mut buffer[filled..]).await {
                            Ok(read @ 1..) => filled += read,
                            _ => return,
                        }
                        match complete(&buffer[..filled]) {
                            Ok(Some(got)) => break got,
                            Ok(None) => {}
                            Err(_) => return,
                        }
                    };
                    if got != status {
                        return;
                    }
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
    measure(server, length, async |completed| {
        let stream = connect(tls, address).await?;
        let (client, connection) = h2::client::Builder::new()
            .initial_window_size(1 << 20)
            .initial_connection_window_size(1 << 24)
            .handshake::<_, bytes::Bytes>(stream)
            .await?;
        tokio::task::spawn_local(connection);
        for _ in 0..STREAMS {
            let (mut client, completed) = (client.clone(), Rc::clone(&completed));
            let request = http::Request::get(format!("https://{address}{path}"))
                .version(http::Version::HTTP_2)
                .header("authorization", format!("Bearer {key}"))
                .body(())?;
            tokio::task::spawn_local(async move {
                loop {
                    let Ok((response, _)) = client.send_request(request.clone(), true) else {
                        return;
                    };
                    let Ok(response) = response.await else { return };
                    if response.status() != 200 {
                        return;
                    }
                    let mut body = response.into_body();
                    while let Some(data) = body.data().await {
                        let Ok(data) = data else { return };
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

/// Starts clients that count their responses, and measures the server meanwhile.
fn measure(
    server: &Process,
    length: Duration,
    start: impl AsyncFnOnce(Rc<Cell<u64>>) -> Result<()>,
) -> Result<Round> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let tasks = LocalSet::new();
    let completed = Rc::new(Cell::new(0));
    tasks
        .block_on(&runtime, async {
            start(Rc::clone(&completed)).await?;
            tokio::time::sleep(WARM_UP).await;
            let (began, before, cpu) = (Instant::now(), completed.get(), server.cpu()?);
            tokio::time::sleep(length).await;
            stop::check()?;
            let cpu = server.cpu()?.saturating_sub(cpu);
            let (took, count) = (began.elapsed(), completed.get() - before);
            // A client ends at the first response that is not as expected.
            let last = completed.get();
            tokio::time::sleep(Duration::from_millis(20)).await;
            ensure!(
                count > 0 && completed.get() > last,
                "no response, or an unexpected one"
            );
            Ok(Round {
                rate: count as f64 / took.as_secs_f64(),
                cpu: cpu.as_secs_f64() * 1e6 / count as f64,
            })
        })
        .context("over TLS")
}
