//! The alerts, with promtool: they are valid, and each has a test for which it fires and one for which it does not.

use std::path::Path;
use std::process::{Command, Output};

use crate::{Alert, alerts, path, text};

const RULES: &str = "packaging/prometheus-rules.yaml";
const TESTS: &str = "tests/metrics/rules.yaml";

fn promtool(args: &[&str], file: &Path) -> Output {
    let ran = Command::new("promtool").args(args).arg(file).output();
    ran.expect("promtool runs: see ./test metrics")
}

#[test]
fn promtool_accepts_the_rules_and_their_tests_pass() {
    for (args, file) in [(["check", "rules"], RULES), (["test", "rules"], TESTS)] {
        let ran = promtool(&args, &path(file));
        assert!(ran.status.success(), "{ran:#?}");
    }
}

#[test]
fn each_alert_has_a_severity_a_summary_and_what_to_do() {
    for Alert { name, rule, .. } in alerts() {
        let severity = rule["labels"]["severity"].as_str();
        assert!(
            severity.is_some_and(|word| ["critical", "warning"].contains(&word)),
            "{name}: {severity:?}"
        );
        let words = |annotation: &str| {
            let text = rule["annotations"][annotation].as_str();
            text.unwrap_or_default().split_whitespace().count()
        };
        assert!(words("summary") > 3, "{name}");
        assert!(words("description") > 15, "{name}");
    }
}

/// Runs the tests of the rules with another expression for each alert, and returns the alerts whose tests fail.
fn failing_with(change: impl Fn(&str) -> String) -> Vec<String> {
    let folder = tempfile::TempDir::new().expect("a folder");
    let rules: Vec<_> = alerts()
        .into_iter()
        .map(|alert| {
            let mut rule = alert.rule;
            rule["expr"] = change(&alert.expression).into();
            rule
        })
        .collect();
    let rules = serde_json::json!({"groups": [{"name": "animal-store", "rules": rules}]});
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path
    };
    // JSON is YAML.
    file("rules.yaml", &rules.to_string());
    let tests = text(TESTS).replace("../../packaging/prometheus-rules.yaml", "rules.yaml");
    let ran = promtool(&["test", "rules"], &file("tests.yaml", &tests));
    let output = [ran.stdout, ran.stderr].concat();
    let output = String::from_utf8_lossy(&output);
    let names = alerts().into_iter().map(|alert| alert.name);
    names
        .filter(|name| output.contains(&format!(r#"expr: "ALERTS{{alertname=\"{name}\","#)))
        .collect()
}

#[test]
fn the_tests_of_an_alert_notice_if_it_never_fires_or_if_it_fires_for_a_good_server() {
    let all: Vec<String> = alerts().into_iter().map(|alert| alert.name).collect();
    assert_eq!(failing_with(|_| "vector(0) > 1".to_owned()), all);
    let good = r#"max by (job, instance) ({job="animal-store",instance="good"})"#;
    let also_good = |expression: &str| format!("({expression}) or on (job, instance) {good}");
    assert_eq!(failing_with(also_good), all);
}
