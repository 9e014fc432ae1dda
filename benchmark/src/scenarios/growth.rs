//! Cost by number of animals and keys.

use anyhow::Result;

use super::{FEW, GET, LIST};
use crate::bench::Bench;
use crate::contender::{Contender, compete};
use crate::cores::Affinity;
use crate::data::Data;
use crate::load::Requests;
use crate::results::{Keys, Size};

/// Measures each number of animals. Also returns the largest database.
pub(super) fn sizes(bench: &Bench) -> Result<(Vec<Size>, Option<Data>)> {
    let mut data = Vec::new();
    for animals in bench.scale.sizes {
        data.push(Data::new(bench, *animals)?);
    }
    let servers = data.iter().map(|data| data.serve(Affinity::Server, &[]));
    let start = || servers.clone().collect();
    let mut contenders = Vec::new();
    for (server, data) in data.iter().enumerate() {
        let Data { animals, key, .. } = data;
        let name = |what| format!("{what}, {animals} animals");
        contenders.extend([
            Contender::pinned(name("list"), server, Requests::get(LIST, key)),
            Contender::pinned(name("get"), server, Requests::get(GET, key)),
            Contender::pinned(name("page"), server, Requests::random_pages(*animals, key)),
        ]);
    }
    let mut measurements = compete(bench, "sizes", start, contenders)?.into_iter();
    let mut sizes = Vec::new();
    for data in &data {
        let [list, get, page] = super::take(measurements.by_ref().take(3).collect())?;
        sizes.push(Size {
            animals: data.animals,
            list,
            get,
            page,
        });
    }
    Ok((sizes, data.pop()))
}

/// Measures one key, and many keys in random order.
pub(super) fn keys(bench: &Bench) -> Result<Vec<Keys>> {
    let one = Data::new(bench, FEW)?;
    let many = Data::new(bench, FEW)?;
    let secrets = many.add_keys(bench.scale.keys - 1)?;
    let servers = [&one, &many].into_iter();
    let servers = servers.map(|data| data.serve(Affinity::Server, &[]));
    let start = || servers.clone().collect();
    let contenders = vec![
        Contender::pinned("list, one key", 0, Requests::get(LIST, &one.key)),
        Contender::pinned("get, one key", 0, Requests::get(GET, &one.key)),
        Contender::pinned("list, many keys", 1, Requests::by_keys(LIST, &secrets)),
        Contender::pinned("get, many keys", 1, Requests::by_keys(GET, &secrets)),
    ];
    let measurements = compete(bench, "keys", start, contenders)?;
    let [list_one, get_one, list_many, get_many] = super::take(measurements)?;
    Ok(vec![
        Keys {
            keys: 1,
            list: list_one,
            get: get_one,
        },
        Keys {
            keys: bench.scale.keys,
            list: list_many,
            get: get_many,
        },
    ])
}
