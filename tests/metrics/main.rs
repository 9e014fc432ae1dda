//! The metrics of the real server, and what operators get for them: the list in docs/operating.md, the alerts in
//! packaging/prometheus-rules.yaml and the dashboard in packaging/grafana.json. Each must name exactly what a server exposes, and
//! a real Prometheus runs every query.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test that cannot continue has failed"
)]

mod dashboard;
mod page;
mod promql;
mod rules;
mod servers;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// The program.
const PROGRAM: &str = env!("CARGO_BIN_EXE_animal-store");

/// The path of a file in the project.
fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// A text of the project.
fn text(name: &str) -> String {
    fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// An alert of packaging/prometheus-rules.yaml.
struct Alert {
    name: String,
    expression: String,
    rule: Value,
}

/// All alerts.
fn alerts() -> Vec<Alert> {
    let rules: Value =
        serde_saphyr::from_str(&text("packaging/prometheus-rules.yaml")).expect("YAML");
    let groups = rules["groups"].as_array().expect("groups").iter();
    let rules = groups.flat_map(|group| group["rules"].as_array().expect("rules"));
    let alerts: Vec<Alert> = rules
        .map(|rule| Alert {
            name: rule["alert"].as_str().expect("a name").to_owned(),
            expression: rule["expr"].as_str().expect("an expression").to_owned(),
            rule: rule.clone(),
        })
        .collect();
    assert!(alerts.len() > 12, "{}", alerts.len());
    alerts
}
