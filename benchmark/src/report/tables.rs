//! The figures of each row.

use super::Table;
use super::number::{count, megabytes, micros, times, whole};
use crate::figure::Figure;
use crate::results::{Anchored, Keys, Nodes, Peer, Post, Refusals, Results, Size, Start, Tail};

const REQUESTS: &str = "requests/s";
const CPU: &str = "CPU each";

/// Every table that this run can fill.
pub(super) fn all(results: &Results) -> Vec<Table> {
    let anchors = [("list", &results.list), ("get", &results.get)]
        .into_iter()
        .filter_map(|(name, row)| row.as_ref().map(|row| (name, row)))
        .collect::<Vec<_>>();
    let mut tables = Vec::new();
    if !anchors.is_empty() {
        tables.push(anchored(&anchors));
    }
    tables.extend(results.refusals.as_ref().map(refusals));
    tables.extend(results.post.as_ref().map(post));
    if !results.sizes.is_empty() {
        tables.push(sizes(&results.sizes));
    }
    if !results.keys.is_empty() {
        tables.push(keys(&results.keys));
    }
    tables.extend(results.nodes.as_ref().map(nodes));
    tables.extend(results.start.as_ref().map(start));
    if !results.tail.is_empty() {
        tables.push(tail(&results.tail));
    }
    if !results.peers.is_empty() {
        tables.push(peers(&results.peers));
    }
    tables
}

/// The cells that every figure has.
fn cells(figure: &Figure) -> [String; 2] {
    [whole(figure.rate()), micros(figure.cpu())]
}

fn anchored(rows: &[(&str, &Anchored)]) -> Table {
    let mut table = Table {
        title: "Beside the anchors",
        note: "`list` is `GET /v1/pets` with 20 animals, `get` is `GET /v1/pets/1`: authenticated, limited, logged, from \
               the cache. Bare hyper and nginx send the very same headers and body, and look at nothing."
            .into(),
        head: vec!["row", "server", REQUESTS, CPU, "animal-store takes"],
        rows: Vec::new(),
    };
    for (name, row) in rows {
        for figure in [Some(&row.ours), Some(&row.hyper), row.nginx.as_ref()] {
            let Some(figure) = figure else { continue };
            let [rate, cpu] = cells(figure);
            let ratio = times(row.ours.cpu_over(figure));
            table.rows.push(vec![
                (*name).to_owned(),
                figure.name.clone(),
                rate,
                cpu,
                ratio,
            ]);
        }
        if row.nginx.is_none() {
            let cells = [*name, "nginx", "not installed", "–", "–"];
            table.rows.push(cells.map(str::to_owned).to_vec());
        }
    }
    table
}

fn refusals(row: &Refusals) -> Table {
    let line = |figure: &Figure| {
        let [rate, cpu] = cells(figure);
        vec![
            figure.name.clone(),
            rate,
            cpu,
            times(figure.cpu_over(&row.get)),
        ]
    };
    Table {
        title: "Refusals",
        note: "The 401 has no key and comes from another address each time; the 429 is of a key whose limit is used up. \
               The 200 is `get`."
            .into(),
        head: vec!["answer", REQUESTS, CPU, "of the 200"],
        rows: [&row.get, &row.unauthorized, &row.limited].map(line).to_vec(),
    }
}

fn post(row: &Post) -> Table {
    let line = |figure: &Figure| {
        let [rate, cpu] = cells(figure);
        let figures = [
            times(figure.rate_over(&row.commits)),
            times(figure.cpu_over(&row.get)),
        ];
        [vec![figure.name.clone(), rate, cpu], figures.to_vec()].concat()
    };
    Table {
        title: "Creations",
        note: "`POST /v1/pets` from 64 connections, each 201 on disk. The rate that counts is the one on every core, the CPU \
               time the one on one core. Beside them: SQLite alone with one commit for each row, on the same disk."
            .into(),
        head: vec!["row", "a second", CPU, "rate, of one commit each", "CPU, of get"],
        rows: [&row.free, &row.pinned, &row.commits, &row.get].map(line).to_vec(),
    }
}

