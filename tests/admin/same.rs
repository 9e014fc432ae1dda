//! Results are those of the commands with `--json`: the same members, with the same values where both read the same thing.

use harness::{Client, Operator};
use serde_json::{Value, json};

use crate::{PROGRAM, TOKEN, post};

/// The result of a command.
fn json_of(operator: &Operator, args: &str) -> Value {
    let output = operator.run_line(&format!("{args} --json")).exits(0);
    serde_json::from_str(&output.stdout).expect("JSON")
}

/// The names of a result's members.
fn members(value: &Value) -> Vec<&String> {
    value.as_object().expect("an object").keys().collect()
}

/// Panics unless every item of the command's list is in that of the API, which may have more members.
#[track_caller]
fn contains(list: &Value, command: &Value) {
    let (list, command) = (list.as_array(), command.as_array().expect("a list"));
    let list = list.expect("a list");
    assert_eq!(list.len(), command.len());
    for (item, expected) in list.iter().zip(command) {
        for (name, value) in expected.as_object().expect("an object") {
            assert_eq!(item.get(name), Some(value), "{name} of {item}");
        }
    }
}

#[test]
fn results_are_those_of_the_commands_with_json() {
    let commands = Operator::new(PROGRAM);
    let server = commands.serve(&["--no-first-key", "--admin-token", TOKEN]);
    let api = Client::new(server.admin, Some(TOKEN.into()));
    let act = |path: &str| api.request("POST", path).send().json();

    // Each change of key 1 through the API is made to key 2 with a command.
    let created = post(&api, "/api/keys", &json!({"name": "a", "plan": "free"})).json();
    let expected = json_of(&commands, "keys create --name a --plan free");
    assert_eq!(members(&created), members(&expected));
    let client = server.client(created["key"].as_str());
    client.create_many(4);
    for (action, body, command) in [
        ("plan", json!({"plan": "pro"}), "set-plan 2 pro"),
        ("rotate", json!({}), "rotate 2"),
        ("unban", json!({}), "unban 2"),
        ("revoke", json!({}), "revoke 2"),
    ] {
        let changed = post(&api, &format!("/api/keys/1/{action}"), &body).json();
        let expected = json_of(&commands, &format!("keys {command}"));
        assert_eq!(members(&changed), members(&expected), "{action}");
    }
    crate::eventually("the usage is stored", || {
        json_of(&commands, "keys usage 1")[0]["requests"] == 4
    });
    contains(
        &api.get("/api/keys").json(),
        &json_of(&commands, "keys list"),
    );
    let shown = json!([api.get("/api/keys/1").json()]);
    contains(&shown, &json!([json_of(&commands, "keys show 1")]));
    contains(&shown[0]["usage"], &json_of(&commands, "keys usage 1"));

    for (body, command) in [
        (json!({"petId": 1}), "orders place --pet 2"),
        (
            json!({"petId": 3, "shipDate": "2999-12-24"}),
            "orders place --pet 4 --ship-date 2999-12-24",
        ),
    ] {
        let placed = post(&api, "/api/orders", &body).json();
        assert_eq!(members(&placed), members(&json_of(&commands, command)));
    }
    let completed = act("/api/orders/1/complete");
    let expected = json_of(&commands, "orders complete 2");
    assert_eq!(members(&completed), members(&expected));
    let cancelled = act("/api/orders/3/cancel");
    let expected = json_of(&commands, "orders cancel 4");
    assert_eq!(members(&cancelled), members(&expected));
    let listed = api.get("/api/orders").json();
    assert_eq!(listed[3]["state"], "cancelled", "{listed}");
    assert_eq!(listed, json_of(&commands, "orders list"));

    let body = json!({"status": "sold"});
    let set = post(&api, "/api/pets/3/status", &body).json();
    let expected = json_of(&commands, "pets set-status 4 sold");
    assert_eq!(members(&set), members(&expected));
    assert_eq!(api.get("/api/pets").json(), json_of(&commands, "pets list"));
    let pet = api.get("/api/pets/1").json();
    assert_eq!(pet, json_of(&commands, "pets show 1"));
}
