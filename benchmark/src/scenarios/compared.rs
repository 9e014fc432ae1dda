//! A GET of the service, compared with the baselines.

use anyhow::{Result, ensure};

use super::FEW;
use crate::baselines;
use crate::bench::Bench;
use crate::contender::{Contender, compete};
use crate::cores::Affinity;
use crate::data::Data;
use crate::exchange::Response;
use crate::load::Requests;
use crate::results::Compared;

pub(super) fn run(bench: &Bench, scenario: &str, path: &str) -> Result<Compared> {
    let data = Data::new(bench, FEW)?;
    let response = data.response(path)?;
    for baseline in baselines::start(bench, &response)? {
        let compared = Response::to_get(baseline.address, path, "")?;
        ensure!(
            compared.body == response.body,
            "a baseline sends a different body"
        );
        for (name, value) in &response.headers {
            let same =
                |other: &(String, String)| other.0.eq_ignore_ascii_case(name) && other.1 == *value;
            ensure!(
                compared.headers.iter().any(same),
                "a baseline does not send {name}"
            );
        }
    }

    let start = || {
        let mut servers = vec![data.serve(Affinity::Server, &[])?];
        servers.extend(baselines::start(bench, &response)?);
        Ok(servers)
    };
    let requests = Requests::get(path, &data.key);
    let names = std::iter::once("animal-store").chain(baselines::names(bench));
    let contenders = names
        .enumerate()
        .map(|(server, name)| Contender::pinned(name, server, requests.clone()));
    let mut measurements = compete(bench, scenario, start, contenders.collect())?;
    let nginx = (measurements.len() > 2).then(|| measurements.remove(2));
    let [ours, hyper] = super::take(measurements)?;
    Ok(Compared { ours, hyper, nginx })
}
