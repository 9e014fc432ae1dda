//! The list of metrics in docs/operating.md, against what servers expose.

use std::collections::{BTreeMap, BTreeSet};

use crate::promql::metrics_in;
use crate::servers::{MonitoredServers, Server};
use crate::{alerts, text};

/// What the page says about a metric.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Metric {
    kind: String,
    labels: BTreeSet<String>,
    /// The kind of server that has it: all, SQLite, PostgreSQL, Redis, TLS, backups.
    on: String,
    alerts: BTreeSet<String>,
}

/// The metrics on the page, by name: the rows of its table of metrics.
pub(crate) fn listed() -> BTreeMap<String, Metric> {
    let page = text("docs/operating.md");
    let rows = page
        .lines()
        .skip_while(|line| !line.starts_with("| metric |"));
    let mut metrics = BTreeMap::new();
    for row in rows.skip(2).take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, on, _meaning, alerts] = cells[..] else {
            panic!("not six columns: {row}");
        };
        let words = |cell: &str| {
            let words = cell.split(['`', ',', ' ']).filter(|word| !word.is_empty());
            words.map(str::to_owned).collect()
        };
        let metric = Metric {
            kind: kind.to_owned(),
            labels: words(labels),
            on: on.to_owned(),
            alerts: words(alerts),
        };
        let before = metrics.insert(name.trim_matches('`').to_owned(), metric);
        assert_eq!(before, None, "{name} is listed twice");
    }
    assert!(metrics.len() > 20, "{metrics:?}");
    metrics
}

/// The names of the histograms on the page.
pub(crate) fn histograms(listed: &BTreeMap<String, Metric>) -> Vec<&str> {
    let histograms = listed
        .iter()
        .filter(|(_, metric)| metric.kind == "histogram");
    histograms.map(|(name, _)| name.as_str()).collect()
}

/// The type and the labels of each metric that a server exposes.
fn exposed(server: &Server) -> BTreeMap<String, (String, BTreeSet<String>)> {
    let page = server.metrics();
    let mut metrics = BTreeMap::new();
    let mut last = String::new();
    for line in page.lines() {
        if let Some(family) = line.strip_prefix("# TYPE ") {
            let (name, kind) = family.split_once(' ').expect("a type");
            name.clone_into(&mut last);
            metrics.insert(name.to_owned(), (kind.to_owned(), BTreeSet::new()));
        } else if let Some((_, labels)) = line.split_once('{').filter(|_| !line.starts_with('#')) {
            let names = labels.split('"').step_by(2);
            let names = names.filter_map(|name| name.trim_start_matches(',').strip_suffix('='));
            let (_, known) = metrics.get_mut(&last).expect("a type before its samples");
            known.extend(names.filter(|name| *name != "le").map(str::to_owned));
        }
    }
    metrics
}

#[test]
fn the_page_lists_exactly_the_metrics_that_servers_expose() {
    let servers = MonitoredServers::start();
    let listed = listed();
    for (server, on) in [
        (&servers.embedded, &["all", "SQLite", "TLS", "backups"][..]),
        (&servers.node, &["all", "PostgreSQL", "Redis"]),
    ] {
        // Labels appear with the first request.
        server.clients.use_once();
        let expected: BTreeMap<_, _> = listed
            .iter()
            .filter(|(_, metric)| on.contains(&&*metric.on))
            .map(|(name, metric)| (name.clone(), (metric.kind.clone(), metric.labels.clone())))
            .collect();
        assert_eq!(exposed(server), expected, "on {on:?}");
    }
}

#[test]
fn the_page_names_for_each_metric_the_alerts_that_use_it() {
    let listed = listed();
    let histograms = histograms(&listed);
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for alert in alerts() {
        for metric in metrics_in(&alert.expression, &histograms) {
            used.entry(metric).or_default().insert(alert.name.clone());
        }
    }
    // A metric of Prometheus itself, which the page explains in a sentence.
    let down = used.remove("up").expect("alerts on servers that are down");
    let page = text("docs/operating.md");
    for name in down {
        assert!(page.contains(&format!("`{name}`")), "{name}");
    }
    let named: BTreeMap<_, _> = listed
        .into_iter()
        .filter(|(_, metric)| !metric.alerts.is_empty())
        .map(|(name, metric)| (name, metric.alerts))
        .collect();
    assert_eq!(named, used);
}
