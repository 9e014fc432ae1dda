//! The Grafana dashboard and the alerts, in a real Prometheus that scrapes loaded servers as docs/operating.md says.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use harness::{Prometheus, StopOnDrop, eventually};
use serde_json::Value;

use crate::page::{histograms, listed};
use crate::promql::metrics_in;
use crate::servers::{MonitoredServers, TOKEN};
use crate::{alerts, path, text};

/// The maximum time for which the servers are under load.
const LOAD: Duration = Duration::from_secs(30);

/// A query of the dashboard.
#[derive(Debug)]
struct Query {
    row: String,
    panel: String,
    expression: String,
}

fn queries() -> Vec<Query> {
    let dashboard: Value = serde_json::from_str(&text("packaging/grafana.json")).expect("JSON");
    let mut row = String::new();
    let mut queries = Vec::new();
    for panel in dashboard["panels"].as_array().expect("panels") {
        let title = panel["title"].as_str().expect("a title").to_owned();
        if panel["type"] == "row" {
            // The panels of a collapsed row are inside it, where this does not look.
            assert_eq!(panel["collapsed"], false, "{title}");
            row = title;
            continue;
        }
        assert!(panel["description"].is_string(), "{title}");
        let targets = panel["targets"].as_array().expect("queries");
        assert!(!targets.is_empty(), "{title}");
        queries.extend(targets.iter().map(|target| Query {
            row: row.clone(),
            panel: title.clone(),
            expression: target["expr"].as_str().expect("a query").to_owned(),
        }));
    }
    assert!(queries.len() > 25, "{queries:#?}");
    queries
}

/// The queries that fill the variables of the dashboard: `label_values(METRIC, LABEL)`.
fn variables() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(&text("packaging/grafana.json")).expect("JSON");
    let variables = dashboard["templating"]["list"].as_array().expect("a list");
    let queries = variables.iter().filter(|one| one["type"] == "query");
    queries
        .map(|one| {
            let query = one["query"]["query"].as_str().expect("a query");
            let inner = query.strip_prefix("label_values(").expect("label_values");
            let (metric, label) = inner.rsplit_once(", ").expect("two arguments");
            (metric.to_owned(), label.trim_end_matches(')').to_owned())
        })
        .collect()
}

#[test]
fn alerts_and_panels_name_only_metrics_on_the_page_and_each_of_them_has_a_panel() {
    let listed = listed();
    let histograms = histograms(&listed);
    let mut shown = BTreeSet::new();
    for query in queries() {
        for metric in metrics_in(&query.expression, &histograms) {
            let known = listed.contains_key(&metric) || metric == "ALERTS";
            assert!(known, "{metric}: {query:?}");
            shown.insert(metric);
        }
    }
    for (metric, _) in variables() {
        let [name] = &metrics_in(&metric, &histograms)[..] else {
            panic!("not one metric: {metric}");
        };
        assert!(listed.contains_key(name), "{metric}");
    }
    let hidden: Vec<_> = listed
        .keys()
        .filter(|name| !shown.contains(*name))
        .collect();
    assert!(hidden.is_empty(), "in no panel: {hidden:?}");
    for alert in alerts() {
        for metric in metrics_in(&alert.expression, &histograms) {
            let known = listed.contains_key(&metric) || metric == "up";
            assert!(known, "{metric}: {}", alert.name);
        }
    }
}

