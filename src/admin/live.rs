//! The live data of the dashboard: a sample each second, of which the last 15 minutes are kept, and a stream of events for each open
//! page. What all pages show is formatted once.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt};
use serde_json::{Value, json};
use tokio::sync::{Notify, broadcast};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use super::AdminSources;
use super::off_thread::off_thread;
use super::sample::{Counts, NAMES, Sample, keep};
use super::streams::{Streams, TabId, Viewer};
use crate::api::ApiError;
use crate::log::RecentEvents;
use crate::metrics::Watch;
use crate::mutex::lock;
use crate::pet::PetStatus;

/// How many messages a page may lag behind before it gets everything again.
const MAX_LAG: usize = 16;

/// The shortest pause between two counts of the animals.
const MIN_COUNT_PAUSE: Duration = Duration::from_secs(5);

/// The longest pause between two counts of the animals.
const MAX_COUNT_PAUSE: Duration = Duration::from_secs(600);

/// Between its bounds, the pause is this many times as long as the count.
const COUNT_PAUSE_FACTOR: u32 = 200;

/// The factor of the pause after a failed count. It is smaller, because the time of a failed count says little about the number of
/// animals.
const FAILED_COUNT_PAUSE_FACTOR: u32 = 5;

/// How long a count is recent enough for the overview; longer if counting takes long.
const MIN_COUNT_VALIDITY: Duration = Duration::from_secs(60);

/// How long a request for the overview waits for a count: while the database does not respond, the overview is needed most.
const COUNT_TIMEOUT: Duration = Duration::from_secs(1);

pub(super) struct Live {
    sources: Arc<AdminSources>,
    log: Arc<RecentEvents>,
    samples: Mutex<VecDeque<Sample>>,
    /// How many animals have each status, and until when that is recent enough.
    pets: Mutex<Option<([i64; PetStatus::ALL.len()], Instant)>>,
    each_second: broadcast::Sender<Bytes>,
    streams: Arc<Streams>,
    /// Whether a stream began since the last sample.
    has_new_page: AtomicBool,
    /// How many events the log had at the last sample. Later ones are part of the next message to all pages.
    seen: AtomicU64,
    /// Wakes the task that counts the animals.
    count_requested: Notify,
    /// Wakes requests that wait for a count.
    counted: Notify,
}

impl Live {
    pub(super) fn new(sources: Arc<AdminSources>, log: Arc<RecentEvents>) -> Self {
        Self {
            sources,
            log,
            samples: Mutex::default(),
            pets: Mutex::default(),
            each_second: broadcast::channel(MAX_LAG).0,
            streams: Arc::default(),
            has_new_page: AtomicBool::default(),
            seen: AtomicU64::default(),
            count_requested: Notify::new(),
            counted: Notify::new(),
        }
    }

