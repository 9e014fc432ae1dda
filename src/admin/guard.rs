//! Who may see and change what. A dashboard in a browser can be attacked by other sites: DNS rebinding makes a foreign name resolve
//! to this server, and forms and scripts of other sites can send requests. So the name and the origin of a request are checked
//! besides its credentials; not those of a request for metrics, which Prometheus may send to any name.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Instant;

use http::header::{COOKIE, HeaderName, HeaderValue, ORIGIN};

use super::session::{SessionId, Sessions};
use crate::access::auth_failures::AuthFailures;
use crate::access::proxy::Client;
use crate::access::{Credentials, TrustedProxies};
use crate::api::ApiError;
use crate::api::authority::Authority;
use crate::clock::Clock;
use crate::config::{AdminToken, Config};
use crate::http::Head;

/// The rules of access to the admin listener.
pub(super) struct Guard {
    token: Option<AdminToken>,
    hosts: Vec<String>,
    proxies: TrustedProxies,
    /// Whether the listener uses TLS.
    https: bool,
    pub(super) sessions: Sessions,
    /// Failed authentications, by address.
    failures: AuthFailures,
    clock: Clock,
}

/// How a client is authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AdminIdentity {
    /// No token is configured, and the listener is on loopback: the client may see everything and change nothing.
    Anonymous,
    Token,
    Session(SessionId),
}

impl Guard {
    pub(super) fn new(config: &Config, https: bool, clock: Clock) -> Self {
        Self {
            token: config.admin_token.clone(),
            hosts: config.admin_hosts.clone(),
            proxies: config.trusted_proxies.clone(),
            https,
            sessions: Sessions::new(),
            failures: AuthFailures::default(),
            clock,
        }
    }

    /// The client of a request, behind trusted proxies if there are any.
    pub(super) fn client(&self, peer: IpAddr, head: &Head<'_>) -> Client {
        let client = self.proxies.client(peer, head, self.https);
        Client {
            address: client.address.to_canonical(),
            ..client
        }
    }

    /// Checks that the request is addressed to an IP address that is neither unspecified nor IPv4-mapped, to `localhost`, or to a name
    /// of `--admin-host`.
    pub(super) fn check_host(&self, head: &Head<'_>) -> Result<(), ApiError> {
        let authority = Authority::of(head)?;
        let is_ours = authority.is_some_and(|authority| self.is_ours(authority.as_bytes()));
        match is_ours {
            true => Ok(()),
            false => Err(ApiError::Forbidden(
                "This host is not allowed: use localhost, an address of this machine other than 0.0.0.0, or a name that was given with --admin-host.",
            )),
        }
    }

    fn is_ours(&self, authority: &[u8]) -> bool {
        let Ok(authority) = std::str::from_utf8(authority) else {
            return false;
        };
        // An unspecified or a mapped address may reach loopback, but browsers do not send `Sec-Fetch-Site` to it, as they do to 127.0.0.1
        // and [::1]: reads by other sites would not be noticed.
        if let Some((ip, _)) = authority
            .strip_prefix('[')
            .and_then(|ip| ip.split_once(']'))
        {
            let is_usual = |ip: Ipv6Addr| !ip.is_unspecified() && ip.to_ipv4_mapped().is_none();
            return ip.parse().is_ok_and(is_usual);
        }
        let host = authority.split(':').next().unwrap_or_default();
        host.parse::<Ipv4Addr>()
            .is_ok_and(|ip| !ip.is_unspecified())
            || host.eq_ignore_ascii_case("localhost")
            || self
                .hosts
                .iter()
                .any(|ours| host.eq_ignore_ascii_case(ours))
    }

    /// Authenticates a request by the token, if one is configured.
    pub(super) fn check_token(
        &self,
        head: &Head<'_>,
        client: Client,
    ) -> Result<AdminIdentity, ApiError> {
        let Some(token) = &self.token else {
            return Ok(AdminIdentity::Anonymous);
        };
        match Credentials::of(head.authorization) {
            Credentials::Token(sent) if token.matches(sent) => Ok(AdminIdentity::Token),
            Credentials::Missing => {
                Err(self.record_failure(client.address, ApiError::MissingAdminToken))
            }
            Credentials::Token(_) | Credentials::Several => {
                Err(self.record_failure(client.address, ApiError::InvalidAdminToken))
            }
        }
    }

    /// Authenticates a request by the token or by a session.
    pub(super) fn authenticate(
        &self,
        head: &Head<'_>,
        client: Client,
    ) -> Result<AdminIdentity, ApiError> {
        if self.token.is_some()
            && Credentials::of(head.authorization) == Credentials::Missing
            && let Some(session) = self.sessions.find(head.all(&COOKIE), Instant::now())
        {
            return Ok(AdminIdentity::Session(session));
        }
        self.check_token(head, client)
    }

