//! Options: where they come from, which wins, and what is said of wrong ones. And the commands that need no server.

use std::fs;
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use harness::{Client, Process};
use serde_json::Value;
use tempfile::TempDir;

use crate::{PROGRAM, run};

/// Every option of `serve` that takes a value, with one that fits and one that does not.
const OPTIONS: [(&str, &str, &str); 16] = [
    ("listen", "127.0.0.1:0", "localhost"),
    ("admin-listen", "127.0.0.1:0", "9090"),
    ("admin-token", "0123456789abcdef", "short"),
    ("database", "sqlite:other.db", "mysql:other"),
    ("redis", "redis://127.0.0.1:1", "http://me:secret@x"),
    (
        "public-url",
        "https://animals.example/v1",
        "animals.example",
    ),
    ("staging-url", "https://staging.example/v1", "ftp://x/v1"),
    ("trusted-proxy", "10.0.0.0/8", "10.0.0.0/33"),
    ("ban-after", "7", "-1"),
    ("ban-for", "2m", "soon"),
    ("log", "json", "xml"),
    ("log-level", "debug", "loud"),
    ("max-connections", "10", "0"),
    ("max-waiting-writes", "10", "many"),
    ("request-timeout", "3s", "0s"),
    ("idle-timeout", "4s", "3"),
];

/// Everything is fine but for the data: a server with these options ends at once, with exit 1.
const NO_DATA: &str = "sqlite:not/there.db";

fn folder() -> TempDir {
    TempDir::new().expect("a folder")
}

fn variable(option: &str) -> String {
    format!("ANIMAL_STORE_{}", option.replace('-', "_").to_uppercase())
}

/// Folder with a file `c.toml` that holds this.
fn folder_with_file(text: &str) -> TempDir {
    let folder = folder();
    fs::write(folder.path().join("c.toml"), text).expect("a file");
    folder
}

#[test]
fn every_option_of_serve_has_an_environment_variable_and_is_tested_here() {
    let help = run(folder().path(), &[], &["serve", "--help"])
        .exits(0)
        .stdout;
    let options: Vec<&str> = help
        .lines()
        .filter_map(|line| {
            line.trim_start()
                .trim_start_matches("-h, ")
                .strip_prefix("--")
        })
        .filter_map(|rest| rest.split([' ', '\n']).next())
        .filter(|option| *option != "help")
        .collect();
    let mut expected: Vec<&str> = OPTIONS.iter().map(|(option, ..)| *option).collect();
    expected.extend(["config", "no-first-key"]);
    for option in &options {
        assert!(expected.contains(option), "--{option} is not tested");
        assert!(
            help.contains(&variable(option)),
            "--{option} has no variable"
        );
    }
    assert_eq!(options.len(), expected.len(), "{options:?}");
}

#[test]
fn flags_win_over_the_environment_and_the_environment_over_the_file_and_the_file_over_the_default()
{
    let folder = folder_with_file("listen = \"127.0.0.2:0\"\nadmin-listen = \"127.0.0.1:0\"\n");
    let file = ("ANIMAL_STORE_CONFIG", "c.toml");
    let environment = ("ANIMAL_STORE_LISTEN", "127.0.0.3:0");
    let flag = ["--listen", "127.0.0.4:0"];
    let started = |words: &[&str], vars: &[(&str, &str)]| {
        let process = Process::start(PROGRAM, folder.path(), words, vars);
        assert_eq!(process.client(None).get("/readyz").status, 200);
        process.address.ip().to_string()
    };
    assert_eq!(started(&["serve"], &[file]), "127.0.0.2");
    assert_eq!(started(&["serve", "--config", "c.toml"], &[]), "127.0.0.2");
    assert_eq!(started(&["serve"], &[file, environment]), "127.0.0.3");
    assert_eq!(
        started(&[&["serve"], &flag[..]].concat(), &[file, environment]),
        "127.0.0.4"
    );
    // Without a command it serves, and options are those of serve.
    assert_eq!(started(&[], &[file]), "127.0.0.2");
    assert_eq!(started(&flag, &[file, environment]), "127.0.0.4");
}

