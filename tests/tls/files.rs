//! Files at the start: what is rejected, in one line, and what is served with a warning.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use harness::Certificate;

use crate::{folder, logged, metric, run, serve};

/// Checks that `serve` fails with one line that contains these texts.
#[track_caller]
fn is_rejected(folder: &Path, words: &[&str]) {
    let ports = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let tls = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    let line = run(folder, &[&["serve"], &ports[..], &tls].concat()).fails_with(1);
    for word in words {
        assert!(line.contains(word), "no {word} in {line}");
    }
    assert!(
        !folder.join("animal-store.db").exists(),
        "a database was created"
    );
}

#[test]
fn a_missing_file_is_rejected() {
    for (option, missing) in [("--tls-cert", "cert.pem"), ("--tls-key", "key.pem")] {
        let folder = folder();
        Certificate::new().write(folder.path());
        fs::remove_file(folder.path().join(missing)).expect("removed");
        let expected = format!("animal-store: {option} {missing}: file not found");
        is_rejected(folder.path(), &[&expected]);
    }
}

#[test]
fn a_pipe_is_rejected_because_reading_it_might_never_end() {
    let folder = folder();
    Certificate::new().write(folder.path());
    fs::remove_file(folder.path().join("cert.pem")).expect("removed");
    harness::run("mkfifo", folder.path(), &["cert.pem"]).exits(0);
    is_rejected(folder.path(), &["cert.pem", "is not a regular file"]);
}

#[test]
fn a_file_that_is_not_pem_is_rejected() {
    let certificate = Certificate::new();
    let broken = certificate.pem.replacen("MII", "???", 1);
    let large = certificate.pem.clone() + &"#".repeat(1 << 20);
    for (file, content, words) in [
        ("cert.pem", "", "no certificate in PEM format"),
        ("cert.pem", "hello\n", "no certificate in PEM format"),
        (
            "cert.pem",
            &certificate.key_pem,
            "no certificate in PEM format",
        ),
        ("cert.pem", &broken, "no certificate in PEM format"),
        ("cert.pem", &large, "cert.pem: is larger than 1 MiB"),
        (
            "cert.pem",
            "-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n",
            "malformed",
        ),
        ("key.pem", "", "no unencrypted private key in PEM format"),
        (
            "key.pem",
            "hello\n",
            "no unencrypted private key in PEM format",
        ),
        (
            "key.pem",
            &certificate.pem,
            "no unencrypted private key in PEM format",
        ),
    ] {
        let folder = folder();
        certificate.write(folder.path());
        fs::write(folder.path().join(file), content).expect("a file");
        is_rejected(folder.path(), &[file, words]);
    }
    let folder = folder();
    certificate.write(folder.path());
    fs::remove_file(folder.path().join("cert.pem")).expect("removed");
    fs::create_dir(folder.path().join("cert.pem")).expect("a folder");
    is_rejected(folder.path(), &["cert.pem", "is a folder, not a file"]);
}

#[test]
fn a_key_that_does_not_match_is_rejected() {
    let folder = folder();
    Certificate::new().write(folder.path());
    fs::write(folder.path().join("key.pem"), Certificate::new().key_pem).expect("a file");
    is_rejected(folder.path(), &["key.pem", "does not match", "cert.pem"]);
}

#[test]
fn a_key_that_every_user_can_read_is_rejected_and_one_of_a_group_is_accepted() {
    let folder = folder();
    Certificate::new().write(folder.path());
    let key = folder.path().join("key.pem");
    for mode in [0o644, 0o604] {
        fs::set_permissions(&key, Permissions::from_mode(mode)).expect("permissions");
        is_rejected(folder.path(), &["key.pem", "chmod o-r"]);
    }
    fs::set_permissions(&key, Permissions::from_mode(0o640)).expect("permissions");
    serve(folder.path(), &[]);
}

#[test]
fn one_option_without_the_other_is_a_usage_error() {
    for (given, missing) in [("--tls-cert", "--tls-key"), ("--tls-key", "--tls-cert")] {
        let line = run(folder().path(), &["serve", given, "x.pem"]).fails_with(2);
        assert!(
            line.contains(&format!("{given} requires {missing}")),
            "{line}"
        );
    }
}

#[test]
fn an_expired_certificate_is_served_with_a_warning_and_a_gauge_has_its_expiry() {
    let gauge = "animal_store_tls_certificate_expiry_timestamp_seconds";
    for (year, expiry, is_expired) in [
        (2021, 1_609_459_200.0, true),
        (2049, 2_493_072_000.0, false),
    ] {
        let folder = folder();
        Certificate::until(year).write(folder.path());
        let process = serve(folder.path(), &[]);
        assert_eq!(metric(&process, gauge), expiry);
        let url = format!("https://{}", process.address);
        run(folder.path(), &["healthcheck", &url]).exits(0);
        let log = logged(&process, &["ready"]);
        assert_eq!(log.contains("has expired"), is_expired, "{log}");
        assert!(!log.contains("not valid yet"), "{log}");
    }
}

#[test]
fn a_certificate_that_is_not_valid_yet_is_served_with_a_warning() {
    let folder = folder();
    Certificate::between(2048, 2049).write(folder.path());
    let process = serve(folder.path(), &[]);
    let log = logged(&process, &["ready"]);
    let warning = "the certificate of --tls-cert is not valid yet";
    assert!(
        log.contains(warning) && log.contains("valid_from=2048-01-01"),
        "{log}"
    );
}

#[test]
fn a_key_of_a_kind_that_is_not_supported_is_rejected_with_those_that_are() {
    let folder = folder();
    Certificate::new().write(folder.path());
    let key = folder.path().join("key.pem");
    for (algorithm, option) in [
        ("EC", "ec_paramgen_curve:P-521"),
        ("EC", "ec_paramgen_curve:secp256k1"),
        ("RSA", "rsa_keygen_bits:1024"),
    ] {
        let words = ["genpkey", "-algorithm", algorithm, "-pkeyopt", option];
        let made = harness::run("openssl", folder.path(), &words).exits(0);
        fs::write(&key, made.stdout).expect("a file");
        let supported = "it must be RSA of 2048 to 4096 bits, P-256, P-384 or Ed25519";
        is_rejected(folder.path(), &["key.pem", supported]);
    }
}

#[test]
fn an_expiry_beyond_2049_is_read_too() {
    let folder = folder();
    Certificate::until(2077).write(folder.path());
    let process = serve(folder.path(), &[]);
    let gauge = "animal_store_tls_certificate_expiry_timestamp_seconds";
    assert_eq!(metric(&process, gauge), 3_376_684_800.0);
}
