//! `keys create`.

use serde_json::{Value, json};

use super::{is_secret, json_of, keys, line, operator, with_a_key};

#[test]
fn create_prints_the_secret_alone_on_stdout_and_everything_else_on_stderr() {
    let operator = operator();
    let output = keys(&operator, "create --name me --plan free").exits(0);
    is_secret(output.stdout.strip_suffix('\n').unwrap());
    assert!(
        output
            .stderr
            .starts_with("key 1 (me) created; plan free, 60 requests per minute, 1000 per day")
    );
    assert!(!output.stderr.contains("as_"), "{output:?}");
}

#[test]
fn create_with_json_prints_exactly_the_published_fields_in_their_order() {
    let operator = operator();
    let text = line(keys(&operator, "create --name me --plan free --json"));
    let (before, after) = text.split_once("as_").unwrap();
    assert_eq!(
        before,
        r#"{"id":1,"name":"me","plan":"free","perMinute":60,"perDay":1000,"key":""#
    );
    is_secret(&format!("as_{}", after.strip_suffix("\"}").unwrap()));
}

#[test]
fn create_accepts_every_plan_and_prints_its_limits() {
    let operator = operator();
    for (plan, per_minute, per_day) in [
        ("free", 60, 1_000),
        ("pro", 300, 10_000),
        ("business", 1_000, 100_000),
        ("enterprise --per-minute 7 --per-day 9", 7, 9),
    ] {
        let key = json_of(keys(
            &operator,
            &format!("create --name me --json --plan {plan}"),
        ));
        assert_eq!(
            (&key["perMinute"], &key["perDay"]),
            (&json!(per_minute), &json!(per_day))
        );
    }
}

#[test]
fn create_with_expires_shows_the_expiry() {
    let (operator, _) = with_a_key();
    let key = json_of(keys(
        &operator,
        "create --name brief --plan free --expires 90d --json",
    ));
    let shown = json_of(keys(&operator, "show 2 --json"));
    assert!(key["expiresAt"].is_string());
    assert_eq!(shown["expiresAt"], key["expiresAt"]);
    assert_eq!(shown["state"], "active");
    assert_eq!(
        json_of(keys(&operator, "show 1 --json"))["expiresAt"],
        Value::Null
    );
}

#[test]
fn a_name_is_kept_as_it_is() {
    let operator = operator();
    let name = "Ann's “key” 🐶";
    let output = operator.run(&["keys", "create", "--name", name, "--plan", "pro", "--json"]);
    assert_eq!(json_of(output)["name"], name);
    assert_eq!(json_of(keys(&operator, "list --json"))[0]["name"], name);
}
