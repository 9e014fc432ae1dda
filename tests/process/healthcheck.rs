//! `animal-store healthcheck`: its exit code.

use std::io::Write;
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
        format!("http://{api}?verbose"),
        format!("http://{api}/?verbose"),
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
    let line = check(&[&format!("https://{api}")]).fails_with(1);
    let advice = "; use http:// if the server has no certificate";
    assert!(line.ends_with(advice), "{line}");
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
fn a_server_that_does_not_respond_in_time_is_not_healthy() {
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let slow = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = |listener: &TcpListener| listener.local_addr().expect("an address");
    let (silent_address, slow_address) = (address(&silent), address(&slow));
    // Each byte arrives in time, but not all of them.
    std::thread::spawn(move || {
        let (mut stream, _) = slow.accept().expect("a connection");
        for byte in b"HTTP/1.1 200 OK\r\n\r\n" {
            std::thread::sleep(Duration::from_millis(500));
            // The check has ended.
            if stream.write_all(&[*byte]).is_err() {
                return;
            }
        }
    });
    for (scheme, address) in [
        ("http", silent_address),
        ("https", silent_address),
        ("http", slow_address),
    ] {
        let url = format!("{scheme}://{address}/readyz");
        let began = std::time::Instant::now();
        let line = run(folder().path(), &[], &["healthcheck", &url]).fails_with(1);
        assert_eq!(
            line,
            format!("animal-store: cannot check {url}: no response within 3 s")
        );
        assert!(began.elapsed() < Duration::from_secs(6));
    }
}

#[test]
fn a_server_on_all_addresses_is_checked_where_ipv6_is_disabled_too() {
    let folder = folder();
    // In a network namespace of its own, whose loopback interface is down at first: SIOCSIFFLAGS with IFF_UP brings it up.
    let script = format!(
        "python3 -c 'import fcntl, socket, struct; \
             fcntl.ioctl(socket.socket(), 0x8914, struct.pack(\"16sh\", b\"lo\", 1))'
         echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6
         {PROGRAM} serve --listen [::]:8080 --admin-listen 127.0.0.1:9090 &
         server=$!
         for _ in $(seq 100); do
             {PROGRAM} healthcheck --listen [::]:8080 && break
             sleep 0.1
         done
         {PROGRAM} healthcheck --listen [::]:8080
         result=$?
         kill $server; wait $server; exit $result"
    );
    let checked = harness::run("unshare", folder.path(), &["--net", "sh", "-c", &script]).exits(0);
    assert!(
        checked.stdout.contains("http://127.0.0.1:8080/v1"),
        "{checked:?}"
    );
}
