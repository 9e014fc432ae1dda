//! The metrics that a PromQL expression names.

/// Words that are neither metrics nor followed by a bracket of arguments.
const OPERATORS: [&str; 7] = ["and", "or", "unless", "bool", "offset", "Inf", "NaN"];

/// Words that are followed by a list of labels.
const LABELS: [&str; 6] = [
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
];

/// Returns the names of the metrics in an expression, without the suffixes of the series of a histogram if `histograms` has their
/// name. Everything that is not known to be something else is a metric, so a mistake here fails a test and hides nothing.
pub(crate) fn metrics_in(expression: &str, histograms: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = expression;
    while let Some(first) = rest.chars().next() {
        if first.is_ascii_alphabetic() || first == '_' || first == '$' {
            let is_name = |c: char| c.is_ascii_alphanumeric() || "_:$".contains(c);
            let (word, after) = rest.split_at(rest.find(|c| !is_name(c)).unwrap_or(rest.len()));
            rest = after.trim_start();
            if LABELS.contains(&word) {
                rest = rest.split_once(')').expect("a list of labels").1;
            } else if !OPERATORS.contains(&word) && !is_function(rest) {
                found.push(word.to_owned());
            }
        } else if first.is_ascii_digit() {
            // A number or a duration.
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '.');
            rest = &rest[end.unwrap_or(rest.len())..];
        } else {
            let closing = match first {
                '{' => '}',
                '[' => ']',
                '"' => '"',
                _ => '\0',
            };
            rest = &rest[first.len_utf8()..];
            if closing != '\0' {
                rest = rest.split_once(closing).expect("the end of a bracket").1;
            }
        }
    }
    let base = |name: String| {
        let endings = ["_bucket", "_sum", "_count"];
        let base = endings.iter().find_map(|end| name.strip_suffix(end));
        match base.filter(|base| histograms.contains(base)) {
            Some(base) => base.to_owned(),
            None => name,
        }
    };
    found.into_iter().map(base).collect()
}

/// Whether a word is a function, by what comes after it: its arguments, or the labels of an aggregation.
fn is_function(after: &str) -> bool {
    ["(", "by ", "without "]
        .iter()
        .any(|start| after.starts_with(start))
}

#[test]
fn functions_labels_numbers_and_durations_are_not_metrics() {
    for (expression, metrics) in [
        (
            r#"sum by (le, job) (rate(a_bucket{b=~"c.+",d!="e"}[5m])) > 0.5"#,
            &["a"][..],
        ),
        (
            "b_count / on (x) group_left (y) b_total",
            &["b_count", "b_total"],
        ),
        ("abs(c) > 256 * 1024 and d offset 5m", &["c", "d"]),
        (r#"count(ALERTS{a="b"}) or vector(0)"#, &["ALERTS"]),
        ("up == 0", &["up"]),
        (
            "bottom unless on (a) top[$__rate_interval]",
            &["bottom", "top"],
        ),
        ("histogram_quantile(0.99, sum(x) without (y))", &["x"]),
    ] {
        assert_eq!(metrics_in(expression, &["a"]), metrics, "{expression}");
    }
}
