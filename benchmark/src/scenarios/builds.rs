//! This build compared with another one.

use std::path::Path;

use anyhow::Result;

use super::{FEW, GET, LIST};
use crate::bench::Bench;
use crate::contender::{Contender, compete};
use crate::cores::Affinity;
use crate::data::Data;
use crate::exchange::Response;
use crate::load::Requests;
use crate::process::Process;
use crate::results::BuildComparison;

/// A build, and what its requests need.
struct Build {
    data: Data,
    /// A key with a limit that is used up.
    limited: String,
}

impl Build {
    fn new(bench: &Bench, program: &Path) -> Result<Self> {
        let data = Data::of(bench, program, FEW)?;
        let limited = data.add_key("1", "1")?;
        Ok(Self { data, limited })
    }

    fn start(&self) -> Result<Process> {
        // As in `rejections`: a different address for each 401, and no ban.
        let options = ["--trusted-proxy", "127.0.0.1", "--ban-after", "0"];
        let server = self.data.serve(Affinity::Server, &options)?;
        let authorization = format!("Authorization: Bearer {}\r\n", self.limited);
        Response::to_get(server.address, GET, &authorization)?;
        Ok(server)
    }

    /// What is measured, in the same order for each build.
    fn requests(&self) -> [(&'static str, Requests); 6] {
        let key = &self.data.key;
        [
            ("list", Requests::get(LIST, key)),
            ("get", Requests::get(GET, key)),
            ("401", Requests::unauthorized(GET)),
            ("429", Requests::limited(GET, &self.limited)),
            ("page", Requests::random_pages(FEW, key)),
            ("post", Requests::creations(key)),
        ]
    }
}

pub(super) fn run(bench: &Bench, other: &Path) -> Result<Vec<BuildComparison>> {
    let ours = Build::new(bench, &bench.program("animal-store"))?;
    let other = Build::new(bench, other)?;
    let mut contenders = Vec::new();
    // The rounds of both builds with the same request are next to each other.
    for ((name, request), (_, same)) in ours.requests().into_iter().zip(other.requests()) {
        contenders.push(Contender::pinned(name, 0, request));
        contenders.push(Contender::pinned(name, 1, same));
    }
    let start = || Ok(vec![ours.start()?, other.start()?]);
    let mut measurements = compete(bench, "builds", start, contenders)?.into_iter();
    let mut builds = Vec::new();
    while let (Some(ours), Some(other)) = (measurements.next(), measurements.next()) {
        builds.push(BuildComparison { ours, other });
    }
    Ok(builds)
}
