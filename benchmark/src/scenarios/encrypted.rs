//! A list over TLS, with HTTP/1.1 and with HTTP/2, compared with nginx with the same certificate.

use anyhow::{Context, Result};
use harness::{Certificate, TlsClient};

use super::{FEW, LIST};
use crate::baselines;
use crate::bench::Bench;
use crate::contender::{Contender, compete};
use crate::cores::Affinity;
use crate::data::Data;
use crate::exchange::Response;
use crate::load::{self, Requests};
use crate::process::Process;
use crate::results::Encrypted;

/// The protocol over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

pub(super) fn run(bench: &Bench, scenario: &str, protocol: Protocol) -> Result<Encrypted> {
    let data = Data::new(bench, FEW)?;
    let authorization = format!("Authorization: Bearer {}\r\n", data.key);
    let response = {
        let plain = data.serve(Affinity::Server, &[])?;
        Response::to_get(plain.address, LIST, &authorization)?
    };
    let certificate = Certificate::new();
    let folder = bench.folder()?;
    let (cert, key) = certificate.write(folder.path());
    let path = |file: &std::path::Path| file.to_str().map(str::to_owned).context("a path");
    let files = [path(&cert)?, path(&key)?];
    let ours = data.serve(
        Affinity::Server,
        &["--tls-cert", &files[0], "--tls-key", &files[1]],
    )?;
    let nginx = baselines::nginx(bench, &response, Some((&cert, &key)))?;

    let tls = match protocol {
        Protocol::Http1 => certificate.client(),
        Protocol::Http2 => certificate.http2_client(),
    };
    let mut contenders = vec![contender("animal-store", &ours, protocol, &tls, &data.key)];
    if let Some((nginx, _)) = &nginx {
        contenders.push(contender("nginx", nginx, protocol, &tls, &data.key));
    }
    let mut measurements = compete(bench, scenario, contenders)?;
    let nginx = (measurements.len() > 1).then(|| measurements.remove(1));
    let [ours] = super::take(measurements)?;
    Ok(Encrypted { ours, nginx })
}

fn contender<'a>(
    name: &str,
    server: &'a Process,
    protocol: Protocol,
    tls: &'a TlsClient,
    key: &'a str,
) -> Contender<'a> {
    let mut requests = Requests::get(LIST, key);
    Contender::new(name, move |length| match protocol {
        Protocol::Http1 => load::https(server, tls, &mut requests, length),
        Protocol::Http2 => load::http2(server, tls, LIST, key, length),
    })
}
