//! Options: their sources, which source wins, and the errors of invalid values.

use std::fs;

use harness::Process;
use tempfile::TempDir;

use crate::{PROGRAM, folder, run};

/// Every option of `serve` that takes a value, with a valid one and an invalid one.
pub(crate) const OPTIONS: [(&str, &str, &str); 22] = [
    ("listen", "127.0.0.1:0", "localhost"),
    ("admin-listen", "127.0.0.1:0", "9090"),
    ("admin-token", "0123456789abcdef", "short"),
    ("admin-host", "admin.example.com", "admin.example.com:80"),
    ("database", "sqlite:other.db", "mysql:other"),
    ("redis", "redis://127.0.0.1:1", "http://me:secret@x"),
    (
        "public-url",
        "https://animals.example/v1",
        "animals.example",
    ),
    ("staging-url", "https://staging.example/v1", "ftp://x/v1"),
    ("trusted-proxy", "10.0.0.0/8", "10.0.0.0/33"),
    ("cors-origin", "https://shop.example", "shop.example"),
    ("ban-after", "7", "-1"),
    ("ban-for", "1h", "61m"),
    ("keep-usage", "30d", "23h"),
    ("backup-every", "2h", "0s"),
    ("backup-keep", "7", "0"),
    ("log", "json", "xml"),
    ("log-level", "debug", "loud"),
    ("max-connections", "10", "0"),
    ("max-connections-per-address", "10", "1000001"),
    ("max-waiting-writes", "10", "many"),
    ("request-timeout", "3s", "0s"),
    ("idle-timeout", "4s", "3"),
];

/// A server whose only problem is this database exits immediately with 1.
pub(crate) const NO_DATA: &str = "sqlite:not/there.db";

/// Lines of a file with free ports, because a server listens before it opens its data, and other tests run.
pub(crate) const FREE_PORTS_LINES: [&str; 2] = [
    "listen = \"127.0.0.1:0\"\n",
    "admin-listen = \"127.0.0.1:0\"\n",
];

fn variable(option: &str) -> String {
    format!("ANIMAL_STORE_{}", option.replace('-', "_").to_uppercase())
}

/// A folder with a file `c.toml` of this content.
pub(crate) fn folder_with_file(text: &str) -> TempDir {
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
    // Any text is a path; which files are used is tested in tests/tls, tests/cluster/tls.rs, secret_files.rs and
    // backups.rs.
    expected.extend(["tls-cert", "tls-key", "ca-cert"]);
    expected.extend([
        "admin-token-file",
        "database-password-file",
        "backup-folder",
    ]);
    expected.extend(["config", "no-first-key", "no-migrate"]);
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
fn a_public_or_staging_url_that_does_not_end_in_v1_is_rejected() {
    for option in ["--public-url", "--staging-url"] {
        for url in [
            "https://animals.example",
            "https://animals.example/",
            "https://animals.example/v1/",
            "https://animals.example/v2",
            "https://animals.example/xv1",
        ] {
            let line = run(folder().path(), &[], &["serve", option, url]).fails_with(2);
            assert!(
                line.contains(option) && line.contains("ends in /v1"),
                "{line}"
            );
        }
    }
}

#[test]
fn a_url_with_a_control_character_or_with_white_space_around_it_is_rejected_and_nothing_is_created()
{
    let folder = folder();
    for (option, url) in [
        ("database", "sqlite:animal-store.db"),
        ("database", "postgres://me:secretpw@127.0.0.1:1/x"),
        ("redis", "redis://:secretpw@127.0.0.1:1"),
    ] {
        let (start, end) = url.split_at(url.len() - 1);
        for bad in [
            format!("{url}\n"),
            format!("{url}\r"),
            format!("{url} "),
            format!(" {url}"),
            format!("{url}\u{7f}"),
            format!("{url}\u{a0}"),
            format!("{start}\t{end}"),
        ] {
            let vars = [(&*variable(option), &*bad)];
            let line = run(folder.path(), &vars, &["serve", "--no-migrate"]).fails_with(2);
            let advice = "must not contain line breaks or other control characters, or begin or end with white space: remove them";
            assert!(line.contains(advice), "{bad:?}: {line}");
            assert!(!line.contains("secretpw"), "{bad:?}: {line}");
        }
    }
    let copy = ["copy", "--from", "sqlite:a.db", "--to", "sqlite:b.db\n"];
    let line = run(folder.path(), &[], &copy).fails_with(2);
    assert!(line.contains("--to"), "{line}");
    let database = variable("database");
    run(folder.path(), &[(&database, "sqlite:a.db\r")], &["migrate"]).fails_with(2);
    assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0);
    // A space within a path is part of it.
    run(folder.path(), &[(&database, "sqlite:a b.db")], &["migrate"]).exits(0);
    assert!(folder.path().join("a b.db").exists());
}

