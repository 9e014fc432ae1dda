//! `pets import`: the files that it reads, and those that it rejects.

use std::fs;
use std::io::Write as _;
use std::process::{Command, Stdio};

use harness::Operator;
use serde_json::json;

use crate::PROGRAM;
use crate::import::{animals, count, lines, with_file};

#[test]
fn both_formats_are_imported_into_a_database_that_is_created() {
    for (name, content) in [
        (
            "a.ndjson",
            "\u{feff}{\"name\":\"Rex\",\"categoryId\":-1}\n\n  {\"status\":\"sold\",\"id\":99,\"name\":\"A, \\\"B\\\"\",\"categoryId\":2.0}",
        ),
        (
            "a.csv",
            "\u{feff}name,x,categoryId,status,id\r\nRex,,-1,,\r\n\r\n\"A, \"\"B\"\"\",1,2,sold,99\r\n",
        ),
    ] {
        let operator = Operator::without_data(PROGRAM);
        fs::write(operator.path().join(name), content).expect("a file");
        let line = operator.stdout_of(&format!("pets import {name}"));
        assert!(
            line.starts_with(&format!("imported 2 animals from {name} in ")),
            "{line}"
        );
        let wanted = json!([
            {"id": 1, "name": "Rex", "categoryId": -1, "status": "available"},
            {"id": 2, "name": "A, \"B\"", "categoryId": 2, "status": "sold"},
        ]);
        assert_eq!(animals(&operator), wanted, "{name}");
    }
}

#[test]
fn a_line_may_be_16_kib_long_without_its_end() {
    for end in ["\n", "\r\n"] {
        for (length, problem) in [
            (16_384, "line 2: not valid JSON"),
            (16_385, "line 1: more than 16384 bytes"),
        ] {
            let animal = r#"{"name":"Rex","categoryId":1}"#;
            let operator = with_file("a.ndjson", format!("{animal:length$}{end}bad{end}"));
            let line = operator.run_line("pets import a.ndjson").fails_with(1);
            assert!(line.contains(problem), "{line}");
        }
    }
}

#[test]
fn a_line_that_never_ends_is_reported_at_once() {
    let operator = Operator::new(PROGRAM);
    let endless = r#"echo '{"name":"Rex","categoryId":1}'; cat /dev/zero"#;
    let script =
        format!("{{ {endless}; }} | timeout 20 {PROGRAM} pets import - --database sqlite:b.db");
    let line = harness::run("sh", operator.path(), &["-c", &script]).fails_with(1);
    assert!(line.contains("line 2: more than 16384 bytes"), "{line}");
}

#[test]
fn a_record_of_csv_that_is_not_strictly_right_is_one_bad_line_and_the_next_ones_are_read() {
    let long = "x".repeat(10_000_000);
    let content = format!(
        "name,x,categoryId\n\"Rex,,1\nTom,,2\n\"Ada\"x,,3\nKit,,4,\nMax,\"a\nb\",5\nZoe,{long},6\nBen,\"{long}\nIda,,7\nEve \"x\",,8\n"
    );
    let operator = with_file("a.csv", content);
    let output = operator.run_line("pets import a.csv --skip-bad").exits(0);
    let not_closed = "a quote is not closed: close it";
    for (line, (number, problem)) in output.stderr.lines().zip([
        (2, not_closed),
        (
            4,
            "text after a closing quote: put the whole field in quotes",
        ),
        (
            5,
            "more fields than the header line: put a field with a comma in quotes",
        ),
        (6, not_closed),
        (7, "a quote in a field without quotes"),
        (8, "more than 16384 bytes"),
        (9, "more than 16384 bytes"),
        (
            11,
            "a quote in a field without quotes: put the whole field in quotes",
        ),
    ]) {
        assert!(
            line.starts_with(&format!("line {number}: {problem}")),
            "{line}"
        );
    }
    assert_eq!(output.stderr.lines().count(), 8, "{}", output.stderr);
    let names = animals(&operator);
    let names: Vec<_> = names
        .as_array()
        .expect("an array")
        .iter()
        .map(|pet| &pet["name"])
        .collect();
    assert_eq!(names, ["Tom", "Ida"]);
}

