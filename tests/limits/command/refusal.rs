//! What none of the commands on keys does, and what is said instead.

use harness::{Desk, run};

use super::{PROGRAM, desk, keys, with_a_key};

#[test]
fn a_key_that_does_not_exist_is_told_in_one_line_with_exit_1() {
    let (desk, _) = with_a_key();
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
            keys(&desk, words).refuses(1),
            "animal-store: unknown key 9: see keys list",
            "{words}"
        );
    }
}

#[test]
fn a_missing_database_is_told_in_one_line_with_exit_1_and_none_is_created() {
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
        let told = run(PROGRAM, folder.path(), &words).refuses(1);
        assert!(
            told.contains("there is no database at animal-store.db"),
            "{words:?}: {told}"
        );
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn wrong_usage_is_told_in_one_line_that_names_the_option_with_exit_2_and_nothing_is_created() {
    let desk = Desk::without_data(PROGRAM);
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
        let told = keys(&desk, words).refuses(2);
        assert!(told.contains(named), "{words}: {told}");
    }
    assert_eq!(std::fs::read_dir(desk.path()).unwrap().count(), 0);
}

#[test]
fn a_name_that_cannot_be_seen_is_refused() {
    let desk = desk();
    for name in ["", "  ", "a\tb", "a\nb"] {
        let told = desk
            .run(&["keys", "create", "--plan", "free", "--name", name])
            .refuses(2);
        assert!(told.contains("--name"), "{told}");
    }
}

#[test]
fn an_expiry_in_no_time_is_refused() {
    let desk = desk();
    let told = keys(&desk, "create --name me --plan free --expires 0s").refuses(2);
    assert!(told.contains("--expires"), "{told}");
}

#[test]
fn a_key_that_has_expired_is_not_rotated() {
    let desk = desk();
    keys(&desk, "create --name me --plan free --expires 1s").exits(0);
    harness::eventually(std::time::Duration::from_secs(5), "it expires", || {
        keys(&desk, "show 1").stdout.contains("expired")
    });
    let told = keys(&desk, "rotate 1").refuses(1);
    assert!(told.contains("has expired"), "{told}");
}
