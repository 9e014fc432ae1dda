//! Whether the server can serve: a value that background work maintains, so that a request for it asks neither the store nor
//! anybody else. The responses are built when a check changes, not when they are asked for.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Map, Value, json};

/// How old the value may become before it counts as not ready: background work is stuck then.
const STALE: Duration = Duration::from_secs(5);

/// What is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// The data can be read.
    Store,
    /// The thread that writes is alive.
    Writer,
    /// The keys in memory are those of the store.
    Keys,
    /// Redis responds in time.
    Redis,
    /// The clock of this machine agrees with the database's, which decides.
    Clock,
}

impl Check {
    /// Every check, in the order in which they are listed.
    const ALL: [Self; 5] = [
        Self::Store,
        Self::Writer,
        Self::Keys,
        Self::Redis,
        Self::Clock,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Writer => "writer",
            Self::Keys => "keys",
            Self::Redis => "redis",
            Self::Clock => "clock",
        }
    }
}

/// What a check found. A reason is read by everyone: a few words, never the text of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// All is well.
    Ready,
    /// Worse than it should be; the server goes on serving.
    Degraded(Cow<'static, str>),
    /// The server cannot serve as it should, and traffic should go elsewhere.
    Failed(Cow<'static, str>),
}

impl State {
    const fn word(&self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Degraded(_) => "degraded",
            Self::Failed(_) => "failed",
        }
    }

    fn reason(&self) -> Option<&str> {
        match self {
            Self::Ready => None,
            Self::Degraded(reason) | Self::Failed(reason) => Some(reason),
        }
    }
}

/// The readiness of one server.
#[derive(Debug)]
pub(crate) struct Readiness {
    checks: Mutex<Checks>,
    pages: RwLock<Arc<Pages>>,
    /// When this began, and milliseconds from then to the last round of checks.
    began: Instant,
    checked: AtomicU64,
}

#[derive(Clone, Debug, Default)]
struct Checks {
    states: [Option<State>; Check::ALL.len()],
    shutdown: bool,
}

/// The responses, or the messages of an error.
#[derive(Debug)]
struct Pages {
    ready: bool,
    plain: Page,
    verbose: Page,
}

/// A response to a request for readiness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Page {
    /// A JSON body.
    Ready(Bytes),
    /// The message of an error.
    NotReady(Arc<str>),
}

impl Default for Readiness {
    fn default() -> Self {
        Self {
            pages: RwLock::new(Arc::new(Checks::default().pages())),
            checks: Mutex::default(),
            began: Instant::now(),
            checked: AtomicU64::new(0),
        }
    }
}

impl Readiness {
    /// Notes what a check has found.
    pub(crate) fn set(&self, check: Check, state: State) {
        self.change(|checks| {
            let place = &mut checks.states[check as usize];
            if place.as_ref() == Some(&state) {
                return false;
            }
            // Told at each turn. The first round tells nothing unless something is wrong, and another reason is no turn.
            match &state {
                State::Ready if place.is_none() => {}
                _ if place.as_ref().map(State::word) == Some(state.word()) => {}
                State::Ready => tracing::info!(check = check.name(), "ready again"),
                State::Degraded(reason) | State::Failed(reason) => {
                    tracing::warn!(check = check.name(), reason = %reason, "{}", state.word());
                }
            }
            *place = Some(state);
            true
        });
    }

    /// Notes that a round of checks is done.
    pub(crate) fn checked(&self) {
        let millis = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.checked.store(millis, Ordering::Relaxed);
    }

    /// Whether the data cannot be read, by the last round of checks.
    pub(crate) fn store_has_failed(&self) -> bool {
        let checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(checks.states[Check::Store as usize], Some(State::Failed(_)))
    }

    /// Not ready from now on: the server is shutting down.
    pub(crate) fn shut_down(&self) {
        self.change(|checks| !std::mem::replace(&mut checks.shutdown, true));
    }

