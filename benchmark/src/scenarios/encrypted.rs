//! A list over TLS, with HTTP/1.1 and with HTTP/2, compared with nginx with the same certificate.

use anyhow::{Context, Result};
use harness::Certificate;

use super::{FEW, LIST};
use crate::baselines;
use crate::bench::Bench;
use crate::contender::{Contender, compete};
use crate::cores::Affinity;
use crate::data::Data;
use crate::load::{self, Requests};
use crate::results::Encrypted;

/// The protocol over TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    Http1,
    Http2,
}

pub(super) fn run(bench: &Bench, scenario: &str, protocol: Protocol) -> Result<Encrypted> {
    let data = Data::new(bench, FEW)?;
    let response = data.response(LIST)?;
    let certificate = Certificate::new();
    let folder = bench.folder()?;
    let (cert, key) = certificate.write(folder.path());
    let path = |file: &std::path::Path| file.to_str().map(str::to_owned).context("a path");
    let files = [path(&cert)?, path(&key)?];
    let options = ["--tls-cert", &files[0], "--tls-key", &files[1]];
    let start = || {
        let mut servers = vec![data.serve(Affinity::Server, &options)?];
        servers.extend(baselines::nginx(bench, &response, Some((&cert, &key)))?);
        Ok(servers)
    };

    let tls = match protocol {
        Protocol::Http1 => certificate.client(),
        Protocol::Http2 => certificate.http2_client(),
    };
    let contender = |(server, name): (usize, &str)| {
        let mut requests = Requests::get(LIST, &data.key);
        let (tls, key) = (&tls, &data.key);
        Contender::new(name, move |servers, length| match protocol {
            Protocol::Http1 => load::https(&servers[server], tls, &mut requests, length),
            Protocol::Http2 => load::http2(&servers[server], tls, LIST, key, length),
        })
    };
    let nginx = baselines::names(bench).filter(|name| *name == "nginx");
    let names = std::iter::once("animal-store").chain(nginx);
    let contenders = names.enumerate().map(contender).collect();
    let mut measurements = compete(bench, scenario, start, contenders)?;
    let nginx = (measurements.len() > 1).then(|| measurements.remove(1));
    let [ours] = super::take(measurements)?;
    Ok(Encrypted { ours, nginx })
}
