//! Certificates that are replaced while the server runs.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, UNIX_EPOCH};

use harness::{Certificate, Client, Process, eventually};

use crate::{PROGRAM, folder, logged, metric, serve};

const FAILURES: &str = "animal_store_background_failures_total{task=\"certificate\"}";

/// Whether new connections get this certificate.
fn presents(process: &Process, certificate: &Certificate) -> bool {
    let stream = certificate.client().handshake(process.address);
    stream.is_ok()
}

/// The number of failures, of which there are more than before: the files may have been polled just before the signal, too.
fn more_failures(process: &Process, before: f64) -> f64 {
    let failures = metric(process, FAILURES);
    assert!(failures > before, "{failures}");
    failures
}

fn client(process: &Process, certificate: &Certificate) -> Client {
    process.client(None).over(&certificate.client())
}

#[test]
fn sighup_replaces_the_certificate_immediately_and_open_connections_stay() {
    let folder = folder();
    let (old, new) = (Certificate::until(2040), Certificate::until(2041));
    old.write(folder.path());
    let process = serve(folder.path(), &[]);
    let client = client(&process, &old);
    let mut open = client.connect();
    assert_eq!(
        client.request("GET", "/livez").send_on(&mut open).status,
        200
    );
    new.write(folder.path());
    process.signal("HUP");
    eventually(Duration::from_secs(3), "the new certificate", || {
        presents(&process, &new)
    });
    assert!(!presents(&process, &old));
    assert_eq!(
        client.request("GET", "/livez").send_on(&mut open).status,
        200
    );
    let expiry = metric(
        &process,
        "animal_store_tls_certificate_expiry_timestamp_seconds",
    );
    assert_eq!(expiry, 2_240_611_200.0);
    let log = logged(&process, &["new certificate in use"]);
    assert!(!log.contains("has not changed"), "{log}");
    process.signal("HUP");
    let log = logged(&process, &["the certificate has not changed"]);
    assert!(!log.contains("new certificate in use"), "{log}");
    assert_eq!(metric(&process, FAILURES), 0.0);
}

/// Comments fill the files up, so that only their content tells them from others.
fn give_the_same_time_and_size(files: &[PathBuf]) {
    for file in files {
        let pem = std::fs::read_to_string(file).expect("a file");
        std::fs::write(file, format!("{pem:#<2000}\n")).expect("a file");
        let file = File::options().append(true).open(file);
        let set = file.and_then(|file| file.set_modified(UNIX_EPOCH));
        set.expect("the time of a file");
    }
}

#[test]
fn a_changed_file_is_found_by_polling_also_behind_links_and_with_its_old_time_and_size() {
    let folder = folder();
    let (old, new) = (Certificate::new(), Certificate::new());
    for (name, certificate) in [("old", &old), ("new", &new)] {
        let version = folder.path().join(name);
        std::fs::create_dir(&version).expect("a folder");
        let (cert, key) = certificate.write(&version);
        give_the_same_time_and_size(&[cert, key]);
    }
    // As Kubernetes does it: the files are links through a link to a folder, which is replaced.
    let link = |target: &str, name: &str| {
        std::os::unix::fs::symlink(target, folder.path().join(name)).expect("a link");
    };
    link("old", "..data");
    link("..data/cert.pem", "cert.pem");
    link("..data/key.pem", "key.pem");
    let process = serve(folder.path(), &[]);
    assert!(presents(&process, &old));
    link("new", "..next");
    std::fs::rename(folder.path().join("..next"), folder.path().join("..data")).expect("replaced");
    let began = Instant::now();
    // The files are read every ten seconds.
    eventually(Duration::from_secs(13), "the new certificate", || {
        presents(&process, &new)
    });
    println!("found after {:?}", began.elapsed());
    logged(&process, &["new certificate in use"]);
}