#[test]
fn a_wrong_value_is_told_in_one_line_with_the_option_and_what_it_takes_wherever_it_came_from() {
    for (option, good, bad) in OPTIONS {
        let told = |line: String| {
            assert!(line.contains(option), "{option}: {line}");
            assert!(line.contains("takes"), "{option}: {line}");
            let is_secret = ["admin-token", "database", "redis"].contains(&option);
            assert!(!is_secret || !line.contains(bad), "a secret: {line}");
        };
        let (flag_good, flag_bad) = (format!("--{option}={good}"), format!("--{option}={bad}"));
        let name = variable(option);
        let empty = folder();
        told(run(empty.path(), &[], &["serve", &flag_bad]).refuses(2));
        told(run(empty.path(), &[(&name, bad)], &["serve"]).refuses(2));
        let line = run(empty.path(), &[(&name, bad)], &["serve", &flag_bad]).refuses(2);
        told(line);

        let in_file = folder_with_file(&format!("# wrong\n{option} = \"{bad}\"\n"));
        let line = run(in_file.path(), &[], &["serve", "--config", "c.toml"]).refuses(2);
        assert!(line.contains("c.toml:2:"), "{line}");
        told(line);
        let in_file = folder_with_file(&format!("{option} = \"{good}\"\n"));
        told(
            run(
                in_file.path(),
                &[(&name, bad)],
                &["serve", "--config", "c.toml"],
            )
            .refuses(2),
        );

        // A flag wins over what is wrong in the environment: then only the data is missing.
        let mut words = vec!["serve", &flag_good, "--config", "c.toml"];
        if option != "database" {
            words.extend(["--database", NO_DATA]);
            run(in_file.path(), &[(&name, bad)], &words).refuses(1);
        }
    }
}

#[test]
fn a_file_may_hold_every_option() {
    let mut text: String = OPTIONS
        .iter()
        .map(|(option, good, _)| format!("{option} = \"{good}\"\n"))
        .collect();
    text.push_str("no-first-key = true\n");
    let folder = folder_with_file(&text);
    let process = Process::start(PROGRAM, folder.path(), &["--config", "c.toml"], &[]);
    assert!(!process.greeting.contains("as_"), "{}", process.greeting);
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
    let folder = folder_with_file(&format!(
        "max-connections = 2\nban-after = 0\ntrusted-proxy = [\"10.0.0.0/8\", \"::1/128\"]\nno-first-key = false\ndatabase = \"{NO_DATA}\"\n"
    ));
    let line = run(folder.path(), &[], &["--config", "c.toml"]).refuses(1);
    assert!(line.contains("not/there.db"), "{line}");
}

#[test]
fn a_file_that_cannot_be_used_is_told_in_one_line_with_its_place() {
    for (text, place) in [
        (
            "log = \"text\"\nlog-levle = \"info\"\n",
            "c.toml:2: there is no option log-levle",
        ),
        ("\n\nlog = text\n", "c.toml:3:"),
        ("[serve]\nlog = \"text\"\n", "c.toml:1:"),
        (
            "config = \"d.toml\"\n",
            "c.toml:1: there is no option config",
        ),
        (
            "no-first-key = \"maybe\"\n",
            "c.toml:1: no-first-key takes true or false",
        ),
        ("log = \"text\"\nlog = \"json\"\n", "c.toml:2:"),
        (
            "max-connections = [1, 2]\n",
            "c.toml:1: max-connections takes one value",
        ),
    ] {
        let folder = folder_with_file(text);
        let line = run(folder.path(), &[], &["serve", "--config", "c.toml"]).refuses(2);
        assert!(line.contains(place), "{text:?}: {line}");
    }
    let line = run(folder().path(), &[], &["serve", "--config", "none.toml"]).refuses(2);
    assert!(line.contains("--config none.toml"), "{line}");
}

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
fn the_admin_listener_is_open_to_others_only_with_a_token() {
    let folder = folder();
    let all = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--admin-listen",
        "0.0.0.0:0",
    ];
    let line = run(folder.path(), &[], &all).refuses(2);
    assert!(
        line.contains("--admin-listen 0.0.0.0:0") && line.contains("--admin-token"),
        "{line}"
    );
    for open in ["[::]:0", "[::ffff:0.0.0.0]:0", "192.0.2.1:0"] {
        run(folder.path(), &[], &["serve", "--admin-listen", open]).refuses(2);
    }

    let token = "correct-horse-battery";
    let words = [&all[..], &["--admin-token", token]].concat();
    let process = Process::start(PROGRAM, folder.path(), &words, &[]);
    let admin = ([127, 0, 0, 1], process.admin.port()).into();
    let ask = |key: Option<&str>, page: &str| Client::new(admin, key.map(str::to_owned)).get(page);
    ask(None, "/metrics").is_error(401, "missing_api_key");
    ask(Some("wrong-horse-battery"), "/metrics").is_error(401, "invalid_api_key");
    let page = ask(Some(token), "/metrics");
    assert_eq!(page.status, 200, "{page}");
    for health in ["/livez", "/readyz"] {
        assert_eq!(ask(None, health).status, 200);
    }
}

