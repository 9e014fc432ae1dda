//! Secrets that are read from files, and those that are visible to every user of the machine.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use harness::{Certificate, Client, Process, eventually};
use tempfile::TempDir;

use crate::{PROGRAM, run};

const TOKEN: &str = "0123456789-abcdef";

/// A folder with a file `secret` of this content and mode.
fn folder_with(content: &str, mode: u32) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    let file = folder.path().join("secret");
    fs::write(&file, content).expect("a file");
    fs::set_permissions(file, Permissions::from_mode(mode)).expect("permissions");
    folder
}

/// Checks that `serve` fails with this code and one line that ends with this.
#[track_caller]
fn is_rejected(folder: &Path, args: &[&str], code: i32, end: &str) {
    let ports = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let args = [&["serve"], &ports[..], args].concat();
    let line = run(folder, &[], &args).fails_with(code);
    assert!(line.ends_with(end), "{line}");
    assert!(
        !folder.join("animal-store.db").exists(),
        "a database was created"
    );
}

#[test]
fn a_password_file_in_the_configuration_file_is_not_used_for_other_databases() {
    let folder = folder_with("password", 0o600);
    let file = "database = 'postgres://me@127.0.0.1:1/x'\ndatabase-password-file = 'secret'\n";
    fs::write(folder.path().join("config.toml"), file).expect("a file");
    let config = ["--config", "config.toml"];
    let run = |args: &[&str]| run(folder.path(), &[], &[args, &config].concat());
    run(&["migrate", "--database", "sqlite:a.db"]).exits(0);
    run(&["keys", "list", "--database", "sqlite:a.db"]).exits(0);
    run(&["copy", "--from", "sqlite:a.db", "--to", "sqlite:b.db"]).exits(0);
    // Nor one in the environment.
    let variable = [("ANIMAL_STORE_DATABASE_PASSWORD_FILE", "none")];
    let args = ["keys", "list", "--database", "sqlite:a.db"];
    crate::run(folder.path(), &variable, &args).exits(0);
    let url = "postgres://me:other@127.0.0.1:1/x";
    let line = run(&["keys", "list", "--database", url]).fails_with(1);
    assert!(line.contains("Connection refused"), "{line}");
    fs::remove_file(folder.path().join("secret")).expect("the file");
    let line = run(&["keys", "list"]).fails_with(1);
    assert!(line.contains("--database-password-file secret"), "{line}");
}

#[test]
fn the_admin_token_is_the_first_line_of_its_file() {
    for (content, mode) in [(TOKEN.to_owned(), 0o600), (format!("{TOKEN}\r\nx"), 0o640)] {
        let folder = folder_with(&content, mode);
        let args = ["--admin-token-file", "secret"];
        let process = Process::serve(PROGRAM, folder.path(), &args);
        for (token, status) in [
            (Some(TOKEN), 200),
            (Some("0123456789-abcdeg"), 401),
            (None, 401),
        ] {
            let client = Client::new(process.admin, token.map(str::to_owned));
            assert_eq!(client.get("/metrics").status, status, "{token:?}");
        }
    }
}

#[test]
fn the_admin_token_and_its_file_override_each_other_as_their_sources_do() {
    const OTHER: &str = "fedcba-9876543210";
    let folder = folder_with(TOKEN, 0o600);
    let write = |name, text: String| fs::write(folder.path().join(name), text).expect("a file");
    let (in_file, in_line) = (
        "admin-token-file = 'secret'\n",
        format!("admin-token = '{OTHER}'\n"),
    );
    write("both", format!("{in_file}{in_line}"));
    write("file", in_file.to_owned());
    write("line", in_line);
    let variable = [("ANIMAL_STORE_ADMIN_TOKEN", OTHER)];
    let file_variable = [("ANIMAL_STORE_ADMIN_TOKEN_FILE", "secret")];
    for (args, vars, expected) in [
        (&["--config", "file"][..], &variable[..], OTHER),
        (
            &["--config", "line", "--admin-token-file", "secret"],
            &[],
            TOKEN,
        ),
        (&["--config", "both"], &file_variable, TOKEN),
        (&["--admin-token-file", "secret"], &variable, TOKEN),
        (&["--admin-token", OTHER], &file_variable, OTHER),
    ] {
        let process = Process::serve_with(PROGRAM, folder.path(), args, vars);
        let client = Client::new(process.admin, Some(expected.to_owned()));
        assert_eq!(client.get("/metrics").status, 200, "{args:?} {vars:?}");
    }
    let message =
        "animal-store: --admin-token-file cannot be used with --admin-token: use one of them";
    for (args, vars) in [
        (&["serve", "--config", "both"][..], &[][..]),
        (&["serve"], &[variable, file_variable].concat()),
    ] {
        assert_eq!(run(folder.path(), vars, args).fails_with(2), message);
    }
}

