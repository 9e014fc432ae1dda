//! `pets export`: one point in time, in every format, and a file that is complete or not there.

use std::fs;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use harness::{App, Operator, StopOnDrop, eventually};
use serde_json::{Value, json};

use crate::PROGRAM;

/// An operator with some animals, whose names need quotes.
fn operator() -> Operator {
    let operator = Operator::new(PROGRAM);
    let data = operator.sql_client();
    for (name, status) in [
        ("Rex", "available"),
        ("a, \"b\"", "sold"),
        (" c\\ ", "sold"),
    ] {
        data.add_pet(name, i64::MIN, status);
    }
    operator
}

const CSV: &str = "id,name,categoryId,status\n\
                   1,Rex,-9223372036854775808,available\n\
                   2,\"a, \"\"b\"\"\",-9223372036854775808,sold\n\
                   3, c\\ ,-9223372036854775808,sold\n";

const NDJSON: &str = r#"{"id":1,"name":"Rex","categoryId":-9223372036854775808,"status":"available"}
{"id":2,"name":"a, \"b\"","categoryId":-9223372036854775808,"status":"sold"}
{"id":3,"name":" c\\ ","categoryId":-9223372036854775808,"status":"sold"}
"#;

/// A file as another program decompresses it.
fn decompressed(operator: &Operator, program: &str, name: &str) -> String {
    let output = Command::new(program)
        .args(["-dc", name])
        .current_dir(operator.path())
        .output();
    String::from_utf8(output.expect("it runs").stdout).expect("text")
}

#[test]
fn every_format_and_compression_can_be_read_by_other_programs() {
    let operator = operator();
    for (name, content) in [("a.ndjson", NDJSON), ("a.csv", CSV)] {
        let line = operator.stdout_of(&format!("pets export {name}"));
        assert!(
            line.starts_with(&format!("exported 3 animals to {name} in ")),
            "{line}"
        );
        let written = fs::read_to_string(operator.path().join(name)).expect("a file");
        assert_eq!(written, content);
        for (extension, program) in [("gz", "gzip"), ("zst", "zstd")] {
            let name = format!("{name}.{extension}");
            operator.stdout_of(&format!("pets export {name}"));
            assert_eq!(decompressed(&operator, program, &name), content);
        }
    }
    assert_eq!(operator.stdout_of("pets export -"), NDJSON.trim_end());
    assert_eq!(
        operator.stdout_of("pets export - --format csv"),
        CSV.trim_end()
    );
    let sold = operator.stdout_of("pets export - --status sold");
    assert_eq!(sold, NDJSON.split_once('\n').expect("lines").1.trim_end());
    let report: Value =
        serde_json::from_str(&operator.stdout_of("pets export b.csv --json --status sold"))
            .expect("JSON");
    assert_eq!(
        (&report["animals"], &report["file"]),
        (&json!(2), &json!("b.csv"))
    );
}

#[test]
fn a_file_is_replaced_only_with_force_and_the_database_never() {
    let operator = operator();
    let path = operator.path().join("a.csv");
    fs::write(&path, "precious").expect("a file");
    assert_eq!(
        operator.run_line("pets export a.csv").fails_with(2),
        "animal-store: a.csv already exists: choose another name, or use --force to replace it"
    );
    assert_eq!(fs::read(&path).expect("a file"), b"precious");
    operator.stdout_of("pets export a.csv --force");
    assert_eq!(fs::read_to_string(&path).expect("a file"), CSV);
    operator.run_line("pets export a.xml").fails_with(2);
    operator
        .run_line("pets export . --format csv")
        .fails_with(2);
    if std::env::var_os("ANIMAL_STORE_TEST_POSTGRES").is_none() {
        let line = operator
            .run_line("pets export animals.db --format csv --force")
            .fails_with(2);
        assert!(line.contains("belongs to the database itself"), "{line}");
    }
    let mut names: Vec<_> = fs::read_dir(operator.path())
        .expect("a folder")
        .flatten()
        .collect();
    names.retain(|entry| {
        !entry
            .file_name()
            .to_string_lossy()
            .starts_with("animals.db")
    });
    assert_eq!(names.len(), 1, "{names:?}");
}

#[test]
fn a_file_that_replaces_another_has_its_mode_and_owner_and_only_the_owner_can_read_a_new_one() {
    let operator = operator();
    let path = operator.path().join("a.csv");
    let access = || {
        let file = path.metadata().expect("a file");
        (file.uid(), file.gid(), file.mode() & 0o777)
    };
    operator.stdout_of("pets export a.csv --force");
    assert_eq!(access().2, 0o600);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o664)).expect("a mode");
    // Only root may do that.
    let _ = chown(&path, Some(12_345), Some(23_456));
    let before = access();
    operator.stdout_of("pets export a.csv --force");
    assert_eq!(access(), before);
}

