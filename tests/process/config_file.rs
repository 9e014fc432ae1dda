//! The configuration file: what it may contain, and its errors.

use std::fs;

use harness::{Client, Process};

use crate::config::{FREE_PORTS_LINES, NO_DATA, OPTIONS, folder_with_file};
use crate::{FREE_PORTS, PROGRAM, folder, run};

#[test]
fn the_file_may_be_a_pipe() {
    let folder = folder();
    let ports = FREE_PORTS.join(" ");
    let script = format!(
        "exec {PROGRAM} serve {ports} --no-migrate --config <(echo 'database = \"sqlite:other.db\"')"
    );
    let line = harness::run("bash", folder.path(), &["-c", &script]).fails_with(1);
    assert!(line.contains("there is no database at other.db"), "{line}");
}

#[test]
fn a_file_may_have_every_option() {
    let mut text: String = OPTIONS
        .iter()
        .map(|(option, good, _)| format!("{option} = \"{good}\"\n"))
        .collect();
    text.push_str("no-first-key = true\nbackup-folder = \".\"\n");
    let folder = folder_with_file(&text);
    let process = Process::start(PROGRAM, folder.path(), &["--config", "c.toml"], &[]);
    assert!(
        !process.startup_message.contains("as_"),
        "{}",
        process.startup_message
    );
    assert!(folder.path().join("other.db").exists());
    let document = process.client(None).get("/openapi.json").json();
    assert_eq!(
        document["servers"][0]["url"], "https://animals.example/v1",
        "{}",
        document["servers"]
    );
    assert_eq!(
        document["servers"][1]["url"], "https://staging.example/v1",
        "{}",
        document["servers"]
    );
    assert_eq!(Client::new(process.admin, None).get("/metrics").status, 401);
    // The commands on keys read the same file.
    let list = run(
        folder.path(),
        &[],
        &["keys", "list", "--json", "--config", "c.toml"],
    )
    .exits(0);
    assert_eq!(list.stdout.trim(), "[]");
}

#[test]
fn numbers_in_a_file_need_no_quotes_and_lists_are_lists() {
    let [api, admin] = FREE_PORTS_LINES;
    let folder = folder_with_file(&format!(
        "{api}{admin}max-connections = 2\nban-after = 0\ntrusted-proxy = [\"10.0.0.0/8\", \"::1/128\"]\nno-first-key = false\ndatabase = \"{NO_DATA}\"\n"
    ));
    let line = run(folder.path(), &[], &["--config", "c.toml"]).fails_with(1);
    assert!(line.contains("not/there.db"), "{line}");
}

#[test]
fn a_file_that_cannot_be_used_is_reported_in_one_line_with_its_position() {
    for (text, place) in [
        (
            "log = \"text\"\nlog-levle = \"info\"\n",
            "c.toml:2: unknown option log-levle: did you mean log-level?",
        ),
        ("\n\nlog = text\n", "c.toml:3:"),
        ("[serve]\nlog = \"text\"\n", "c.toml:1:"),
        ("config = \"d.toml\"\n", "c.toml:1: unknown option config"),
        (
            "no-first-key = \"maybe\"\n",
            "c.toml:1: no-first-key must be true or false",
        ),
        ("log = \"text\"\nlog = \"json\"\n", "c.toml:2:"),
        (
            "trusted-proxy = [\n  \"10.0.0.0/8\",\n  \"10.0.0.0/33\",\n]\n",
            "c.toml:3: invalid value '10.0.0.0/33'",
        ),
        ("ban-after = -1\n", "c.toml:1: invalid value '-1'"),
        (
            "max-connections = [1, 2]\n",
            "c.toml:1: max-connections must be a single value",
        ),
    ] {
        let folder = folder_with_file(text);
        let line = run(folder.path(), &[], &["serve", "--config", "c.toml"]).fails_with(2);
        assert!(line.contains(place), "{text:?}: {line}");
    }
    let line = run(folder().path(), &[], &["serve", "--config", "none.toml"]).fails_with(2);
    assert_eq!(line, "animal-store: --config none.toml: file not found");
    let folder_with_large_file = folder_with_file(&"#".repeat((1 << 20) + 1));
    let args = ["serve", "--config", "c.toml"];
    let line = run(folder_with_large_file.path(), &[], &args).fails_with(2);
    assert_eq!(line, "animal-store: --config c.toml: is larger than 1 MiB");
    let named = ("ANIMAL_STORE_CONFIG", "none.toml");
    let line = run(folder().path(), &[named], &["serve"]).fails_with(2);
    assert_eq!(
        line,
        "animal-store: ANIMAL_STORE_CONFIG none.toml: file not found"
    );
    let folder = folder();
    fs::write(folder.path().join("c.toml"), b"# fine\nlog = \"\xff\"\n").expect("a file");
    let line = run(folder.path(), &[], &["serve", "--config", "c.toml"]).fails_with(2);
    assert_eq!(line, "animal-store: c.toml:2: not valid UTF-8");
}

#[test]
fn healthcheck_and_openapi_read_the_file_too() {
    let data = folder();
    let process = Process::serve(PROGRAM, data.path(), &["--no-first-key"]);
    let file = format!(
        "listen = \"{}\"\npublic-url = \"https://a.example/v1\"\n",
        process.address
    );
    let folder = folder_with_file(&file);
    run(folder.path(), &[], &["healthcheck", "--config", "c.toml"]).exits(0);
    run(
        folder.path(),
        &[("ANIMAL_STORE_CONFIG", "c.toml")],
        &["healthcheck"],
    )
    .exits(0);
    let document = run(folder.path(), &[], &["openapi", "--config", "c.toml"])
        .exits(0)
        .stdout;
    assert!(document.contains("https://a.example/v1"));
}
