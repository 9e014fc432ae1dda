//! `keys list` with very many keys.

use std::io::Read;
use std::process::{Command, Stdio};

use crate::{PROGRAM, folder, large_key};

/// How many keys there are.
const KEYS: usize = 100_000;

/// The most memory that a list may take, in kB: with all keys in memory it took 107 MB for 100,000.
const MOST: u64 = 48 * 1024;

#[test]
fn a_list_of_very_many_keys_is_printed_as_it_is_read() {
    let folder = folder();
    large_key(folder.path());
    let data = rusqlite::Connection::open(folder.path().join("animal-store.db")).expect("a file");
    data.execute_batch(&format!(
        "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < {KEYS})
         INSERT INTO api_keys (name, plan, prefix, hash, created_at)
         SELECT 'key ' || i, 'free', 'as_00000', randomblob(32), 1794700800000 FROM n"
    ))
    .expect("keys");
    drop(data);
    for words in [&["keys", "list", "--json"][..], &["keys", "list"]] {
        let mut list = Command::new(PROGRAM)
            .args(words)
            .current_dir(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it runs");
        let mut output = list.stdout.take().expect("a pipe");
        // So much of it that the command, which waits until the rest is read, has seen nearly all keys.
        let mut text = vec![0; KEYS * 60];
        output.read_exact(&mut text).expect("text");
        let status = std::fs::read_to_string(format!("/proc/{}/status", list.id())).expect("alive");
        output.read_to_end(&mut text).expect("the rest");
        assert!(list.wait().expect("an end").success());
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|peak| peak.trim().strip_suffix(" kB"));
        let peak: u64 = peak.expect("a peak").parse().expect("a number");
        println!("{words:?}: {peak} kB");
        assert!(peak < MOST, "{words:?}: {peak} kB");
        match words.len() {
            3 => {
                let keys: Vec<serde_json::Value> = serde_json::from_slice(&text).expect("an array");
                assert_eq!(keys.len(), KEYS);
                assert_eq!(keys[KEYS - 1]["id"], KEYS);
            }
            _ => assert_eq!(text.split(|byte| *byte == b'\n').count(), KEYS + 2),
        }
    }
}