#[test]
fn a_file_with_a_secret_that_cannot_be_used_is_rejected() {
    let database = "postgres://me@127.0.0.1:1/x";
    for (option, what) in [
        ("--admin-token-file", "token"),
        ("--database-password-file", "password"),
    ] {
        let args = [option, "secret", "--database", database];
        for mode in [0o604, 0o644] {
            let folder = folder_with(TOKEN, mode);
            let end =
                format!("{option} secret: every user can read this {what}: run `chmod o-r secret`");
            is_rejected(folder.path(), &args, 1, &end);
        }
        for content in ["", "\n", "\nlater"] {
            let folder = folder_with(content, 0o600);
            let end = format!("{option} secret: contains no {what} in its first line");
            is_rejected(folder.path(), &args, 1, &end);
        }
        for (path, what) in [
            (".", "a folder, not a file"),
            ("/dev/zero", "not a regular file"),
        ] {
            let folder = TempDir::new().expect("a folder");
            let words = [option, path, "--database", database];
            let end = format!("{option} {path}: is {what}");
            is_rejected(folder.path(), &words, 1, &end);
        }
        let empty = TempDir::new().expect("a folder");
        let end = format!("{option} secret: file not found");
        is_rejected(empty.path(), &args, 1, &end);
    }
    let end =
        "--admin-token-file secret: the first line must be at least 16 visible ASCII characters";
    for token in ["15-characters-x", "16-characters-ä", "16 characters xx"] {
        let folder = folder_with(token, 0o600);
        is_rejected(folder.path(), &["--admin-token-file", "secret"], 1, end);
    }
}

#[test]
fn a_secret_that_is_given_twice_is_a_usage_error() {
    let folder = folder_with(TOKEN, 0o600);
    let both = ["--admin-token-file", "secret", "--admin-token", TOKEN];
    let end = "--admin-token-file cannot be used with --admin-token: use one of them";
    is_rejected(folder.path(), &both, 2, end);
    let password = ["--database-password-file", "secret", "--database"];
    let url = ["postgres://me:secret@127.0.0.1:1/x"];
    let end = "with a password in the URL of --database: use one of them";
    is_rejected(folder.path(), &[&password[..], &url].concat(), 2, end);
    let end = "--database-password-file requires --database postgres://…";
    is_rejected(
        folder.path(),
        &[&password[..], &["sqlite:x.db"]].concat(),
        2,
        end,
    );
    // As in a file that names the database, too.
    let file = "database = 'sqlite:x.db'\ndatabase-password-file = 'secret'\n";
    fs::write(folder.path().join("both.toml"), file).expect("a file");
    is_rejected(folder.path(), &["--config", "both.toml"], 2, end);
    // So it is for every command.
    let args = [&["keys", "list"], &password[..], &url].concat();
    let line = run(folder.path(), &[], &args).fails_with(2);
    assert!(line.contains("--database-password-file"), "{line}");
}

#[test]
fn a_secret_in_a_flag_is_warned_of_once_and_one_in_a_variable_or_a_file_is_not() {
    let folder = folder_with(&format!("admin-token = \"{TOKEN}\""), 0o600);
    // Nothing listens there: the node counts alone.
    let redis = "redis://:pass@127.0.0.1:1";
    for (args, vars, options) in [
        (
            &["--admin-token", TOKEN][..],
            &[][..],
            Some("--admin-token"),
        ),
        (
            &["--admin-token", TOKEN, "--redis", redis],
            &[],
            Some("--admin-token, --redis"),
        ),
        (&["--redis", "redis://127.0.0.1:1"], &[], None),
        (
            &[],
            &[
                ("ANIMAL_STORE_ADMIN_TOKEN", TOKEN),
                ("ANIMAL_STORE_REDIS", redis),
            ],
            None,
        ),
        (&["--config", "secret"], &[], None),
    ] {
        let process = Process::serve_with(PROGRAM, folder.path(), args, vars);
        let mut log = String::new();
        eventually(std::time::Duration::from_secs(5), "it is ready", || {
            log.push_str(&process.log());
            log.contains(" ready ") && options.is_none_or(|_| log.contains("list of processes"))
        });
        let lines = log
            .lines()
            .filter(|line| line.contains("list of processes"));
        let lines: Vec<&str> = lines.collect();
        match options {
            Some(options) => {
                assert_eq!(lines.len(), 1, "{log}");
                assert!(
                    lines[0].contains(&format!("options=\"{options}\"")),
                    "{log}"
                );
            }
            None => assert!(lines.is_empty(), "{log}"),
        }
        assert!(!log.contains(TOKEN) && !log.contains("pass@"), "{log}");
    }
}

#[test]
fn a_file_of_cas_that_has_no_effect_is_reported() {
    let folder = TempDir::new().expect("a folder");
    let warning = "--ca-cert has no effect";
    let args = ["--ca-cert", "ca.pem"];
    let server = Process::serve(PROGRAM, folder.path(), &args);
    let mut log = String::new();
    eventually(Duration::from_secs(10), "a line", || {
        log.push_str(&server.log());
        log.contains(warning)
    });
    drop(server);

    let certificate = Certificate::new();
    std::fs::write(folder.path().join("ca.pem"), certificate.pem).expect("a file");
    let args = [&args[..], &["--redis", "rediss://127.0.0.1:1"]].concat();
    let mut server = Process::serve(PROGRAM, folder.path(), &args);
    server.signal("TERM");
    assert_eq!(server.ends_within(Duration::from_secs(10)), Some(0));
    let log = server.log();
    assert!(log.contains("ready") && !log.contains(warning), "{log}");
}
