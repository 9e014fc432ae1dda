//! The goals, and whether this run met them.

use super::Table;
use super::number::{count, megabytes, times, whole};
use crate::results::{Compared, Encrypted, Results};

/// The ratio up to which the costs at ten thousand and at ten million animals count as the same.
const SAME: f64 = 1.20;

struct Goal {
    what: String,
    wanted: String,
    measured: String,
    met: bool,
}

impl Goal {
    fn at_most(what: impl Into<String>, ratio: f64, most: f64, of: &str) -> Self {
        let met = ratio <= most;
        let just_missed = !met && times(ratio) == times(most);
        Self {
            what: what.into(),
            wanted: format!("≤ {most:.2} × {of}"),
            measured: if just_missed {
                format!("{:.3} ×", (ratio * 1000.0).ceil() / 1000.0)
            } else {
                times(ratio)
            },
            met,
        }
    }

    fn at_least(what: impl Into<String>, ratio: f64, least: f64, of: &str) -> Self {
        Self {
            what: what.into(),
            wanted: format!("≥ {least} × {of}"),
            measured: times(ratio),
            met: ratio >= least,
        }
    }
}

/// The goals that this run has data for.
pub(super) fn table(results: &Results) -> Option<Table> {
    let mut goals = Vec::new();
    for (what, row) in [
        ("list: 20 animals", &results.list),
        ("get: one animal", &results.get),
    ] {
        goals.extend(row.iter().flat_map(|row| compared(what, row)));
    }
    for (what, row) in [
        ("https: 20 animals over TLS", &results.https),
        ("http2: 20 animals, 100 streams", &results.http2),
    ] {
        if let Some(Encrypted {
            ours,
            nginx: Some(nginx),
        }) = row
        {
            goals.push(Goal::at_most(what, ours.cpu_over(nginx), 1.15, "nginx"));
        }
    }
    if let Some(row) = &results.rejections {
        for (what, rejection) in [("a 401", &row.unauthorized), ("a 429", &row.limited)] {
            goals.push(Goal::at_most(
                what,
                rejection.cpu_over(&row.get),
                1.0,
                "a 200 (get)",
            ));
        }
    }
    goals.extend(pages(results));
    goals.extend(many_keys(results));
    goals.extend(tail(results));
    if let Some(row) = &results.post {
        let ratio = row.free.rate_over(&row.commits);
        let what = "post: rate on all cores";
        goals.push(Goal::at_least(what, ratio, 4.0, "one commit per row"));
        let ratio = row.pinned.cpu_over(&row.get);
        goals.push(Goal::at_most(
            "post: CPU time",
            ratio,
            2.5,
            "the cached get",
        ));
    }
    if let Some(row) = &results.start {
        let with = format!(
            "{} animals, {} keys",
            count(row.animals.into()),
            count(row.keys as u64)
        );
        goals.push(Goal {
            what: format!("startup to ready, {with}"),
            wanted: "≤ 300 ms".into(),
            measured: format!("{} ms", whole(row.milliseconds)),
            met: row.milliseconds <= 300.0,
        });
        goals.push(Goal {
            what: format!("idle memory, {with}"),
            wanted: "≤ 100 MB".into(),
            measured: megabytes(row.idle_memory),
            met: row.idle_memory <= 100_000_000,
        });
    }
    for row in &results.imports {
        let bare = match row.engine.as_str() {
            "SQLite" => "bare SQLite",
            _ => "bare COPY",
        };
        let animals = count(row.animals as u64);
        let what = format!("import of {animals} animals, {}", row.engine);
        goals.push(Goal::at_least(what, row.ratio(), 0.5, bare));
    }
    if let Some(row) = &results.nodes {
        let ratio = 1.0 / row.three.cpu_over(&row.embedded);
        let what = "three nodes: requests per core";
        goals.push(Goal::at_least(what, ratio, 0.5, "one embedded node"));
    }
    let rows = goals.into_iter().map(|goal| {
        let result = if goal.met { "met" } else { "not met" };
        vec![goal.what, goal.wanted, goal.measured, result.into()]
    });
    let rows: Vec<_> = rows.collect();
    (!rows.is_empty()).then_some(Table {
        title: "Goals",
        note: "Ratios are of CPU time per request unless stated otherwise, and are compared with the goals before they are rounded.".into(),
        head: vec!["figure", "goal", "measured", "result"],
        rows,
    })
}

fn compared(what: &str, row: &Compared) -> Vec<Goal> {
    let hyper = Goal::at_most(what, row.ours.cpu_over(&row.hyper), 1.20, "bare hyper");
    let nginx = row
        .nginx
        .as_ref()
        .map(|nginx| Goal::at_most(what, row.ours.cpu_over(nginx), 1.10, "nginx"));
    std::iter::once(hyper).chain(nginx).collect()
}

fn pages(results: &Results) -> Vec<Goal> {
    let (Some(first), Some(last)) = (results.sizes.first(), results.sizes.last()) else {
        return Vec::new();
    };
    let what = format!(
        "a page by random cursor, {} animals",
        count(last.animals.into())
    );
    let small = format!("{} animals", count(first.animals.into()));
    vec![
        Goal::at_most(
            &what,
            last.page.cpu_over(&last.list),
            4.0,
            "the cached page",
        ),
        Goal::at_most(&what, last.page.cpu_over(&first.page), SAME, &small),
    ]
}

fn many_keys(results: &Results) -> Vec<Goal> {
    let (Some(one), Some(many)) = (results.keys.first(), results.keys.last()) else {
        return Vec::new();
    };
    let goal = |what: &str, ratio| {
        let what = format!("{what}, {} keys", count(many.keys as u64));
        Goal::at_most(what, ratio, 1.3, "one key")
    };
    vec![
        goal("list", many.list.cpu_over(&one.list)),
        goal("get", many.get.cpu_over(&one.get)),
    ]
}

fn tail(results: &Results) -> Option<Goal> {
    let of = |name| {
        let mut rows = results.tail.iter();
        rows.find(|row| row.request == "list" && row.name == name)
    };
    let ratio = of("animal-store")?.p999 / of("bare hyper")?.p999;
    let what = "p99.9 of a list at half the peak rate";
    Some(Goal::at_most(what, ratio, 2.0, "bare hyper"))
}
