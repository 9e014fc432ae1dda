//! What none of the commands on keys does, and what is said instead.

use harness::{Operator, run};

use super::{PROGRAM, keys, operator, with_a_key};

#[test]
fn a_key_that_does_not_exist_is_reported_in_one_line_with_exit_1() {
    let (operator, _) = with_a_key();
    for words in [
        "show 9",
        "usage 9",
        "set-plan 9 pro",
        "rotate 9",
        "revoke 9",
        "unban 9",
        "show 9 --json",
    ] {
        assert_eq!(
            keys(&operator, words).refuses(1),
            "animal-store: unknown key 9: see keys list",
            "{words}"
        );
    }
}

#[test]
fn a_missing_database_is_reported_in_one_line_with_exit_1_and_none_is_created() {
    let folder = tempfile::TempDir::new().expect("a folder");
    for words in [
        "list",
        "show 1",
        "usage",
        "set-plan 1 pro",
        "rotate 1",
        "revoke 1",
        "unban 1",
    ] {
        let words: Vec<_> = ["keys"].into_iter().chain(words.split(' ')).collect();
        let message = run(PROGRAM, folder.path(), &words).refuses(1);
        assert!(
            message.contains("there is no database at animal-store.db"),
            "{words:?}: {message}"
        );
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn wrong_usage_is_reported_in_one_line_that_names_the_option_with_exit_2_and_nothing_is_created() {
    let operator = Operator::without_data(PROGRAM);
    let long = format!("create --plan free --name {}", "x".repeat(101));
    for (words, named) in [
        ("create --name me --plan gold", "--plan"),
        ("create --name me", "--plan"),
        ("create --plan free", "--name"),
        (&long, "--name"),
        ("create --name me --plan enterprise", "--per-minute"),
        (
            "create --name me --plan enterprise --per-minute 5",
            "--per-day",
        ),
        (
            "create --name me --plan enterprise --per-minute 0 --per-day 5",
            "--per-minute",
        ),
        (
            "create --name me --plan enterprise --per-minute 5 --per-day x",
            "--per-day",
        ),
        (
            "create --name me --plan free --per-minute 5",
            "--per-minute",
        ),
        ("create --name me --plan free --per-day 5", "--per-day"),
        ("create --name me --plan free --expires soon", "--expires"),
        ("create --name me --plan free --expires 90", "--expires"),
        ("create --name me --plan free --colour red", "--colour"),
        (
            "create --name me --plan free --database mysql://x",
            "--database",
        ),
        ("rotate 1 --grace long", "--grace"),
        ("set-plan 1 gold", "<PLAN>"),
        ("set-plan 1 enterprise", "--per-minute"),
        ("set-plan 1 pro --per-day 5", "--per-day"),
        ("show one", "<ID>"),
        ("show", "<ID>"),
        ("forge", "forge"),
    ] {
        let message = keys(&operator, words).refuses(2);
        assert!(message.contains(named), "{words}: {message}");
    }
    assert_eq!(std::fs::read_dir(operator.path()).unwrap().count(), 0);
}

#[test]
fn a_name_that_cannot_be_seen_is_refused() {
    let operator = operator();
    for name in ["", "  ", "a\tb", "a\nb"] {
        let message = operator
            .run(&["keys", "create", "--plan", "free", "--name", name])
            .refuses(2);
        assert!(message.contains("--name"), "{message}");
    }
}

#[test]
fn an_expiry_in_no_time_is_refused() {
    let operator = operator();
    let message = keys(&operator, "create --name me --plan free --expires 0s").refuses(2);
    assert!(message.contains("--expires"), "{message}");
}

#[test]
fn a_key_that_has_expired_is_not_rotated() {
    let operator = operator();
    keys(&operator, "create --name me --plan free --expires 1s").exits(0);
    harness::eventually(std::time::Duration::from_secs(5), "it expires", || {
        keys(&operator, "show 1").stdout.contains("expired")
    });
    let message = keys(&operator, "rotate 1").refuses(1);
    assert!(message.contains("has expired"), "{message}");
}
