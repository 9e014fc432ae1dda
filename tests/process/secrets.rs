//! No secret is ever written: not to a log, a file of the database, an error or a metric, wherever a client puts it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use animal_store::key::Secret;
use harness::{Client, Process, Response};
use serde_json::json;
use tempfile::TempDir;

use crate::{PROGRAM, large_key, run};

/// The parts of a secret that do not occur by chance. The first eight characters of a key are not secret.
fn traces(secret: &str) -> [&str; 2] {
    let middle = secret.len() / 2;
    [&secret[8..middle + 4], &secret[middle..]]
}

#[track_caller]
fn is_clean(what: &str, bytes: &[u8], secrets: &[&str]) {
    for (number, secret) in secrets.iter().enumerate() {
        for trace in traces(secret) {
            let found = bytes
                .windows(trace.len())
                .any(|window| window == trace.as_bytes());
            assert!(!found, "{what} holds secret {number}");
        }
    }
}

/// Sends a secret in every place where a client could put it, right or wrong. Returns all responses.
fn send_everywhere(client: &Client, secret: &str) -> Vec<Response> {
    let good = json!({"name": "Rex", "categoryId": 1});
    let holder = client.with_key(Some(secret));
    let post = |client: &Client, body: &str| {
        let request = client
            .request("POST", "/v1/pets")
            .header("Content-Type", "application/json");
        request.body(body).send()
    };
    let mut responses = vec![
        holder.get("/v1/pets"),
        holder.get("/v1/nothing"),
        holder.create(&good),
        client.get(&format!("/v1/pets?api_key={secret}&limit={secret}")),
        client.get(&format!("/v1/pets?status={secret}")),
        client.get(&format!("/v1/pets?cursor={secret}")),
        client.get(&format!("/v1/pets/{secret}")),
        client.get(&format!("/v1/{secret}")),
        client.get(&format!("/{secret}")),
        client.get(&format!("/docs/{secret}")),
        client.request("POST", &format!("/v1/pets/{secret}")).send(),
        client.request(secret, "/v1/pets").send(),
        client
            .request("GET", "/v1/pets")
            .header("X-Request-Id", secret)
            .send(),
        client
            .request("GET", "/v1/pets")
            .header("X-Request-Id", &format!("Bearer {secret}"))
            .send(),
        client
            .request("GET", "/v1/pets")
            .header("Cookie", secret)
            .header("X-Api-Key", secret)
            .send(),
        client
            .request("GET", "/v1/pets")
            .header("X-Forwarded-For", secret)
            .send(),
        client
            .request("POST", "/v1/pets")
            .header("Idempotency-Key", secret)
            .json(&good)
            .send(),
        client
            .request("POST", "/v1/pets")
            .header("Idempotency-Key", secret)
            .json(&json!({"name": 1}))
            .send(),
        client
            .request("POST", "/v1/pets")
            .header("Content-Type", secret)
            .body("{}")
            .send(),
        client
            .with_key(None)
            .request("GET", "/v1/pets")
            .header("Authorization", secret)
            .send(),
        client
            .with_key(None)
            .request("GET", "/v1/pets")
            .header("Authorization", &format!("Basic {secret}"))
            .send(),
        post(client, secret),
        post(client, &format!("{{\"name\":\"{secret}")),
        post(client, &format!("{{\"{secret}\":1}}")),
        post(
            client,
            &format!("{{\"name\":5,\"categoryId\":\"{secret}\",\"status\":\"{secret}\"}}"),
        ),
        post(
            client,
            &format!("{{\"name\":\"{}\\n\",\"categoryId\":1}}", secret),
        ),
    ];
    // A malformed header line.
    let mut connection = client.connect();
    connection.send(format!("GET /v1/pets HTTP/1.1\r\n{secret} {secret}\r\n\r\n").as_bytes());
    responses.push(connection.response());
    responses
}

fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let files = fs::read_dir(folder)
        .expect("a folder")
        .map(|file| file.expect("an entry").path());
    files
        .map(|path| (path.display().to_string(), fs::read(&path).expect("bytes")))
        .collect()
}

#[test]
fn no_secret_is_in_a_log_a_file_an_error_or_a_metric_at_the_finest_level() {
    for format in ["text", "json"] {
        let folder = TempDir::new().expect("a folder");
        let key = large_key(folder.path());
        let revoked = large_key(folder.path());
        let rotated = large_key(folder.path());
        run(folder.path(), &[], &["keys", "revoke", "2"]).exits(0);
        let output = run(folder.path(), &[], &["keys", "rotate", "3"]).exits(0);
        let fresh = output.stdout.trim();
        is_clean("rotate", output.stderr.as_bytes(), &[fresh, &rotated]);
        let token = "an-admin-token!of-length.0123456789-abcdefghijklmnopq";
        let args = [
            "--no-first-key",
            "--log-level",
            "trace",
            "--log",
            format,
            "--admin-token",
            token,
        ];
        let mut process = Process::serve(PROGRAM, folder.path(), &args);
        let client = process.client(Some(&key));
        let unknown = Secret::generate().expect("randomness");
        let secrets = [&*key, &*revoked, &*rotated, fresh, unknown.reveal(), token];

        for secret in secrets {
            for response in send_everywhere(&client, secret) {
                let head: String = response
                    .headers
                    .iter()
                    .map(|(name, value)| format!("{name}: {value}\n"))
                    .collect();
                is_clean(&head, head.as_bytes(), &secrets);
                is_clean(
                    &String::from_utf8_lossy(&response.body),
                    &response.body,
                    &secrets,
                );
            }
        }
        for (number, secret) in secrets.iter().enumerate() {
            let admin = Client::new(process.admin, Some((*secret).to_owned()));
            let metrics = admin.get("/metrics");
            assert_eq!(metrics.status == 200, *secret == token, "secret {number}");
            is_clean("/metrics", &metrics.body, &secrets);
            let request = admin.request("GET", "/livez");
            let response = request.header("X-Request-Id", secret).send();
            let id = response.header("x-request-id").expect("an ID");
            is_clean("an ID", id.as_bytes(), &secrets);
            is_clean(
                "the admin listener",
                &admin.get(&format!("/{secret}?x={secret}")).body,
                &secrets,
            );
        }
        for args in [
            &["keys", "list"][..],
            &["keys", "list", "--json"],
            &["keys", "show", "1"],
        ] {
            let output = run(folder.path(), &[], args).exits(0);
            is_clean(
                "keys",
                (output.stdout + &output.stderr).as_bytes(),
                &secrets,
            );
        }
        for (file, bytes) in files(folder.path()) {
            is_clean(&file, &bytes, &secrets);
        }
        process.signal("TERM");
        assert_eq!(process.ends_within(Duration::from_secs(12)), Some(0));
        for (file, bytes) in files(folder.path()) {
            is_clean(&file, &bytes, &secrets);
        }
        let log = process.log();
        assert!(log.contains("createPet"), "{log}");
        is_clean("the log", log.as_bytes(), &secrets);
        is_clean(
            "the startup message",
            process.startup_message.as_bytes(),
            &secrets,
        );
        // The search finds what is there.
        let found = std::panic::catch_unwind(|| is_clean("this", key.as_bytes(), &secrets));
        assert!(found.is_err());
    }
}

