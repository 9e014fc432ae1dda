//! `keys set-plan`, `rotate`, `revoke` and `unban`.

use serde_json::{Value, json};

use super::{is_secret, json_of, keys, line, rows, with_a_key};

#[test]
fn set_plan_changes_the_plan() {
    let (operator, _) = with_a_key();
    assert_eq!(
        line(keys(&operator, "set-plan 1 pro")),
        "key 1 (me) has plan pro"
    );
    let key = json_of(keys(
        &operator,
        "set-plan 1 enterprise --per-minute 5 --per-day 6 --json",
    ));
    assert_eq!(
        (&key["plan"], &key["perMinute"], &key["perDay"]),
        (&json!("enterprise"), &json!(5), &json!(6))
    );
    let key = json_of(keys(&operator, "set-plan 1 free --json"));
    assert_eq!(
        (&key["perMinute"], &key["perDay"]),
        (&json!(60), &json!(1_000))
    );
}

#[test]
fn rotate_prints_the_new_secret_alone_on_stdout() {
    let (operator, first) = with_a_key();
    let output = keys(&operator, "rotate 1").exits(0);
    let second = output.stdout.trim_end();
    is_secret(second);
    assert_ne!(second, first);
    assert!(
        output
            .stderr
            .starts_with("key 1 (me) rotated, the old secret works until 2"),
        "{output:?}"
    );
    assert_eq!(
        json_of(keys(&operator, "show 1 --json"))["prefix"],
        second[..8]
    );
    let key = json_of(keys(&operator, "rotate 1 --grace 2h --json --yes"));
    is_secret(key["key"].as_str().unwrap());
    let until = key["oldSecretUntil"].as_str().expect("a time");
    let shown = rows(keys(&operator, "show 1"));
    let row = ["old secret until", until];
    assert!(shown.iter().any(|other| *other == row), "{shown:?}");
    let output = keys(&operator, "rotate 1 --grace 0s --yes").exits(0);
    assert!(
        output.stderr.contains("the old secret no longer works"),
        "{output:?}"
    );
}

#[test]
fn the_old_secret_of_a_rotated_key_does_not_outlive_the_key() {
    let (operator, _) = with_a_key();
    keys(&operator, "create --name brief --plan free --expires 1h").exits(0);
    let key = json_of(keys(&operator, "show 2 --json"));
    let end = key["expiresAt"].as_str().expect("a time");
    let output = keys(&operator, "rotate 2 --grace 24h").exits(0);
    let expected = format!("the old secret works until {end};");
    assert!(output.stderr.contains(&expected), "{output:?}");
}

#[test]
fn revoke_ends_a_key_permanently() {
    let (operator, _) = with_a_key();
    assert_eq!(line(keys(&operator, "revoke 1")), "key 1 (me) is revoked");
    let first = json_of(keys(&operator, "show 1 --json"));
    assert_eq!(first["state"], "revoked");
    let again = json_of(keys(&operator, "revoke 1 --json"));
    assert_eq!(
        again["revokedAt"], first["revokedAt"],
        "the first time counts"
    );
    assert!(
        keys(&operator, "rotate 1")
            .fails_with(1)
            .contains("key 1 is revoked")
    );
}

#[test]
fn a_rotation_during_a_grace_period_is_rejected_without_a_terminal() {
    let (operator, _) = with_a_key();
    let second = line(keys(&operator, "rotate 1"));
    let message = keys(&operator, "rotate 1").fails_with(2);
    assert!(
        message.starts_with("animal-store: key 1 (me) was rotated recently: ")
            && message.ends_with(": use --yes to confirm"),
        "{message}"
    );
    assert_eq!(
        json_of(keys(&operator, "show 1 --json"))["prefix"],
        second[..8],
        "the secret that the client has is still the current one"
    );
    is_secret(&line(keys(&operator, "rotate 1 --yes --grace 0s")));
    // The grace period has ended: no confirmation is needed.
    is_secret(&line(keys(&operator, "rotate 1")));
}

#[test]
fn on_a_terminal_a_rotation_during_a_grace_period_asks_for_confirmation() {
    let (operator, _) = with_a_key();
    let second = line(keys(&operator, "rotate 1"));
    let prefix = || json_of(keys(&operator, "show 1 --json"))["prefix"].clone();
    for reply in ["n\n", "\n"] {
        let (code, shown) = operator.on_terminal(80, "keys rotate 1", reply);
        assert_eq!(code, Some(1), "{shown}");
        assert!(shown.contains("Continue? [y/N]"), "{shown}");
        assert!(
            shown.contains("animal-store: nothing was changed"),
            "{shown}"
        );
        assert_eq!(prefix(), second[..8]);
    }
    let (code, shown) = operator.on_terminal(80, "keys rotate 1", "y\n");
    assert_eq!(code, Some(0), "{shown}");
    assert_ne!(prefix(), second[..8]);
}

#[test]
fn unban_reports_what_it_did() {
    let (operator, _) = with_a_key();
    assert_eq!(
        line(keys(&operator, "unban 1")),
        "key 1 (me) was not banned; the duration of its next ban is reset"
    );
    let unbanned = json_of(keys(&operator, "unban 1 --json"));
    assert_eq!(unbanned["bannedUntil"], Value::Null);
    assert_eq!(unbanned.get("wasBannedUntil"), Some(&Value::Null));
    let server = operator.serve(&["--ban-after", "1", "--ban-for", "1h"]);
    let secret = line(keys(&operator, "create --name hasty --plan free"));
    let client = server.client(Some(&secret));
    while client.get("/v1/pets").json()["code"] != "key_banned" {}
    harness::eventually(harness::propagation_time(), "the ban is stored", || {
        json_of(keys(&operator, "show 2 --json"))["state"] == "banned"
    });
    let until = json_of(keys(&operator, "show 2 --json"))["bannedUntil"].clone();
    assert_eq!(
        line(keys(&operator, "unban 2")),
        format!(
            "key 2 (hasty) is unbanned; it was banned until {}",
            until.as_str().unwrap()
        )
    );
    assert_eq!(
        line(keys(&operator, "unban 2")),
        "key 2 (hasty) was not banned; the duration of its next ban is reset"
    );
}