#[test]
fn compressed_data_is_not_read_from_a_pipe_and_the_message_says_what_to_do() {
    let operator = Operator::new(PROGRAM);
    let mut import = harness::command(PROGRAM)
        .args(["pets", "import", "-", "--database", "sqlite:b.db"])
        .current_dir(operator.path())
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut input = import.stdin.take().expect("a pipe");
    // In two parts, as a pipe may deliver it.
    for part in [[0x1f], [0x8b]] {
        input.write_all(&part).expect("it reads");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    drop(input);
    let output = import.wait_with_output().expect("an end");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(
        String::from_utf8_lossy(&output.stderr),
        "animal-store: cannot import standard input: it is compressed with gzip: decompress it first, or use a file name that ends in .gz\n"
    );
}

#[test]
fn a_file_of_gzip_may_be_padded_with_zeros() {
    let operator = with_file("a.ndjson", lines(3));
    let gzip = Command::new("gzip")
        .arg("a.ndjson")
        .current_dir(operator.path())
        .status();
    assert!(gzip.expect("gzip runs").success());
    let path = operator.path().join("a.ndjson.gz");
    let mut file = fs::read(&path).expect("a file");
    file.resize(10_240, 0);
    fs::write(&path, file).expect("a file");
    operator.stdout_of("pets import a.ndjson.gz");
    assert_eq!(count(&operator), "3");
}

#[test]
fn a_file_of_zstd_may_begin_with_a_frame_that_is_skipped() {
    let operator = with_file("a.ndjson", lines(3));
    let zstd = Command::new("zstd")
        .args(["-q", "a.ndjson"])
        .current_dir(operator.path())
        .status();
    assert!(zstd.expect("zstd runs").success());
    let path = operator.path().join("a.ndjson.zst");
    let frame = fs::read(&path).expect("a file");
    let skipped = [0x50, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 7, 7];
    fs::write(&path, [&skipped[..], &frame].concat()).expect("a file");
    operator.stdout_of("pets import a.ndjson.zst");
    assert_eq!(count(&operator), "3");
}

#[test]
fn a_file_that_cannot_be_imported_is_one_line_and_leaves_nothing() {
    let long = format!(
        "{{\"name\":\"{}\",\"categoryId\":1}}\n",
        "x".repeat(10_000_000)
    );
    let long_csv = format!("name,categoryId\nRex,1\n\"{}\n", "x".repeat(10_000_000));
    let good = lines(2);
    let with = |line: &[u8]| [good.as_bytes(), line].concat();
    let gzip_magic = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3];
    let zstd_magic = [0x28, 0xb5, 0x2f, 0xfd, 0, 1, 2, 3];
    for (name, content, code, problem) in [
        (
            "a.txt",
            good.as_bytes().to_vec(),
            2,
            "the format of a.txt is unknown: use --format",
        ),
        (
            "a.ndjson.gz",
            good.as_bytes().to_vec(),
            1,
            "not compressed with gzip, although its name says so",
        ),
        (
            "a.ndjson.zst",
            good.as_bytes().to_vec(),
            1,
            "not compressed with zstd, although its name says so",
        ),
        ("a.ndjson.gz", Vec::new(), 1, "not compressed with gzip"),
        (
            "a.ndjson.gz",
            gzip_magic.to_vec(),
            1,
            "cannot be decompressed: incomplete deflate stream",
        ),
        (
            "a.ndjson.zst",
            zstd_magic.to_vec(),
            1,
            "cannot be decompressed: unexpected end of file",
        ),
        (
            "a.ndjson",
            gzip_magic.to_vec(),
            1,
            "compressed with gzip: its name must end in .gz",
        ),
        (
            "a.csv",
            zstd_magic.to_vec(),
            1,
            "compressed with zstd: its name must end in .zst",
        ),
        (
            "a.csv",
            good.as_bytes().to_vec(),
            1,
            "the header line must have columns, as in id,name,categoryId,status: a quote in a field",
        ),
        (
            "a.csv",
            b"Rex,1,sold\nTom,2,sold\n".to_vec(),
            1,
            "must have a column name",
        ),
        (
            "a.csv",
            Vec::new(),
            1,
            "the header line must have a column name",
        ),
        (
            "a.csv",
            b"name,name,categoryId\n".to_vec(),
            1,
            "has the column name twice",
        ),
        (
            "a.csv",
            b"name,categoryId\nRex\n".to_vec(),
            1,
            "line 2: fewer fields than the header",
        ),
        (
            "a.csv",
            b"name,categoryId\nRex,1,2\n".to_vec(),
            1,
            "line 2: more fields than the header",
        ),
        (
            "a.ndjson",
            b"name,categoryId\nRex,1\n".to_vec(),
            1,
            "line 1: not valid JSON",
        ),
        ("a.ndjson", with(b"[1]\n"), 1, "line 3: not a JSON object"),
        (
            "a.ndjson",
            with(long.as_bytes()),
            1,
            "line 3: more than 16384 bytes",
        ),
        (
            "a.csv",
            long_csv.into_bytes(),
            1,
            "line 3: more than 16384 bytes",
        ),
        (
            "a.ndjson",
            with(b"{\"name\":\"\xff\",\"categoryId\":1}"),
            1,
            "line 3: not valid UTF-8",
        ),
        (
            "a.csv",
            b"name,categoryId\n\xff,1\n".to_vec(),
            1,
            "line 2: not valid UTF-8",
        ),
    ] {
        let operator = with_file(name, &content);
        let line = operator.run(&["pets", "import", name]).fails_with(code);
        assert!(line.contains(problem), "{name}: {line}");
        assert!(line.len() < 300, "{line}");
        assert_eq!(count(&operator), "0", "{name}: {problem}");
    }
    let operator = Operator::new(PROGRAM);
    let line = operator.run_line("pets import missing.csv").fails_with(1);
    assert!(
        line.contains("cannot import missing.csv: No such file"),
        "{line}"
    );
    if std::env::var_os("ANIMAL_STORE_TEST_POSTGRES").is_none() {
        let args = "pets import animals.db --format csv";
        let line = operator.run_line(args).fails_with(2);
        assert!(line.contains("belongs to the database itself"), "{line}");
    }
    operator
        .run_line("pets import a.csv --format xml")
        .fails_with(2);
    operator
        .run_line("pets import a.csv --verbose")
        .fails_with(2);
}
