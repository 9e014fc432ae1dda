//! `pets list`, `show` and `remove`, as an operator types them, and what clients of a running server see of a removal.

use animal_store::pet::PetId;
use harness::{App, Operator, START, eventually, propagation_time};
use serde_json::{Value, json};

use crate::PROGRAM;

/// An operator with four animals; the third is pending, the fourth sold.
fn operator() -> Operator {
    let operator = Operator::new(PROGRAM);
    let data = operator.sql_client();
    for (name, status) in [
        ("Rex", "available"),
        ("Tom", "available"),
        ("Ada", "pending"),
        ("Kit", "sold"),
    ] {
        data.add_pet(name, -7, status);
    }
    operator
}

fn json_of(operator: &Operator, args: &str) -> Value {
    serde_json::from_str(&operator.stdout_of(args)).expect("JSON")
}

fn ids(operator: &Operator, args: &str) -> Vec<i64> {
    let list = json_of(operator, args);
    let rows = list.as_array().expect("an array").iter();
    rows.map(|row| row["id"].as_i64().expect("an ID")).collect()
}

#[test]
fn animals_are_listed_by_status_and_up_to_a_limit() {
    let operator = operator();
    assert_eq!(
        operator.stdout_of("pets list"),
        "id\tname\tcategory\tstatus\n1\tRex\t-7\tavailable\n2\tTom\t-7\tavailable\n3\tAda\t-7\tpending\n4\tKit\t-7\tsold"
    );
    for (args, wanted) in [
        ("pets list --json", vec![1, 2, 3, 4]),
        ("pets list --json --limit 3", vec![1, 2, 3]),
        ("pets list --json --status available", vec![1, 2]),
        ("pets list --json --status available --limit 1", vec![1]),
        ("pets list --json --status sold", vec![4]),
    ] {
        assert_eq!(ids(&operator, args), wanted, "{args}");
    }
    let (code, shown) = operator.on_terminal(60, "pets list --limit 1", "");
    assert_eq!(code, Some(0), "{shown}");
    assert!(
        shown.contains("│ 1  ┆ Rex  ┆ -7       ┆ available │"),
        "{shown}"
    );
}

#[test]
fn one_animal_is_shown_as_the_api_shows_it() {
    let operator = operator();
    let ada = json!({"id": 3, "name": "Ada", "categoryId": -7, "status": "pending"});
    assert_eq!(json_of(&operator, "pets show 3 --json"), ada);
    assert_eq!(
        operator.stdout_of("pets show 3"),
        "id\tname\tcategory\tstatus\n3\tAda\t-7\tpending"
    );
    assert_eq!(
        operator.run_line("pets show 5").fails_with(1),
        "animal-store: unknown animal 5: run `animal-store pets list` to see all animals"
    );
}

#[test]
fn orders_are_listed_by_state() {
    let operator = operator();
    for args in [
        "orders place --pet 1",
        "orders complete 1",
        "orders place --pet 2",
        "orders cancel 2",
        "orders place --pet 2",
    ] {
        operator.stdout_of(args);
    }
    for (args, wanted) in [
        ("orders list --json", vec![1, 2, 3]),
        ("orders list --json --state open", vec![3]),
        ("orders list --json --state complete", vec![1]),
        ("orders list --json --state cancelled", vec![2]),
        // The former name of `--state`, which is still accepted.
        ("orders list --json --status cancelled", vec![2]),
    ] {
        assert_eq!(ids(&operator, args), wanted, "{args}");
    }
    let line = operator.run_line("orders list --state lost").fails_with(2);
    assert!(line.contains("open, complete or cancelled"), "{line}");
}

#[test]
fn a_removal_is_confirmed_and_without_a_terminal_it_needs_yes() {
    let operator = operator();
    assert_eq!(
        operator.run_line("pets remove 1").fails_with(2),
        "animal-store: animal 1 (Rex) will be removed permanently: use --yes to confirm"
    );
    for reply in ["n\n", "\n"] {
        let (code, shown) = operator.on_terminal(80, "pets remove 1", reply);
        assert_eq!(code, Some(1), "{shown}");
        assert!(shown.contains("nothing was changed"), "{shown}");
    }
    assert_eq!(ids(&operator, "pets list --json"), [1, 2, 3, 4]);
    let (code, shown) = operator.on_terminal(80, "pets remove 1", "y\n");
    assert_eq!(code, Some(0), "{shown}");
    assert_eq!(
        operator.stdout_of("pets remove 2 --yes"),
        "animal 2 (Tom) is removed"
    );
    let kit =
        json!({"id": 4, "name": "Kit", "categoryId": -7, "status": "sold", "cancelledOrder": null});
    assert_eq!(json_of(&operator, "pets remove 4 --yes --json"), kit);
    assert_eq!(ids(&operator, "pets list --json"), [3]);
    assert_eq!(
        operator.run_line("pets remove 4 --yes").fails_with(1),
        "animal-store: unknown animal 4: run `animal-store pets list` to see all animals"
    );
}

