//! A client that speaks HTTP/1.1 over a socket, plain or with TLS, and holds every response to what all responses promise.

use std::fmt;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use animal_store::percent::decode_path;
use serde_json::Value;

use crate::wire::Wire;
use crate::{TlsClient, http2};

/// Who sends requests: with a key or without.
#[derive(Clone, Debug)]
pub struct Client {
    /// Where to.
    pub address: SocketAddr,
    /// The secret, if it has one.
    pub key: Option<String>,
    /// How it encrypts, if it does.
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

/// What came back.
#[derive(Clone, Debug)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The headers in their order, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
    pub(crate) asked: String,
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

    /// Creates so many animals, named by their number.
    pub fn create_many(&self, count: usize) {
        for number in 1..=count {
            let made =
                self.create(&serde_json::json!({"name": format!("pet {number}"), "categoryId": 1}));
            assert_eq!(made.status, 201, "{made}");
        }
    }

    /// An open connection, for bytes of the test's own making.
    pub fn connect(&self) -> Connection {
        match &self.tls {
            Some(tls) => Connection(BufReader::new(tls.connect(self.address))),
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

    /// Names another host than the address it is sent to.
    pub fn host(mut self, host: &str) -> Self {
        for (_, value) in self.headers.iter_mut().filter(|(name, _)| name == "Host") {
            host.clone_into(value);
        }
        self
    }

    /// Sets a body as it is, with no type.
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
        if let Some(tls) = &self.client.tls
            && tls.is_http2()
            && let Some(request) = self.for_http2()
        {
            let body = self.body.clone().unwrap_or_default();
            let asked = format!("{} {}", self.method, self.target);
            let response = http2::send(tls, self.client.address, request, body, asked);
            self.check(&response);
            return response;
        }
        let mut connection = self.client.connect();
        let request = self.header("Connection", "close");
        request.send_on(&mut connection)
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
        let asked = format!("{} {}", self.method, self.target);
        let response = connection.response_to(&asked)?;
        self.check(&response);
        Ok(response)
    }

    #[track_caller]
    fn check(&self, response: &Response) {
        response.check(&self.target);
        let path = self.target.split('?').next().unwrap_or_default();
        crate::document::check(&self.method, path, response);
    }

    /// The same request for HTTP/2, if it can be one: HTTP/2 has no two hosts, no malformed one, and no headers of a connection.
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

/// A socket and what has been read from it.
#[derive(Debug)]
pub struct Connection(BufReader<Wire>);

impl Connection {
    /// Connects.
    pub fn new(address: SocketAddr) -> Self {
        TcpStream::connect(address).expect("a connection").into()
    }

    /// Sends raw bytes. Ignores errors: whether the server still reads shows in its response.
    pub fn send(&mut self, bytes: &[u8]) {
        let _ = self.0.get_mut().write_all(bytes);
    }

    /// Closes our side: nothing more will be sent.
    pub fn end(&mut self) {
        self.0.get_mut().end();
    }

    /// Reads one response.
    pub fn response(&mut self) -> Response {
        self.response_to("(raw)")
            .unwrap_or_else(|error| panic!("{error}"))
    }

    /// Whether the server has closed the connection, without a further byte.
    pub fn is_closed(&mut self) -> bool {
        match self.0.read(&mut [0; 1]) {
            Ok(read) => read == 0,
            // Nothing came and nothing ended: it is open.
            Err(error) => !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut),
        }
    }

    fn response_to(&mut self, asked: &str) -> Result<Response, String> {
        let mut line = || {
            let mut line = String::new();
            match self.0.read_line(&mut line) {
                Ok(_) if line.ends_with('\n') => Ok(line.trim_end().to_owned()),
                Ok(_) => Err(format!("{asked}: the response broke off: {line:?}")),
                Err(error) => Err(format!("{asked}: no response: {error}")),
            }
        };
        let first = line()?;
        let status = first
            .split(' ')
            .nth(1)
            .and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| format!("{asked}: not a response: {first:?}"))?;
        let mut headers = Vec::new();
        loop {
            let line = line()?;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let mut response = Response {
            status,
            headers,
            body: Vec::new(),
            asked: asked.to_owned(),
        };
        let has_body =
            !asked.starts_with("HEAD ") && status >= 200 && status != 204 && status != 304;
        if let Some(length) = response.header("content-length").filter(|_| has_body) {
            response.body = vec![0; length.parse().expect("a length")];
            self.0
                .read_exact(&mut response.body)
                .map_err(|error| format!("{asked}: half a body: {error}"))?;
        }
        Ok(response)
    }
}

impl From<TcpStream> for Connection {
    fn from(stream: TcpStream) -> Self {
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Self(BufReader::new(Wire::Plain(stream)))
    }
}

impl Response {
    /// The value of a header that comes at most once.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut values = self.headers.iter().filter(|(other, _)| other == name);
        let value = values.next().map(|(_, value)| value.as_str());
        assert!(values.next().is_none(), "{name} comes twice: {self}");
        value
    }