fn sizes(rows: &[Size]) -> Table {
    Table {
        title: "As animals grow",
        note: "A page by random cursor holds 11 to 29 animals, 20 on the average, so that even ten thousand animals have \
               more different pages than the cache holds."
            .into(),
        head: vec![
            "animals",
            "list",
            "get",
            "page by random cursor",
            "pages/s",
            "page, of list",
        ],
        rows: rows
            .iter()
            .map(|row| {
                let [rate, page] = cells(&row.page);
                let ratio = times(row.page.cpu_over(&row.list));
                let [list, get] = [&row.list, &row.get].map(|figure| micros(figure.cpu()));
                vec![count(row.animals.into()), list, get, page, rate, ratio]
            })
            .collect(),
    }
}

fn keys(rows: &[Keys]) -> Table {
    Table {
        title: "As keys grow",
        note: "CPU time for each request. Where there are many keys, each request comes with another one.".into(),
        head: vec!["keys", "list", "get"],
        rows: rows
            .iter()
            .map(|row| {
                let [list, get] = [&row.list, &row.get].map(|figure| micros(figure.cpu()));
                vec![count(row.keys as u64), list, get]
            })
            .collect(),
    }
}

fn nodes(row: &Nodes) -> Table {
    let line = |figure: &Figure| {
        let [rate, cpu] = cells(figure);
        let ratio = times(figure.cpu_over(&row.embedded));
        vec![figure.name.clone(), rate, cpu, ratio]
    };
    Table {
        title: "Several nodes",
        note: format!(
            "`list` on three nodes over one PostgreSQL and one Redis, beside one node with its data embedded. The CPU time \
             is that of the nodes, all on one core; Redis and PostgreSQL share the other with the load, so the rate is not \
             what three machines would reach. Calls to Redis for each request: {:.2}. Redis took {:.1} µs of CPU time for each.",
            row.round_trips, row.redis_micros
        ),
        head: vec!["nodes", REQUESTS, CPU, "of one embedded"],
        rows: vec![line(&row.embedded), line(&row.three)],
    }
}

fn start(row: &Start) -> Table {
    let line = |what: &str, measured: String| vec![what.to_owned(), measured];
    Table {
        title: "Start and memory",
        note: format!(
            "With {} animals and {} keys. The start is from the start of the process to a 200 from `/readyz`, the file in \
             the system's cache. Under load means after rounds of every kind, at its highest.",
            count(row.animals.into()),
            count(row.keys as u64)
        ),
        head: vec!["what", "measured"],
        rows: vec![
            line("start to ready", format!("{} ms", whole(row.milliseconds))),
            line("memory at rest", megabytes(row.memory_at_rest)),
            line("memory under load", megabytes(row.memory_under_load)),
        ],
    }
}

fn tail(rows: &[Tail]) -> Table {
    Table {
        title: "Latency at half the peak rate",
        note: "Requests go out on a schedule, whatever the server does, and the time of each runs from the moment it was \
               due. All servers of a row get the same rate: half of what animal-store can do on one core. Medians of \
               rounds that take turns."
            .into(),
        head: vec!["row", "server", REQUESTS, "p50", "p99", "p99.9"],
        rows: rows
            .iter()
            .map(|row| {
                let names = [row.row.clone(), row.name.clone()];
                let figures = [row.p50, row.p99, row.p999].map(micros);
                let rate = [whole(row.requests_per_second)];
                [names.to_vec(), rate.to_vec(), figures.to_vec()].concat()
            })
            .collect(),
    }
}

fn peers(rows: &[Peer]) -> Table {
    let ours = rows.first().and_then(|row| row.measured.as_ref().ok());
    let line = |row: &Peer| match &row.measured {
        Err(why) => [&row.name, why.as_str(), "", "", "", "", ""]
            .map(str::to_owned)
            .to_vec(),
        Ok(figures) => {
            let ratio = |figure: &Figure, ours: Option<&Figure>| {
                ours.map_or_else(String::new, |ours| times(figure.cpu_over(ours)))
            };
            [
                &[row.name.clone()][..],
                &cells(&figures.list),
                &[ratio(&figures.list, ours.map(|ours| &ours.list))],
                &cells(&figures.get),
                &[ratio(&figures.get, ours.map(|ours| &ours.get))],
            ]
            .concat()
        }
    };
    Table {
        title: "What people would use instead",
        note: "Ten thousand animals each, on one core, with no key and no limits but in animal-store. Prism has no data: it \
               makes its answers up from the OpenAPI document."
            .into(),
        head: vec![
            "server",
            "list/s",
            "CPU each",
            "of animal-store",
            "get/s",
            "CPU each",
            "of animal-store",
        ],
        rows: rows.iter().map(line).collect(),
    }
}
