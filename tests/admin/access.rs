//! Who may see and change what.

use animal_store::access::TrustedProxies;
use harness::{App, Client, Request, Response};
use serde_json::json;

use crate::{TOKEN, post, start, start_with};

/// The cookie that a browser would send after logging in.
fn log_in(client: &Client) -> String {
    let response = post(client, "/api/session", &json!({"token": TOKEN}));
    assert_eq!(response.status, 204, "{response}");
    let cookie = response.header("set-cookie").expect("a cookie");
    assert!(cookie.contains("; HttpOnly; SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains(TOKEN), "{cookie}");
    cookie.split(';').next().unwrap_or_default().to_owned()
}

/// A request that would create a key.
fn create(client: &Client) -> Request<'_> {
    let body = json!({"name": "new", "plan": "free"});
    client.request("POST", "/api/keys").json(&body)
}

/// How many keys there are.
pub(crate) fn keys(operator: &Client) -> usize {
    let keys = operator.get("/api/keys").json();
    keys.as_array().expect("a list").len()
}

#[test]
fn without_a_configured_token_everything_can_be_seen_and_nothing_changed() {
    let (app, ..) = App::start();
    let anonymous = Client::new(app.admin_address(), None);
    for path in [
        "/api/overview",
        "/api/keys",
        "/api/keys/1",
        "/api/pets",
        "/api/orders",
    ] {
        assert_eq!(anonymous.get(path).status, 200, "{path}");
    }
    let overview = anonymous.get("/api/overview").json();
    assert_eq!(overview["mayChange"], false, "{overview}");
    let before = keys(&anonymous);
    create(&anonymous).send().is_error(403, "forbidden");
    create(&anonymous.with_key(Some("whatever")))
        .send()
        .is_error(403, "forbidden");
    post(&anonymous, "/api/session", &json!({"token": ""})).is_error(403, "forbidden");
    assert_eq!(keys(&anonymous), before);
}

#[test]
fn with_a_token_nothing_can_be_seen_without_it() {
    let (_app, operator, _) = start();
    let anonymous = operator.with_key(None);
    for path in [
        "/api/overview",
        "/api/live",
        "/api/keys",
        "/api/pets",
        "/metrics",
    ] {
        anonymous.get(path).is_error(401, "missing_admin_token");
        let wrong = anonymous.with_key(Some("0123456789abcdeF"));
        wrong.get(path).is_error(401, "invalid_admin_token");
    }
    create(&anonymous)
        .send()
        .is_error(401, "missing_admin_token");
    assert_eq!(keys(&operator), 1);
    assert_eq!(anonymous.get("/livez").status, 200);
    assert_eq!(anonymous.get("/readyz").status, 200);
}

#[test]
fn a_browser_logs_in_and_out() {
    let (_app, operator, _) = start();
    let anonymous = operator.with_key(None);
    let cookie = log_in(&anonymous);
    let get = |cookie: &str| {
        let request = anonymous.request("GET", "/api/overview");
        request.header("Cookie", cookie).send()
    };
    let overview = get(&format!("a=b; {cookie}")).json();
    assert_eq!(overview["mayChange"], true, "{overview}");
    // A token that is sent decides, although the browser has a session.
    let wrong = anonymous.with_key(Some("0123456789abcdeF"));
    let both = wrong.request("GET", "/api/overview");
    let both = both.header("Cookie", &cookie).send();
    both.is_error(401, "invalid_admin_token");
    let open = |cookie: &str| {
        let request = anonymous.request("GET", "/api/session");
        request.header("Cookie", cookie).send().json()["open"] == true
    };
    assert!(open(&cookie) && !open("animal_store_1=00"));
    get("animal_store_1=00").is_error(401, "missing_admin_token");

    let own = format!("http://{}", anonymous.address);
    let out = anonymous.request("DELETE", "/api/session");
    let out = out.header("Cookie", &cookie).header("Origin", &own).send();
    assert_eq!(out.status, 204, "{out}");
    let forgotten = out.header("set-cookie").expect("a cookie");
    assert!(forgotten.contains("Max-Age=0"), "{forgotten}");
    get(&cookie).is_error(401, "missing_admin_token");
}

#[test]
fn a_change_is_accepted_from_the_page_itself_and_from_scripts_only() {
    let (_app, operator, _) = start();
    let anonymous = operator.with_key(None);
    let cookie = log_in(&anonymous);
    let own = format!("http://{}", anonymous.address);
    let (host, port) = (anonymous.address.ip(), anonymous.address.port());
    let foreign = [
        "http://evil.example".to_owned(),
        "null".to_owned(),
        format!("http://{host}:1"),
        format!("http://{host}"),
        format!("ftp://{host}:{port}"),
        format!("{own}.evil.example"),
        String::new(),
    ];
    for origin in &foreign {
        let by_cookie = create(&anonymous).header("Cookie", &cookie);
        let by_token = create(&operator);
        for request in [by_cookie, by_token] {
            let rejected: Response = request.header("Origin", origin).send();
            rejected.is_error(403, "forbidden");
        }
        let body = json!({"token": TOKEN});
        let request = anonymous.request("POST", "/api/session").json(&body);
        request
            .header("Origin", origin)
            .send()
            .is_error(403, "forbidden");
    }
    let from_elsewhere = create(&anonymous)
        .header("Cookie", &cookie)
        .header("Origin", &own);
    let from_elsewhere = from_elsewhere.header("Sec-Fetch-Site", "cross-site").send();
    from_elsewhere.is_error(403, "forbidden");
    let twice = create(&operator)
        .header("Origin", &own)
        .header("Origin", &own);
    twice.send().is_error(403, "forbidden");
    // A form of another site, sent by an old browser.
    create(&anonymous)
        .header("Cookie", &cookie)
        .send()
        .is_error(403, "forbidden");
    assert_eq!(keys(&operator), 1);

    let page = create(&anonymous)
        .header("Cookie", &cookie)
        .header("Origin", &own);
    assert_eq!(page.send().status, 201);
    assert_eq!(create(&operator).send().status, 201);
    assert_eq!(create(&operator).header("Origin", &own).send().status, 201);
    assert_eq!(keys(&operator), 4);
}

#[test]
fn behind_a_proxy_with_tls_a_page_without_tls_is_another_site() {
    let (_app, operator, _) = start_with(|config| {
        let proxy = "127.0.0.1".parse().expect("an address");
        config.trusted_proxies = TrustedProxies::new(vec![proxy]);
        config.admin_hosts = vec!["admin.example".into()];
    });
    let anonymous = operator.with_key(None);
    let cookie = log_in(&anonymous);
    let create_from = |origin: &str, scheme: Option<&str>| {
        let request = create(&anonymous).host("admin.example");
        let request = request.header("Cookie", &cookie).header("Origin", origin);
        match scheme {
            Some(scheme) => request.header("X-Forwarded-Proto", scheme).send(),
            None => request.send(),
        }
    };
    let (plain, encrypted) = ("http://admin.example", "https://admin.example");
    create_from(plain, Some("https")).is_error(403, "forbidden");
    for (origin, scheme) in [
        (encrypted, Some("https")),
        (plain, Some("http")),
        // A proxy need not report the scheme.
        (encrypted, None),
        (plain, None),
    ] {
        let response = create_from(origin, scheme);
        assert_eq!(response.status, 201, "{origin} {scheme:?}: {response}");
    }
}

#[test]
fn a_page_of_another_origin_does_not_read_either() {
    let (_app, operator, _) = start();
    let read = |name: &str, value: &str| {
        operator
            .request("GET", "/api/overview")
            .header(name, value)
            .send()
    };
    for (name, value) in [
        ("Origin", "http://evil.example"),
        ("Sec-Fetch-Site", "cross-site"),
        ("Sec-Fetch-Site", "same-site"),
    ] {
        read(name, value).is_error(403, "forbidden");
    }
    for site in ["same-origin", "none"] {
        assert_eq!(read("Sec-Fetch-Site", site).status, 200, "{site}");
    }
}

#[test]
fn a_request_for_a_foreign_host_name_is_rejected() {
    let (_app, operator, _) = start_with(|config| {
        config.admin_hosts = vec!["Admin.example".into()];
    });
    let port = operator.address.port();
    let get = |host: &str, path: &str| operator.request("GET", path).host(host).send();
    for host in [
        "evil.example",
        "admin.example.evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        // Browsers treat them as other sites than 127.0.0.1, without saying so.
        "0.0.0.0",
        "[::]",
        "[::ffff:127.0.0.1]",
    ] {
        for host in [host.to_owned(), format!("{host}:{port}")] {
            get(&host, "/api/overview").is_error(403, "forbidden");
            get(&host, "/").is_error(403, "forbidden");
            create(&operator)
                .host(&host)
                .send()
                .is_error(403, "forbidden");
            // A scraper may know the listener by any name.
            assert_eq!(get(&host, "/metrics").status, 200);
            assert_eq!(get(&host, "/livez").status, 200);
        }
    }
    for host in [
        "127.0.0.1",
        "192.0.2.7",
        "[::1]",
        "[2001:db8::1]",
        "localhost",
        "LocalHost",
        "admin.EXAMPLE",
    ] {
        for host in [host.to_owned(), format!("{host}:{port}")] {
            assert_eq!(get(&host, "/api/overview").status, 200, "{host}");
            assert_eq!(get(&host, "/").status, 200, "{host}");
        }
    }
    assert_eq!(keys(&operator), 1);
}

#[test]
fn wrong_tokens_are_limited_by_address_and_a_right_one_still_works() {
    let (app, operator, _) = start();
    let anonymous = operator.with_key(None);
    for _ in 0..60 {
        let wrong = post(&anonymous, "/api/session", &json!({"token": "wrong"}));
        wrong.is_error(401, "invalid_admin_token");
    }
    let rejected = post(&anonymous, "/api/session", &json!({"token": "wrong"}));
    rejected.is_error(429, "rate_limited");
    assert!(rejected.header("retry-after").is_some(), "{rejected}");
    assert_eq!(operator.get("/api/overview").status, 200);
    let cookie = log_in(&anonymous);
    assert!(!cookie.is_empty());
    drop(app);
}

#[test]
fn a_trusted_proxy_names_the_client_that_is_limited_and_its_scheme_and_no_other_peer_does() {
    for (proxy, is_trusted) in [("127.0.0.1", true), ("192.0.2.1", false)] {
        let (_app, operator, _) = start_with(|config| {
            let proxy = proxy.parse().expect("an address");
            config.trusted_proxies = TrustedProxies::new(vec![proxy]);
        });
        let anonymous = operator.with_key(None);
        let send = |request: Request<'_>, client: &str| -> Response {
            let request = request.header("X-Forwarded-Proto", "https");
            request.header("X-Forwarded-For", client).send()
        };
        let log_in = |token: &str, client: &str| {
            let body = json!({"token": token});
            send(
                anonymous.request("POST", "/api/session").json(&body),
                client,
            )
        };
        for _ in 0..60 {
            log_in("wrong", "192.0.2.7").is_error(401, "invalid_admin_token");
        }
        let metrics = send(anonymous.request("GET", "/metrics"), "192.0.2.7");
        metrics.is_error(429, "rate_limited");
        let other = log_in("wrong", "192.0.2.8");
        assert_eq!(other.status == 401, is_trusted, "{other}");

        let begun = log_in(TOKEN, "192.0.2.7");
        let cookie = begun.header("set-cookie").expect("a cookie");
        assert_eq!(cookie.ends_with("; Secure"), is_trusted, "{begun}");
        let own = format!("https://{}", anonymous.address);
        let out = anonymous.request("DELETE", "/api/session");
        let out = out.header("Cookie", cookie).header("Origin", &own);
        let out = send(out, "192.0.2.7");
        let forgotten = out.header("set-cookie").expect("a cookie");
        assert_eq!(forgotten.ends_with("; Secure"), is_trusted, "{out}");
    }
}
