//! Errors of the commands on keys.

use harness::{Operator, run};

use super::{PROGRAM, keys, operator, with_a_key};

#[test]
fn a_key_that_does_not_exist_is_reported_in_one_line_with_exit_1() {
    let (operator, _) = with_a_key();
    for args in [
        "show 9",
        "usage 9",
        "set-plan 9 pro",
        "rotate 9",
        "revoke 9",
        "unban 9",
        "show 9 --json",
    ] {
        assert_eq!(
            keys(&operator, args).fails_with(1),
            "animal-store: unknown key 9: run `animal-store keys list` to see all keys",
            "{args}"
        );
    }
}

#[test]
fn a_missing_database_is_reported_in_one_line_with_exit_1_and_none_is_created() {
    let folder = tempfile::TempDir::new().expect("a folder");
    for args in [
        "list",
        "show 1",
        "usage",
        "set-plan 1 pro",
        "rotate 1",
        "revoke 1",
        "unban 1",
    ] {
        let args: Vec<_> = ["keys"].into_iter().chain(args.split(' ')).collect();
        let message = run(PROGRAM, folder.path(), &args).fails_with(1);
        assert!(
            message.contains("there is no database at animal-store.db"),
            "{args:?}: {message}"
        );
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_usage_error_is_reported_in_one_line_that_names_the_option_with_exit_2_and_nothing_is_created()
{
    let operator = Operator::without_data(PROGRAM);
    let long = format!("create --plan free --name {}", "x".repeat(101));
    for (args, named) in [
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
        let message = keys(&operator, args).fails_with(2);
        assert!(message.contains(named), "{args}: {message}");
    }
    assert_eq!(std::fs::read_dir(operator.path()).unwrap().count(), 0);
}

#[test]
fn a_blank_name_or_one_with_control_characters_is_rejected() {
    let operator = operator();
    for name in ["", "  ", "\u{200b}", "a\tb", "a\nb"] {
        let message = operator
            .run(&["keys", "create", "--plan", "free", "--name", name])
            .fails_with(2);
        assert!(message.contains("--name"), "{message}");
    }
}

#[test]
fn an_expiry_of_zero_is_rejected() {
    let operator = operator();
    let message = keys(&operator, "create --name me --plan free --expires 0s").fails_with(2);
    assert!(message.contains("--expires"), "{message}");
}

#[test]
fn a_key_that_has_expired_is_not_rotated() {
    let operator = operator();
    keys(&operator, "create --name me --plan free --expires 1s").exits(0);
    harness::eventually(std::time::Duration::from_secs(5), "it expires", || {
        keys(&operator, "show 1").stdout.contains("expired")
    });
    let message = keys(&operator, "rotate 1").fails_with(1);
    assert!(message.contains("has expired"), "{message}");
}
