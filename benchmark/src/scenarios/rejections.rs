//! Rejected requests compared with a success.

use anyhow::Result;

use super::{FEW, GET};
use crate::bench::Bench;
use crate::contender::{Contender, compete};
use crate::cores::Affinity;
use crate::data::Data;
use crate::exchange::Response;
use crate::load::Requests;
use crate::results::Rejections;

pub(super) fn run(bench: &Bench) -> Result<Rejections> {
    let data = [FEW; 3].map(|animals| Data::new(bench, animals));
    let [served, anonymous, limited] = data;
    let (served, anonymous, limited) = (served?, anonymous?, limited?);

    let key = limited.add_key("1", "1")?;
    let start = || {
        let ok = served.serve(Affinity::Server, &[])?;
        // An address may fail 60 times per minute, so each request must have a different one.
        let unauthorized = anonymous.serve(Affinity::Server, &["--trusted-proxy", "127.0.0.1"])?;
        // One request per day: all requests after the first are rejected, in every minute.
        let exhausted = limited.serve(Affinity::Server, &["--ban-after", "0"])?;
        let authorization = format!("Authorization: Bearer {key}\r\n");
        Response::to_get(exhausted.address, GET, &authorization)?;
        Ok(vec![ok, unauthorized, exhausted])
    };
    let contenders = vec![
        Contender::pinned("200", 0, Requests::get(GET, &served.key)),
        Contender::pinned("401", 1, Requests::unauthorized(GET)),
        Contender::pinned("429", 2, Requests::limited(GET, &key)),
    ];
    let measurements = compete(bench, "rejections", start, contenders)?;
    let [get, unauthorized, limited] = super::take(measurements)?;
    Ok(Rejections {
        get,
        unauthorized,
        limited,
    })
}
