//! Whether the server can serve. A background task maintains it, so that a request needs no check, and the responses are built when
//! a check changes, not for each request.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Map, Value, json};

/// The age of the last checks after which the server is not ready: the background task is stuck then.
const STALE: Duration = Duration::from_secs(5);

/// A check.
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
    /// The clock of this machine agrees with the database's, the reference clock.
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

/// The result of a check. Reasons are public: a few words, never the text of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CheckState {
    /// The check has passed.
    Ready,
    /// The server continues to serve, with a restriction.
    Degraded(Cow<'static, str>),
    /// The server is not ready, and traffic should go to another one.
    Failed(Cow<'static, str>),
}

impl CheckState {
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
    pages: RwLock<Arc<ReadinessPages>>,
    /// When this was created, and milliseconds from then to the last round of checks.
    began: Instant,
    checked: AtomicU64,
}

#[derive(Clone, Debug, Default)]
struct Checks {
    states: [Option<CheckState>; Check::ALL.len()],
    shutdown: bool,
}

/// The current responses.
#[derive(Debug)]
struct ReadinessPages {
    ready: bool,
    plain: ReadinessPage,
    verbose: ReadinessPage,
}

/// A response of `/readyz`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadinessPage {
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
    /// Records the result of a check, and logs it if it has changed.
    pub(crate) fn set(&self, check: Check, state: CheckState) {
        self.change(|checks| {
            let last = &mut checks.states[check as usize];
            if last.as_ref() == Some(&state) {
                return false;
            }
            // The first result is logged only if the check has not passed, and another reason is no change.
            match &state {
                CheckState::Ready if last.is_none() => {}
                _ if last.as_ref().map(CheckState::word) == Some(state.word()) => {}
                CheckState::Ready => tracing::info!(check = check.name(), "ready again"),
                CheckState::Degraded(reason) | CheckState::Failed(reason) => {
                    tracing::warn!(check = check.name(), reason = %reason, "{}", state.word());
                }
            }
            *last = Some(state);
            true
        });
    }

    /// Records that a round of checks is complete.
    pub(crate) fn checked(&self) {
        let millis = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.checked.store(millis, Ordering::Relaxed);
    }

    /// Whether the last check of the store has failed.
    pub(crate) fn store_has_failed(&self) -> bool {
        let checks = self.checks.lock().unwrap_or_else(PoisonError::into_inner);
        matches!(
            checks.states[Check::Store as usize],
            Some(CheckState::Failed(_))
        )
    }

    /// Makes the server permanently not ready: it is shutting down.
    pub(crate) fn shut_down(&self) {
        self.change(|checks| !std::mem::replace(&mut checks.shutdown, true));
    }

    /// Returns the response to a request.
    pub(crate) fn page(&self, verbose: bool) -> ReadinessPage {
        let checked = self.began + Duration::from_millis(self.checked.load(Ordering::Relaxed));
        let pages = self.pages.read().unwrap_or_else(PoisonError::into_inner);
        if pages.ready && checked.elapsed() > STALE {
            return ReadinessPage::NotReady("Not ready: the checks are out of date.".into());
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
    fn pages(&self) -> ReadinessPages {
        if self.shutdown {
            let page = ReadinessPage::NotReady("Not ready: the server is shutting down.".into());
            return ReadinessPages {
                ready: false,
                plain: page.clone(),
                verbose: page,
            };
        }
        let known: Vec<(Check, &CheckState)> = Check::ALL
            .into_iter()
            .zip(&self.states)
            .filter_map(|(check, state)| Some((check, state.as_ref()?)))
            .collect();
        let failed = |(_, state): &(Check, &CheckState)| matches!(state, CheckState::Failed(_));
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
            return ReadinessPages {
                ready: false,
                plain: ReadinessPage::NotReady("Not ready. Try again in a moment.".into()),
                verbose: ReadinessPage::NotReady(verbose.into()),
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
        ReadinessPages {
            ready: true,
            plain: ReadinessPage::Ready(Bytes::from_static(b"{\"status\":\"ready\"}")),
            verbose: ReadinessPage::Ready(verbose.to_string().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(page: ReadinessPage) -> String {
        match page {
            ReadinessPage::Ready(body) => String::from_utf8(body.into()).unwrap(),
            ReadinessPage::NotReady(message) => message.as_ref().to_owned(),
        }
    }

    #[test]
    fn it_is_ready_when_no_check_has_failed() {
        let readiness = Readiness::default();
        assert!(matches!(readiness.page(false), ReadinessPage::NotReady(_)));
        readiness.set(Check::Store, CheckState::Ready);
        readiness.set(Check::Redis, CheckState::Degraded("late".into()));
        assert_eq!(text(readiness.page(false)), r#"{"status":"ready"}"#);
        assert_eq!(
            text(readiness.page(true)),
            r#"{"status":"ready","checks":{"store":"ready","redis":"degraded"},"reasons":{"redis":"late"}}"#
        );
        readiness.set(Check::Store, CheckState::Failed("no response".into()));
        assert_eq!(
            readiness.page(true),
            ReadinessPage::NotReady(
                "Not ready. store: failed (no response). redis: degraded (late).".into()
            )
        );
        readiness.set(Check::Store, CheckState::Ready);
        assert!(matches!(readiness.page(false), ReadinessPage::Ready(_)));
    }

    #[test]
    fn it_is_never_ready_again_once_the_server_shuts_down() {
        let readiness = Readiness::default();
        readiness.set(Check::Store, CheckState::Ready);
        readiness.shut_down();
        readiness.set(Check::Store, CheckState::Failed("gone".into()));
        readiness.set(Check::Store, CheckState::Ready);
        assert_eq!(
            text(readiness.page(true)),
            "Not ready: the server is shutting down."
        );
    }
}
