//! `animal-store keys`: what it prints, and how it ends.

use harness::{Output, run};
use serde_json::{Value, json};
use tempfile::TempDir;

const PROGRAM: &str = env!("CARGO_BIN_EXE_animal-store");

fn folder() -> TempDir {
    TempDir::new().expect("a folder")
}

/// Runs `animal-store keys …`, words apart by spaces.
fn keys(folder: &TempDir, words: &str) -> Output {
    let all: Vec<_> = ["keys"]
        .into_iter()
        .chain(words.split_whitespace())
        .collect();
    run(PROGRAM, folder.path(), &all)
}

/// The one line of its standard output.
#[track_caller]
fn line(output: Output) -> String {
    let output = output.exits(0);
    assert_eq!(output.stdout.lines().count(), 1, "{output:#?}");
    output.stdout.trim_end().to_owned()
}

/// The JSON it prints, on one line, and nothing beside it.
#[track_caller]
fn json_of(output: Output) -> Value {
    let output = output.exits(0);
    assert_eq!(output.stderr, "", "{output:#?}");
    serde_json::from_str(&line(output)).expect("JSON")
}

/// The rows it prints where no one looks: words apart by tabs.
#[track_caller]
fn rows(output: Output) -> Vec<Vec<String>> {
    let output = output.exits(0);
    assert_eq!(output.stderr, "", "{output:#?}");
    let row = |line: &str| line.split('\t').map(str::to_owned).collect();
    output.stdout.lines().map(row).collect()
}

#[track_caller]
fn is_secret(text: &str) {
    let rest = text.strip_prefix("as_").expect("as_");
    assert_eq!(rest.len(), 38, "{text}");
    assert!(
        rest.bytes().all(|byte| byte.is_ascii_alphanumeric()),
        "{text}"
    );
}

/// A folder with key 1, `me`, plan free, and its secret.
fn with_a_key() -> (TempDir, String) {
    let folder = folder();
    let secret = line(keys(&folder, "create --name me --plan free"));
    (folder, secret)
}

#[test]
fn create_prints_the_secret_alone_on_stdout_and_everything_else_on_stderr() {
    let folder = folder();
    let output = keys(&folder, "create --name me --plan free").exits(0);
    is_secret(output.stdout.strip_suffix('\n').unwrap());
    assert!(
        output
            .stderr
            .starts_with("key 1 (me) created; plan free, 60 requests a minute, 1000 a day")
    );
    assert!(!output.stderr.contains("as_"), "{output:?}");
}

#[test]
fn create_with_json_prints_exactly_the_published_members_in_their_order() {
    let folder = folder();
    let text = line(keys(&folder, "create --name me --plan free --json"));
    let (before, after) = text.split_once("as_").unwrap();
    assert_eq!(
        before,
        r#"{"id":1,"name":"me","plan":"free","perMinute":60,"perDay":1000,"key":""#
    );
    is_secret(&format!("as_{}", after.strip_suffix("\"}").unwrap()));
}

#[test]
fn create_knows_every_plan_and_its_figures() {
    let folder = folder();
    for (plan, per_minute, per_day) in [
        ("free", 60, 1_000),
        ("pro", 300, 10_000),
        ("business", 1_000, 100_000),
        ("enterprise --per-minute 7 --per-day 9", 7, 9),
    ] {
        let key = json_of(keys(
            &folder,
            &format!("create --name me --json --plan {plan}"),
        ));
        assert_eq!(
            (&key["perMinute"], &key["perDay"]),
            (&json!(per_minute), &json!(per_day))
        );
    }
}

#[test]
fn create_with_expires_tells_when() {
    let (folder, _) = with_a_key();
    let key = json_of(keys(
        &folder,
        "create --name brief --plan free --expires 90d --json",
    ));
    let shown = json_of(keys(&folder, "show 2 --json"));
    assert!(key["expiresAt"].is_string());
    assert_eq!(shown["expiresAt"], key["expiresAt"]);
    assert_eq!(shown["state"], "active");
    assert_eq!(
        json_of(keys(&folder, "show 1 --json"))["expiresAt"],
        Value::Null
    );
}

