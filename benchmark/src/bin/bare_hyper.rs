//! Bare hyper: sends the same response to every request and does nothing else. It shows the cost of the HTTP library and the
//! kernel; anything beyond that is the cost of the service.
//!
//! `bare_hyper FILE` reads an HTTP response from a file, prints its address, and serves until it is killed.

use std::convert::Infallible;
use std::io::Write;

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::runtime::{Builder, LocalOptions};

// The same allocator as the service.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<()> {
    let file = std::env::args_os()
        .nth(1)
        .context("usage: bare_hyper FILE")?;
    let constant = Constant::parse(std::fs::read(file)?)?;
    let runtime = Builder::new_current_thread()
        .enable_io()
        .build_local(LocalOptions::default())?;
    runtime.block_on(serve(constant))
}

async fn serve(constant: &'static Constant) -> Result<()> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let mut stdout = std::io::stdout();
    writeln!(stdout, "{}", listener.local_addr()?)?;
    stdout.flush()?;
    loop {
        let (tcp, _) = listener.accept().await?;
        tcp.set_nodelay(true)?;
        tokio::task::spawn_local(async move {
            let service = service_fn(|_| async { Ok::<_, Infallible>(constant.response()) });
            // The load generator reports connections that fail.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(tcp), service)
                .await;
        });
    }
}

/// The response.
struct Constant {
    status: StatusCode,
    headers: HeaderMap,
    body: Bytes,
}

impl Constant {
    /// Parses an HTTP/1.1 response. It is leaked, so that cloning a header needs no reference count.
    fn parse(bytes: Vec<u8>) -> Result<&'static Self> {
        let bytes: &'static [u8] = bytes.leak();
        let end = memchr::memmem::find(bytes, b"\r\n\r\n").context("the head is incomplete")?;
        let head = std::str::from_utf8(&bytes[..end])?;
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1));
        let mut headers = HeaderMap::new();
        for line in lines {
            let (name, value) = line.split_once(": ").context("a header has no value")?;
            ensure!(
                HeaderName::from_lowercase(name.as_bytes()).is_ok(),
                "invalid or uppercase header name: {name}"
            );
            headers.append(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        Ok(Box::leak(Box::new(Self {
            status: status.context("no status")?.parse()?,
            headers,
            body: Bytes::from_static(&bytes[end + 4..]),
        })))
    }

    fn response(&self) -> Response<Full<Bytes>> {
        let mut response = Response::new(Full::new(self.body.clone()));
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        response
    }
}
