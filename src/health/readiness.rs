//! Whether the server can serve. A background task runs the checks, and a request only reads their results.

use std::borrow::Cow;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::api::ApiError;
use crate::mutex::lock;
use crate::names::named;

/// The age of the last checks after which the server is not ready: the background task is stuck then.
const MAX_CHECK_AGE: Duration = Duration::from_secs(5);

/// How long after the end of an outage of the store other failures are treated as its consequences.
const OUTAGE_SETTLE_TIME: Duration = Duration::from_secs(5);

named! {
    pub(crate) enum Check {
        /// The data can be read.
        Store = "store",
        /// The writer is alive, and its writes succeed.
        Writer = "writer",
        /// The keys in memory are those of the store.
        Keys = "keys",
        /// Redis responds in time.
        Redis = "redis",
        /// The clock of this machine agrees with the database's, the reference clock.
        Clock = "clock",
    }
}

/// The result of a check. Reasons are public: a few words, never the text of an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CheckState {
    Ready,
    /// The server continues to serve, with a restriction.
    Degraded(Cow<'static, str>),
    /// The server is not ready, and traffic should go to another one.
    Failed(Cow<'static, str>),
}

impl CheckState {
    pub(crate) const NAMES: [&'static str; 3] = ["ready", "degraded", "failed"];

    const fn as_str(&self) -> &'static str {
        match self {
            Self::Ready => Self::NAMES[0],
            Self::Degraded(_) => Self::NAMES[1],
            Self::Failed(_) => Self::NAMES[2],
        }
    }

    fn reason(&self) -> Option<&str> {
        match self {
            Self::Ready => None,
            Self::Degraded(reason) | Self::Failed(reason) => Some(reason),
        }
    }
}

pub(crate) struct Readiness(Mutex<Checks>);

struct Checks {
    /// The last results. Checks that do not apply to this server have none.
    states: [Option<CheckState>; Check::ALL.len()],
    /// When the last round of checks was complete.
    checked_at: Instant,
    is_shutting_down: bool,
    /// Whether the failure of each check has been logged.
    logged: [bool; Check::ALL.len()],
    /// The time of the last check of the store that followed a failed one: after an outage, its end.
    store_back_at: Option<Instant>,
}

impl Default for Readiness {
    fn default() -> Self {
        Self(Mutex::new(Checks {
            states: Default::default(),
            checked_at: Instant::now(),
            is_shutting_down: false,
            logged: Default::default(),
            store_back_at: None,
        }))
    }
}

impl Readiness {
    /// Records the result of a check, and logs it if it has changed. An outage of the store is one line: its consequences are logged
    /// at debug.
    pub(crate) fn set(&self, check: Check, state: CheckState) {
        let mut checks = lock(&self.0);
        checks.log(check, &state);
        let last = checks.states[check as usize].replace(state);
        if check == Check::Store && matches!(last, Some(CheckState::Failed(_))) {
            checks.store_back_at = Some(Instant::now());
        }
    }

    /// Records that a round of checks is complete.
    pub(crate) fn checked(&self) {
        lock(&self.0).checked_at = Instant::now();
    }

    pub(crate) fn store_has_failed(&self) -> bool {
        lock(&self.0).store_has_failed()
    }

    /// Whether other failures may be consequences of an outage of the store, which is logged already.
    pub(crate) fn in_outage(&self) -> bool {
        lock(&self.0).in_outage()
    }

    /// Makes the server permanently not ready: it is shutting down.
    pub(crate) fn mark_shutting_down(&self) {
        lock(&self.0).is_shutting_down = true;
    }

    /// Whether the server is ready, as `/readyz` shows it.
    pub(crate) fn is_ready(&self) -> bool {
        self.body(false).is_ok()
    }

    /// The name of each check that has a result, with the name of its state.
    pub(crate) fn states(&self) -> Vec<(&'static str, &'static str)> {
        let checks = lock(&self.0);
        let states = checks.known().map(|(check, state)| (check, state.as_str()));
        states.collect()
    }

    /// Returns the body of `/readyz`, or why the server is not ready.
    pub(crate) fn body(&self, verbose: bool) -> Result<Bytes, ApiError> {
        let checks = lock(&self.0);
        let not_ready = |reason: &str| Err(ApiError::UnavailableWithMessage(reason.to_owned()));
        if checks.is_shutting_down {
            return not_ready("Not ready: the server is shutting down.");
        }
        let mut known = checks.states.iter().flatten().peekable();
        let is_unknown = known.peek().is_none();
        if is_unknown || known.any(|state| matches!(state, CheckState::Failed(_))) {
            return match verbose {
                true => not_ready(&checks.message()),
                false => not_ready("Not ready. Try again in a moment."),
            };
        }
        if checks.checked_at.elapsed() > MAX_CHECK_AGE {
            return not_ready("Not ready: the checks are out of date.");
        }
        Ok(match verbose {
            true => checks.json().to_string().into(),
            false => Bytes::from_static(b"{\"status\":\"ready\"}"),
        })
    }
}

impl Checks {
    fn store_has_failed(&self) -> bool {
        let state = &self.states[Check::Store as usize];
        matches!(state, Some(CheckState::Failed(_)))
    }

    fn in_outage(&self) -> bool {
        let is_recent = |back: Instant| back.elapsed() < OUTAGE_SETTLE_TIME;
        self.store_has_failed() || self.store_back_at.is_some_and(is_recent)
    }

    /// Logs a result if it has changed since the last one. A different reason alone is not a change.
    fn log(&mut self, check: Check, state: &CheckState) {
        // The others are logged with their cause where they are detected.
        let is_logged_here = matches!(check, Check::Store | Check::Keys | Check::Clock);
        let is_quiet = !is_logged_here || (check != Check::Store && self.in_outage());
        let last = self.states[check as usize].as_ref();
        let has_changed = last.map(CheckState::as_str) != Some(state.as_str());
        let logged = &mut self.logged[check as usize];
        let (check, state_name) = (check.as_str(), state.as_str());
        match state.reason() {
            None if std::mem::take(logged) => {
                tracing::info!(check, "readiness check passed again");
            }
            None => {}
            Some(reason) if !is_quiet && (has_changed || !*logged) => {
                tracing::warn!(check, reason, "readiness check {state_name}");
                *logged = true;
            }
            Some(reason) if has_changed => {
                tracing::debug!(check, reason, "readiness check {state_name}");
            }
            Some(_) => {}
        }
    }

    /// The checks that have a result, by name.
    fn known(&self) -> impl Iterator<Item = (&'static str, &CheckState)> {
        let checks = Check::ALL.into_iter().zip(&self.states);
        checks.filter_map(|(check, state)| Some((check.as_str(), state.as_ref()?)))
    }

    /// All results as the message of an error.
    fn message(&self) -> String {
        let mut text = "Not ready.".to_owned();
        for (check, state) in self.known() {
            text.push_str(&format!(" {check}: {}", state.as_str()));
            if let Some(reason) = state.reason() {
                text.push_str(&format!(" ({reason})"));
            }
            text.push('.');
        }
        text
    }

    fn json(&self) -> Value {
        let states = self.known().map(|(check, state)| (check, state.as_str()));
        let mut json = json!({"status": "ready", "checks": Value::from_iter(states)});
        let reasons = self
            .known()
            .filter_map(|(check, state)| Some((check, state.reason()?)));
        let reasons = Value::from_iter(reasons);
        if reasons != json!({}) {
            json["reasons"] = reasons;
        }
        json
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The body, or the message of the error.
    fn text(readiness: &Readiness, verbose: bool) -> String {
        match readiness.body(verbose) {
            Ok(body) => String::from_utf8(body.into()).unwrap(),
            Err(error) => error.to_string(),
        }
    }

    #[test]
    fn it_is_ready_when_no_check_has_failed() {
        let readiness = Readiness::default();
        assert!(readiness.body(false).is_err());
        readiness.set(Check::Store, CheckState::Ready);
        readiness.set(Check::Redis, CheckState::Degraded("late".into()));
        assert_eq!(text(&readiness, false), r#"{"status":"ready"}"#);
        assert!(readiness.is_ready());
        assert_eq!(
            readiness.states(),
            [("store", "ready"), ("redis", "degraded")]
        );
        assert_eq!(
            text(&readiness, true),
            r#"{"status":"ready","checks":{"store":"ready","redis":"degraded"},"reasons":{"redis":"late"}}"#
        );
        readiness.set(Check::Store, CheckState::Failed("no response".into()));
        assert!(readiness.body(true).is_err());
        assert_eq!(
            text(&readiness, true),
            "Not ready. store: failed (no response). redis: degraded (late)."
        );
        assert!(!readiness.is_ready());
        assert_eq!(readiness.states()[0], ("store", "failed"));
        readiness.set(Check::Store, CheckState::Ready);
        assert!(readiness.body(false).is_ok());
    }

    #[test]
    fn it_is_not_ready_if_the_checks_have_ceased() {
        let readiness = Readiness::default();
        readiness.set(Check::Store, CheckState::Ready);
        lock(&readiness.0).checked_at -= Duration::from_secs(6);
        assert!(!readiness.is_ready());
        let message = "Not ready: the checks are out of date.";
        assert_eq!(text(&readiness, true), message);
        readiness.checked();
        assert!(readiness.is_ready());
    }

    #[test]
    fn it_is_never_ready_again_once_the_server_shuts_down() {
        let readiness = Readiness::default();
        readiness.set(Check::Store, CheckState::Ready);
        readiness.mark_shutting_down();
        readiness.set(Check::Store, CheckState::Failed("gone".into()));
        readiness.set(Check::Store, CheckState::Ready);
        assert_eq!(
            text(&readiness, true),
            "Not ready: the server is shutting down."
        );
    }
}