#[test]
fn a_bad_pair_keeps_the_old_one_and_is_logged_and_counted() {
    let folder = folder();
    let old = Certificate::new();
    let (cert, key) = old.write(folder.path());
    let process = serve(folder.path(), &[]);
    let mut failures = 0.0;
    let other = Certificate::new();
    let breaks: [(&str, &dyn Fn()); 4] = [
        ("does not match", &|| {
            std::fs::write(&cert, &other.pem).expect("a file")
        }),
        ("no certificate in PEM", &|| {
            std::fs::write(&cert, "half").expect("a file")
        }),
        ("file not found", &|| {
            std::fs::remove_file(&key).expect("removed")
        }),
        ("chmod o-r", &|| {
            std::fs::write(&cert, &other.pem).expect("a file");
            std::fs::write(&key, &other.key_pem).expect("a file");
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
            std::fs::set_permissions(&key, mode).expect("permissions");
        }),
    ];
    for (words, spoil) in breaks {
        spoil();
        process.signal("HUP");
        logged(&process, &["ERROR", words, "the previous one stays in use"]);
        failures = more_failures(&process, failures);
        assert!(presents(&process, &old));
    }
    other.write(folder.path());
    process.signal("HUP");
    eventually(Duration::from_secs(3), "the new certificate", || {
        presents(&process, &other)
    });
    assert_eq!(metric(&process, FAILURES), failures);
}

/// A server with this fault.
fn serve_with_fault(folder: &Path, fault: &str) -> Process {
    let vars = [("ANIMAL_STORE_FAULT", fault)];
    let listen = ["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"];
    let tls = ["--tls-cert", "cert.pem", "--tls-key", "key.pem"];
    let args = [&["serve"][..], &listen, &tls].concat();
    Process::start(PROGRAM, folder, &args, &vars)
}

#[test]
fn a_read_of_the_certificate_that_hangs_is_a_failure_and_does_not_delay_the_shutdown() {
    let folder = folder();
    Certificate::new().write(folder.path());
    let mut process = serve_with_fault(folder.path(), "reload-hangs");
    // The thread that receives it may not have begun yet.
    eventually(Duration::from_secs(15), "a read that hangs", || {
        process.signal("HUP");
        std::thread::sleep(Duration::from_millis(100));
        process.log().contains("fault ReloadHangs")
    });
    assert_eq!(metric(&process, FAILURES), 0.0);
    logged(&process, &["ERROR", "no response for 10 s"]);
    assert_eq!(metric(&process, FAILURES), 1.0);
    process.signal("TERM");
    assert_eq!(process.ends_within(Duration::from_secs(10)), Some(0));
}

#[test]
fn a_panic_while_the_certificate_is_read_is_a_failure_and_the_next_read_works() {
    let folder = folder();
    Certificate::new().write(folder.path());
    let process = serve_with_fault(folder.path(), "reload-panics");
    // The thread that receives it may not have begun yet.
    eventually(Duration::from_secs(15), "a failure", || {
        process.signal("HUP");
        metric(&process, FAILURES) >= 1.0
    });
    logged(&process, &["panicked", "the previous one stays in use"]);
    // The fault is not in the poll.
    Certificate::new().write(folder.path());
    logged(&process, &["new certificate in use"]);
}

#[test]
fn a_bad_pair_that_stays_is_logged_once() {
    let folder = folder();
    let old = Certificate::new();
    let (cert, _) = old.write(folder.path());
    let process = serve(folder.path(), &[]);
    std::fs::write(&cert, "half").expect("a file");
    logged(&process, &["no certificate in PEM"]);
    // The files are read every ten seconds.
    std::thread::sleep(Duration::from_secs(11));
    assert!(!process.log().contains("no certificate"));
    assert_eq!(metric(&process, FAILURES), 1.0);
    old.write(folder.path());
    let log = logged(&process, &["the certificate has not changed"]);
    assert!(!log.contains("new certificate in use"), "{log}");
}

#[test]
fn a_pipe_in_place_of_a_file_keeps_the_old_pair_and_delays_neither_reloads_nor_the_shutdown() {
    let folder = folder();
    let mut current = Certificate::new();
    let (cert, key) = current.write(folder.path());
    let mut process = serve(folder.path(), &[]);
    let mut failures = 0.0;
    let replace_with_pipe = |file: &PathBuf| {
        std::fs::remove_file(file).expect("removed");
        harness::run("mkfifo", folder.path(), &[&file.to_string_lossy()]).exits(0);
        process.signal("HUP");
        logged(
            &process,
            &["is not a regular file", "the previous one stays in use"],
        );
    };
    for file in [&cert, &key] {
        replace_with_pipe(file);
        failures = more_failures(&process, failures);
        assert!(presents(&process, &current));
        std::fs::remove_file(file).expect("removed");
        current = Certificate::new();
        current.write(folder.path());
        process.signal("HUP");
        eventually(Duration::from_secs(5), "the new certificate", || {
            presents(&process, &current)
        });
    }
    replace_with_pipe(&cert);
    process.signal("TERM");
    assert_eq!(process.ends_within(Duration::from_secs(10)), Some(0));
}
