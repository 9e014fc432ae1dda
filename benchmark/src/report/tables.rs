//! The tables of the report.

use super::Table;
use super::number::{count, megabytes, micros, times, whole};
use crate::measurement::Measurement;
use crate::results::{
    Alternative, BuildComparison, Compared, Encrypted, Import, Keys, Nodes, Post, Rejections,
    Results, Size, Start, Tail,
};

const REQUESTS: &str = "requests/s";
const CPU: &str = "CPU per request";
const MIDDLE_HALF: &str = "middle half of the rounds";

/// The head of a table with rows of `server_row`.
const SERVERS: [&str; 6] = [
    "scenario",
    "server",
    REQUESTS,
    CPU,
    "animal-store / server",
    MIDDLE_HALF,
];

/// Every table that this run has data for.
pub(super) fn all(results: &Results) -> Vec<Table> {
    let tables = [
        Some(compared(results)),
        Some(encrypted(results)),
        results.rejections.as_ref().map(rejections),
        results.post.as_ref().map(post),
        Some(sizes(&results.sizes)),
        Some(keys(&results.keys)),
        results.nodes.as_ref().map(nodes),
        results.start.as_ref().map(start),
        Some(imports(&results.imports)),
        Some(tail(&results.tail)),
        Some(alternatives(&results.alternatives)),
        Some(builds(&results.builds)),
    ];
    let tables = tables.into_iter().flatten();
    tables.filter(|table| !table.rows.is_empty()).collect()
}

/// The cells that all measurements have in common.
fn cells(measurement: &Measurement) -> [String; 2] {
    [whole(measurement.rate()), micros(measurement.cpu())]
}

/// The ratio of CPU times, and the range of the middle half of the rounds' ratios.
fn ratio(measurement: &Measurement, other: &Measurement) -> [String; 2] {
    let [low, high] = measurement.cpu_range_over(other).map(times);
    let ratio = times(measurement.cpu_over(other));
    [ratio, format!("{low} to {high}")]
}

/// A server of a scenario, compared with ours.
fn server_row(scenario: &str, server: &Measurement, ours: &Measurement) -> Vec<String> {
    let names = [scenario.to_owned(), server.name.clone()];
    [names, cells(server), ratio(ours, server)].concat()
}

fn compared(results: &Results) -> Table {
    let mut rows = Vec::new();
    for (name, row) in [("list", &results.list), ("get", &results.get)] {
        if let Some(Compared { ours, hyper, nginx }) = row {
            let servers = [ours, hyper].into_iter().chain(nginx);
            rows.extend(servers.map(|server| server_row(name, server, ours)));
            if nginx.is_none() {
                let cells = [name, "nginx", "not installed", "–", "–", "–"];
                rows.push(cells.map(str::to_owned).to_vec());
            }
        }
    }
    Table {
        title: "Compared with the baselines",
        note: "`list` is `GET /v1/pets` with 20 animals, `get` is `GET /v1/pets/1`: authenticated, rate limited, logged, and \
               served from the cache. Bare hyper and nginx send the same headers and body without any logic."
            .into(),
        head: SERVERS.to_vec(),
        rows,
    }
}

fn encrypted(results: &Results) -> Table {
    let mut rows = Vec::new();
    for (name, row) in [("https", &results.https), ("http2", &results.http2)] {
        if let Some(Encrypted { ours, nginx }) = row {
            let servers = std::iter::once(ours).chain(nginx);
            rows.extend(servers.map(|server| server_row(name, server, ours)));
        }
    }
    Table {
        title: "Over TLS",
        note: "`list` over TLS 1.3, with HTTP/1.1 on 64 connections (`https`), and with 100 streams on one HTTP/2 connection \
               (`http2`). nginx has the same certificate, and sends the same headers and body without any logic. The load \
               generator decrypts too, so the rates are not comparable with those of other tables."
            .into(),
        head: SERVERS.to_vec(),
        rows,
    }
}

