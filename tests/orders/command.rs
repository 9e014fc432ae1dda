//! `orders` and `pets set-status`, as an operator types them.

use harness::Operator;
use serde_json::{Value, json};

use crate::PROGRAM;

/// An operator, and three available animals.
fn operator() -> Operator {
    let operator = Operator::new(PROGRAM);
    operator
        .run_line("keys create --name a --plan free")
        .exits(0);
    let data = operator.sql_client();
    (0..3).for_each(|_| data.add_pet("a", 1, "available"));
    operator
}

fn status(operator: &Operator, pet: i64) -> String {
    let query = format!("SELECT status FROM pets WHERE id = {pet}");
    operator.sql_client().query(&query)[0][0].clone()
}

#[test]
fn each_command_reports_what_it_did_in_one_line() {
    let operator = operator();
    assert_eq!(
        operator.stdout_of("orders place --pet 1"),
        "order 1 is placed: animal 1 is pending"
    );
    assert_eq!(status(&operator, 1), "pending");
    assert_eq!(
        operator.stdout_of("orders complete 1"),
        "order 1 is complete: animal 1 is sold"
    );
    assert_eq!(status(&operator, 1), "sold");
    assert_eq!(
        operator.stdout_of("orders place --pet 2 --ship-date 2999-12-24"),
        "order 2 is placed: animal 2 is pending"
    );
    assert_eq!(
        operator.stdout_of("orders cancel 2"),
        "order 2 is cancelled: animal 2 is available"
    );
    assert_eq!(status(&operator, 2), "available");
    assert_eq!(
        operator.stdout_of("pets set-status 1 available"),
        "animal 1 is available (was sold)"
    );
    assert_eq!(
        operator.stdout_of("orders place --pet 1"),
        "order 3 is placed: animal 1 is pending"
    );
    let list = "id\tanimal\tship date\tstate\n1\t1\tunknown\tcomplete\n2\t2\t2999-12-24T00:00:00Z\tcancelled\n3\t1\tunknown\topen";
    assert_eq!(operator.stdout_of("orders list"), list);
}

#[test]
fn with_json_a_script_gets_the_same() {
    let operator = operator();
    let json = |args: &str| serde_json::from_str::<Value>(&operator.stdout_of(args)).expect("JSON");
    let placed = json!({"id": 1, "petId": 1, "quantity": 1, "shipDate": "2999-12-24T18:00:00Z", "complete": false, "state": "open"});
    assert_eq!(
        json("orders place --pet 1 --ship-date 2999-12-24T18:00:00Z --json"),
        placed
    );
    assert_eq!(json("orders list --json"), json!([placed]));
    assert_eq!(json("orders complete 1 --json")["state"], "complete");
    let set = json!({"id": 1, "status": "pending", "before": "sold", "cancelledOrder": null});
    assert_eq!(json("pets set-status 1 pending --json"), set);
    assert_eq!(json("orders place --pet 2 --json")["id"], 2);
    let forced = json!({"id": 2, "status": "sold", "before": "pending", "cancelledOrder": 2});
    assert_eq!(json("pets set-status 2 sold --force --json"), forced);
    assert_eq!(json("orders list --json")[1]["state"], "cancelled");
}

#[test]
fn an_action_that_is_not_allowed_fails_with_one_line_and_exit_1_and_changes_nothing() {
    let operator = operator();
    operator.stdout_of("orders place --pet 1");
    operator.stdout_of("orders complete 1");
    operator.stdout_of("orders place --pet 2");
    operator.stdout_of("orders place --pet 3");
    operator.stdout_of("orders cancel 3");
    let before = operator.stdout_of("orders list");
    for (args, line) in [
        (
            "orders place --pet 99",
            "unknown animal 99: run `animal-store pets list` to see all animals",
        ),
        (
            "orders place --pet 1",
            "only an available animal can be ordered, and this one is sold",
        ),
        (
            "orders place --pet 2",
            "only an available animal can be ordered, and this one is pending",
        ),
        (
            "orders place --pet 3 --ship-date 2001-01-01",
            "the ship date 2001-01-01T00:00:00Z is in the past",
        ),
        (
            "orders complete 99",
            "unknown order 99: run `animal-store orders list` to see all orders",
        ),
        ("orders complete 1", "the order is already complete"),
        ("orders complete 3", "the order is already cancelled"),
        (
            "orders cancel 99",
            "unknown order 99: run `animal-store orders list` to see all orders",
        ),
        ("orders cancel 1", "the order is already complete"),
        ("orders cancel 3", "the order is already cancelled"),
        (
            "pets set-status 99 sold",
            "unknown animal 99: run `animal-store pets list` to see all animals",
        ),
        (
            "pets set-status 2 sold",
            "animal 2 has an open order: run `animal-store orders complete 2` or `animal-store orders cancel 2`, or use --force, which cancels it",
        ),
    ] {
        assert_eq!(
            operator.run_line(args).fails_with(1),
            format!("animal-store: {line}"),
            "{args}"
        );
    }
    assert_eq!(operator.stdout_of("orders list"), before);
    assert_eq!(
        [1, 2, 3].map(|pet| status(&operator, pet)),
        ["sold", "pending", "available"]
    );
}

#[test]
fn a_status_that_agrees_with_the_open_order_is_accepted() {
    let operator = operator();
    operator.stdout_of("orders place --pet 1");
    assert_eq!(
        operator.stdout_of("pets set-status 1 pending"),
        "animal 1 is pending (was pending)"
    );
    assert_eq!(
        operator.stdout_of("pets set-status 1 pending --force"),
        "animal 1 is pending (was pending)"
    );
    assert_eq!(
        operator.stdout_of("pets set-status 1 available --force"),
        "animal 1 is available (was pending); order 1 is cancelled"
    );
    operator.run_line("orders complete 1").fails_with(1);
}

#[test]
fn a_usage_error_is_one_line_that_names_the_option_and_exit_2() {
    let operator = operator();
    for (args, part) in [
        ("orders place", "--pet"),
        ("orders place --pet x", "--pet"),
        (
            "orders place --pet 1 --ship-date tomorrow",
            "must be a date, or a date and time",
        ),
        ("orders place --pet 1 --ship-date 2026-02-30", "--ship-date"),
        (
            "orders place --pet 1 --ship-date 9999-12-31",
            "at most 9999-12-30T22:00:00Z",
        ),
        ("orders complete", "<ID>"),
        ("orders cancel one", "<ID>"),
        ("pets set-status 1 lost", "use available, pending or sold"),
        ("pets set-status 1", "<STATUS>"),
        ("orders", "subcommand"),
    ] {
        let line = operator.run_line(args).fails_with(2);
        assert!(line.contains(part), "{args}: {line}");
    }
}
