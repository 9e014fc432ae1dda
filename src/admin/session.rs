//! Sessions of browsers that have logged in. They are kept in memory only: a restart ends them.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use http::header::HeaderValue;
use sha2::{Digest, Sha256};

use crate::http::header;
use crate::mutex::lock;

const MAX_AGE: Duration = Duration::from_hours(12);

/// The maximum number of sessions. One more ends the oldest.
const MAX_SESSIONS: usize = 64;

pub(super) struct Sessions {
    /// The name of the cookie. It is random: cookies do not distinguish ports, so the servers of one machine, or behind tunnels
    /// from it, would replace each other's.
    cookie_name: String,
    open: Mutex<Vec<Session>>,
}

/// The hash of a session's secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SessionId([u8; 32]);

struct Session {
    id: SessionId,
    expires: Instant,
}

impl Sessions {
    pub(super) fn new() -> Self {
        Self {
            cookie_name: format!("animal_store_{:016x}", RandomState::new().hash_one(())),
            open: Mutex::default(),
        }
    }

    /// Begins a session. Returns the cookie that a browser stores, with `Secure` if the client uses HTTPS.
    pub(super) fn begin(&self, now: Instant, https: bool) -> Result<HeaderValue, getrandom::Error> {
        let mut secret = [0; 32];
        getrandom::fill(&mut secret)?;
        let secret: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut open = self.unexpired(now);
        if open.len() == MAX_SESSIONS {
            open.remove(0);
        }
        open.push(Session {
            id: SessionId::of(secret.as_bytes()),
            expires: now + MAX_AGE,
        });
        Ok(self.cookie(&secret, MAX_AGE, https))
    }

    /// The open session of a request with these `Cookie` headers.
    pub(super) fn find<'a>(
        &self,
        cookies: impl Iterator<Item = &'a [u8]>,
        now: Instant,
    ) -> Option<SessionId> {
        let pairs = cookies.flat_map(|value| value.split(|byte| *byte == b';'));
        let secrets = pairs.filter_map(|pair| {
            let value = pair
                .trim_ascii()
                .strip_prefix(self.cookie_name.as_bytes())?;
            value.strip_prefix(b"=")
        });
        let mut ids = secrets.map(SessionId::of);
        ids.find(|id| self.is_open(*id, now))
    }

    /// Whether a session has neither expired nor been ended.
    pub(super) fn is_open(&self, id: SessionId, now: Instant) -> bool {
        self.unexpired(now).iter().any(|session| session.id == id)
    }

    /// Ends a session. Returns the cookie that makes a browser forget it.
    pub(super) fn end(&self, id: SessionId, https: bool) -> HeaderValue {
        lock(&self.open).retain(|session| session.id != id);
        self.cookie("", Duration::ZERO, https)
    }

    fn cookie(&self, secret: &str, max_age: Duration, https: bool) -> HeaderValue {
        let secure = if https { "; Secure" } else { "" };
        header::value(format!(
            "{}={secret}; Max-Age={}; Path=/; HttpOnly; SameSite=Strict{secure}",
            self.cookie_name,
            max_age.as_secs()
        ))
    }

    /// The sessions that have not expired.
    fn unexpired(&self, now: Instant) -> MutexGuard<'_, Vec<Session>> {
        let mut open = lock(&self.open);
        open.retain(|session| now < session.expires);
        open
    }
}

impl SessionId {
    fn of(secret: &[u8]) -> Self {
        Self(Sha256::digest(secret).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(cookie: &HeaderValue) -> String {
        let text = cookie.to_str().unwrap();
        text.split(';').next().unwrap().to_owned()
    }

    fn find(sessions: &Sessions, cookies: &str, now: Instant) -> Option<SessionId> {
        sessions.find([cookies.as_bytes()].into_iter(), now)
    }

    #[test]
    fn a_session_expires_or_is_ended() {
        let (sessions, now) = (Sessions::new(), Instant::now());
        let cookie = sessions.begin(now, true).unwrap();
        let text = cookie.to_str().unwrap();
        assert!(text.ends_with("; Max-Age=43200; Path=/; HttpOnly; SameSite=Strict; Secure"));
        let others = format!("a=b;  {} ; c", sent(&cookie));
        let id = find(&sessions, &others, now).unwrap();
        let second = sessions.begin(now, false).unwrap();
        sessions.end(id, true);
        assert_eq!(find(&sessions, &others, now), None);
        let almost = now + MAX_AGE - Duration::from_secs(1);
        assert!(find(&sessions, &sent(&second), almost).is_some());
        assert_eq!(find(&sessions, &sent(&second), now + MAX_AGE), None);
    }

    #[test]
    fn the_number_of_sessions_is_bounded_and_the_oldest_ends_first() {
        let (sessions, now) = (Sessions::new(), Instant::now());
        let first = sessions.begin(now, false).unwrap();
        let second = sessions.begin(now, false).unwrap();
        for _ in 2..=MAX_SESSIONS {
            sessions.begin(now, false).unwrap();
        }
        assert_eq!(find(&sessions, &sent(&first), now), None);
        assert!(find(&sessions, &sent(&second), now).is_some());
        assert_eq!(sessions.unexpired(now).len(), MAX_SESSIONS);
    }

    #[test]
    fn the_cookies_of_two_servers_have_different_names() {
        let [one, other] = [0, 1].map(|_| Sessions::new());
        assert_ne!(one.cookie_name, other.cookie_name);
    }

    #[test]
    fn a_secret_that_was_not_issued_has_no_session() {
        let (sessions, now) = (Sessions::new(), Instant::now());
        sessions.begin(now, false).unwrap();
        let name = &sessions.cookie_name;
        for wrong in [
            String::new(),
            name.clone(),
            format!("{name}="),
            format!("{name}=00"),
        ] {
            assert_eq!(find(&sessions, &wrong, now), None, "{wrong}");
        }
    }
}
