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

    let start = || {
        Ok(vec![
            one_core.serve(Affinity::Server, &[])?,
            every_core.serve(Affinity::Anywhere, &[])?,
            read.serve(Affinity::Server, &[])?,
        ])
    };
    let contenders = vec![
        Contender::pinned("post, one core", 0, Requests::creations(&one_core.key)),
        Contender::free("post, all cores", 1, Requests::creations(&every_core.key)),
        Contender::new("one commit per row", |_, length| {
            commits::round(&bare, length)
        }),
        Contender::pinned("get", 2, Requests::get(GET, &read.key)),
    ];
    let measurements = compete(bench, "post", start, contenders)?;
    let [pinned, free, commits, get] = super::take(measurements)?;
    Ok(Post {
        pinned,
        free,
        commits,
        get,
    })
}
