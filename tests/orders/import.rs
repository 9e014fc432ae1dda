//! `pets import`: all or nothing, in every format, and what a running server shows of it.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use harness::{App, Operator, eventually, promised};
use serde_json::{Value, json};

use crate::PROGRAM;

/// An operator whose folder has this file.
fn with_file(name: &str, content: impl AsRef<[u8]>) -> Operator {
    let operator = Operator::new(PROGRAM);
    fs::write(operator.path().join(name), content).expect("a file");
    operator
}

fn animals(operator: &Operator) -> Value {
    serde_json::from_str(&operator.says("pets list --json")).expect("JSON")
}

fn count(operator: &Operator) -> String {
    operator.by_hand().ask("SELECT count(*) FROM pets")[0][0].clone()
}

/// So many lines of NDJSON.
fn lines(count: usize) -> String {
    (1..=count).fold(String::new(), |mut lines, number| {
        let _ = writeln!(lines, r#"{{"name":"pet {number}","categoryId":{number}}}"#);
        lines
    })
}

#[test]
fn both_formats_are_imported_into_a_database_that_is_created() {
    for (name, content) in [
        (
            "a.ndjson",
            "{\"name\":\"Rex\",\"categoryId\":-1}\n\n  {\"status\":\"sold\",\"id\":99,\"name\":\"A, \\\"B\\\"\",\"categoryId\":2.0}",
        ),
        (
            "a.csv",
            "\u{feff}name,x,categoryId,status,id\r\nRex,,-1,,\r\n\r\n\"A, \"\"B\"\"\",1,2,sold,99\r\n",
        ),
    ] {
        let operator = Operator::without_data(PROGRAM);
        fs::write(operator.path().join(name), content).expect("a file");
        let line = operator.says(&format!("pets import {name}"));
        assert!(
            line.starts_with(&format!("imported 2 animals from {name} in ")),
            "{line}"
        );
        let wanted = json!([
            {"id": 1, "name": "Rex", "categoryId": -1, "status": "available"},
            {"id": 2, "name": "A, \"B\"", "categoryId": 2, "status": "sold"},
        ]);
        assert_eq!(animals(&operator), wanted, "{name}");
    }
}

#[test]
fn new_ids_follow_the_last_one_that_was_given_out() {
    let operator = with_file("a.ndjson", lines(4_321));
    operator.says("pets import a.ndjson");
    operator.says("pets remove 4321 --yes");
    operator.says("pets import a.ndjson");
    let ids = "SELECT min(id), max(id), count(*) FROM pets WHERE id > 4321";
    assert_eq!(operator.by_hand().ask(ids), [["4322", "8642", "4321"]]);
    let order = "SELECT count(*) FROM pets WHERE id > 4321 AND category_id <> id - 4321";
    assert_eq!(operator.by_hand().ask(order), [["0"]], "in their order");
    let report: Value =
        serde_json::from_str(&operator.says("pets import a.ndjson --json")).expect("JSON");
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
        operator.typed("pets import a.ndjson").refuses(1),
        "animal-store: a.ndjson, line 3001: name must not be blank: nothing was imported; --skip-bad leaves out such lines"
    );
    assert_eq!(count(&operator), "0");
    let output = operator.typed("pets import a.ndjson --skip-bad").exits(0);
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
fn twenty_bad_lines_are_printed_and_with_verbose_all() {
    let operator = with_file(
        "a.csv",
        format!("name,categoryId\n{}", "Rex,x\n".repeat(25)),
    );
    let output = operator
        .typed("pets import a.csv --skip-bad --json")
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
        .typed("pets import a.csv --skip-bad --verbose")
        .exits(0);
    assert_eq!(output.stderr.lines().count(), 25);
}

#[test]
fn animals_that_keep_their_ids_need_ids_that_nobody_has() {
    let line =
        |id: i64, name: &str| format!("{{\"id\":{id},\"name\":\"{name}\",\"categoryId\":1}}\n");
    let operator = with_file(
        "a.ndjson",
        line(7, "a") + &line(1 << 62, "b") + &line(3, "c"),
    );
    operator.says("pets import a.ndjson --keep-ids");
    for (content, problem) in [
        (
            line(8, "x") + &line(8, "y"),
            "line 2: id 8 is given twice in the file",
        ),
        (
            line(9, "x") + &line(3, "y"),
            "line 2: id 3 is taken by an animal of the store",
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
        let refused = operator.typed("pets import b.ndjson --keep-ids").refuses(1);
        assert!(refused.contains(problem), "{refused}");
        assert_eq!(count(&operator), "3");
    }
    let content = line(7, "x") + &line(8, "y") + &line(8, "z") + &line(4, "w");
    fs::write(operator.path().join("b.ndjson"), content).expect("a file");
    let output = operator
        .typed("pets import b.ndjson --keep-ids --skip-bad")
        .exits(0);
    assert_eq!(
        output.stderr,
        "line 1: id 7 is taken by an animal of the store\nline 3: id 8 is given twice in the file\n"
    );
    // A removed ID can be brought back, and new ones are above the largest.
    operator.says("pets remove 7 --yes");
    fs::write(operator.path().join("b.ndjson"), line(7, "back")).expect("a file");
    operator.says("pets import b.ndjson --keep-ids");
    operator.says("pets import b.ndjson");
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

#[test]
fn a_file_that_cannot_be_imported_is_one_line_and_leaves_nothing() {
    let long = format!(
        "{{\"name\":\"{}\",\"categoryId\":1}}\n",
        "x".repeat(10_000_000)
    );
    let quote = format!("name,categoryId\nRex,1\n\"{}\n", "x".repeat(10_000_000));
    let good = lines(2);
    let with = |line: &[u8]| [good.as_bytes(), line].concat();
    let gzip_magic = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3];
    let zstd_magic = [0x28, 0xb5, 0x2f, 0xfd, 0, 1, 2, 3];
    for (name, content, code, problem) in [
        (
            "a.txt",
            good.as_bytes().to_vec(),
            2,
            "the format of a.txt is unknown: use --format",
        ),
        (
            "a.ndjson.gz",
            good.as_bytes().to_vec(),
            1,
            "not compressed with gzip, as its name says",
        ),
        (
            "a.ndjson.zst",
            good.as_bytes().to_vec(),
            1,
            "not compressed with zstd, as its name says",
        ),
        ("a.ndjson.gz", Vec::new(), 1, "not compressed with gzip"),
        (
            "a.ndjson.gz",
            gzip_magic.to_vec(),
            1,
            "cannot be decompressed",
        ),
        (
            "a.ndjson.zst",
            zstd_magic.to_vec(),
            1,
            "cannot be decompressed",
        ),
        (
            "a.ndjson",
            gzip_magic.to_vec(),
            1,
            "compressed with gzip: its name must end in .gz",
        ),
        (
            "a.csv",
            zstd_magic.to_vec(),
            1,
            "compressed with zstd: its name must end in .zst",
        ),
        (
            "a.csv",
            good.as_bytes().to_vec(),
            1,
            "the header line must have a column name",
        ),
        (
            "a.csv",
            b"Rex,1,sold\nTom,2,sold\n".to_vec(),
            1,
            "must have a column name",
        ),
        (
            "a.csv",
            Vec::new(),
            1,
            "the header line must have a column name",
        ),
        (
            "a.csv",
            b"name,name,categoryId\n".to_vec(),
            1,
            "has the column name twice",
        ),
        (
            "a.csv",
            b"name,categoryId\nRex\n".to_vec(),
            1,
            "line 2: fewer fields than the header",
        ),
        (
            "a.ndjson",
            b"name,categoryId\nRex,1\n".to_vec(),
            1,
            "line 1: not valid JSON",
        ),
        ("a.ndjson", with(b"[1]\n"), 1, "line 3: not a JSON object"),
        (
            "a.ndjson",
            with(long.as_bytes()),
            1,
            "line 3: more than 16384 bytes",
        ),
        (
            "a.csv",
            quote.into_bytes(),
            1,
            "line 3: more than 16384 bytes",
        ),
        (
            "a.ndjson",
            with(b"{\"name\":\"\xff\",\"categoryId\":1}"),
            1,
            "line 3: not valid UTF-8",
        ),
        (
            "a.csv",
            b"name,categoryId\n\xff,1\n".to_vec(),
            1,
            "line 2: not valid UTF-8",
        ),
    ] {
        let operator = with_file(name, &content);
        let line = operator.run(&["pets", "import", name]).refuses(code);
        assert!(line.contains(problem), "{name}: {line}");
        assert!(line.len() < 300, "{line}");
        assert_eq!(count(&operator), "0", "{name}: {problem}");
    }
    let operator = Operator::new(PROGRAM);
    let line = operator.typed("pets import missing.csv").refuses(1);
    assert!(
        line.contains("cannot import missing.csv: No such file"),
        "{line}"
    );
    operator.typed("pets import a.csv --format xml").refuses(2);
    operator.typed("pets import a.csv --verbose").refuses(2);
}

/// An import from a pipe that has these lines and stays open.
fn import_from_pipe(app: &App, lines: &str) -> Child {
    let mut child = Command::new(PROGRAM)
        .args(["pets", "import", "-"])
        .env("ANIMAL_STORE_DATABASE", app.database_url())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let input = child.stdin.as_mut().expect("a pipe");
    input.write_all(lines.as_bytes()).expect("it reads");
    child
}

#[test]
fn an_import_that_is_interrupted_leaves_nothing_and_delays_nobody() {
    let (app, _, key) = App::start();
    for signal in ["-INT", "-KILL"] {
        // Until it has staged some of them: a pipe holds less than that.
        let mut child = import_from_pipe(&app, &lines(20_000));
        let created = key.create(&json!({"name": "Rex", "categoryId": 1}));
        assert_eq!(created.status, 201, "a creation beside it");
        let id = child.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status();
        assert!(sent.expect("kill runs").success());
        let status = child.wait().expect("an end");
        assert_eq!(status.code(), (signal == "-INT").then_some(1));
    }
    assert_eq!(app.by_hand().ask("SELECT count(*) FROM pets")[0][0], "2");
    assert_eq!(key.get("/v1/pets").ids(), [1, 2]);
    if std::env::var_os("ANIMAL_STORE_TEST_POSTGRES").is_some() {
        let tables = "SELECT count(*) FROM pg_class WHERE relname IN ('staged', 'conflicts')";
        eventually(Duration::from_secs(10), "no staged rows", || {
            app.by_hand().ask(tables)[0][0] == "0"
        });
    } else {
        let folder = app.database().parent().expect("a folder").to_owned();
        for entry in fs::read_dir(folder).expect("a folder") {
            let name = entry.expect("a name").file_name();
            let name = name.to_string_lossy();
            assert!(
                !name.contains("staged") && !name.contains("import"),
                "{name}"
            );
        }
    }
}

#[test]
fn a_running_server_shows_an_import_at_once_and_pages_are_right_afterwards() {
    let (app, _, key) = App::start();
    key.create_many(30);
    let import = |words: &[&str], lines: &str| {
        let file = tempfile::NamedTempFile::with_suffix(".ndjson").expect("a file");
        fs::write(file.path(), lines).expect("a file");
        let path = file.path().to_str().expect("text");
        let imported = Command::new(PROGRAM)
            .args([&["pets", "import", path], words].concat())
            .env("ANIMAL_STORE_DATABASE", app.database_url())
            .output()
            .expect("it runs");
        assert!(imported.status.success(), "{imported:?}");
    };
    let store = app.second_store();
    for id in [5, 6] {
        let removed =
            app.block_on(store.remove_pet(animal_store::pet::PetId(id), false, harness::START));
        removed.expect("a store").expect("it is removed");
    }
    let first = || key.get("/v1/pets?limit=10");
    eventually(promised(), "the server follows", || {
        first().ids() == [1, 2, 3, 4, 7, 8, 9, 10, 11, 12]
    });
    // Into the middle of a cached page.
    import(
        &["--keep-ids"],
        "{\"id\":5,\"name\":\"back\",\"categoryId\":1}\n",
    );
    eventually(promised(), "the server follows", || {
        first().ids() == [1, 2, 3, 4, 5, 7, 8, 9, 10, 11]
    });
    import(&[], &lines(6_000));
    let created = key.create(&json!({"name": "Rex", "categoryId": 1})).json()["id"].clone();
    let mut seen = Vec::new();
    let mut page = key.get("/v1/pets?limit=100");
    loop {
        seen.extend(page.ids());
        let Some(next) = page.next() else { break };
        page = key.follow(&next);
    }
    assert_eq!(seen.len(), 29 + 6_000 + 1);
    assert!(seen.is_sorted_by(|one, other| one < other));
    assert_eq!(json!(seen.last()), created, "later animals have larger IDs");
}

#[test]
fn several_large_imports_at_once_all_succeed() {
    let (app, ..) = App::start();
    let mut imports: Vec<Child> = (0..3)
        .map(|_| import_from_pipe(&app, &lines(6_000)))
        .collect();
    for child in &mut imports {
        drop(child.stdin.take());
    }
    for child in imports {
        let output = child.wait_with_output().expect("an end");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{error}");
    }
    let count = app.by_hand().ask("SELECT count(*) FROM pets");
    assert_eq!(count[0][0], "18000");
}
