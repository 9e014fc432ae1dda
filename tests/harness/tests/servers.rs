//! Tests `with-servers`. Because it has a test, Cargo compiles it together with all other tests, with the same features.

use std::process::Command;

#[test]
fn a_command_gets_the_addresses_of_both_servers_and_its_failure_is_passed_on() {
    let succeeds = |script: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_with-servers"));
        let status = command.args(["sh", "-c", script]).status();
        status.expect("it runs").success()
    };
    let addresses = "echo $ANIMAL_STORE_TEST_POSTGRES $ANIMAL_STORE_TEST_REDIS";
    assert!(succeeds(&format!(
        "{addresses} | grep -q '^postgres://.* redis://.'"
    )));
    assert!(!succeeds("exit 3"));
}