    /// The value of a header as a number.
    pub fn number(&self, name: &str) -> i64 {
        let value = self
            .header(name)
            .unwrap_or_else(|| panic!("no {name}: {self}"));
        value
            .parse()
            .unwrap_or_else(|_| panic!("{name} is no number: {self}"))
    }

    /// Limit, remaining and reset, from the rate headers.
    pub fn rate(&self) -> (i64, i64, i64) {
        (
            self.number("x-ratelimit-limit"),
            self.number("x-ratelimit-remaining"),
            self.number("x-ratelimit-reset"),
        )
    }

    /// The body as JSON.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("no JSON: {self}"))
    }

    /// The `code` of an error.
    pub fn code(&self) -> String {
        self.json()["code"]
            .as_str()
            .unwrap_or_else(|| panic!("no code: {self}"))
            .to_owned()
    }

    /// The `message` of an error.
    pub fn message(&self) -> String {
        self.json()["message"]
            .as_str()
            .unwrap_or_else(|| panic!("no message: {self}"))
            .to_owned()
    }

    /// The IDs in a list.
    pub fn ids(&self) -> Vec<i64> {
        let list = self.json();
        let list = list.as_array().unwrap_or_else(|| panic!("no list: {self}"));
        list.iter()
            .map(|pet| pet["id"].as_i64().expect("an id"))
            .collect()
    }

    /// The target of the link with `rel="next"`.
    pub fn next(&self) -> Option<String> {
        let link = self.header("link")?;
        let url = link.strip_prefix('<')?.strip_suffix(">; rel=\"next\"")?;
        Some(url.to_owned())
    }

    /// Panics unless the status and the error code are these.
    #[track_caller]
    pub fn is_error(&self, status: u16, code: &str) -> &Self {
        assert_eq!(
            (self.status, self.code().as_str()),
            (status, code),
            "{self}"
        );
        self
    }

    /// What every response promises.
    #[track_caller]
    fn check(&self, target: &str) {
        let has = |name: &str| self.header(name).is_some();
        assert!(has("x-request-id") && has("date"), "{self}");
        assert_eq!(
            self.header("x-content-type-options"),
            Some("nosniff"),
            "{self}"
        );
        let path = decode_path(target.split('?').next().unwrap_or_default());
        let is_api = path == "/v1" || path.starts_with("/v1/");
        if is_api {
            assert_eq!(self.header("cache-control"), Some("no-store"), "{self}");
        }
        // Only a preflight has this status.
        if is_api && self.status != 204 {
            let (limit, remaining, reset) = self.rate();
            assert!(
                limit > 0 && (0..=limit).contains(&remaining) && reset > 0,
                "{self}"
            );
        } else {
            assert!(
                !has("x-ratelimit-limit") && !has("x-ratelimit-reset"),
                "{self}"
            );
        }
        if self.status >= 400 && !self.asked.starts_with("HEAD ") {
            let error = self.json();
            let fields: Vec<_> = error
                .as_object()
                .expect("an object")
                .keys()
                .map(String::as_str)
                .collect();
            assert_eq!(fields, ["code", "message", "status"], "{self}");
            assert_eq!(error["status"], self.status, "{self}");
            assert_eq!(
                self.header("content-type"),
                Some("application/json"),
                "{self}"
            );
        }
        assert_eq!(has("www-authenticate"), self.status == 401, "{self}");
        assert_eq!(has("allow"), self.status == 405, "{self}");
        // A conflict with the rules of the admin API does not pass by itself.
        let passes = [409, 429, 503].contains(&self.status) && !target.starts_with("/api/");
        assert_eq!(
            has("retry-after"),
            passes || [429, 503].contains(&self.status),
            "{self}"
        );
    }
}

impl fmt::Display for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\n{}", self.asked, self.status)?;
        for (name, value) in &self.headers {
            writeln!(f, "{name}: {value}")?;
        }
        write!(f, "\n{}", String::from_utf8_lossy(&self.body))
    }
}
