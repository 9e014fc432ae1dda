//! `animal-store healthcheck`: checks whether a server is ready.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use anyhow::{Context, anyhow};
use http::Uri;

use super::outcome::{Failure, Outcome};
use crate::config::{FileOption, options, reachable};

const TIMEOUT: Duration = Duration::from_secs(3);

/// Exit with 0 if the server is ready.
#[derive(Debug, clap::Args)]
pub(super) struct Healthcheck {
    /// URL of the check, such as http://127.0.0.1:8080/readyz; by default /readyz at the address of --listen
    url: Option<String>,
    /// Address of the API
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:8080", value_parser = options::address)]
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
        let status = request(host, uri.port_u16().unwrap_or(80), path)
            .with_context(|| format!("no response from {url}"))?;
        if status == "200" {
            return Ok(());
        }
        Err(anyhow!("{url} is not ready: status {status}").into())
    }
}

fn request(host: &str, port: u16, path: &str) -> anyhow::Result<String> {
    let address = (host.trim_matches(['[', ']']), port)
        .to_socket_addrs()?
        .next()
        .context("unknown host")?;
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n"
    )?;
    // "HTTP/1.1 200" is all that is needed.
    let mut start = [0; 12];
    stream.read_exact(&mut start)?;
    let start = String::from_utf8_lossy(&start);
    start
        .strip_prefix("HTTP/1.1 ")
        .map(str::to_owned)
        .context("not an HTTP/1.1 server")
}