    /// Takes a sample each second, until the server shuts down.
    pub(super) async fn sample(&self) {
        let mut ticks = interval(Duration::from_secs(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        ticks.tick().await;
        let mut before = Counts::read(&self.sources);
        let mut state = Value::Null;
        loop {
            ticks.tick().await;
            let counts = Counts::read(&self.sources);
            let sample = counts.since(&before, &self.sources);
            before = counts;
            keep(&mut lock(&self.samples), sample);
            let seen = self.log.count();
            let seen_before = self.seen.swap(seen, Ordering::Relaxed);
            if self.each_second.receiver_count() == 0 {
                continue;
            }
            let mut message = event("sample", &numbers(&sample));
            let events = self.log.numbered(seen_before + 1..=seen);
            if !events.is_empty() {
                message += &event("events", &Value::from(events).to_string());
            }
            let current = self.state();
            // A new page was sent the state at the time it was opened, which may differ from the one last sent to all pages.
            if self.has_new_page.swap(false, Ordering::Relaxed) || current != state {
                message += &event("state", &current.to_string());
                state = current;
            }
            // Without a page nobody receives it.
            let _ = self.each_second.send(message.into());
        }
    }

    /// Counts the animals while a page is open, and for requests: the longer it takes, the less often.
    pub(super) async fn count_pets(&self) {
        loop {
            if self.streams.is_empty() {
                self.count_requested.notified().await;
            }
            let pause = self.count_now().await;
            self.counted.notify_waiters();
            sleep(pause).await;
        }
    }

    /// Counts the animals, and returns how long to wait before the next time.
    async fn count_now(&self) -> Duration {
        let store = Arc::clone(&self.sources.store);
        let count = async move || {
            // Waiting for other reads costs nothing, so it does not count.
            let began = Instant::now();
            let counts = store.count_pets().await;
            Ok((counts, began.elapsed()))
        };
        let counted = off_thread(count).await;
        let (counts, took) = match counted {
            Ok((counts, took)) => (counts.map_err(ApiError::from), took),
            Err(error) => (Err(error), Duration::ZERO),
        };
        match counts {
            Ok(counts) => {
                let pause = pause_after(took, COUNT_PAUSE_FACTOR);
                *lock(&self.pets) = Some((counts, Instant::now() + MIN_COUNT_VALIDITY.max(pause)));
                pause
            }
            Err(error) => {
                tracing::debug!(cause = error.cause(), "the animals could not be counted");
                pause_after(took, FAILED_COUNT_PAUSE_FACTOR)
            }
        }
    }

    /// The stream of a page: first everything, then each second what is new. It ends when `is_valid` is false, and after an event
    /// `replaced`, after which the page must not open it again, because that would replace the stream of another page.
    pub(super) fn stream<V: Fn() -> bool + 'static>(
        self: &Arc<Self>,
        viewer: Viewer,
        tab: Option<TabId>,
        watch: Option<Watch>,
        is_valid: V,
    ) -> Result<impl Stream<Item = io::Result<Bytes>> + use<V>, ApiError> {
        let open = self.streams.open(viewer, tab)?;
        self.count_requested.notify_one();
        let live = Arc::clone(self);
        let (first, receiver) = self.begin();
        let first = stream::once(async move { Ok(first) });
        let rest = stream::unfold(
            (receiver, watch, open, false),
            move |(mut receiver, watch, open, has_ended)| {
                let is_open = !has_ended && is_valid();
                let live = Arc::clone(&live);
                async move {
                    if !is_open {
                        return None;
                    }
                    let received = tokio::select! {
                        received = receiver.recv() => received,
                        () = open.replaced.notified() => {
                            let last = event("replaced", "{}").into();
                            return Some((Ok(last), (receiver, watch, open, true)));
                        }
                    };
                    let mut message = match received {
                        Ok(message) => message,
                        // The messages that it has missed are gone, so it gets everything again.
                        Err(broadcast::error::RecvError::Lagged(_)) => {
                            let (first, newer) = live.begin();
                            receiver = newer;
                            first
                        }
                        Err(broadcast::error::RecvError::Closed) => return None,
                    };
                    if let Some(watch) = &watch {
                        let more = event("key", &json!(watch.counts()).to_string());
                        message = [&message[..], more.as_bytes()].concat().into();
                    }
                    Some((Ok(message), (receiver, watch, open, false)))
                }
            },
        );
        Ok(first.chain(rest))
    }

    /// The latest sample by name, and the state of the server. The animals are counted again if the last count is too old.
    pub(super) async fn overview(&self) -> Value {
        let valid_until = lock(&self.pets).map(|(_, until)| until);
        if valid_until.is_none_or(|until| Instant::now() > until) {
            let counted = self.counted.notified();
            self.count_requested.notify_one();
            // The last count, if there is one, is better than nothing.
            let _ = timeout(COUNT_TIMEOUT, counted).await;
        }
        let mut overview = self.state();
        if let Some(sample) = lock(&self.samples).back() {
            for (name, number) in NAMES.iter().zip(sample) {
                // What is unknown, NaN, becomes null.
                overview["now"][*name] = rounded(*number).into();
            }
        }
        overview
    }

    /// What changes rarely: the health checks, and the numbers of animals.
    fn state(&self) -> Value {
        let checks = Value::from_iter(self.sources.readiness.states());
        let pets = lock(&self.pets).map(|(counts, _)| {
            let pairs = PetStatus::ALL.into_iter().zip(counts);
            Value::from_iter(pairs.map(|(status, count)| (status.as_str(), count)))
        });
        json!({
            "ready": self.sources.readiness.is_ready(),
            "checks": checks,
            "pets": pets,
        })
    }

    /// The first part of a stream, and the messages that follow it.
    fn begin(&self) -> (Bytes, broadcast::Receiver<Bytes>) {
        self.has_new_page.store(true, Ordering::Relaxed);
        let receiver = self.each_second.subscribe();
        (self.first().into(), receiver)
    }

    fn first(&self) -> String {
        let samples = lock(&self.samples);
        let rows: Vec<String> = samples.iter().map(numbers).collect();
        let history = format!(
            "{{\"names\":{},\"samples\":[{}]}}",
            json!(NAMES),
            rows.join(",")
        );
        // Later ones are part of the next message to all pages.
        let seen = self.seen.load(Ordering::Relaxed);
        let events = Value::from(self.log.numbered(..=seen)).to_string();
        event("history", &history)
            + &event("events", &events)
            + &event("state", &self.state().to_string())
    }
}

/// How long to wait after a count that took this long.
fn pause_after(took: Duration, factor: u32) -> Duration {
    let pause = took.saturating_mul(factor);
    pause.clamp(MIN_COUNT_PAUSE, MAX_COUNT_PAUSE)
}

/// A message of an event stream. The data has no line breaks.
fn event(name: &str, data: &str) -> String {
    format!("event: {name}\ndata: {data}\n\n")
}

fn numbers(sample: &Sample) -> String {
    let text = |number: &f64| match number.is_finite() {
        true => rounded(*number).to_string(),
        false => "null".to_owned(),
    };
    let numbers: Vec<String> = sample.iter().map(text).collect();
    format!("[{}]", numbers.join(","))
}

fn rounded(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests;
