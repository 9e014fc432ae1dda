//! `keys set-plan`, `rotate`, `revoke` and `unban`.

use serde_json::{Value, json};

use super::{is_secret, json_of, keys, line, with_a_key};

#[test]
fn set_plan_gives_another_plan() {
    let (desk, _) = with_a_key();
    assert_eq!(
        line(keys(&desk, "set-plan 1 pro")),
        "key 1 (me) has plan pro"
    );
    let key = json_of(keys(
        &desk,
        "set-plan 1 enterprise --per-minute 5 --per-day 6 --json",
    ));
    assert_eq!(
        (&key["plan"], &key["perMinute"], &key["perDay"]),
        (&json!("enterprise"), &json!(5), &json!(6))
    );
    let key = json_of(keys(&desk, "set-plan 1 free --json"));
    assert_eq!(
        (&key["perMinute"], &key["perDay"]),
        (&json!(60), &json!(1_000))
    );
}

#[test]
fn rotate_prints_the_new_secret_alone_on_stdout() {
    let (desk, first) = with_a_key();
    let output = keys(&desk, "rotate 1").exits(0);
    let second = output.stdout.trim_end();
    is_secret(second);
    assert_ne!(second, first);
    assert!(
        output
            .stderr
            .starts_with("key 1 (me) rotated, the old secret works until 2"),
        "{output:?}"
    );
    assert_eq!(json_of(keys(&desk, "show 1 --json"))["prefix"], second[..8]);
    let key = json_of(keys(&desk, "rotate 1 --grace 2h --json"));
    is_secret(key["key"].as_str().unwrap());
    assert!(key["oldSecretUntil"].is_string());
    let output = keys(&desk, "rotate 1 --grace 0s").exits(0);
    assert!(
        output.stderr.contains("the old secret has ended"),
        "{output:?}"
    );
}

#[test]
fn revoke_ends_a_key_for_ever() {
    let (desk, _) = with_a_key();
    assert_eq!(line(keys(&desk, "revoke 1")), "key 1 (me) is revoked");
    let first = json_of(keys(&desk, "show 1 --json"));
    assert_eq!(first["state"], "revoked");
    let again = json_of(keys(&desk, "revoke 1 --json"));
    assert_eq!(
        again["revokedAt"], first["revokedAt"],
        "the first time counts"
    );
    assert!(
        keys(&desk, "rotate 1")
            .refuses(1)
            .contains("key 1 is revoked")
    );
}

#[test]
fn unban_says_that_the_key_is_not_banned() {
    let (desk, _) = with_a_key();
    assert_eq!(line(keys(&desk, "unban 1")), "key 1 (me) is not banned");
    assert_eq!(
        json_of(keys(&desk, "unban 1 --json"))["bannedUntil"],
        Value::Null
    );
}
