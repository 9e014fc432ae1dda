//! Creations, each on disk before the response.

use anyhow::Result;

use super::{FEW, GET};
use crate::bench::Bench;
use crate::commits;
use crate::contender::{Contender, compete};
use crate::cores::Affinity;
use crate::data::Data;
use crate::load::Requests;
use crate::results::Post;

pub(super) fn run(bench: &Bench) -> Result<Post> {
    let one_core = Data::new(bench, FEW)?;
    let every_core = Data::new(bench, FEW)?;
    let bare = Data::new(bench, FEW)?;
    let read = Data::new(bench, FEW)?;

    let pinned = one_core.serve(Affinity::Server, &[])?;
    let free = every_core.serve(Affinity::Anywhere, &[])?;
    let reading = read.serve(Affinity::Server, &[])?;

    let measurements = compete(
        bench,
        "post",
        vec![
            Contender::pinned(
                "post, one core",
                &pinned,
                Requests::creations(&one_core.key),
            ),
            Contender::free(
                "post, all cores",
                &free,
                Requests::creations(&every_core.key),
            ),
            Contender::new("one commit per row", |length| commits::round(&bare, length)),
            Contender::pinned("get", &reading, Requests::get(GET, &read.key)),
        ],
    )?;
    let [pinned, free, commits, get] = super::take(measurements)?;
    Ok(Post {
        pinned,
        free,
        commits,
        get,
    })
}
