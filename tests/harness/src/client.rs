//! A client that speaks HTTP/1.1, plain or with TLS, or HTTP/2, and checks what every response must have.

use std::net::SocketAddr;

use serde_json::Value;

use crate::http2::Http2;
use crate::{Connection, Response, TlsClient};

/// A client, with a key or without.
#[derive(Clone, Debug)]
pub struct Client {
    /// The address of the server.
    pub address: SocketAddr,
    /// The secret, if it has one.
    pub key: Option<String>,
    /// Its TLS configuration, if it uses TLS.
    pub tls: Option<TlsClient>,
}

/// One request, before it is sent.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    client: &'a Client,
    method: String,
    target: String,
    headers: Vec<(String, String)>,
    body: Option<Vec<u8>>,
}

impl Client {
    /// A client.
    pub const fn new(address: SocketAddr, key: Option<String>) -> Self {
        Self {
            address,
            key,
            tls: None,
        }
    }

    /// The same client with another key, or none.
    pub fn with_key(&self, key: Option<&str>) -> Self {
        Self {
            key: key.map(str::to_owned),
            ..self.clone()
        }
    }

    /// The same client over HTTPS.
    pub fn over(&self, tls: &TlsClient) -> Self {
        Self {
            tls: Some(tls.clone()),
            ..self.clone()
        }
    }

    /// A request with any method.
    pub fn request(&self, method: &str, target: &str) -> Request<'_> {
        let headers = vec![("Host".to_owned(), self.address.to_string())];
        Request {
            client: self,
            method: method.into(),
            target: target.into(),
            headers,
            body: None,
        }
    }

    /// GET, sent at once.
    pub fn get(&self, target: &str) -> Response {
        self.request("GET", target).send()
    }

    /// GET, this many times, one after another on one connection.
    pub fn get_times(&self, target: &str, count: usize) -> Vec<Response> {
        let requests = (0..count).map(|_| self.request("GET", target));
        if self.speaks_http2() {
            let mut connection = self.connect_http2();
            let send = |get: Request<'_>| {
                let request = get.for_http2().expect("a request");
                get.send_over_http2(request, &mut connection)
            };
            return requests.map(send).collect();
        }
        let mut connection = self.connect();
        let send = |get: Request<'_>| get.send_on(&mut connection);
        requests.map(send).collect()
    }

    /// GET of a whole URL, which must be on this server.
    pub fn follow(&self, url: &str) -> Response {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let start = format!("{scheme}://{}", self.address);
        self.get(
            url.strip_prefix(&start)
                .unwrap_or_else(|| panic!("{url} does not start with {start}")),
        )
    }

    /// POST of a JSON body to `/v1/pets`, sent at once.
    pub fn create(&self, body: &Value) -> Response {
        self.request("POST", "/v1/pets").json(body).send()
    }

    /// Creates this many animals, named by their number.
    pub fn create_many(&self, count: usize) {
        for number in 1..=count {
            let made =
                self.create(&serde_json::json!({"name": format!("pet {number}"), "categoryId": 1}));
            assert_eq!(made.status, 201, "{made}");
        }
    }

    fn speaks_http2(&self) -> bool {
        self.tls.as_ref().is_some_and(TlsClient::is_http2)
    }

    fn connect_http2(&self) -> Http2 {
        Http2::connect(self.tls.as_ref().expect("TLS"), self.address)
    }

    /// An open connection, for raw bytes.
    pub fn connect(&self) -> Connection {
        match &self.tls {
            Some(tls) => tls.connect(self.address).into(),
            None => Connection::new(self.address),
        }
    }
}

impl Request<'_> {
    /// Adds a header.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sets a `Host` other than the address.
    pub fn host(mut self, host: &str) -> Self {
        for (_, value) in self.headers.iter_mut().filter(|(name, _)| name == "Host") {
            host.clone_into(value);
        }
        self
    }

    /// Sets a body without a `Content-Type`.
    pub fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = Some(body.into());
        self
    }

    /// Sets a JSON body.
    pub fn json(self, body: &Value) -> Self {
        self.header("Content-Type", "application/json")
            .body(body.to_string())
    }

    /// Sends it on a connection of its own.
    pub fn send(self) -> Response {
        if self.client.speaks_http2()
            && let Some(request) = self.for_http2()
        {
            return self.send_over_http2(request, &mut self.client.connect_http2());
        }
        let mut connection = self.client.connect();
        let request = self.header("Connection", "close");
        request.send_on(&mut connection)
    }

    fn send_over_http2(&self, request: http::Request<()>, connection: &mut Http2) -> Response {
        let body = self.body.clone().unwrap_or_default();
        let request_line = format!("{} {}", self.method, self.target);
        let response = connection.send(request, body, request_line);
        self.check(&response);
        response
    }

    /// Sends it on this connection, and reads the response.
    pub fn send_on(self, connection: &mut Connection) -> Response {
        self.try_send_on(connection)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// The same, but returns an error if the server closes the connection before it has sent the whole response.
    pub fn try_send_on(self, connection: &mut Connection) -> Result<Response, String> {
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.target);
        if let Some(key) = &self.client.key {
            head.push_str(&format!("Authorization: Bearer {key}\r\n"));
        }
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        if let Some(body) = &self.body {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend(self.body.as_deref().unwrap_or_default());
        connection.send(&bytes);
        let request_line = format!("{} {}", self.method, self.target);
        let response = connection.response_to(&request_line)?;
        self.check(&response);
        Ok(response)
    }

    #[track_caller]
    fn check(&self, response: &Response) {
        response.check(&self.target);
        let path = self.target.split('?').next().unwrap_or_default();
        crate::document::check(&self.method, path, response);
    }

    /// The same request for HTTP/2, if it can be sent that way: HTTP/2 allows neither two hosts nor a malformed one, nor headers of
    /// a connection.
    fn for_http2(&self) -> Option<http::Request<()>> {
        let mut hosts = self
            .headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("host"));
        let (Some((_, host)), None) = (hosts.next(), hosts.next()) else {
            return None;
        };
        let mut request = http::Request::builder()
            .version(http::Version::HTTP_2)
            .method(&*self.method)
            .uri(format!("https://{host}{}", self.target));
        for (name, value) in &self.headers {
            match &*name.to_ascii_lowercase() {
                "host" => {}
                "connection" | "transfer-encoding" | "upgrade" | "expect" => return None,
                name => request = request.header(name, value),
            }
        }
        if let Some(key) = &self.client.key {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        if let Some(body) = &self.body {
            request = request.header("content-length", body.len());
        }
        request.body(()).ok()
    }
}