fn rejections(row: &Rejections) -> Table {
    let line = |measurement: &Measurement| {
        let name = vec![measurement.name.clone()];
        let ratio = ratio(measurement, &row.get).to_vec();
        [name, cells(measurement).to_vec(), ratio].concat()
    };
    Table {
        title: "Rejected requests",
        note: "The 401 has no key and comes from a different address each time. The 429 is for a key with an exhausted \
               limit. The 200 is `get`."
            .into(),
        head: vec!["response", REQUESTS, CPU, "relative to the 200", MIDDLE_HALF],
        rows: [&row.get, &row.unauthorized, &row.limited].map(line).to_vec(),
    }
}

fn post(row: &Post) -> Table {
    let line = |measurement: &Measurement| {
        let [rate, cpu] = cells(measurement);
        let ratios = [
            times(measurement.rate_over(&row.commits)),
            times(measurement.cpu_over(&row.get)),
        ];
        [vec![measurement.name.clone(), rate, cpu], ratios.to_vec()].concat()
    };
    Table {
        title: "Creations",
        note: "`POST /v1/pets` from 64 connections, each 201 on disk. The goal for the rate applies to the run on all cores, the \
               goal for CPU time to the run on one core. For comparison: SQLite alone with one commit per row, on the same disk."
            .into(),
        head: vec!["scenario", "per second", CPU, "rate / one commit per row", "CPU / get"],
        rows: [&row.free, &row.pinned, &row.commits, &row.get].map(line).to_vec(),
    }
}

fn sizes(rows: &[Size]) -> Table {
    Table {
        title: "By number of animals",
        note: "CPU time per request. A page by random cursor has 11 to 29 animals, 20 on average, so that even ten thousand \
               animals have more distinct pages than the cache holds."
            .into(),
        head: vec![
            "animals",
            "list",
            "get",
            "page by random cursor",
            "pages/s",
            "page / list",
        ],
        rows: rows
            .iter()
            .map(|row| {
                let [rate, page] = cells(&row.page);
                let ratio = times(row.page.cpu_over(&row.list));
                let [list, get] = [&row.list, &row.get].map(|measurement| micros(measurement.cpu()));
                vec![count(row.animals.into()), list, get, page, rate, ratio]
            })
            .collect(),
    }
}

fn keys(rows: &[Keys]) -> Table {
    Table {
        title: "By number of keys",
        note: "CPU time per request. With many keys, each request uses a different one.".into(),
        head: vec!["keys", "list", "get"],
        rows: rows
            .iter()
            .map(|row| {
                let [list, get] =
                    [&row.list, &row.get].map(|measurement| micros(measurement.cpu()));
                vec![count(row.keys as u64), list, get]
            })
            .collect(),
    }
}

fn nodes(row: &Nodes) -> Table {
    let line = |measurement: &Measurement| {
        let [rate, cpu] = cells(measurement);
        let ratio = times(measurement.cpu_over(&row.embedded));
        vec![measurement.name.clone(), rate, cpu, ratio]
    };
    Table {
        title: "Several nodes",
        note: format!(
            "`list` on three nodes with one PostgreSQL and one Redis, compared with one node with the embedded database. The \
             CPU time is that of the nodes, which all run on one core. Redis and PostgreSQL share the other core with the load \
             generator, so the rate is not what three machines would reach. Calls to Redis per request: {:.2}. CPU time of Redis \
             per call: {:.1} µs.",
            row.round_trips, row.redis_micros
        ),
        head: vec!["nodes", REQUESTS, CPU, "relative to one embedded"],
        rows: vec![line(&row.embedded), line(&row.three)],
    }
}

fn start(row: &Start) -> Table {
    let line = |what: &str, measured: String| vec![what.to_owned(), measured];
    Table {
        title: "Startup and memory",
        note: format!(
            "With {} animals and {} keys. Startup is the time from the start of the process to a 200 from `/readyz`, with the \
             file in the page cache. Memory under load is the maximum after rounds of every kind.",
            count(row.animals.into()),
            count(row.keys as u64)
        ),
        head: vec!["figure", "measured"],
        rows: vec![
            line(
                "startup to ready",
                format!("{} ms", whole(row.milliseconds)),
            ),
            line("idle memory", megabytes(row.idle_memory)),
            line("memory under load", megabytes(row.memory_under_load)),
        ],
    }
}