#[test]
fn a_name_is_kept_as_it_is() {
    let folder = folder();
    let name = "Ann's “key” 🐶";
    let output = run(
        PROGRAM,
        folder.path(),
        &["keys", "create", "--name", name, "--plan", "pro", "--json"],
    );
    assert_eq!(json_of(output)["name"], name);
    assert_eq!(json_of(keys(&folder, "list --json"))[0]["name"], name);
}

#[test]
fn list_shows_every_key_by_number_and_never_a_secret() {
    let (folder, secret) = with_a_key();
    line(keys(&folder, "create --name other --plan pro"));
    line(keys(&folder, "set-plan 1 business"));
    let rows = rows(keys(&folder, "list"));
    let titles = [
        "id",
        "name",
        "plan",
        "per minute",
        "per day",
        "key",
        "state",
        "created",
        "last used",
    ];
    assert_eq!(rows[0], titles);
    let prefix = format!("{}…", &secret[..8]);
    assert_eq!(
        rows[1][..7],
        ["1", "me", "business", "1000", "100000", &prefix, "active"]
    );
    assert_eq!(rows[2][..5], ["2", "other", "pro", "300", "10000"]);
    assert_eq!(rows[2][8], "never");
    let list = json_of(keys(&folder, "list --json"));
    assert_eq!((&list[0]["id"], &list[1]["id"]), (&json!(1), &json!(2)));
    assert!(!list.to_string().contains(&secret[8..]));
}

#[test]
fn show_tells_all_of_one_key() {
    let (folder, secret) = with_a_key();
    let rows = rows(keys(&folder, "show 1"));
    let prefix = format!("{}…", &secret[..8]);
    for row in [
        ["name", "me"],
        ["plan", "free"],
        ["used today", "0"],
        ["key", &prefix],
        ["state", "active"],
    ] {
        assert!(rows.iter().any(|other| *other == row), "{row:?} {rows:?}");
    }
    let mut key = json_of(keys(&folder, "show 1 --json"));
    let created = key.as_object_mut().unwrap().remove("createdAt").unwrap();
    assert!(created.as_str().unwrap().ends_with('Z'));
    let expected = json!({
        "id": 1, "name": "me", "plan": "free", "perMinute": 60, "perDay": 1000, "prefix": &secret[..8], "state": "active",
        "expiresAt": null, "revokedAt": null, "lastUsedAt": null, "bannedUntil": null, "oldSecretUntil": null
    });
    assert_eq!(key, expected);
}

#[test]
fn usage_shows_requests_by_day_of_one_key_or_of_all() {
    let (app, ..) = harness::App::start();
    let ids: Vec<_> = (0..2)
        .map(|_| {
            let (id, key) = app.issue(harness::enterprise(2, 9), None);
            crate::served(&key, 2);
            crate::refused(&key, 1);
            id
        })
        .collect();
    let database = app.database_url();
    drop_after(app, |folder| {
        let of = |words: &str| keys(folder, &format!("usage {words} --database {database}"));
        let row = |id: i64| {
            vec![
                "2026-11-16".to_owned(),
                id.to_string(),
                "test".into(),
                "2".into(),
                "1".into(),
            ]
        };
        let titles = ["day", "key", "name", "requests", "refused"]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(rows(of("")), [titles.clone(), row(ids[0].0), row(ids[1].0)]);
        assert_eq!(rows(of(&ids[1].to_string())), [titles, row(ids[1].0)]);
        let expected = json!([{"day": "2026-11-16", "keyId": ids[0].0, "name": "test", "requests": 2, "refused": 1}]);
        assert_eq!(json_of(of(&format!("{} --json", ids[0]))), expected);
    });
}

/// Stops a server, so that all it counted is stored, and keeps its data until `then` is done.
fn drop_after(mut app: harness::App, then: impl FnOnce(&TempDir)) {
    app.stop();
    then(&folder());
}

#[test]
fn usage_of_a_key_that_was_never_used_is_empty() {
    let (folder, _) = with_a_key();
    assert_eq!(json_of(keys(&folder, "usage 1 --json")), json!([]));
    assert_eq!(rows(keys(&folder, "usage")).len(), 1);
}

