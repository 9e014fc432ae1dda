//! The command line itself: unknown options, help, and the commands that need neither data nor a server.

use std::fs;

use harness::Process;
use serde_json::Value;

use crate::{PROGRAM, folder, large_key, run};

#[test]
fn unknown_commands_and_options_are_usage_errors() {
    for args in [
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
        run(empty.path(), &[], args).fails_with(2);
        assert_eq!(
            fs::read_dir(empty.path()).expect("a folder").count(),
            0,
            "{args:?}"
        );
    }
}

#[test]
fn a_mistyped_word_gets_a_suggestion() {
    let empty = folder();
    for (args, message) in [
        (
            "serve --lisen x",
            "unexpected argument '--lisen' found: did you mean --listen?",
        ),
        (
            "--no-first-kye",
            "unexpected argument '--no-first-kye' found: did you mean --no-first-key?",
        ),
        (
            "keys list --jsn",
            "unexpected argument '--jsn' found: did you mean --json?",
        ),
        (
            "keys lst",
            "unrecognized subcommand 'lst': did you mean list?",
        ),
        (
            "orderz",
            "unrecognized subcommand 'orderz': did you mean orders?",
        ),
    ] {
        let args: Vec<&str> = args.split(' ').collect();
        assert_eq!(
            run(empty.path(), &[], &args).fails_with(2),
            format!("animal-store: {message} (see --help)")
        );
    }
}

#[test]
fn an_invalid_id_or_number_gets_a_message_about_ids_or_numbers() {
    const ID: &str = "must be an ID, a whole number of at least 1";
    const LIMIT: &str = "must be between 1 and 1000000000";
    let empty = folder();
    let enterprise = "keys create --name a --plan enterprise --per-day 5 --per-minute";
    for (args, message) in [
        (
            "orders place --pet abc",
            format!("invalid value 'abc' for '--pet <ID>': {ID}"),
        ),
        (
            "orders place --pet -1",
            format!("invalid value '-1' for '--pet <ID>': {ID}"),
        ),
        (
            "orders complete 1.5",
            format!("invalid value '1.5' for '<ID>': {ID}"),
        ),
        ("keys show x", format!("invalid value 'x' for '<ID>': {ID}")),
        (
            "keys show -1",
            format!("invalid value '-1' for '<ID>': {ID}"),
        ),
        (
            "keys usage 0",
            format!("invalid value '0' for '[ID]': {ID}"),
        ),
        (
            "pets set-status 99999999999999999999 sold",
            format!("invalid value '99999999999999999999' for '<ID>': {ID}"),
        ),
        (
            &format!("{enterprise} -1"),
            format!("invalid value '-1' for '--per-minute <N>': {LIMIT}"),
        ),
        (
            &format!("{enterprise} 0"),
            format!("invalid value '0' for '--per-minute <N>': {LIMIT}"),
        ),
        (
            "serve --ban-after -1",
            "invalid value '-1' for '--ban-after <N>': must be between 0 and 4294967295".to_owned(),
        ),
        (
            "keys create --name a --plan free --expires -5d",
            "unexpected argument '-5' found: a value cannot be negative".to_owned(),
        ),
    ] {
        let args: Vec<&str> = args.split(' ').collect();
        assert_eq!(
            run(empty.path(), &[], &args).fails_with(2),
            format!("animal-store: {message} (see --help)")
        );
    }
}

#[test]
fn an_unknown_value_gets_the_possible_ones_and_so_do_help_and_completion() {
    let empty = folder();
    let plans = "use free, pro, business or enterprise";
    let levels = "use error, warn, info, debug or trace";
    for (args, message) in [
        (
            "keys create --name a --plan gold",
            format!("invalid value 'gold' for '--plan <PLAN>': {plans}"),
        ),
        (
            "keys set-plan 1 fre",
            format!("invalid value 'fre' for '<PLAN>': {plans}"),
        ),
        (
            "pets set-status 1 gone",
            "invalid value 'gone' for '<STATUS>': use available, pending or sold".to_owned(),
        ),
        (
            "serve --log-level Info",
            format!("invalid value 'Info' for '--log-level <LEVEL>': {levels}"),
        ),
        (
            "serve --log xml",
            "invalid value 'xml' for '--log <FORMAT>': use text or json".to_owned(),
        ),
    ] {
        let args: Vec<&str> = args.split(' ').collect();
        assert_eq!(
            run(empty.path(), &[], &args).fails_with(2),
            format!("animal-store: {message} (see --help)")
        );
    }
    let print = |args: &[&str]| run(empty.path(), &[], args).exits(0).stdout;
    let help = print(&["serve", "--help"]);
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("[possible values: text, json]"), "{help}");
    let script = print(&["completions", "bash"]);
    assert!(script.contains("free pro business enterprise"), "{script}");
}

