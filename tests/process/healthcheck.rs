//! `animal-store healthcheck`: its exit code.

use std::net::TcpListener;
use std::time::Duration;

use harness::Process;

use crate::{PROGRAM, folder, run};

#[test]
fn healthcheck_exits_with_0_if_a_server_is_ready_with_1_if_not_and_with_2_for_a_usage_error() {
    let folder = folder();
    let mut process = Process::serve(PROGRAM, folder.path(), &[]);
    let (api, admin) = (process.address.to_string(), process.admin);
    let check = |args: &[&str]| run(folder.path(), &[], &[&["healthcheck"], args].concat());
    let urls = [
        format!("http://{api}/readyz"),
        format!("http://{api}"),
        format!("http://{admin}/livez"),
    ];
    for url in &urls {
        assert_eq!(check(&[url]).exits(0).stdout, "");
    }
    check(&["--listen", &api]).exits(0);
    // A name with two addresses, as localhost often is. On a machine with IPv6, the server is at the second one.
    std::fs::write(folder.path().join("hosts"), "::1 both\n127.0.0.1 both\n").expect("a file");
    let script = format!(
        "mount --bind hosts /etc/hosts && {PROGRAM} healthcheck http://both:{}",
        process.address.port()
    );
    harness::run("unshare", folder.path(), &["-rm", "sh", "-c", &script]).exits(0);
    let listen = ("ANIMAL_STORE_LISTEN", &*api);
    run(folder.path(), &[listen], &["healthcheck"]).exits(0);
    let line = check(&[&format!("http://{api}/nothing")]).fails_with(1);
    assert!(line.contains("404"), "{line}");
    process.kill();
    let line = check(&[&urls[0]]).fails_with(1);
    assert!(line.contains("cannot check"), "{line}");
    let wrong = [
        "here",
        "http://",
        "ftp://127.0.0.1/",
        "http://127.0.0.1:80800/readyz",
        "http://[zz]/",
    ];
    for wrong in wrong {
        check(&[wrong]).fails_with(2);
    }
}

#[test]
fn a_server_that_never_responds_is_not_healthy() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", silent.local_addr().expect("an address"));
    let began = std::time::Instant::now();
    run(folder().path(), &[], &["healthcheck", &url]).fails_with(1);
    assert!(began.elapsed() < Duration::from_secs(6));
}