#[test]
fn a_port_that_is_taken_by_another_server_or_program_is_told_with_its_option() {
    let folder = folder();
    let free = "127.0.0.1:0";
    let server = Process::serve(PROGRAM, folder.path(), &[]);
    let program = TcpListener::bind(free).expect("a port");
    let program = program
        .local_addr()
        .map(|address| (address, program))
        .expect("an address");
    for taken in [server.address, server.admin, program.0] {
        let taken = taken.to_string();
        for (option, other) in [
            ("--listen", "--admin-listen"),
            ("--admin-listen", "--listen"),
        ] {
            let words = ["serve", "--no-first-key", option, &taken, other, free];
            let line = run(folder.path(), &[], &words).refuses(1);
            assert!(line.contains(&format!("{option} {taken}")), "{line}");
        }
    }
    assert_eq!(server.client(None).get("/readyz").status, 200);
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

#[test]
fn healthcheck_ends_with_0_when_a_server_is_ready_with_1_when_not_and_with_2_when_asked_wrongly() {
    let folder = folder();
    let mut process = Process::serve(PROGRAM, folder.path(), &[]);
    let (api, admin) = (process.address.to_string(), process.admin);
    let check = |words: &[&str]| run(folder.path(), &[], &[&["healthcheck"], words].concat());
    let urls = [
        format!("http://{api}/readyz"),
        format!("http://{api}"),
        format!("http://{admin}/livez"),
    ];
    for url in &urls {
        assert_eq!(check(&[url]).exits(0).stdout, "");
    }
    check(&["--listen", &api]).exits(0);
    let listen = ("ANIMAL_STORE_LISTEN", &*api);
    run(folder.path(), &[listen], &["healthcheck"]).exits(0);
    let line = check(&[&format!("http://{api}/nothing")]).refuses(1);
    assert!(line.contains("404"), "{line}");
    process.kill();
    let line = check(&[&urls[0]]).refuses(1);
    assert!(line.contains("does not answer"), "{line}");
    for wrong in [
        "https://127.0.0.1/readyz",
        "here",
        "http://",
        "ftp://127.0.0.1/",
    ] {
        check(&[wrong]).refuses(2);
    }
}

#[test]
fn a_server_that_never_answers_is_not_healthy() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", silent.local_addr().expect("an address"));
    let began = std::time::Instant::now();
    run(folder().path(), &[], &["healthcheck", &url]).refuses(1);
    assert!(began.elapsed() < Duration::from_secs(6));
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
fn a_first_key_is_not_lost_when_the_port_is_taken_at_the_first_start() {
    let folder = folder();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let words = [
        "serve",
        "--listen",
        &address,
        "--admin-listen",
        "127.0.0.1:0",
    ];
    run(folder.path(), &[], &words).refuses(1);
    let process = Process::serve(PROGRAM, folder.path(), &[]);
    assert!(
        process.greeting.contains("A first API key"),
        "{}",
        process.greeting
    );
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