fn imports(rows: &[Import]) -> Table {
    let per_second = |row: &Import, seconds: f64| whole(row.animals as f64 / seconds);
    Table {
        title: "Import",
        note: "`pets import` of an NDJSON file into a new database, and the engine alone with the same animals: SQLite with one \
               statement per animal in one transaction, and PostgreSQL with one COPY. The last column is the time from the last \
               animal that is staged until all are visible. Creations wait for that with SQLite, and for its last milliseconds with \
               PostgreSQL."
            .into(),
        head: vec![
            "engine",
            "animals",
            "animals/s",
            "engine alone",
            "import / engine alone",
            "until visible",
        ],
        rows: rows
            .iter()
            .map(|row| {
                vec![
                    row.engine.clone(),
                    count(row.animals as u64),
                    per_second(row, row.seconds),
                    per_second(row, row.bare_seconds),
                    times(row.ratio()),
                    format!("{:.2} s", row.insert_seconds),
                ]
            })
            .collect(),
    }
}

fn tail(rows: &[Tail]) -> Table {
    Table {
        title: "Latency at half the peak rate",
        note: "Requests are sent on a fixed schedule, independent of the server's speed, and latency is measured from the \
               scheduled time. For each kind of request, all servers get the same rate: half of the peak rate of animal-store on one core. \
               Medians of alternating rounds."
            .into(),
        head: vec!["request", "server", REQUESTS, "p50", "p99", "p99.9"],
        rows: rows
            .iter()
            .map(|row| {
                let names = [row.request.clone(), row.name.clone()];
                let percentiles = [row.p50, row.p99, row.p999].map(micros);
                let rate = [whole(row.requests_per_second)];
                [names.to_vec(), rate.to_vec(), percentiles.to_vec()].concat()
            })
            .collect(),
    }
}

fn alternatives(rows: &[Alternative]) -> Table {
    let ours = rows.first().and_then(|row| row.measured.as_ref().ok());
    let line = |row: &Alternative| match &row.measured {
        Err(why) => [&row.name, why.as_str(), "", "", "", "", ""]
            .map(str::to_owned)
            .to_vec(),
        Ok(measurements) => {
            let ratio = |measurement: &Measurement, ours: Option<&Measurement>| {
                ours.map_or_else(String::new, |ours| times(measurement.cpu_over(ours)))
            };
            [
                &[row.name.clone()][..],
                &cells(&measurements.list),
                &[ratio(&measurements.list, ours.map(|ours| &ours.list))],
                &cells(&measurements.get),
                &[ratio(&measurements.get, ours.map(|ours| &ours.get))],
            ]
            .concat()
        }
    };
    Table {
        title: "Alternatives",
        note: "Ten thousand animals each, on one core. Only animal-store checks keys and limits. Prism has no data and \
               generates its responses from the OpenAPI document."
            .into(),
        head: vec![
            "server",
            "list/s",
            "CPU per request",
            "relative to animal-store",
            "get/s",
            "CPU per request",
            "relative to animal-store",
        ],
        rows: rows.iter().map(line).collect(),
    }
}

fn builds(rows: &[BuildComparison]) -> Table {
    let line = |BuildComparison { ours, other }: &BuildComparison| {
        let cells = vec![ours.name.clone(), micros(ours.cpu()), micros(other.cpu())];
        [cells, ratio(ours, other).to_vec()].concat()
    };
    Table {
        title: "Compared with another build",
        note: String::new(),
        head: vec![
            "request",
            CPU,
            "CPU per request, other build",
            "this build / other",
            MIDDLE_HALF,
        ],
        rows: rows.iter().map(line).collect(),
    }
}
