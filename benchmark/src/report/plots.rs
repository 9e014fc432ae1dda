//! The plots of the report.

use super::number::count;
use super::plot::{self, Group};
use crate::results::Results;

/// One plot.
pub(super) struct Plot {
    pub(super) file: &'static str,
    pub(super) title: &'static str,
    /// The title of the table that it follows.
    pub(super) section: &'static str,
    pub(super) svg: String,
}

/// Every plot that this run has data for.
pub(super) fn all(results: &Results) -> Vec<Plot> {
    [baselines(results), animals(results), keys(results)]
        .into_iter()
        .flatten()
        .collect()
}

fn baselines(results: &Results) -> Option<Plot> {
    let rows = [
        ("list, 20 animals", &results.list),
        ("get, one animal", &results.get),
    ];
    let groups: Vec<Group> = rows
        .into_iter()
        .filter_map(|(name, row)| Some((name, row.as_ref()?)))
        .map(|(name, row)| Group {
            name: name.to_owned(),
            bars: [Some(&row.ours), Some(&row.hyper), row.nginx.as_ref()]
                .into_iter()
                .flatten()
                .map(|measurement| (measurement.name.clone(), measurement.cpu()))
                .collect(),
        })
        .collect();
    let title = "CPU time per request, compared with the baselines";
    (!groups.is_empty()).then(|| Plot {
        file: "baselines.svg",
        title,
        section: "Compared with the baselines",
        svg: plot::bars(title, &groups),
    })
}

fn animals(results: &Results) -> Option<Plot> {
    let sizes = &results.sizes;
    let places: Vec<String> = sizes
        .iter()
        .map(|size| format!("{} animals", count(size.animals.into())))
        .collect();
    let lines = [
        (
            "page by cursor",
            sizes.iter().map(|size| size.page.cpu()).collect(),
        ),
        ("list", sizes.iter().map(|size| size.list.cpu()).collect()),
        ("get", sizes.iter().map(|size| size.get.cpu()).collect()),
    ];
    let title = "CPU time per request, by number of animals";
    (!sizes.is_empty()).then(|| Plot {
        file: "animals.svg",
        title,
        section: "By number of animals",
        svg: plot::lines(title, &places, &lines),
    })
}

fn keys(results: &Results) -> Option<Plot> {
    let keys = &results.keys;
    let places: Vec<String> = keys
        .iter()
        .map(|row| match row.keys {
            1 => "1 key".to_owned(),
            many => format!("{} keys", count(many as u64)),
        })
        .collect();
    let lines = [
        ("list", keys.iter().map(|row| row.list.cpu()).collect()),
        ("get", keys.iter().map(|row| row.get.cpu()).collect()),
    ];
    let title = "CPU time per request, by number of keys";
    (!keys.is_empty()).then(|| Plot {
        file: "keys.svg",
        title,
        section: "By number of keys",
        svg: plot::lines(title, &places, &lines),
    })
}