    /// The response to a request.
    pub(crate) fn page(&self, verbose: bool) -> Page {
        let checked = self.began + Duration::from_millis(self.checked.load(Ordering::Relaxed));
        let pages = self.pages.read().unwrap_or_else(PoisonError::into_inner);
        if pages.ready && checked.elapsed() > STALE {
            return Page::NotReady("Not ready: the checks are out of date.".into());
        }
        match verbose {
            true => pages.verbose.clone(),
            false => pages.plain.clone(),
        }
    }

    fn change(&self, change: impl FnOnce(&mut Checks) -> bool) {
        let mut checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        if change(&mut checks) {
            let pages = Arc::new(checks.pages());
            *self.pages.write().unwrap_or_else(PoisonError::into_inner) = pages;
        }
    }
}

impl Checks {
    fn pages(&self) -> Pages {
        if self.shutdown {
            let page = Page::NotReady("Not ready: the server is shutting down.".into());
            return Pages {
                ready: false,
                plain: page.clone(),
                verbose: page,
            };
        }
        let known: Vec<(Check, &State)> = Check::ALL
            .into_iter()
            .zip(&self.states)
            .filter_map(|(check, state)| Some((check, state.as_ref()?)))
            .collect();
        let failed = |(_, state): &(Check, &State)| matches!(state, State::Failed(_));
        if known.is_empty() || known.iter().any(failed) {
            let mut verbose = "Not ready.".to_owned();
            for (check, state) in known {
                // Writing to a String cannot fail.
                let _ = write!(verbose, " {}: {}", check.name(), state.word());
                let _ = match state.reason() {
                    Some(reason) => write!(verbose, " ({reason})."),
                    None => write!(verbose, "."),
                };
            }
            return Pages {
                ready: false,
                plain: Page::NotReady("Not ready. Try again in a moment.".into()),
                verbose: Page::NotReady(verbose.into()),
            };
        }
        let words = known
            .iter()
            .map(|(check, state)| (check.name().to_owned(), state.word().into()));
        let reasons = known.iter().filter_map(|(check, state)| {
            Some((check.name().to_owned(), Value::from(state.reason()?)))
        });
        let (words, reasons): (Map<_, _>, Map<_, _>) = (words.collect(), reasons.collect());
        let mut verbose = json!({"status": "ready", "checks": words});
        if !reasons.is_empty() {
            verbose["reasons"] = reasons.into();
        }
        Pages {
            ready: true,
            plain: Page::Ready(Bytes::from_static(b"{\"status\":\"ready\"}")),
            verbose: Page::Ready(verbose.to_string().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(page: Page) -> String {
        match page {
            Page::Ready(body) => String::from_utf8(body.into()).unwrap(),
            Page::NotReady(message) => message.as_ref().to_owned(),
        }
    }

    #[test]
    fn it_is_ready_when_no_check_has_failed() {
        let readiness = Readiness::default();
        assert!(matches!(readiness.page(false), Page::NotReady(_)));
        readiness.set(Check::Store, State::Ready);
        readiness.set(Check::Redis, State::Degraded("late".into()));
        assert_eq!(text(readiness.page(false)), r#"{"status":"ready"}"#);
        assert_eq!(
            text(readiness.page(true)),
            r#"{"status":"ready","checks":{"store":"ready","redis":"degraded"},"reasons":{"redis":"late"}}"#
        );
        readiness.set(Check::Store, State::Failed("no response".into()));
        assert_eq!(
            readiness.page(true),
            Page::NotReady(
                "Not ready. store: failed (no response). redis: degraded (late).".into()
            )
        );
        readiness.set(Check::Store, State::Ready);
        assert!(matches!(readiness.page(false), Page::Ready(_)));
    }

    #[test]
    fn it_is_never_ready_again_once_the_server_shuts_down() {
        let readiness = Readiness::default();
        readiness.set(Check::Store, State::Ready);
        readiness.shut_down();
        readiness.set(Check::Store, State::Failed("gone".into()));
        readiness.set(Check::Store, State::Ready);
        assert_eq!(
            text(readiness.page(true)),
            "Not ready: the server is shutting down."
        );
    }
}
