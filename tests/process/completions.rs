//! The completion scripts of shells.

use std::fs;
use std::process::Command;

use crate::{PROGRAM, folder, run};

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
fn bash_completes_the_words_of_every_command() {
    let folder = folder();
    let call = r#"source <("$0" completions bash)
        COMP_WORDS=(animal-store "$@" "") COMP_CWORD=$(($# + 1))
        [[ $(complete -p animal-store) =~ -F\ ([^ ]+) ]]
        "${BASH_REMATCH[1]}" animal-store "" "${COMP_WORDS[COMP_CWORD - 1]}"
        echo "${COMPREPLY[*]}""#;
    for (words, offered) in [
        (
            "",
            "-h -V --help --version serve keys pets orders backup restore copy migrate openapi healthcheck completions",
        ),
        (
            "keys",
            "-h --help create list show usage set-plan rotate revoke unban",
        ),
        ("keys create --plan", "free pro business enterprise"),
        (
            "pets set-status",
            "-h --json --database --database-password-file --ca-cert --config --force --help available pending sold",
        ),
        // Without the options that its help does not show.
        ("backup", "-h --force --json --config --database --help"),
    ] {
        let words = words.split_whitespace();
        let args: Vec<&str> = ["-c", call, PROGRAM].into_iter().chain(words).collect();
        let found = harness::run("bash", folder.path(), &args).exits(0).stdout;
        assert_eq!(found.trim_end(), offered, "{args:?}");
    }
}
