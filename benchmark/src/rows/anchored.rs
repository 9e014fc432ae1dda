//! A GET of the service beside those who send the very same bytes with no logic.

use anyhow::{Result, ensure};

use super::FEW;
use crate::anchors;
use crate::bench::Bench;
use crate::contender::{Contender, compete};
use crate::cores::Place;
use crate::data::Data;
use crate::exchange::Answer;
use crate::load::Requests;
use crate::results::Anchored;

pub(super) fn run(bench: &Bench, row: &str, path: &str) -> Result<Anchored> {
    let data = Data::new(bench, FEW)?;
    let ours = data.serve(Place::Server, &[])?;
    let authorization = format!("Authorization: Bearer {}\r\n", data.key);
    let answer = Answer::to_get(ours.address, path, &authorization)?;
    ensure!(answer.status == 200, "{path} is answered {}", answer.status);

    let hyper = anchors::hyper(bench, &answer)?;
    let nginx = anchors::nginx(bench, &answer)?;
    for address in [Some(hyper.address), nginx.as_ref().map(|n| n.0.address)] {
        let Some(address) = address else { continue };
        let anchored = Answer::to_get(address, path, "")?;
        ensure!(anchored.body == answer.body, "an anchor sends another body");
        for (name, value) in &answer.headers {
            let same =
                |other: &(String, String)| other.0.eq_ignore_ascii_case(name) && other.1 == *value;
            ensure!(
                anchored.headers.iter().any(same),
                "an anchor sends no {name}"
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
    let mut figures = compete(bench, row, contenders)?;
    let nginx = (figures.len() > 2).then(|| figures.remove(2));
    let [ours, hyper] = super::take(figures)?;
    Ok(Anchored { ours, hyper, nginx })
}
