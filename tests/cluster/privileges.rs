//! A role that lacks a privilege: a server that could not create an animal, or store its usage, does not start.

use std::time::Duration;

use harness::{Postgres, Process, run};
use tempfile::TempDir;

use crate::{PROGRAM, rex};

/// What a server needs, with the table last.
const NEEDED: [&str; 10] = [
    "SELECT ON animal_store_format",
    "SELECT ON deployment",
    "SELECT ON orders",
    "SELECT, UPDATE ON counters",
    "SELECT, UPDATE ON revisions",
    "SELECT, INSERT ON pets",
    "SELECT, UPDATE ON api_keys",
    "SELECT, INSERT, UPDATE, DELETE ON usage_by_day, use_batches",
    "SELECT, INSERT, UPDATE, DELETE ON idempotency",
    "SELECT, INSERT, UPDATE, DELETE ON nodes",
];

#[test]
fn a_server_whose_role_lacks_a_privilege_exits_1_with_the_statement_that_grants_it() {
    let (postgres, folder) = (Postgres::start(), TempDir::new().expect("a folder"));
    let owner = postgres.create_database("shop");
    let psql = |sql: &str| postgres.psql("shop", sql);
    run(PROGRAM, folder.path(), &["migrate", "--database", &owner]).exits(0);
    let create = ["keys", "create", "--name", "a", "--plan", "business"];
    let create = [&create[..], &["--database", &owner]].concat();
    let key = run(PROGRAM, folder.path(), &create).exits(0).stdout;
    psql("CREATE ROLE clerk LOGIN; GRANT SELECT ON pets TO clerk");

    let clerk = owner.replace("animals@", "clerk@");
    let listen = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let serve = [&["serve", "--database", &clerk], &listen[..]].concat();
    let is_rejected = |grants: &[&str]| {
        let limited = [&["20", PROGRAM], &serve[..]].concat();
        let line = run("timeout", folder.path(), &limited).fails_with(1);
        let grants: Vec<_> = grants
            .iter()
            .map(|privilege| format!("GRANT {privilege} TO \"clerk\""))
            .collect();
        let message = format!("the role lacks privileges: run {}", grants.join("; "));
        assert!(line.ends_with(&message), "{line}");
    };
    // The role cannot read even the first table: the error lists that one first, then all others.
    let limited = [&["20", PROGRAM], &serve[..]].concat();
    let line = run("timeout", folder.path(), &limited).fails_with(1);
    let start = "the role lacks privileges: run GRANT SELECT ON animal_store_format TO \"clerk\"; GRANT SELECT ON deployment";
    assert!(line.contains(start), "{line}");
    assert!(
        line.ends_with("GRANT DELETE ON nodes TO \"clerk\""),
        "{line}"
    );
    // A command needs less.
    let list = ["keys", "list", "--database", &clerk];
    let line = run(PROGRAM, folder.path(), &list).fails_with(1);
    let end = "run GRANT SELECT ON animal_store_format TO \"clerk\"; GRANT SELECT ON revisions TO \"clerk\"";
    assert!(line.ends_with(end), "{line}");
    psql("GRANT SELECT ON ALL TABLES IN SCHEMA public TO clerk");
    run(PROGRAM, folder.path(), &list).exits(0);
    is_rejected(&[
        "UPDATE ON counters",
        "UPDATE ON revisions",
        "INSERT ON pets",
        "UPDATE ON api_keys",
        "INSERT ON idempotency",
        "UPDATE ON idempotency",
        "DELETE ON idempotency",
        "INSERT ON usage_by_day",
        "UPDATE ON usage_by_day",
        "DELETE ON usage_by_day",
        "INSERT ON use_batches",
        "UPDATE ON use_batches",
        "DELETE ON use_batches",
        "INSERT ON nodes",
        "UPDATE ON nodes",
        "DELETE ON nodes",
    ]);
    psql("REVOKE ALL ON ALL TABLES IN SCHEMA public FROM clerk");
    for privileges in NEEDED {
        psql(&format!("GRANT {privileges} TO clerk"));
    }
    psql("REVOKE DELETE ON idempotency FROM clerk");
    is_rejected(&["DELETE ON idempotency"]);
    psql("GRANT DELETE ON idempotency TO clerk");

    let mut server = Process::serve(PROGRAM, folder.path(), &serve[1..3]);
    let client = server.client(Some(key.trim_end()));
    for _ in 0..2 {
        let created = client
            .request("POST", "/v1/pets")
            .header("Idempotency-Key", "one")
            .json(&rex())
            .send();
        assert_eq!(created.status, 201, "{created}");
    }
    assert_eq!(client.get("/v1/store/orders").status, 200);

    // A privilege that is revoked meanwhile: the shutdown does not retry for ten seconds what cannot succeed.
    psql("REVOKE INSERT ON use_batches FROM clerk");
    assert_eq!(client.get("/v1/pets").status, 200);
    server.signal("TERM");
    assert_eq!(server.ends_within(Duration::from_secs(5)), Some(1));
    let log = server.log();
    let sweep_failed = log.contains("background task failed task=\"sweep\"");
    assert!(!sweep_failed, "{log}");
}

