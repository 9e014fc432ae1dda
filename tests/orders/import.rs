//! `pets import`: all or nothing, bad lines, and the IDs that animals get or keep.

use std::fmt::Write as _;
use std::fs;

use harness::Operator;
use serde_json::{Value, json};

use crate::PROGRAM;

/// An operator whose folder has this file.
pub(crate) fn with_file(name: &str, content: impl AsRef<[u8]>) -> Operator {
    let operator = Operator::new(PROGRAM);
    fs::write(operator.path().join(name), content).expect("a file");
    operator
}

pub(crate) fn animals(operator: &Operator) -> Value {
    serde_json::from_str(&operator.stdout_of("pets list --json")).expect("JSON")
}

pub(crate) fn count(operator: &Operator) -> String {
    operator.sql_client().query("SELECT count(*) FROM pets")[0][0].clone()
}

/// This many lines of NDJSON.
pub(crate) fn lines(count: usize) -> String {
    (1..=count).fold(String::new(), |mut lines, number| {
        let _ = writeln!(lines, r#"{{"name":"pet {number}","categoryId":{number}}}"#);
        lines
    })
}

#[test]
fn new_ids_follow_the_last_one_that_was_given_out() {
    let operator = with_file("a.ndjson", lines(4_321));
    operator.stdout_of("pets import a.ndjson");
    operator.stdout_of("pets remove 4321 --yes");
    operator.stdout_of("pets import a.ndjson");
    let ids = "SELECT min(id), max(id), count(*) FROM pets WHERE id > 4321";
    assert_eq!(operator.sql_client().query(ids), [["4322", "8642", "4321"]]);
    let order = "SELECT count(*) FROM pets WHERE id > 4321 AND category_id <> id - 4321";
    assert_eq!(
        operator.sql_client().query(order),
        [["0"]],
        "in their order"
    );
    let report: Value =
        serde_json::from_str(&operator.stdout_of("pets import a.ndjson --json")).expect("JSON");
    assert_eq!(
        (&report["imported"], &report["bad"]),
        (&json!(4321), &json!(0))
    );
    assert!(report["seconds"].is_f64(), "{report}");
}

#[test]
fn one_bad_line_imports_nothing_unless_it_is_left_out() {
    let bad = "{\"name\":\" \",\"categoryId\":1}\nx\n";
    let operator = with_file("a.ndjson", lines(3_000) + bad + &lines(1));
    assert_eq!(
        operator.run_line("pets import a.ndjson").fails_with(1),
        "animal-store: a.ndjson, line 3001: name must not be blank: nothing was imported; --skip-bad leaves out such lines"
    );
    assert_eq!(count(&operator), "0");
    let output = operator
        .run_line("pets import a.ndjson --skip-bad")
        .exits(0);
    assert_eq!(
        output.stderr,
        "line 3001: name must not be blank\nline 3002: not valid JSON: unexpected character x at column 1\n"
    );
    let (start, end) = (
        "imported 3001 animals from a.ndjson in ",
        "; 2 bad lines were left out\n",
    );
    assert!(
        output.stdout.starts_with(start) && output.stdout.ends_with(end),
        "{output:?}"
    );
    assert_eq!(count(&operator), "3001");
}

#[test]
fn one_animal_and_one_bad_line_are_not_plural() {
    let bad = "x\n".repeat(21);
    let operator = with_file("a.ndjson", lines(1) + &bad);
    let output = operator
        .run_line("pets import a.ndjson --skip-bad")
        .exits(0);
    assert!(
        output
            .stdout
            .starts_with("imported 1 animal from a.ndjson in "),
        "{output:?}"
    );
    let last = output.stderr.lines().last();
    assert_eq!(last, Some("1 more bad line: use --verbose to see them"));
    fs::write(operator.path().join("b.ndjson"), "x").expect("a file");
    let output = operator
        .run_line("pets import b.ndjson --skip-bad")
        .exits(0);
    assert!(
        output.stdout.ends_with("; 1 bad line was left out\n"),
        "{output:?}"
    );
    let line = operator.stdout_of("pets export b.csv");
    assert!(line.starts_with("exported 1 animal to b.csv"), "{line}");
}

#[test]
fn twenty_bad_lines_are_printed_and_with_verbose_all() {
    let operator = with_file(
        "a.csv",
        format!("name,categoryId\n{}", "Rex,x\n".repeat(25)),
    );
    let output = operator
        .run_line("pets import a.csv --skip-bad --json")
        .exits(0);
    let printed: Vec<&str> = output.stderr.lines().collect();
    assert_eq!(printed.len(), 21, "{printed:?}");
    assert!(
        printed[19].starts_with("line 21: categoryId must be"),
        "{printed:?}"
    );
    assert_eq!(printed[20], "5 more bad lines: use --verbose to see them");
    assert!(
        output.stdout.starts_with(r#"{"imported":0,"bad":25,"#),
        "{output:?}"
    );
    let output = operator
        .run_line("pets import a.csv --skip-bad --verbose")
        .exits(0);
    assert_eq!(output.stderr.lines().count(), 25);
}

#[test]
fn animals_that_keep_their_ids_need_ids_that_are_not_taken() {
    let line =
        |id: i64, name: &str| format!("{{\"id\":{id},\"name\":\"{name}\",\"categoryId\":1}}\n");
    let operator = with_file(
        "a.ndjson",
        line(7, "a") + &line(1 << 62, "b") + &line(3, "c"),
    );
    operator.stdout_of("pets import a.ndjson --keep-ids");
    for (content, problem) in [
        (
            line(8, "x") + &line(8, "y"),
            "line 2: id 8 is given twice in the file",
        ),
        (
            line(9, "x") + &line(3, "y"),
            "line 2: id 3 is already used by an existing animal",
        ),
        (
            line(0, "x"),
            "line 1: id must be an integer from 1 to 4611686018427387904",
        ),
        (
            line((1 << 62) + 1, "x"),
            "line 1: id must be an integer from 1 to 4611686018427387904",
        ),
        (
            "{\"name\":\"x\",\"categoryId\":1}".into(),
            "line 1: id is missing",
        ),
    ] {
        fs::write(operator.path().join("b.ndjson"), content).expect("a file");
        let rejected = operator
            .run_line("pets import b.ndjson --keep-ids")
            .fails_with(1);
        assert!(rejected.contains(problem), "{rejected}");
        assert_eq!(count(&operator), "3");
    }
    let content = line(7, "x") + &line(8, "y") + &line(8, "z") + &line(4, "w") + &line(7, "v");
    fs::write(operator.path().join("b.ndjson"), content).expect("a file");
    let output = operator
        .run_line("pets import b.ndjson --keep-ids --skip-bad")
        .exits(0);
    assert_eq!(
        output.stderr,
        "line 1: id 7 is already used by an existing animal\nline 3: id 8 is given twice in the file\nline 5: id 7 is already used by an existing animal\n"
    );
    // A removed ID can be brought back, and new ones are above the largest.
    operator.stdout_of("pets remove 7 --yes");
    fs::write(operator.path().join("b.ndjson"), line(7, "back")).expect("a file");
    operator.stdout_of("pets import b.ndjson --keep-ids");
    operator.stdout_of("pets import b.ndjson");
    let list = animals(&operator);
    let rows = list.as_array().expect("an array");
    let seen: Vec<_> = rows
        .iter()
        .map(|pet| (pet["id"].as_i64(), pet["name"].as_str()))
        .collect();
    let wanted = [
        (3, "c"),
        (4, "w"),
        (7, "back"),
        (8, "y"),
        (1 << 62, "b"),
        ((1 << 62) + 1, "back"),
    ];
    assert_eq!(seen, wanted.map(|(id, name)| (Some(id), Some(name))));
}
