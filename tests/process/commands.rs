//! The command line itself: what there is to ask for, help, and the commands that need neither data nor a server.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::{folder, run};

#[test]
fn what_does_not_exist_cannot_be_asked_for() {
    for words in [
        &["serve", "--colour", "red"][..],
        &["--colour"],
        &["sing"],
        &["keys"],
        &["keys", "sing"],
        &["keys", "show"],
        &["keys", "show", "one"],
        &["keys", "create", "--name", "x"],
        &["keys", "create", "--name", "x", "--plan", "gold"],
        &["keys", "create", "--name", "x", "--plan", "enterprise"],
        &[
            "keys",
            "create",
            "--name",
            "x",
            "--plan",
            "free",
            "--per-day",
            "5",
        ],
        &["keys", "create", "--name", " ", "--plan", "free"],
        &["completions", "tcl"],
        &["openapi", "--yaml", "--json"],
        &[
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--listen",
            "127.0.0.1:1",
        ],
        &["serve", "extra"],
    ] {
        let empty = folder();
        run(empty.path(), &[], words).refuses(2);
        assert_eq!(
            fs::read_dir(empty.path()).expect("a folder").count(),
            0,
            "{words:?}"
        );
    }
}

#[test]
fn help_and_version_go_to_standard_output() {
    let empty = folder();
    for words in [
        &["--help"][..],
        &["-h"],
        &["serve", "--help"],
        &["keys", "create", "--help"],
        &["--version"],
        &["-V"],
    ] {
        let output = run(empty.path(), &[], words).exits(0);
        assert!(
            !output.stdout.is_empty() && output.stderr.is_empty(),
            "{output:#?}"
        );
    }
    let version = run(empty.path(), &[], &["--version"]).exits(0).stdout;
    assert_eq!(
        version,
        format!("animal-store {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn a_token_in_the_environment_is_not_shown_by_help() {
    let token = ("ANIMAL_STORE_ADMIN_TOKEN", "correct-horse-battery");
    let help = run(folder().path(), &[token], &["serve", "--help"])
        .exits(0)
        .stdout;
    assert!(!help.contains(token.1));
}

#[test]
fn the_document_is_printed_as_json_and_as_yaml_and_both_say_the_same() {
    let empty = folder();
    let json = run(empty.path(), &[], &["openapi"]).exits(0);
    let yaml = run(empty.path(), &[], &["openapi", "--yaml"]).exits(0);
    assert_eq!(json.stderr + &yaml.stderr, "");
    let from_json: Value = serde_json::from_str(&json.stdout).expect("JSON");
    let from_yaml: Value = serde_saphyr::from_str(&yaml.stdout).expect("YAML");
    assert_eq!(from_json, from_yaml);
    assert_eq!(
        from_json["openapi"].as_str().map(|version| &version[..3]),
        Some("3.1")
    );
    assert!(from_json["paths"]["/pets"]["get"].is_object());

    let url = "https://animals.example/v1";
    let named = run(empty.path(), &[], &["openapi", "--public-url", url]).exits(0);
    let named: Value = serde_json::from_str(&named.stdout).expect("JSON");
    assert_eq!(named["servers"][0]["url"], url);
}

#[test]
fn completions_are_printed_for_each_shell() {
    let folder = folder();
    for shell in ["bash", "zsh", "fish"] {
        let script = run(folder.path(), &[], &["completions", shell])
            .exits(0)
            .stdout;
        assert!(
            script.contains("animal-store") && script.contains("max-waiting-writes"),
            "{shell}"
        );
        fs::write(folder.path().join(shell), script).expect("a file");
    }
    let checked = Command::new("bash")
        .arg("-n")
        .arg(folder.path().join("bash"))
        .status();
    assert!(checked.expect("bash runs").success());
}
