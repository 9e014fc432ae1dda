//! Files and links that somebody else puts where a command writes.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use harness::{Process, eventually};
use rusqlite::Connection;
use serde_json::json;
use tempfile::TempDir;

use crate::calls::names;
use crate::{FREE_PORTS, PROGRAM, large_key, logged, run};

/// Runs a command with these options of strace.
fn traced(folder: &Path, options: &[&str], command: &[&str]) -> harness::Output {
    let args = [
        &["-f", "-qq", "-o", "/dev/null"],
        options,
        &[PROGRAM],
        command,
    ]
    .concat();
    harness::run("strace", folder, &args)
}

#[test]
fn a_file_that_somebody_creates_meanwhile_gives_nobody_access_to_an_export() {
    for force in [&[][..], &["--force"]] {
        let folder = TempDir::new().expect("a folder");
        run(folder.path(), &[], &["migrate"]).exits(0);
        let target = folder.path().join("out.csv");
        // There is time to create the file, and then to look at what is not complete yet.
        let slow = [
            "-e",
            "inject=flock:delay_exit=1000000",
            "-e",
            "inject=fsync:delay_enter=1000000",
        ];
        let export = [&["pets", "export", "out.csv"], force].concat();
        std::thread::scope(|scope| {
            let export = scope.spawn(|| traced(folder.path(), &slow, &export));
            let unfinished = || {
                let mut names = names(folder.path()).into_iter();
                names.find(|name| name.starts_with("out.csv.new-"))
            };
            eventually(Duration::from_secs(20), "it has begun", || {
                unfinished().is_some()
            });
            fs::write(&target, "").expect("a file");
            fs::set_permissions(&target, Permissions::from_mode(0o666)).expect("a mode");
            let mut seen = 0;
            while let Some(name) = unfinished() {
                if let Ok(file) = fs::metadata(folder.path().join(name)) {
                    assert_eq!(file.mode() & 0o777, 0o600);
                    seen += 1;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
            assert!(seen > 20, "{seen}");
            export
                .join()
                .expect("an end")
                .exits(if force.is_empty() { 2 } else { 0 });
        });
    }
}

#[test]
fn a_link_that_the_kernel_does_not_follow_is_not_followed() {
    let folder = TempDir::new().expect("a folder");
    run(folder.path(), &[], &["migrate"]).exits(0);
    let (link, victim) = (folder.path().join("out.csv"), folder.path().join("victim"));
    fs::write(&victim, "precious").expect("a file");
    symlink("victim", &link).expect("a link");
    let link = link.to_str().expect("text");
    // As for a link of another user in a folder such as /tmp.
    let refused = ["-P", link, "-e", "inject=statx:error=EACCES"];
    for command in [&["pets", "export"][..], &["backup"]] {
        let command = [command, &[link, "--force"]].concat();
        let output = traced(folder.path(), &refused, &command);
        assert_eq!(output.code, Some(1), "{output:?}");
        assert!(output.stderr.contains("Permission denied"), "{output:?}");
        assert_eq!(fs::read_to_string(&victim).expect("a file"), "precious");
    }
}

#[test]
fn a_link_in_the_place_of_a_lock_file_is_not_followed() {
    let folder = TempDir::new().expect("a folder");
    run(folder.path(), &[], &["migrate"]).exits(0);
    symlink("victim", folder.path().join("animal-store.db.lock")).expect("a link");
    let line = run(folder.path(), &[], &[&["serve"], &FREE_PORTS[..]].concat()).fails_with(1);
    let problem = "cannot lock it: Too many levels of symbolic links";
    assert!(line.contains(problem), "{line}");
    assert!(!folder.path().join("victim").exists());
}

#[test]
fn a_trigger_that_somebody_adds_cannot_use_virtual_tables() {
    let folder = TempDir::new().expect("a folder");
    let key = large_key(folder.path());
    let file = Connection::open(folder.path().join("animal-store.db")).expect("a file");
    let trigger = "CREATE TRIGGER spy AFTER INSERT ON pets BEGIN
                   SELECT file FROM pragma_database_list; END";
    file.execute_batch(trigger).expect("a trigger");
    let process = Process::serve(PROGRAM, folder.path(), &[]);
    let created = process
        .client(Some(&key))
        .create(&json!({"name": "Rex", "categoryId": 1}));
    assert_eq!(created.status, 500, "{created}");
    logged(&process, &["unsafe use of virtual table"]);
}