#[test]
fn a_symbolic_link_stays_and_leads_to_the_new_file_and_one_to_nothing_is_rejected() {
    let operator = operator();
    let at = |name: &str| operator.path().join(name);
    fs::create_dir(at("folder")).expect("a folder");
    symlink("folder/real.csv", at("link.csv")).expect("a link");
    for args in ["pets export link.csv", "pets export link.csv --force"] {
        assert_eq!(
            operator.run_line(args).fails_with(2),
            "animal-store: link.csv is a symbolic link to a file that does not exist: use the path of that file"
        );
    }
    fs::write(at("folder/real.csv"), "precious").expect("a file");
    let line = operator.run_line("pets export link.csv").fails_with(2);
    assert!(line.contains("link.csv already exists"), "{line}");
    operator.stdout_of("pets export link.csv --force");
    let target = fs::read_link(at("link.csv")).expect("a link");
    assert_eq!(target.to_str(), Some("folder/real.csv"));
    let written = fs::read_to_string(at("folder/real.csv")).expect("a file");
    assert_eq!(written, CSV);
    assert_eq!(fs::read_dir(at("folder")).expect("a folder").count(), 1);
}

#[test]
fn on_a_terminal_there_is_a_bar_unless_the_animals_are_printed_there() {
    let operator = operator();
    let (code, shown) = operator.on_terminal(100, "pets export a.csv --status sold", "");
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("0 of 2 animals, "), "{shown}");
    let (code, shown) = operator.on_terminal(100, "pets export -", "");
    assert_eq!((code, &*shown), (Some(0), NDJSON));
}

/// Makes counting the animals take very long, or fail, but not reading them.
fn break_count(operator: &Operator) {
    let data = operator.sql_client();
    if std::env::var_os("ANIMAL_STORE_TEST_POSTGRES").is_some() {
        let slow = "current_query() NOT LIKE '%count(*)%' OR pg_sleep(60) IS NOT NULL";
        for change in [
            "ALTER TABLE pets RENAME TO stored",
            &format!("CREATE VIEW pets AS SELECT * FROM stored WHERE {slow}"),
        ] {
            data.change(change).expect("a change");
        }
        return;
    }
    // Rows are compared by a collation that does not exist.
    data.change(
        "DROP INDEX pets_by_status; PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET sql = replace(sql, 'CHECK', 'COLLATE unknown CHECK') WHERE name = 'pets'",
    )
    .expect("a change");
}

#[test]
fn an_export_whose_animals_cannot_be_counted_has_a_bar_without_a_total() {
    let operator = operator();
    break_count(&operator);
    let (code, shown) = operator.on_terminal(100, "pets export a.csv", "");
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("exporting 0 animals, "), "{shown}");
    assert!(shown.contains("exported 3 animals to a.csv"), "{shown}");
    let written = fs::read_to_string(operator.path().join("a.csv")).expect("a file");
    assert_eq!(written, CSV);
}

/// An export of more animals than a pipe holds, of which the beginning is read.
fn export_to_pipe(app: &App) -> Child {
    let insert = match std::env::var_os("ANIMAL_STORE_TEST_POSTGRES") {
        Some(_) => "INSERT INTO pets SELECT i, 'pet', i, 'sold' FROM generate_series(1, 20000) AS i",
        None => "INSERT INTO pets WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)
                 SELECT i, 'pet', i, 'sold' FROM n",
    };
    app.sql_client().change(insert).expect("animals");
    let mut export = harness::command(PROGRAM)
        .args(["pets", "export", "-"])
        .env("ANIMAL_STORE_DATABASE", app.database_url())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut start = [0; 10];
    let output = export.stdout.as_mut().expect("a pipe");
    output.read_exact(&mut start).expect("text");
    assert_eq!(start, *br#"{"id":1,"n"#);
    export
}

#[test]
fn a_reader_may_stop_before_the_end() {
    let (app, ..) = App::start();
    let mut export = export_to_pipe(&app);
    drop(export.stdout.take());
    let ended = export.wait_with_output().expect("an end");
    assert_eq!(
        (ended.status.code(), ended.stderr.as_slice()),
        (Some(0), &b""[..])
    );
}

#[test]
fn an_export_to_a_pipe_that_nobody_reads_ends_with_a_signal() {
    let (app, ..) = App::start();
    let mut export = export_to_pipe(&app);
    let id = export.id().to_string();
    let sent = Command::new("kill").args(["-TERM", &id]).status();
    assert!(sent.expect("kill runs").success());
    eventually(Duration::from_secs(5), "it ends", || {
        export.try_wait().expect("a process").is_some()
    });
}

#[test]
fn an_export_during_changes_is_of_one_point_in_time() {
    let (app, _, key) = App::start();
    // Two animals exchange their statuses again and again, in one transaction each time.
    key.create_many(1_500);
    let data = app.sql_client();
    data.change("UPDATE pets SET status = 'sold' WHERE id = 1")
        .expect("a change");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let data = app.sql_client();
        let done = &done;
        scope.spawn(move || {
            while !done.load(Ordering::SeqCst) {
                let exchange = "UPDATE pets SET status = CASE status WHEN 'sold' THEN 'available' ELSE 'sold' END WHERE id IN (1, 1500)";
                data.change(exchange).expect("a change");
            }
        });
        let _end = StopOnDrop(done);
        for _ in 0..10 {
            let export = harness::command(PROGRAM)
                .args(["pets", "export", "-", "--format", "csv"])
                .env("ANIMAL_STORE_DATABASE", app.database_url())
                .output()
                .expect("it runs");
            let text = String::from_utf8(export.stdout).expect("text");
            let sold: Vec<&str> = text.lines().filter(|line| line.ends_with("sold")).collect();
            assert!(sold.len() == 1 && text.lines().count() == 1_501, "{sold:?}");
        }
    });
}