#[test]
fn set_plan_gives_another_plan() {
    let (folder, _) = with_a_key();
    assert_eq!(
        line(keys(&folder, "set-plan 1 pro")),
        "key 1 (me) has plan pro"
    );
    let key = json_of(keys(
        &folder,
        "set-plan 1 enterprise --per-minute 5 --per-day 6 --json",
    ));
    assert_eq!(
        (&key["plan"], &key["perMinute"], &key["perDay"]),
        (&json!("enterprise"), &json!(5), &json!(6))
    );
    let key = json_of(keys(&folder, "set-plan 1 free --json"));
    assert_eq!(
        (&key["perMinute"], &key["perDay"]),
        (&json!(60), &json!(1_000))
    );
}

#[test]
fn rotate_prints_the_new_secret_alone_on_stdout() {
    let (folder, first) = with_a_key();
    let output = keys(&folder, "rotate 1").exits(0);
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
        json_of(keys(&folder, "show 1 --json"))["prefix"],
        second[..8]
    );
    let key = json_of(keys(&folder, "rotate 1 --grace 2h --json"));
    is_secret(key["key"].as_str().unwrap());
    assert!(key["oldSecretUntil"].is_string());
    let output = keys(&folder, "rotate 1 --grace 0s").exits(0);
    assert!(
        output.stderr.contains("the old secret has ended"),
        "{output:?}"
    );
}

#[test]
fn revoke_ends_a_key_for_ever() {
    let (folder, _) = with_a_key();
    assert_eq!(line(keys(&folder, "revoke 1")), "key 1 (me) is revoked");
    let first = json_of(keys(&folder, "show 1 --json"));
    assert_eq!(first["state"], "revoked");
    let again = json_of(keys(&folder, "revoke 1 --json"));
    assert_eq!(
        again["revokedAt"], first["revokedAt"],
        "the first time counts"
    );
    assert!(
        keys(&folder, "rotate 1")
            .refuses(1)
            .contains("key 1 is revoked")
    );
}

#[test]
fn unban_says_that_the_key_is_not_banned() {
    let (folder, _) = with_a_key();
    assert_eq!(line(keys(&folder, "unban 1")), "key 1 (me) is not banned");
    assert_eq!(
        json_of(keys(&folder, "unban 1 --json"))["bannedUntil"],
        Value::Null
    );
}

#[test]
fn a_key_that_does_not_exist_is_told_in_one_line_with_exit_1() {
    let (folder, _) = with_a_key();
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
            keys(&folder, words).refuses(1),
            "animal-store: there is no key 9: see keys list",
            "{words}"
        );
    }
}

#[test]
fn a_missing_database_is_told_in_one_line_with_exit_1_and_none_is_created() {
    let folder = folder();
    for words in [
        "list",
        "show 1",
        "usage",
        "set-plan 1 pro",
        "rotate 1",
        "revoke 1",
        "unban 1",
    ] {
        assert!(
            keys(&folder, words)
                .refuses(1)
                .contains("there is no database at animal-store.db"),
            "{words}"
        );
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn wrong_usage_is_told_in_one_line_that_names_the_option_with_exit_2_and_nothing_is_created() {
    let folder = folder();
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
        let told = keys(&folder, words).refuses(2);
        assert!(told.contains(named), "{words}: {told}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn a_name_that_cannot_be_seen_is_refused() {
    let folder = folder();
    for name in ["", "  ", "a\tb", "a\nb"] {
        let told = run(
            PROGRAM,
            folder.path(),
            &["keys", "create", "--plan", "free", "--name", name],
        )
        .refuses(2);
        assert!(told.contains("--name"), "{told}");
    }
}

#[test]
fn an_expiry_in_no_time_is_refused() {
    let folder = folder();
    let told = keys(&folder, "create --name me --plan free --expires 0s").refuses(2);
    assert!(told.contains("--expires"), "{told}");
}

#[test]
fn a_key_that_has_expired_is_not_rotated() {
    let folder = folder();
    keys(&folder, "create --name me --plan free --expires 1s").exits(0);
    harness::eventually(std::time::Duration::from_secs(5), "it expires", || {
        keys(&folder, "show 1").stdout.contains("expired")
    });
    let told = keys(&folder, "rotate 1").refuses(1);
    assert!(told.contains("has expired"), "{told}");
}
