//! The last events of the log, for the dashboard. Requests are not events.

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use super::format;
use crate::clock::Clock;

/// How many events are kept.
const MAX_EVENTS: usize = 200;

/// The maximum length of the text of an event, in bytes.
const MAX_TEXT: usize = 1024;

/// The last events, the latest last.
#[derive(Debug, Default)]
pub struct RecentEvents(Mutex<Numbered>);

#[derive(Debug, Default)]
struct Numbered {
    events: VecDeque<Value>,
    /// How many events there have been.
    count: u64,
}

impl RecentEvents {
    /// The events after the first `seen`, and how many there have been.
    pub(crate) fn since(&self, seen: u64) -> (Vec<Value>, u64) {
        let Numbered { events, count } = &*self.lock();
        let new = usize::try_from(count.saturating_sub(seen)).unwrap_or(usize::MAX);
        let skipped = events.len().saturating_sub(new);
        (events.iter().skip(skipped).cloned().collect(), *count)
    }

    /// Adds an event. One that repeats the last one replaces it, so that a flood of one kind leaves the others in place.
    fn add(&self, mut event: Value) {
        let mut kept = self.lock();
        event["count"] = 1.into();
        if let Some(last) = kept.events.back_mut()
            && ["level", "message"]
                .iter()
                .all(|name| last[*name] == event[*name])
        {
            event["count"] = (last["count"].as_u64().unwrap_or(1) + 1).into();
            *last = event;
            kept.count += 1;
            return;
        }
        if kept.events.len() == MAX_EVENTS {
            kept.events.pop_front();
        }
        kept.events.push_back(event);
        kept.count += 1;
    }

    fn lock(&self) -> MutexGuard<'_, Numbered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Records the events of `tracing`.
pub(super) struct Recorder {
    pub(super) events: Arc<RecentEvents>,
    pub(super) clock: Clock,
}

impl<S: Subscriber> Layer<S> for Recorder {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        self.events.add(json!({
            "time": format::time(self.clock.now()),
            "level": event.metadata().level().as_str(),
            "message": text.message,
            "fields": text.fields,
        }));
    }
}

/// The message of an event, and its fields as text.
#[derive(Default)]
struct Text {
    message: String,
    fields: String,
}

impl Visit for Text {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        if self.message.len() + self.fields.len() > MAX_TEXT {
            return;
        }
        // Writing to a String cannot fail.
        let _ = match field.name() {
            "message" => write!(self.message, "{value:?}"),
            name if self.fields.is_empty() => write!(self.fields, "{name}={value:?}"),
            name => write!(self.fields, " {name}={value:?}"),
        };
    }
}

/// The events of this thread meanwhile.
#[cfg(test)]
pub(crate) fn recorded(run: impl FnOnce()) -> Arc<RecentEvents> {
    use tracing_subscriber::layer::SubscriberExt;
    let events = Arc::new(RecentEvents::default());
    let recorder = Recorder {
        events: Arc::clone(&events),
        clock: Clock::manual(crate::clock::Timestamp::from_secs(0)),
    };
    tracing::subscriber::with_default(tracing_subscriber::registry().with(recorder), run);
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_events_are_kept_with_their_fields() {
        let events = recorded(|| {
            for number in 0..=MAX_EVENTS {
                // Two kinds in turn: one that repeats the last one would replace it.
                match number % 2 {
                    0 => tracing::info!("key created"),
                    _ => tracing::warn!(key = number, name = "a b", "key banned"),
                }
            }
        });
        let (all, count) = events.since(0);
        assert_eq!((all.len(), count), (MAX_EVENTS, MAX_EVENTS as u64 + 1));
        let expected = json!({
            "time": "1970-01-01T00:00:00.000Z",
            "level": "WARN",
            "message": "key banned",
            "fields": "key=1 name=a b",
            "count": 1,
        });
        assert_eq!(all[0], expected);
        assert_eq!(events.since(count - 1).0, [all[MAX_EVENTS - 1].clone()]);
        assert!(events.since(count).0.is_empty());
    }

    #[test]
    fn a_flood_of_one_kind_of_event_leaves_the_others_in_place() {
        let events = RecentEvents::default();
        let event = |message: &str| json!({"level": "WARN", "message": message, "fields": ""});
        events.add(event("key banned"));
        for _ in 0..1_000 {
            events.add(event("invalid admin token"));
        }
        let (kept, count) = events.since(0);
        assert_eq!((kept.len(), count), (2, 1_001));
        assert_eq!(
            (&kept[0]["message"], &kept[1]["count"]),
            (&json!("key banned"), &json!(1_000))
        );
        assert_eq!(events.since(1_000).0.len(), 1);
    }
}
