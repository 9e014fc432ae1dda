//! Requests that are reset while Redis decides about them: what it has counted is counted by the server, too.

use std::time::Duration;

use animal_store::config::TlsFiles;
use animal_store::limit::BanPolicy;
use harness::{App, Certificate, Client, Proxy, Redis, enterprise, eventually};

use crate::folder;
use crate::raw::*;

#[test]
fn a_ban_that_was_imposed_by_a_request_that_was_reset_is_counted_and_stored() {
    let redis = Redis::start();
    let proxy = Proxy::to(([127, 0, 0, 1], redis.port()).into());
    let certificate = Certificate::new();
    let folder = folder();
    let (cert, key) = certificate.write(folder.path());
    let (app, ..) = App::start_with(|config| {
        config.tls = Some(TlsFiles { cert, key });
        config.redis = Some(
            format!("redis://{}", proxy.address())
                .parse()
                .expect("a URL"),
        );
        config.bans = BanPolicy {
            max_rejections: 5,
            ..BanPolicy::default()
        };
    });
    let client = app.key(enterprise(2, 1_000)).over(&certificate.client());
    assert_eq!(client.get("/v1/pets").status, 200);
    // Redis responds in time, but only after the reset.
    proxy.delay(Duration::from_millis(10));
    let mut raw = Raw::connect(&client, &certificate, &[]);
    for number in 0..12 {
        let stream = 1 + 2 * number;
        raw.get(stream, "/v1/pets");
        std::thread::sleep(Duration::from_millis(3));
        raw.send_frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes());
        std::thread::sleep(Duration::from_millis(30));
    }
    let admin = Client::new(app.admin_address(), None);
    let metrics = || String::from_utf8_lossy(&admin.get("/metrics").body).into_owned();
    eventually(Duration::from_secs(5), "the ban is counted", || {
        metrics().contains("animal_store_bans_total 1\n")
    });
    let none = "animal_store_rejected_total{reason=\"window\"} 0\n";
    assert!(!metrics().contains(none), "{}", metrics());
    eventually(Duration::from_secs(5), "the ban is stored", || {
        admin.get("/api/keys?state=banned").json()[0]["name"] == "test"
    });
}
