//! What it costs to say no, beside what it costs to say yes.

use anyhow::Result;

use super::{FEW, GET};
use crate::bench::Bench;
use crate::contender::{Contender, compete};
use crate::cores::Place;
use crate::data::Data;
use crate::exchange::Answer;
use crate::load::Requests;
use crate::results::Refusals;

pub(super) fn run(bench: &Bench) -> Result<Refusals> {
    let data = [FEW; 3].map(|animals| Data::new(bench, animals));
    let [served, strangers, limited] = data;
    let (served, strangers, limited) = (served?, strangers?, limited?);

    let ok = served.serve(Place::Server, &[])?;
    // An address may fail 60 times a minute, so each request must seem to come from another.
    let unauthorized = strangers.serve(Place::Server, &["--trusted-proxy", "127.0.0.1"])?;
    // One request a day: the first uses it up, and every other is refused, whatever minute begins.
    let key = limited.add_key("1", "1")?;
    let exhausted = limited.serve(Place::Server, &["--ban-after", "0"])?;
    Answer::to_get(
        exhausted.address,
        GET,
        &format!("Authorization: Bearer {key}\r\n"),
    )?;

    let figures = compete(
        bench,
        "refusals",
        vec![
            Contender::pinned("200", &ok, Requests::get(GET, &served.key)),
            Contender::pinned("401", &unauthorized, Requests::strangers(GET)),
            Contender::pinned("429", &exhausted, Requests::refused(GET, &key)),
        ],
    )?;
    let [get, unauthorized, limited] = super::take(figures)?;
    Ok(Refusals {
        get,
        unauthorized,
        limited,
    })
}