#[test]
fn an_invalid_switch_in_the_environment_is_named_by_its_variable() {
    let wrong = ("ANIMAL_STORE_NO_FIRST_KEY", "maybe");
    let line = run(folder().path(), &[wrong], &["serve"]).fails_with(2);
    assert_eq!(
        line,
        "animal-store: invalid value 'maybe' for ANIMAL_STORE_NO_FIRST_KEY: use true or false (see --help)"
    );
}

#[test]
fn a_variable_takes_several_values_that_are_separated_by_commas() {
    let folder = folder();
    let origins = ["https://a.example", "https://b.example"];
    let value = origins.join(",");
    let vars = [("ANIMAL_STORE_CORS_ORIGIN", &*value)];
    let process = Process::serve_with(PROGRAM, folder.path(), &[], &vars);
    for origin in origins {
        let client = process.client(None);
        let response = client
            .request("GET", "/v1/pets")
            .header("Origin", origin)
            .send();
        let allowed = response.header("access-control-allow-origin");
        assert_eq!(allowed, Some(origin), "{response}");
    }
    let advice = "must not contain white space: separate values with commas only (see --help)";
    for (variable, value) in [
        ("ANIMAL_STORE_ADMIN_HOST", "a.example b.example"),
        ("ANIMAL_STORE_CORS_ORIGIN", &origins.join(", ")),
        ("ANIMAL_STORE_TRUSTED_PROXY", "10.0.0.0/8, ::1"),
    ] {
        let line = run(folder.path(), &[(variable, value)], &["serve"]).fails_with(2);
        assert!(
            line.ends_with(&format!("for {variable}: {advice}")),
            "{line}"
        );
    }
}

#[test]
fn the_verbose_version_names_the_commit_the_features_and_sqlite() {
    let folder = folder();
    let text = run(folder.path(), &[], &["--version", "--verbose"])
        .exits(0)
        .stdout;
    let lines: Vec<(&str, &str)> = text
        .lines()
        .filter_map(|line| line.split_once(' '))
        .collect();
    let names: Vec<&str> = lines.iter().map(|(name, _)| *name).collect();
    assert_eq!(
        names,
        ["animal-store", "commit", "features", "SQLite", "formats"],
        "{text}"
    );
    assert_eq!(lines[0].1, env!("CARGO_PKG_VERSION"));
    assert!(lines[3].1.trim().starts_with("3."), "{text}");
    assert_eq!(run(folder.path(), &[], &["-v", "-V"]).exits(0).stdout, text);
}

#[test]
fn a_man_page_is_written_for_each_command() {
    let folder = folder();
    run(folder.path(), &[], &["man", "."]).exits(0);
    for name in [
        "animal-store.1",
        "animal-store-serve.1",
        "animal-store-keys-create.1",
    ] {
        let page = std::fs::read_to_string(folder.path().join(name)).expect(name);
        assert!(page.contains(".TH animal-store"), "{page}");
    }
    let page = fs::read_to_string(folder.path().join("animal-store-serve.1")).expect("a page");
    let help = run(folder.path(), &[], &["serve", "--help"])
        .exits(0)
        .stdout;
    let words = help.split(|c: char| c != '_' && !c.is_ascii_uppercase());
    let variables: Vec<_> = words.filter(|word| word.starts_with("ANIMAL_")).collect();
    assert!(variables.len() > 20, "{help}");
    for variable in variables {
        assert!(page.contains(&format!(r"\fB{variable}\fR")), "{variable}");
    }
    let line = run(folder.path(), &[], &["man", "missing"]).fails_with(1);
    assert!(line.contains("cannot write man pages to missing"), "{line}");
}

#[test]
fn help_and_version_go_to_standard_output() {
    let empty = folder();
    for args in [
        &["--help"][..],
        &["-h"],
        &["serve", "--help"],
        &["keys", "create", "--help"],
        &["--version"],
        &["-V"],
    ] {
        let output = run(empty.path(), &[], args).exits(0);
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
fn the_help_of_commands_on_embedded_databases_does_not_offer_postgresql() {
    let folder = folder();
    for command in ["backup", "restore"] {
        let help = run(folder.path(), &[], &[command, "--help"])
            .exits(0)
            .stdout;
        assert!(help.contains("Embedded database: sqlite:PATH"), "{help}");
        for option in ["postgres://", "--database-password-file", "--ca-cert"] {
            assert!(!help.contains(option), "{help}");
        }
    }
    // A configuration file that commands share may still have the options.
    large_key(folder.path());
    let file = "ca-cert = 'ca.pem'\ndatabase-password-file = 'password'\n";
    fs::write(folder.path().join("c.toml"), file).expect("a file");
    run(
        folder.path(),
        &[],
        &["backup", "b.db", "--config", "c.toml"],
    )
    .exits(0);
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
fn the_document_is_printed_as_json_and_as_yaml_and_both_have_the_same_content() {
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
