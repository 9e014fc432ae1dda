//! `animal-store healthcheck`: checks whether a server is ready.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow};
use http::Uri;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{self, ClientConnection, StreamOwned};

use super::outcome::{Failure, Outcome};
use crate::api::authority::is_authority;
use crate::config::{ConfigFileOption, options, reachable};
use crate::tls::{ClientFiles, ClientTls, Verification};

/// Timeout for the whole check.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Timeout for a connection, so that there is time to try a second address.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1_500);

#[derive(Debug, clap::Args)]
pub(super) struct HealthcheckCommand {
    /// URL of the check, such as http://127.0.0.1:8080/readyz; by default /readyz at the address of --listen
    url: Option<String>,
    /// Address of the API
    #[arg(long, value_name = "IP:PORT", default_value = options::DEFAULT_LISTEN, value_parser = options::address)]
    listen: SocketAddr,
    /// The server has a certificate: use HTTPS. The file is not read, and the certificate is not verified
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    #[command(flatten)]
    _config_file: ConfigFileOption,
}

impl HealthcheckCommand {
    pub(super) fn run(self) -> Outcome {
        let s = if self.tls_cert.is_some() { "s" } else { "" };
        let default = || format!("http{s}://{}/readyz", reachable(self.listen));
        let url = self.url.unwrap_or_else(default);
        let invalid = || {
            let problem = "healthcheck: invalid URL: use one such as http://127.0.0.1:8080/readyz";
            Failure::Usage(problem.into())
        };
        let uri: Uri = url.parse().map_err(|_| invalid())?;
        let host = uri.host().ok_or_else(invalid)?;
        // An invalid port would be replaced by the default one. A user is ignored, and not shown: there may be a password.
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let (_, host_and_port) = authority.rsplit_once('@').unwrap_or(("", authority));
        if !is_authority(host_and_port.as_bytes()) {
            return Err(invalid());
        }
        let (is_https, default_port) = match uri.scheme_str() {
            Some("http") => (false, 80),
            Some("https") => (true, 443),
            _ => return Err(invalid()),
        };
        let path = match uri.path() {
            "/" => "/readyz",
            path => path,
        };
        let query = uri.query().map(|query| format!("?{query}"));
        let target = format!("{path}{}", query.unwrap_or_default());
        let shown = format!(
            "http{}://{host_and_port}{target}",
            if is_https { "s" } else { "" }
        );
        let port = uri.port_u16().unwrap_or(default_port);
        let host = host.to_owned();
        let check = move || match is_https {
            true => request(encrypted(&host, port)?, &host, port, &target),
            false => request(connect(&host, port)?, &host, port, &target),
        };
        let status = within_timeout(check).with_context(|| format!("cannot check {shown}"))?;
        if status == "200" {
            return Ok(());
        }
        let advice = match (is_https, status.as_str()) {
            (false, "400") => "; use https:// if the server has a certificate",
            _ => "",
        };
        Err(anyhow!("{shown} is not ready: status {status}{advice}").into())
    }
}

/// Runs a check on a separate thread: a timeout of the socket would begin again with each byte.
fn within_timeout(
    check: impl FnOnce() -> anyhow::Result<String> + Send + 'static,
) -> anyhow::Result<String> {
    let (sender, result) = mpsc::channel();
    thread::Builder::new().spawn(move || sender.send(check()))?;
    let result = result.recv_timeout(TIMEOUT);
    result.unwrap_or_else(|_| Err(anyhow!("no response within {} s", TIMEOUT.as_secs())))
}

fn connect(host: &str, port: u16) -> anyhow::Result<TcpStream> {
    // All of them: localhost may be an IPv6 address first, and the server on the IPv4 one.
    let addresses = (host.trim_matches(['[', ']']), port).to_socket_addrs()?;
    let connect = |address| TcpStream::connect_timeout(&address, CONNECT_TIMEOUT);
    let mut attempts = addresses.map(connect);
    let first = attempts.next().context("unknown host")?;
    Ok(first.or_else(|error| attempts.find_map(Result::ok).ok_or(error))?)
}

/// Connects to a server with TLS. The certificate is not verified: it has the public name of the server and not its address, it
/// may be self-signed, and an expired one is served as well. The request contains nothing secret, and its result is trusted no more
/// than that of plain HTTP.
fn encrypted(host: &str, port: u16) -> anyhow::Result<StreamOwned<ClientConnection, TcpStream>> {
    let tls = ClientTls::load(&ClientFiles::default(), Verification::None, &[])?;
    let name = ServerName::try_from(host.trim_matches(['[', ']']).to_owned())?;
    let connection = ClientConnection::new(tls.config(), name)?;
    let mut stream = StreamOwned::new(connection, connect(host, port)?);
    let handshake = stream.conn.complete_io(&mut stream.sock);
    let advice = "it does not speak TLS on this port; use http:// if the server has no certificate";
    handshake.map_err(
        |error| match error.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(rustls::Error::InvalidMessage(_)) => anyhow!(advice),
            _ => error.into(),
        },
    )?;
    Ok(stream)
}

fn request(
    mut stream: impl Read + Write,
    host: &str,
    port: u16,
    target: &str,
) -> anyhow::Result<String> {
    // In one write: each would be a separate TLS record.
    let request =
        format!("GET {target} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    // "HTTP/1.1 200" is all that is needed.
    let mut start = [0; 12];
    stream
        .read_exact(&mut start)
        .map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => anyhow!("the connection was closed without a response"),
            _ => error.into(),
        })?;
    let start = String::from_utf8_lossy(&start);
    start
        .strip_prefix("HTTP/1.1 ")
        .map(str::to_owned)
        .context("not an HTTP/1.1 server")
}