#[test]
fn a_role_that_cannot_see_the_schema_of_the_tables_gets_the_statement_that_changes_it() {
    let (postgres, folder) = (Postgres::start(), TempDir::new().expect("a folder"));
    let owner = postgres.create_database("shop");
    run(PROGRAM, folder.path(), &["migrate", "--database", &owner]).exits(0);
    let psql = |sql: &str| postgres.psql("shop", sql);
    psql("CREATE ROLE clerk LOGIN; REVOKE USAGE ON SCHEMA public FROM PUBLIC");
    let clerk = owner.replace("animals@", "clerk@");
    let fails = |command: &str, end: &str| {
        let args: Vec<_> = command.split(' ').chain(["--database", &clerk]).collect();
        let line = run(PROGRAM, folder.path(), &args).fails_with(1);
        assert!(line.ends_with(end), "{line}");
    };
    let grant = "GRANT USAGE ON SCHEMA public TO clerk";
    let serve = "serve --listen 127.0.0.1:0 --admin-listen 127.0.0.1:0";
    for command in [serve, &format!("{serve} --no-migrate"), "keys list"] {
        fails(command, &format!("the role lacks privileges: run {grant}"));
    }
    psql(grant);
    psql("ALTER ROLE clerk SET search_path = elsewhere");
    let set = "ALTER ROLE clerk SET search_path = public";
    let not_found = "the tables are in the schema public, which is not in the search_path";
    fails("keys list", &format!("{not_found}: run {set}"));
    psql(set);
    let select =
        "GRANT SELECT ON animal_store_format TO \"clerk\"; GRANT SELECT ON revisions TO \"clerk\"";
    fails("keys list", select);
}

#[test]
fn a_role_that_cannot_migrate_is_told_to_run_migrate_as_the_owner_of_the_tables() {
    let (postgres, folder) = (Postgres::start(), TempDir::new().expect("a folder"));
    let owner = postgres.create_database("shop");
    let migrate = |url: &str| run(PROGRAM, folder.path(), &["migrate", "--database", url]);
    migrate(&owner).exits(0);
    let older = "UPDATE animal_store_format SET format = 4; DROP INDEX orders_listed;
                 CREATE ROLE clerk LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO clerk";
    postgres.psql("shop", older);
    let clerk = owner.replace("animals@", "clerk@");
    let listen = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let serve = [&["20", PROGRAM, "serve", "--database", &clerk], &listen[..]].concat();
    let served = run("timeout", folder.path(), &serve);
    let (shown, current) = (
        owner.replace("animals@", ""),
        animal_store::store::FORMATS.1,
    );
    for rejected in [served, migrate(&clerk)] {
        assert_eq!(
            rejected.fails_with(1),
            format!(
                "animal-store: --database: cannot migrate {shown} from format 4 to {current} as this role (PostgreSQL: db error: ERROR: must be owner of table orders): run `animal-store migrate` with its URL as --database, as the owner of the tables"
            )
        );
    }
    migrate(&owner).exits(0);
}

#[test]
fn an_import_whose_role_may_not_create_temporary_tables_names_the_statement_that_grants_it() {
    let (postgres, folder) = (Postgres::start(), TempDir::new().expect("a folder"));
    let owner = postgres.create_database("shop");
    run(PROGRAM, folder.path(), &["migrate", "--database", &owner]).exits(0);
    let revoke = "CREATE ROLE clerk LOGIN; GRANT ALL ON ALL TABLES IN SCHEMA public TO clerk;
                  REVOKE TEMPORARY ON DATABASE shop FROM PUBLIC";
    postgres.psql("shop", revoke);
    std::fs::write(folder.path().join("a.csv"), "name,categoryId\nRex,1\n").expect("a file");
    let clerk = owner.replace("animals@", "clerk@");
    let import = ["pets", "import", "a.csv", "--database", &clerk];
    let line = run(PROGRAM, folder.path(), &import).fails_with(1);
    let grant = "GRANT TEMPORARY ON DATABASE shop TO clerk";
    let end = format!("the role lacks privileges: run {grant}");
    assert!(line.ends_with(&end), "{line}");
    postgres.psql("shop", grant);
    run(PROGRAM, folder.path(), &import).exits(0);
}