/// The configuration of Prometheus on the page, for these servers.
fn configuration(servers: &MonitoredServers) -> String {
    let page = text("docs/operating.md");
    let block = page
        .split("```yaml\n")
        .find(|block| block.contains("scrape_configs:"));
    let mut config = block
        .and_then(|block| block.split("```").next())
        .expect("a configuration on the page")
        .to_owned();
    let targets = [&servers.embedded, &servers.node].map(|server| server.process.admin);
    for (written, used) in [
        (
            "credentials_file: /etc/prometheus/animal-store-token",
            format!("credentials: {TOKEN}"),
        ),
        (
            "/etc/prometheus/animal-store-rules.yaml",
            path("packaging/prometheus-rules.yaml")
                .display()
                .to_string(),
        ),
        (
            r#"["127.0.0.1:9090"]"#,
            format!(r#"["{}", "{}"]"#, targets[0], targets[1]),
        ),
    ] {
        assert!(config.contains(written), "{written}: {config}");
        config = config.replace(written, &used);
    }
    format!("global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\n{config}")
}

/// The values of a query of the dashboard for one server, without those that are not numbers.
fn values(prometheus: &Prometheus, expression: &str, instance: &str) -> Vec<(Value, f64)> {
    let expression = expression
        .replace("$__rate_interval", "20s")
        .replace("$job", "animal-store")
        .replace("$instance", instance);
    assert!(!expression.contains('$'), "{expression}");
    let mut values = prometheus.query(&expression);
    values.retain(|(_, value)| !value.is_nan());
    values
}

/// The names of the alerts that are pending or firing for a server.
fn active(prometheus: &Prometheus, instance: &str) -> BTreeSet<String> {
    let active = prometheus.api("alerts", &[]);
    let active = active["alerts"].as_array().expect("a list").iter();
    let of_server = active.filter(|alert| alert["labels"]["instance"] == instance);
    of_server
        .inspect(|alert| {
            let texts = alert["annotations"].to_string();
            assert!(
                texts.contains(instance) && !texts.contains("<error"),
                "{texts}"
            );
        })
        .map(|alert| {
            alert["labels"]["alertname"]
                .as_str()
                .expect("a name")
                .to_owned()
        })
        .collect()
}

#[test]
fn no_panel_is_empty_and_alerts_are_active_for_what_is_broken_only() {
    let began = Instant::now();
    let mut servers = MonitoredServers::start();
    let [embedded, node] =
        [&servers.embedded, &servers.node].map(|server| server.process.admin.to_string());
    let prometheus = Prometheus::start(&configuration(&servers));
    // Rates begin with the second sample.
    eventually(
        Duration::from_secs(20),
        "two samples of both servers",
        || {
            prometheus
                .query("count_over_time(animal_store_ready[1m]) >= 2")
                .len()
                == 2
        },
    );
    let done = AtomicBool::new(false);
    let clients = [&servers.embedded.clients, &servers.node.clients];
    std::thread::scope(|scope| {
        for clients in clients {
            scope.spawn(|| clients.load(&done));
        }
        let end = StopOnDrop(&done);
        let mut last = Vec::new();
        let begun = Instant::now();
        while begun.elapsed() < LOAD {
            last = missing(&prometheus, [&embedded, &node]);
            if last.is_empty() {
                break;
            }
            std::thread::sleep(Duration::from_secs(1));
        }
        assert!(last.is_empty(), "{last:#?}");
        check_panels(&prometheus, &embedded, &node);
        drop(end);
    });

    let rules = prometheus.api("rules", &[]);
    let rules = rules["groups"][0]["rules"].as_array().expect("rules");
    assert_eq!(rules.len(), alerts().len());
    for rule in rules {
        assert_eq!(
            (&rule["health"], &rule["lastError"]),
            (&"ok".into(), &Value::Null),
            "{rule}"
        );
    }
    for server in [&embedded, &node] {
        // On a busy machine, requests may be slow and Redis late for a moment.
        eventually(Duration::from_secs(10), "no alert is active", || {
            let active = active(&prometheus, server);
            active.iter().all(|name| name == "AnimalStoreSlow")
        });
    }

    let becomes_active = |instance: &str, name: &str| {
        eventually(Duration::from_secs(10), name, || {
            active(&prometheus, instance).contains(name)
        });
    };
    servers.redis.kill();
    servers.node.clients.use_once();
    becomes_active(&node, "AnimalStoreRedisDown");
    servers.embedded.process.kill();
    becomes_active(&embedded, "AnimalStoreDown");
    println!("{} queries in {:?}", queries().len(), began.elapsed());
}

fn check_panels(prometheus: &Prometheus, embedded: &str, node: &str) {
    let mut empty = Vec::new();
    for query in queries() {
        // What only some servers have is in a row of its own.
        let servers = match query.row.split_once(" (only with ").map(|(_, on)| on) {
            None => vec![embedded, node],
            Some("SQLite)" | "TLS)") => vec![embedded],
            Some("PostgreSQL and Redis)") => vec![node],
            Some(other) => panic!("no servers are known for the row \"(only with {other}\""),
        };
        for server in servers {
            if values(prometheus, &query.expression, server).is_empty() {
                empty.push(format!("{server}: {query:?}"));
            }
        }
    }
    assert!(empty.is_empty(), "{empty:#?}");

    for (metric, label) in variables() {
        let series = metric.replace("$job", "animal-store");
        let values = prometheus.api(&format!("label/{label}/values"), &[("match[]", &series)]);
        let count = values.as_array().expect("a list").len();
        assert_eq!(count, if label == "job" { 1 } else { 2 }, "{values}");
    }
}

/// What the load must have caused: a panel, a label, and its values for which the panel is above zero.
const CAUSED: [(&str, &str, &[&str]); 9] = [
    (
        "Requests by operation",
        "operation",
        &["listPets", "createPet", "health"],
    ),
    (
        "Responses by status",
        "status",
        &["200", "201", "400", "401", "404", "429"],
    ),
    ("Rejected with 429", "reason", &["window", "ban", "address"]),
    ("Cache entries", "kind", &["animals", "pages"]),
    ("Bans", "", &[""]),
    ("Failed authentications", "", &[""]),
    ("Animals created", "", &[""]),
    ("Animals per commit", "", &[""]),
    ("CPU", "", &[""]),
];

/// What the load has not caused yet on one of the servers.
fn missing(prometheus: &Prometheus, servers: [&str; 2]) -> Vec<String> {
    let mut missing = Vec::new();
    let queries = queries();
    for (panel, label, wanted) in CAUSED {
        let query = queries.iter().find(|query| query.panel == panel);
        let query = query.unwrap_or_else(|| panic!("no panel {panel}"));
        for server in servers {
            let values = values(prometheus, &query.expression, server);
            for label_value in wanted {
                let is_it = |labels: &Value| label.is_empty() || labels[label] == *label_value;
                let mut of_label = values.iter().filter(|(labels, _)| is_it(labels));
                if !of_label.any(|(_, value)| *value > 0.0) {
                    missing.push(format!("{panel} {label_value} of {server}: {values:?}"));
                }
            }
        }
    }
    missing
}
