//! `pets import` next to a running server and other imports, and signals that stop it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use harness::{App, Operator, eventually, propagation_time};
use serde_json::json;

use crate::PROGRAM;
use crate::import::lines;

/// An import from a pipe that has these lines and stays open.
fn import_from_pipe(app: &App, options: &[&str], lines: &str) -> Child {
    let mut child = harness::command(PROGRAM)
        .args(["pets", "import", "-"])
        .args(options)
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
fn an_import_that_waits_for_its_input_ends_with_a_signal() {
    for args in [&["-"][..], &["-", "--format", "csv"]] {
        let operator = Operator::without_data(PROGRAM);
        let mut child = harness::command(PROGRAM)
            .args(["pets", "import", "--database", "sqlite:b.db"])
            .args(args)
            .current_dir(operator.path())
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("it runs");
        let status = format!("/proc/{}/status", child.id());
        // Bit 14 is SIGTERM.
        eventually(Duration::from_secs(10), "it listens for signals", || {
            let status = fs::read_to_string(&status).expect("a process");
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
            let caught = u64::from_str_radix(caught.expect("signals").trim(), 16);
            caught.expect("a number") & (1 << 14) != 0
        });
        let id = child.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status();
        assert!(sent.expect("kill runs").success());
        eventually(Duration::from_secs(10), "it ends", || {
            child.try_wait().expect("a process").is_some()
        });
        let output = child.wait_with_output().expect("an end");
        assert_eq!(
            String::from_utf8_lossy(&output.stderr),
            "animal-store: stopped by SIGTERM: nothing was imported\n"
        );
        assert!(!operator.path().join("b.db").exists());
    }
}

#[test]
fn an_import_that_is_interrupted_leaves_nothing_and_delays_no_other() {
    let (app, _, key) = App::start();
    for signal in ["-INT", "-KILL"] {
        // Until it has staged some of them: a pipe holds less than that.
        let mut child = import_from_pipe(&app, &[], &lines(20_000));
        let created = key.create(&json!({"name": "Rex", "categoryId": 1}));
        assert_eq!(created.status, 201, "a creation beside it");
        let id = child.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status();
        assert!(sent.expect("kill runs").success());
        let status = child.wait().expect("an end");
        assert_eq!(status.code(), (signal == "-INT").then_some(1));
    }
    assert_eq!(
        app.sql_client().query("SELECT count(*) FROM pets")[0][0],
        "2"
    );
    assert_eq!(key.get("/v1/pets").ids(), [1, 2]);
    if std::env::var_os("ANIMAL_STORE_TEST_POSTGRES").is_some() {
        let tables = "SELECT count(*) FROM pg_class WHERE relname IN ('staged', 'conflicts')";
        eventually(Duration::from_secs(10), "no staged rows", || {
            app.sql_client().query(tables)[0][0] == "0"
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
fn a_running_server_shows_an_import_immediately_and_pages_are_right_afterwards() {
    let (app, _, key) = App::start();
    key.create_many(30);
    let import = |args: &[&str], lines: &str| {
        let file = tempfile::NamedTempFile::with_suffix(".ndjson").expect("a file");
        fs::write(file.path(), lines).expect("a file");
        let path = file.path().to_str().expect("text");
        let imported = harness::command(PROGRAM)
            .args([&["pets", "import", path], args].concat())
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
    eventually(propagation_time(), "the server follows", || {
        first().ids() == [1, 2, 3, 4, 7, 8, 9, 10, 11, 12]
    });
    // Into the middle of a cached page.
    import(
        &["--keep-ids"],
        "{\"id\":5,\"name\":\"back\",\"categoryId\":1}\n",
    );
    eventually(propagation_time(), "the server follows", || {
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
        .map(|_| import_from_pipe(&app, &[], &lines(6_000)))
        .collect();
    for child in &mut imports {
        drop(child.stdin.take());
    }
    for child in imports {
        let output = child.wait_with_output().expect("an end");
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{error}");
    }
    let count = app.sql_client().query("SELECT count(*) FROM pets");
    assert_eq!(count[0][0], "18000");
}

#[test]
fn an_id_that_is_taken_after_the_check_is_named_and_nothing_is_imported() {
    let (app, ..) = App::start();
    let (other, observer) = (app.sql_client(), app.sql_client());
    other.lock_all();
    let taken = "INSERT INTO pets (id, name, category_id, status) VALUES (1008, 'x', 1, 'sold'), (1009, 'y', 1, 'sold')";
    other.change(taken).expect("animals");
    let line = |id: i64| format!("{{\"id\":{id},\"name\":\"a\",\"categoryId\":1}}\n");
    // More than an embedded database inserts at a time.
    let all: String = (7..=1_009).rev().map(line).collect();
    let mut import = import_from_pipe(&app, &["--keep-ids", "--skip-bad"], &all);
    drop(import.stdin.take());
    let mut stderr = BufReader::new(import.stderr.take().expect("a pipe"));
    let mut said = String::new();
    if std::env::var_os("ANIMAL_STORE_TEST_POSTGRES").is_some() {
        let waiting = "SELECT count(*) FROM pg_stat_activity
                       WHERE datname = current_database() AND wait_event_type = 'Lock'
                           AND query LIKE 'INSERT INTO pets % FROM staged %'";
        eventually(Duration::from_secs(10), "it waits", || {
            observer.query(waiting)[0][0] != "0"
        });
    } else {
        stderr.read_line(&mut said).expect("a line");
        assert!(said.contains("waiting up to 30 s"), "{said}");
    }
    other.query("COMMIT");
    let mut said = String::new();
    stderr.read_to_string(&mut said).expect("text");
    assert_eq!(
        said,
        "animal-store: cannot import standard input: an animal with ID 1008 was added in the meantime: nothing was imported; import the file again\n"
    );
    assert_eq!(import.wait().expect("an end").code(), Some(1));
    assert_eq!(observer.query("SELECT count(*) FROM pets")[0][0], "2");
}