#[test]
fn a_server_on_all_addresses_logs_no_warning() {
    let folder = folder();
    let args = [
        "serve",
        "--listen",
        "0.0.0.0:0",
        "--admin-listen",
        "0.0.0.0:0",
    ];
    let options = ["--log-level", "warn"];
    let vars = [("ANIMAL_STORE_ADMIN_TOKEN", "0123456789abcdef")];
    let process = Process::start(
        PROGRAM,
        folder.path(),
        &[&args[..], &options].concat(),
        &vars,
    );
    assert_eq!(process.client(None).get("/livez").status, 200);
    assert_eq!(process.log(), "");
    let admin = format!("http://127.0.0.1:{}", process.admin.port());
    assert!(
        process.startup_message.contains(&admin),
        "{}",
        process.startup_message
    );
}

#[test]
fn flags_win_over_the_environment_and_the_environment_over_the_file_and_the_file_over_the_default()
{
    let folder = folder_with_file("listen = \"127.0.0.2:0\"\nadmin-listen = \"127.0.0.1:0\"\n");
    let file = ("ANIMAL_STORE_CONFIG", "c.toml");
    let environment = ("ANIMAL_STORE_LISTEN", "127.0.0.3:0");
    let flag = ["--listen", "127.0.0.4:0"];
    let started = |args: &[&str], vars: &[(&str, &str)]| {
        let process = Process::start(PROGRAM, folder.path(), args, vars);
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
fn an_invalid_value_is_reported_in_one_line_with_the_option_and_the_valid_values_wherever_it_came_from()
 {
    for (option, good, bad) in OPTIONS {
        let names = |named: &str, line: String| {
            assert!(line.contains(named), "{option}: {line}");
            let what_to_do = line.contains(": must be ") || line.contains(": use ");
            assert!(what_to_do, "{option}: {line}");
            let is_secret = ["admin-token", "database", "redis"].contains(&option);
            assert!(!is_secret || !line.contains(bad), "a secret: {line}");
        };
        let names_option = |line: String| names(option, line);
        let (flag_good, flag_bad) = (format!("--{option}={good}"), format!("--{option}={bad}"));
        let name = variable(option);
        let names_variable = |line: String| {
            assert!(!line.contains(&format!("--{option}")), "{line}");
            names(&name, line);
        };
        let empty = folder();
        names_option(run(empty.path(), &[], &["serve", &flag_bad]).fails_with(2));
        names_variable(run(empty.path(), &[(&name, bad)], &["serve"]).fails_with(2));
        let line = run(empty.path(), &[(&name, bad)], &["serve", &flag_bad]).fails_with(2);
        names_option(line);

        let in_file = folder_with_file(&format!("# wrong\n{option} = \"{bad}\"\n"));
        let line = run(in_file.path(), &[], &["serve", "--config", "c.toml"]).fails_with(2);
        assert!(line.contains("c.toml:2:"), "{line}");
        names_option(line);
        let right = format!("{option} = \"{good}\"\n");
        let others = FREE_PORTS_LINES.into_iter().filter(|line| **line != right);
        let in_file = folder_with_file(&others.chain([&*right]).collect::<String>());
        names_variable(
            run(
                in_file.path(),
                &[(&name, bad)],
                &["serve", "--config", "c.toml"],
            )
            .fails_with(2),
        );

        // A flag wins over an invalid value in the environment: then only the data is missing.
        let mut args = vec!["serve", &flag_good, "--config", "c.toml"];
        if option != "database" {
            args.extend(["--database", NO_DATA]);
            if option.starts_with("backup-") {
                args.extend(["--backup-folder", "."]);
            }
            let line = run(in_file.path(), &[(&name, bad)], &args).fails_with(1);
            assert!(line.contains("not/there.db"), "{line}");
        }
    }
}

#[test]
fn a_variable_that_is_not_valid_utf8_is_named_without_its_value() {
    // A path need not be valid UTF-8.
    let set = r"export ANIMAL_STORE_CA_CERT=$'\xff' ANIMAL_STORE_REDIS=$'redis://:secret\xff'";
    let script = format!("{set}; exec {PROGRAM} serve");
    let line = harness::run("bash", folder().path(), &["-c", &script]).fails_with(2);
    assert_eq!(
        line,
        "animal-store: ANIMAL_STORE_REDIS is not valid UTF-8 (see --help)"
    );
}

#[test]
fn a_value_with_a_blank_line_is_reported_with_its_option_and_the_reason() {
    let folder = folder_with_file(r#"listen = "1\n\n2""#);
    let variable = ("ANIMAL_STORE_LISTEN", "1\n\n2");
    for (option, vars, args) in [
        ("'--listen <IP:PORT>'", &[][..], &["--listen", variable.1]),
        ("'--listen <IP:PORT>'", &[], &["--config", "c.toml"]),
        (variable.0, &[variable], &["--log", "text"]),
    ] {
        let line = run(folder.path(), vars, &[&["serve"], &args[..]].concat()).fails_with(2);
        let problem = format!(r"invalid value '1\n\n2' for {option}: must be an IP address");
        assert!(line.contains(&problem), "{line}");
    }
}
