//! `animal-store healthcheck`: asks a server whether it is ready.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, anyhow};
use http::Uri;

use super::{Failure, Outcome};
use crate::config::{FileOption, options, reachable};

const PATIENCE: Duration = Duration::from_secs(3);

/// Exits 0 when the server is ready.
#[derive(Debug, clap::Args)]
pub(super) struct Healthcheck {
    /// What to ask, for example http://127.0.0.1:8080/readyz; by default /readyz where --listen says
    url: Option<String>,
    /// Where the API listens
    #[arg(long, env = "ANIMAL_STORE_LISTEN", value_name = "IP:PORT", default_value = "127.0.0.1:8080", value_parser = options::address)]
    listen: SocketAddr,
    #[command(flatten)]
    _file: FileOption,
}

impl Healthcheck {
    pub(super) fn run(self) -> Outcome {
        let url = self
            .url
            .unwrap_or_else(|| format!("http://{}/readyz", reachable(self.listen)));
        let wrong = || {
            Failure::Usage(format!(
                "healthcheck {url}: must be a URL such as http://127.0.0.1:8080/readyz"
            ))
        };
        let uri: Uri = url.parse().map_err(|_| wrong())?;
        let host = uri
            .host()
            .filter(|_| uri.scheme_str() == Some("http"))
            .ok_or_else(wrong)?;
        let path = uri
            .path_and_query()
            .map_or("/readyz", |path| match path.as_str() {
                "/" => "/readyz",
                path => path,
            });
        let status = ask(host, uri.port_u16().unwrap_or(80), path)
            .with_context(|| format!("{url} does not answer"))?;
        if status == "200" {
            return Ok(());
        }
        Err(anyhow!("{url} is not ready: it answers {status}").into())
    }
}

fn ask(host: &str, port: u16, path: &str) -> anyhow::Result<String> {
    let address = (host.trim_matches(['[', ']']), port)
        .to_socket_addrs()?
        .next()
        .context("no such host")?;
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
    )?;
    // "HTTP/1.1 200": all that matters.
    let mut start = [0; 12];
    stream.read_exact(&mut start)?;
    let start = String::from_utf8_lossy(&start);
    start
        .strip_prefix("HTTP/1.1 ")
        .map(str::to_owned)
        .context("it does not speak HTTP/1.1")
}
