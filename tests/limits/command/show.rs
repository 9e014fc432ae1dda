//! `keys list`, `show` and `usage`.

use animal_store::clock::Clock;
use harness::Operator;
use serde_json::json;

use super::{json_of, keys, line, operator, rows, with_a_key};

/// The lines that a command shows on a terminal of this many columns; none is wider.
fn on_terminal(operator: &harness::Operator, columns: u16, args: &str) -> Vec<String> {
    let (code, shown) = operator.on_terminal(columns, &format!("keys {args}"), "");
    assert_eq!(code, Some(0), "{shown}");
    for line in shown.lines() {
        let width = line.chars().count();
        assert!(width <= columns.into(), "{width} columns: {line}");
    }
    shown.lines().map(str::to_owned).collect()
}

#[test]
fn tables_fit_the_terminal_and_lose_columns_before_they_lose_rows() {
    let operator = super::operator();
    let long = "the mobile application of the shelter in Bern ".repeat(2);
    let long = long.trim();
    for (name, plan) in [
        ("me", &["free"][..]),
        (
            long,
            &[
                "enterprise",
                "--per-minute",
                "1000000000",
                "--per-day",
                "1000000000",
            ],
        ),
    ] {
        let args = ["keys", "create", "--name", name, "--plan"];
        operator.run(&[&args[..], plan].concat()).exits(0);
    }
    let titles = |lines: &[String]| -> Vec<String> {
        let titles = lines[1]
            .split('┆')
            .map(|title| title.trim_matches(['│', ' ']));
        titles.map(str::to_owned).collect()
    };
    for (columns, wanted) in [
        (
            120,
            &[
                "id",
                "name",
                "plan",
                "/min",
                "/day",
                "prefix",
                "state",
                "created",
                "last used",
            ][..],
        ),
        (80, &["id", "name", "plan", "/min", "/day", "state"]),
        (60, &["id", "name", "plan", "/min", "state"]),
        (50, &["id", "name", "plan", "state"]),
    ] {
        // The names alone would take more than 100 columns.
        let lines = on_terminal(&operator, columns, "list");
        assert_eq!(titles(&lines), wanted, "{columns}: {lines:#?}");
        assert_eq!(lines.len(), 6, "a line for each key: {lines:#?}");
        assert!(
            lines[4].contains("the mobile ") && lines[4].contains('…'),
            "{lines:#?}"
        );
    }
    // One key is shown whole.
    let shown = on_terminal(&operator, 80, "show 2").join("\n");
    assert_eq!(shown.matches("shelter").count(), 2, "{shown}");
    on_terminal(&operator, 80, "usage");
    // A script gets all of it, whatever the width.
    assert_eq!(rows(keys(&operator, "list"))[0].len(), 9);
}

#[test]
fn list_shows_every_key_by_id_and_never_a_secret() {
    let (operator, secret) = with_a_key();
    line(keys(&operator, "create --name other --plan pro"));
    line(keys(&operator, "set-plan 1 business"));
    let rows = rows(keys(&operator, "list"));
    let titles = [
        "id",
        "name",
        "plan",
        "per minute",
        "per day",
        "prefix",
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
    let list = json_of(keys(&operator, "list --json"));
    assert_eq!((&list[0]["id"], &list[1]["id"]), (&json!(1), &json!(2)));
    assert!(!list.to_string().contains(&secret[8..]));
}

#[test]
fn show_prints_everything_about_one_key() {
    let (operator, secret) = with_a_key();
    let rows = rows(keys(&operator, "show 1"));
    let prefix = format!("{}…", &secret[..8]);
    for row in [
        ["name", "me"],
        ["plan", "free"],
        ["used today", "0"],
        ["prefix", &prefix],
        ["state", "active"],
    ] {
        assert!(rows.iter().any(|other| *other == row), "{row:?} {rows:?}");
    }
    let mut key = json_of(keys(&operator, "show 1 --json"));
    let created = key.as_object_mut().unwrap().remove("createdAt").unwrap();
    assert!(created.as_str().unwrap().ends_with('Z'));
    let expected = json!({
        "id": 1, "name": "me", "plan": "free", "perMinute": 60, "perDay": 1000, "prefix": &secret[..8], "state": "active",
        "usedToday": 0, "expiresAt": null, "revokedAt": null, "lastUsedAt": null, "bannedUntil": null, "oldSecretUntil": null
    });
    assert_eq!(key, expected);
}

#[test]
fn show_counts_the_requests_of_today_even_if_a_later_day_has_usage() {
    let (operator, _) = with_a_key();
    let today = Clock::system().now().day().to_string();
    for (day, requests) in [("2026-01-01", 1), (&*today, 7), ("9999-12-31", 3)] {
        let insert = format!("INSERT INTO usage_by_day VALUES ('{day}', 1, {requests}, 0)");
        operator.sql_client().change(&insert).expect("usage");
    }
    let rows = rows(keys(&operator, "show 1"));
    assert!(
        rows.iter().any(|row| *row == ["used today", "7"]),
        "{rows:?}"
    );
    assert_eq!(json_of(keys(&operator, "show 1 --json"))["usedToday"], 7);
}

#[test]
fn usage_shows_requests_by_day_of_one_key_or_of_all() {
    let (app, ..) = harness::App::start();
    let ids: Vec<_> = (0..2)
        .map(|_| {
            let (id, key) = app.issue(harness::enterprise(2, 9), None);
            crate::served(&key, 2);
            crate::rejected(&key, 1);
            id
        })
        .collect();
    let database = app.database_url();
    drop_after(app, |operator| {
        let of = |args: &str| keys(operator, &format!("usage {args} --database {database}"));
        let row = |id: i64| {
            vec![
                "2026-11-16".to_owned(),
                id.to_string(),
                "test".into(),
                "2".into(),
                "1".into(),
            ]
        };
        let titles = ["day", "key", "name", "requests", "rejected"]
            .map(str::to_owned)
            .to_vec();
        assert_eq!(rows(of("")), [titles.clone(), row(ids[0].0), row(ids[1].0)]);
        assert_eq!(rows(of(&ids[1].to_string())), [titles, row(ids[1].0)]);
        let expected = json!([{"day": "2026-11-16", "keyId": ids[0].0, "name": "test", "requests": 2, "refused": 1}]);
        assert_eq!(json_of(of(&format!("{} --json", ids[0]))), expected);
    });
}

/// Stops a server, so that all usage is stored, and keeps its data until `then` returns.
fn drop_after(mut app: harness::App, then: impl FnOnce(&Operator)) {
    app.stop();
    then(&operator());
}

#[test]
fn usage_of_a_key_that_was_never_used_is_empty() {
    let (operator, _) = with_a_key();
    assert_eq!(json_of(keys(&operator, "usage 1 --json")), json!([]));
    assert_eq!(rows(keys(&operator, "usage")).len(), 1);
}
