//! Output that cannot be written, because standard output or standard error is full or a pipe that nobody reads, and names or
//! arguments that would change what a terminal shows.

use std::path::Path;

use harness::Output;
use rusqlite::Connection;

use crate::{FREE_PORTS, PROGRAM, folder, large_key};

/// Runs a line of shell, in which `$P` is the program.
fn shell(folder: &Path, line: &str) -> Output {
    harness::run("bash", folder, &["-c", &format!("P={PROGRAM}; {line}")])
}

/// Makes descriptor 3 a pipe whose reader has ended.
const CLOSED_PIPE: &str = "exec 3> >(:); wait $!";

const FULL: &str =
    "animal-store: cannot write to standard output: No space left on device (os error 28)\n";

#[test]
fn a_secret_that_cannot_be_printed_is_reported_with_the_command_that_issues_another() {
    let folder = folder();
    large_key(folder.path());
    let advice = "run `animal-store keys rotate 2 --yes`\n";
    let lost = |done: &str| {
        format!("animal-store: key 2 was {done}, but its secret could not be printed: {advice}")
    };
    let rotate = "$P keys rotate 2 --grace 0s";
    for (line, message) in [
        (
            "$P keys create --name a --plan free > /dev/full",
            lost("created"),
        ),
        (&format!("{rotate} > /dev/full"), lost("rotated")),
        (&format!("{rotate} --json > /dev/full"), lost("rotated")),
    ] {
        let output = shell(folder.path(), line).exits(1);
        assert_eq!(output.stderr, message, "{line}");
    }
    // A pipe that nobody reads loses it, too.
    let piped = format!("{CLOSED_PIPE}; {rotate} >&3; echo \"exit $?\" >&2");
    let stderr = shell(folder.path(), &piped).stderr;
    assert_eq!(stderr, format!("{}exit 1\n", lost("rotated")));
}

#[test]
fn a_server_that_cannot_print_its_first_key_logs_the_command_that_issues_another() {
    let folder = folder();
    let line = format!("timeout 3 $P serve {} > /dev/full", FREE_PORTS.join(" "));
    let log = shell(folder.path(), &line).stderr;
    let message = "key 1 was created, but its secret could not be printed: run `animal-store keys rotate 1 --yes`";
    let warned = log
        .lines()
        .any(|line| line.contains("WARN") && line.contains(message));
    assert!(warned, "{log}");
}

#[test]
fn a_full_standard_output_fails_a_command_with_one_line() {
    let folder = folder();
    large_key(folder.path());
    for args in [
        "--help",
        "-h",
        "keys create --help",
        "--version",
        "--version --verbose",
        "completions bash",
        "openapi",
        "keys list",
        "keys show 1",
        "pets list",
    ] {
        let output = shell(folder.path(), &format!("$P {args} > /dev/full")).exits(1);
        let last = output.stderr.lines().last().map(|line| format!("{line}\n"));
        assert_eq!(last.as_deref(), Some(FULL), "{args}: {}", output.stderr);
    }
}

#[test]
fn a_command_whose_result_cannot_be_printed_says_that_it_succeeded() {
    let folder = folder();
    large_key(folder.path());
    std::fs::write(folder.path().join("a.csv"), "name,categoryId\nRex,1\n").expect("a file");
    let done = "animal-store: the command succeeded, but its result could not be written to standard output: No space left on device (os error 28)";
    for args in [
        "migrate",
        "pets import a.csv",
        "pets export b.csv --json",
        "backup b.db",
        "copy --from sqlite:animal-store.db --to sqlite:c.db",
        "orders place --pet 1",
        "orders cancel 1",
        "pets set-status 1 sold",
        "pets remove 1 --yes",
        "restore b.db --yes",
        "keys revoke 1",
    ] {
        let output = shell(folder.path(), &format!("$P {args} > /dev/full")).exits(1);
        let last = output.stderr.lines().last();
        assert_eq!(last, Some(done), "{args}: {}", output.stderr);
    }
}

#[test]
fn a_pipe_that_nobody_reads_ends_a_command_quietly() {
    let folder = folder();
    large_key(folder.path());
    for args in [
        "--help",
        "--version",
        "completions bash",
        "openapi",
        "keys list",
        "keys show 1",
    ] {
        let line = format!("{CLOSED_PIPE}; $P {args} >&3; echo \"exit $?\" >&2");
        let output = shell(folder.path(), &line);
        assert_eq!(output.stderr, "exit 0\n", "{args}");
    }
}

#[test]
fn a_full_standard_error_fails_no_command() {
    let folder = folder();
    large_key(folder.path());
    for args in [
        "keys create --name a --plan free",
        "keys rotate 2",
        "keys rotate 2 --yes",
    ] {
        let output = shell(folder.path(), &format!("$P {args} 2> /dev/full")).exits(0);
        assert!(output.stdout.starts_with("as_"), "{args}: {output:#?}");
    }
}

#[test]
fn a_name_that_others_wrote_forges_no_line_and_does_not_control_the_terminal() {
    let folder = folder();
    large_key(folder.path());
    crate::backup::fill(folder.path(), 1);
    let (name, shown_name) = (
        "a\nb\u{1b}[2J\u{9b}\u{202e}",
        r"a\nb\u{1b}[2J\u{9b}\u{202e}",
    );
    let database = Connection::open(folder.path().join("animal-store.db")).expect("a database");
    for table in ["api_keys", "pets"] {
        let renamed = database.execute(&format!("UPDATE {table} SET name = ?"), [name]);
        assert_eq!(renamed.expect("a change"), 1);
    }
    drop(database);
    // On a terminal, a long name is truncated.
    let is_escaped = |shown: &str| {
        shown.contains(r"a\nb\u{1b}") && !shown.contains(['\u{1b}', '\u{9b}', '\u{202e}'])
    };
    let run = |args: &str| {
        let args: Vec<_> = args.split(' ').collect();
        harness::run(PROGRAM, folder.path(), &args).exits(0)
    };
    for args in ["keys list", "keys show 1", "pets list", "pets show 1"] {
        let output = run(args);
        assert!(output.stdout.contains(shown_name), "{output:#?}");
        assert!(is_escaped(&output.stdout), "{output:#?}");
        let json = run(&format!("{args} --json"));
        let name = serde_json::to_string(name).expect("JSON");
        assert!(json.stdout.contains(&name), "{json:#?}");
    }
    for args in [
        "keys list",
        "pets list",
        "keys rotate 1",
        "keys rotate 1",
        "pets remove 1",
    ] {
        let command = format!("exec {PROGRAM} {args}");
        let (code, shown) = harness::on_terminal(folder.path(), &command, &[], "y\n");
        assert_eq!(code, Some(0), "{args}: {shown:?}");
        assert!(is_escaped(&shown), "{args}: {shown:?}");
    }
    run("backup b.db");
    for args in ["keys revoke 1", "restore b.db --yes"] {
        let output = run(args);
        assert!(is_escaped(&output.stdout), "{output:#?}");
    }
}

#[test]
fn an_unknown_argument_with_a_blank_line_is_named_in_one_line() {
    for (args, problem) in [
        (
            &["serve", "--a\n\nb"][..],
            r"unexpected argument '--a\n\nb' found",
        ),
        (
            &["keys", "show", "1", "a\n\nb"],
            r"unexpected argument 'a\n\nb' found",
        ),
        (&["keys", "a\n\nb"], r"unrecognized subcommand 'a\n\nb'"),
    ] {
        let line = harness::run(PROGRAM, folder().path(), args).fails_with(2);
        assert_eq!(line, format!("animal-store: {problem} (see --help)"));
    }
}