#[test]
fn an_animal_with_an_open_order_is_removed_only_by_force_which_cancels_it() {
    let operator = operator();
    operator.stdout_of("orders place --pet 1");
    operator.stdout_of("orders complete 1");
    operator.stdout_of("pets set-status 1 available");
    operator.stdout_of("orders place --pet 1");
    assert_eq!(
        operator.run_line("pets remove 1 --yes").fails_with(1),
        "animal-store: animal 1 has an open order: run `animal-store orders complete 2` or `animal-store orders cancel 2`, or use --force, which cancels it"
    );
    assert_eq!(ids(&operator, "pets list --json"), [1, 2, 3, 4]);
    assert_eq!(
        operator.stdout_of("pets remove 1 --yes --force"),
        "animal 1 (Rex) is removed; order 2 is cancelled"
    );
    assert_eq!(
        operator.stdout_of("orders list"),
        "id\tanimal\tship date\tstate\n1\t1\tunknown\tcomplete\n2\t1\tunknown\tcancelled"
    );
    for (args, line) in [
        (
            "orders place --pet 1",
            "unknown animal 1: run `animal-store pets list` to see all animals",
        ),
        (
            "pets set-status 1 sold",
            "unknown animal 1: run `animal-store pets list` to see all animals",
        ),
        (
            "orders cancel 1",
            "cannot change order 1, which is complete: its animal 1 was removed",
        ),
        (
            "orders complete 2",
            "cannot change order 2, which is cancelled: its animal 1 was removed",
        ),
    ] {
        let rejected = operator.run_line(args).fails_with(1);
        assert_eq!(rejected, format!("animal-store: {line}"));
    }
}

#[test]
fn a_running_server_shows_a_removal_and_continues_with_the_next_id_and_replays_the_first_response()
{
    let (app, _, key) = App::start();
    let create = || {
        let rex = json!({"name": "Rex", "categoryId": 1});
        let request = key.request("POST", "/v1/pets").json(&rex);
        request.header("Idempotency-Key", "one").send()
    };
    key.create_many(30);
    let created = create();
    assert_eq!(created.json()["id"], 31);
    let store = app.second_store();
    let order = app.block_on(store.place_order(PetId(31), None, START));
    let order = order.expect("a store").expect("an order");
    let completed = app.block_on(store.complete_order(order.id, START));
    completed.expect("a store").expect("it completes");
    // So that all of it is in the cache.
    for target in ["/v1/pets/31", "/v1/pets?limit=20", "/v1/pets?limit=30"] {
        assert_eq!(key.get(target).status, 200);
    }
    for id in [31, 20] {
        let removed = app.block_on(store.remove_pet(PetId(id), false, START));
        removed.expect("a store").expect("it is removed");
    }
    eventually(propagation_time(), "the server follows", || {
        key.get("/v1/pets/31").status == 404
            && key.get("/v1/pets?limit=20").ids().last() == Some(&21)
            && key.get("/v1/pets?limit=30").next().is_none()
    });
    let orders = key.get("/v1/store/orders").json();
    assert_eq!(
        orders,
        json!([{"id": 1, "petId": 31, "quantity": 1, "complete": true}])
    );
    let again = create();
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.json(), created.json());
    let next = key.create(&json!({"name": "Tom", "categoryId": 1}));
    assert_eq!(next.json()["id"], 32, "its ID is not given out again");
}

#[test]
fn a_walk_continues_after_animals_that_are_removed_meanwhile() {
    let (app, _, key) = App::start();
    key.create_many(100);
    let store = app.second_store();
    let mut seen = Vec::new();
    let mut page = key.get("/v1/pets?limit=10");
    let mut removed = Vec::new();
    loop {
        seen.extend(page.ids());
        // The last one seen, whose ID is in the cursor, and one that follows.
        let last = *seen.last().expect("animals");
        for id in [last, last + 3].into_iter().filter(|id| *id <= 100) {
            let gone = app.block_on(store.remove_pet(PetId(id), false, START));
            gone.expect("a store").expect("it is removed");
            removed.push(id);
        }
        let Some(next) = page.next() else { break };
        page = key.follow(&next);
    }
    assert!(seen.is_sorted_by(|one, other| one < other), "{seen:?}");
    let stayed: Vec<i64> = (1..=100).filter(|id| !removed.contains(id)).collect();
    let of_those: Vec<i64> = seen
        .iter()
        .copied()
        .filter(|id| stayed.contains(id))
        .collect();
    assert_eq!(of_those, stayed);
}
