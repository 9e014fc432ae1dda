//! Rejected requests compared with a success.

use anyhow::Result;

use super::{FEW, GET};
use crate::bench::Bench;
use crate::contender::{Contender, compete};
use crate::cores::Place;
use crate::data::Data;
use crate::exchange::Response;
use crate::load::Requests;
use crate::results::Refusals;

pub(super) fn run(bench: &Bench) -> Result<Refusals> {
    let data = [FEW; 3].map(|animals| Data::new(bench, animals));
    let [served, anonymous, limited] = data;
    let (served, anonymous, limited) = (served?, anonymous?, limited?);

    let ok = served.serve(Place::Server, &[])?;
    // An address may fail 60 times per minute, so each request must have a different one.
    let unauthorized = anonymous.serve(Place::Server, &["--trusted-proxy", "127.0.0.1"])?;
    // One request per day: all requests after the first are rejected, in every minute.
    let key = limited.add_key("1", "1")?;
    let exhausted = limited.serve(Place::Server, &["--ban-after", "0"])?;
    Response::to_get(
        exhausted.address,
        GET,
        &format!("Authorization: Bearer {key}\r\n"),
    )?;

    let figures = compete(
        bench,
        "refusals",
        vec![
            Contender::pinned("200", &ok, Requests::get(GET, &served.key)),
            Contender::pinned("401", &unauthorized, Requests::unauthorized(GET)),
            Contender::pinned("429", &exhausted, Requests::limited(GET, &key)),
        ],
    )?;
    let [get, unauthorized, limited] = super::take(figures)?;
    Ok(Refusals {
        get,
        unauthorized,
        limited,
    })
}