    /// Checks that a request may change something.
    pub(super) fn check_change(
        &self,
        head: &Head<'_>,
        client: Client,
        identity: AdminIdentity,
    ) -> Result<(), ApiError> {
        let origin = origin(head, client);
        match identity {
            AdminIdentity::Anonymous => Err(NO_ADMIN_TOKEN),
            // A browser sends its origin with every request that changes something.
            AdminIdentity::Session(_) if origin == RequestOrigin::Absent => Err(CROSS_ORIGIN),
            AdminIdentity::Session(_) | AdminIdentity::Token => check_origin(head, origin),
        }
    }

    /// Rejects reads by pages of other origins. They could not see the response, but could use up streams and time.
    pub(super) fn check_read(&self, head: &Head<'_>, client: Client) -> Result<(), ApiError> {
        check_origin(head, origin(head, client))
    }

    /// Begins a session for a client that sends the token. Returns its cookie.
    pub(super) fn log_in(
        &self,
        head: &Head<'_>,
        client: Client,
        sent: &str,
    ) -> Result<HeaderValue, ApiError> {
        let Some(token) = &self.token else {
            return Err(NO_LOGIN);
        };
        check_origin(head, origin(head, client))?;
        if !token.matches(sent.as_bytes()) {
            return Err(self.record_failure(client.address, ApiError::InvalidAdminToken));
        }
        tracing::info!(client = %client.address, "logged in to the dashboard");
        let begun = self.sessions.begin(Instant::now(), client.https);
        begun.map_err(|error| ApiError::Internal {
            cause: error.to_string(),
        })
    }

    /// Whether a browser can use the API as it is: it has logged in, or need not.
    pub(super) fn has_access(&self, head: &Head<'_>) -> bool {
        let session = || self.sessions.find(head.all(&COOKIE), Instant::now());
        self.token.is_none() || session().is_some()
    }

    /// Whether a client still has access: a session may have ended.
    pub(super) fn is_valid(&self, identity: AdminIdentity) -> bool {
        match identity {
            AdminIdentity::Session(id) => self.sessions.is_open(id, Instant::now()),
            AdminIdentity::Anonymous | AdminIdentity::Token => true,
        }
    }

    /// Counts a failed authentication against the address, like those of API keys.
    fn record_failure(&self, client: IpAddr, error: ApiError) -> ApiError {
        let now = self.clock.now();
        let quota = match self.failures.record_failure(client, now) {
            Ok(quota) => quota,
            Err(quota) => {
                return ApiError::TooManyFailures {
                    retry_after: quota.reset.seconds_from(now),
                };
            }
        };
        if matches!(error, ApiError::InvalidAdminToken) {
            tracing::warn!(%client, "invalid admin token");
        }
        if quota.remaining == 0 {
            tracing::warn!(%client, "too many requests without a valid admin token: this client is not logged again before the next minute");
        }
        error
    }
}

fn origin(head: &Head<'_>, client: Client) -> RequestOrigin {
    let mut origins = head.all(&ORIGIN);
    let Some(origin) = origins.next() else {
        return RequestOrigin::Absent;
    };
    // A proxy that terminates TLS may not report the scheme: then the origin is https:// although the client seems not to use TLS.
    let authority = origin.strip_prefix(b"https://");
    let plain = || origin.strip_prefix(b"http://").filter(|_| !client.https);
    let own = Authority::of(head).ok().flatten();
    let is_own = authority
        .or_else(plain)
        .zip(own)
        .is_some_and(|(origin, own)| origin.eq_ignore_ascii_case(own.as_bytes()));
    match is_own && origins.next().is_none() {
        true => RequestOrigin::SameOrigin,
        false => RequestOrigin::CrossOrigin,
    }
}

/// Rejects a request that a page of another origin has sent.
fn check_origin(head: &Head<'_>, origin: RequestOrigin) -> Result<(), ApiError> {
    let mut sites = head.all(&SEC_FETCH_SITE);
    let is_foreign = sites.any(|site| !matches!(site, b"same-origin" | b"none"));
    match origin {
        RequestOrigin::CrossOrigin => Err(CROSS_ORIGIN),
        _ if is_foreign => Err(FOREIGN_PAGE),
        _ => Ok(()),
    }
}

/// Browsers send it to HTTPS and loopback addresses. Scripts of pages cannot change it.
static SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

const NO_ADMIN_TOKEN: ApiError =
    ApiError::Forbidden("Changes require a token: start the server with --admin-token-file.");

const NO_LOGIN: ApiError = ApiError::Forbidden(
    "There is no token to log in with: start the server with --admin-token-file to allow changes.",
);

const FOREIGN_PAGE: ApiError =
    ApiError::Forbidden("This request comes from a page of another origin.");

const CROSS_ORIGIN: ApiError = ApiError::Forbidden(
    "The Origin of this request is missing, or not that of this listener. If a proxy is in front, it must pass Host on unchanged, with the port.",
);

/// The origin of the page that sends a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestOrigin {
    /// None is sent: the client is not a browser, or the request changes nothing.
    Absent,
    /// The dashboard.
    SameOrigin,
    /// Another one, or several.
    CrossOrigin,
}
