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
    let ours = data.serve(Affinity::Server, &[])?;
    let authorization = format!("Authorization: Bearer {}\r\n", data.key);
    let response = Response::to_get(ours.address, path, &authorization)?;
    ensure!(
        response.status == 200,
        "unexpected status for {path}: {}",
        response.status
    );

    let hyper = baselines::hyper(bench, &response)?;
    let nginx = baselines::nginx(bench, &response, None)?;
    for address in [Some(hyper.address), nginx.as_ref().map(|n| n.0.address)] {
        let Some(address) = address else { continue };
        let compared = Response::to_get(address, path, "")?;
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

    let requests = Requests::get(path, &data.key);
    let mut contenders = vec![
        Contender::pinned("animal-store", &ours, requests.clone()),
        Contender::pinned("bare hyper", &hyper, requests.clone()),
    ];
    if let Some((nginx, _)) = &nginx {
        contenders.push(Contender::pinned("nginx", nginx, requests));
    }
    let mut measurements = compete(bench, scenario, contenders)?;
    let nginx = (measurements.len() > 2).then(|| measurements.remove(2));
    let [ours, hyper] = super::take(measurements)?;
    Ok(Compared { ours, hyper, nginx })
}