#[test]
fn a_secret_in_the_wrong_place_of_a_command_is_not_printed() {
    let folder = TempDir::new().expect("a folder");
    let key = large_key(folder.path());
    for args in [
        &["keys", "revoke", &key][..],
        &["keys", "set-plan", "1", &key],
        &["keys", "create", &key],
        &["keys", "create", "--plan", "free", "--name", &key],
        &["pets", "list", "--status", &key],
        &[&key],
    ] {
        let line = run(folder.path(), &[], args).fails_with(2);
        is_clean(&line, line.as_bytes(), &[&key]);
        assert!(line.contains(&key[..8]), "{line}");
    }
    for (args, code) in [
        (["serve", "--public-url", "http://me:secretpw@h/v1"], 2),
        (["serve", "--cors-origin", "https://me:secretpw@h"], 2),
        (["healthcheck", "--", "http://me:secretpw@127.0.0.1:1/"], 1),
        (["healthcheck", "--", "me:secretpw@["], 2),
        (["migrate", "--", "postgres://me:secretpw@h/db"], 2),
        (["pets", "list", "http://me:secretpw@h"], 2),
        (["keys", "http://me:secretpw@h", "1"], 2),
    ] {
        let line = run(folder.path(), &[], &args).fails_with(code);
        assert!(!line.contains("secretpw"), "{line}");
    }
    // The advice stays.
    for (args, advice) in [
        (
            ["pets", "list", "--status=a@b"],
            ": use available, pending or sold",
        ),
        (["serve", "--", "--no-first-key=a@b"], "unexpected argument"),
    ] {
        let line = run(folder.path(), &[], &args).fails_with(2);
        assert!(line.contains(advice), "{line}");
    }
}

#[test]
fn the_password_in_a_mistyped_url_of_a_copy_is_not_printed() {
    let folder = TempDir::new().expect("a folder");
    for option in ["--from", "--to"] {
        let other = if option == "--from" { "--to" } else { "--from" };
        for url in [
            "postgre://me:secretpw@h/db",
            "postgres://me:secretpw@h:99999/db",
            "postgres://me:a@secretpw@h/db",
            "postgres://me:1/secretpw@h/db",
            "postgres://me:a@secretpw@h/db\n",
            "postgres://me:secretpw@h/db\r",
        ] {
            let args = ["copy", option, url, other, "sqlite:x.db"];
            let line = harness::run(PROGRAM, folder.path(), &args).fails_with(2);
            assert!(line.contains(option), "{line}");
            assert!(!line.contains("secretpw"), "{line}");
        }
    }
}

#[test]
fn the_value_of_a_secret_option_is_not_printed_whatever_white_space_it_contains() {
    let folder = TempDir::new().expect("a folder");
    for (option, start, end) in [
        ("admin-token", "supersecret", "-0123456789"),
        ("database", "postgres://me:a@supersecret", "@h/db"),
        ("redis", "redis://:supersecret", "@h:63x79"),
    ] {
        let variable = format!("ANIMAL_STORE_{}", option.replace('-', "_").to_uppercase());
        for space in ["\n", "\n\n", "\r", "\t", "  ", "\u{b}", "\u{a0}"] {
            for value in [
                format!("{start}{end}{space}"),
                format!("{start}{space}{end}"),
                format!("{space}{start}{end}"),
            ] {
                let flag = format!("--{option}={value}");
                // A string of JSON is one of TOML, too.
                let file = format!("{option} = {}\n", json!(value));
                fs::write(folder.path().join("c.toml"), file).expect("a file");
                for (vars, args, name) in [
                    (&[(&*variable, &*value)][..], &["serve"][..], &*variable),
                    (&[], &["serve", &flag], option),
                    (&[], &["serve", "--config", "c.toml"], option),
                ] {
                    let line = run(folder.path(), vars, args).fails_with(2);
                    assert!(!line.contains("supersecret"), "{value:?}: {line}");
                    assert!(line.contains("invalid value (not shown) for"), "{line}");
                    assert!(line.contains(name), "{line}");
                    assert!(
                        line.contains(": must ") || line.contains(": encode @"),
                        "{line}"
                    );
                }
            }
        }
    }
    let line = run(folder.path(), &[], &["serve", "--admin-token"]).fails_with(2);
    assert!(
        line.contains("a value is required for '--admin-token <TOKEN>'"),
        "{line}"
    );
}
