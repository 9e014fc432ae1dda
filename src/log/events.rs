//! The last events of the log, for the dashboard. Requests are not events.

use std::collections::VecDeque;
use std::fmt::{self, Write};
use std::ops::RangeBounds;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

use super::format;
use crate::clock::Clock;
use crate::mutex::lock;

/// The maximum length of the message of an event, and of its fields, in bytes.
const MAX_TEXT: usize = 1024;

/// The last events, the latest last.
#[derive(Debug, Default)]
pub struct RecentEvents(Mutex<NumberedEvents>);

#[derive(Debug, Default)]
struct NumberedEvents {
    /// Each with its sequence number; an event that was repeated has that of its last repetition.
    events: VecDeque<(u64, Value)>,
    /// How many events there have been.
    count: u64,
}

impl RecentEvents {
    /// How many events are kept.
    pub(crate) const CAPACITY: usize = 200;

    pub(crate) fn count(&self) -> u64 {
        lock(&self.0).count
    }

    /// The events with these numbers, of which the first is 1. One that was repeated has the number of the last time.
    pub(crate) fn numbered(&self, numbers: impl RangeBounds<u64>) -> Vec<Value> {
        let kept = lock(&self.0);
        let events = kept.events.iter();
        let found = events.filter(|(number, _)| numbers.contains(number));
        found.map(|(_, event)| event.clone()).collect()
    }

    /// Adds an event. One that repeats the last one replaces it. If there is no room, and half of all have its message, it replaces the
    /// oldest of those. So a flood, even one from many addresses, displaces other events only until it has half of the list.
    fn add(&self, mut event: Value) {
        let mut kept = lock(&self.0);
        let NumberedEvents { events, count } = &mut *kept;
        *count += 1;
        let is_same = |last: &mut (u64, Value)| {
            let names = ["level", "message", "fields"];
            names.into_iter().all(|name| last.1[name] == event[name])
        };
        let repeated = events.pop_back_if(is_same);
        let times = repeated.and_then(|(_, last)| last["count"].as_u64());
        event["count"] = (times.unwrap_or(0) + 1).into();
        if events.len() == RecentEvents::CAPACITY {
            let mut alike = (0..RecentEvents::CAPACITY)
                .filter(|at| events[*at].1["message"] == event["message"]);
            let oldest = alike
                .next()
                .filter(|_| alike.count() + 1 >= RecentEvents::CAPACITY / 2);
            events.remove(oldest.unwrap_or(0));
        }
        events.push_back((*count, event));
    }
}

pub(super) struct Recorder {
    pub(super) events: Arc<RecentEvents>,
    pub(super) clock: Clock,
}

impl<S: Subscriber> Layer<S> for Recorder {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = EventText::default();
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
struct EventText {
    message: String,
    fields: String,
}

impl Visit for EventText {
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
        for text in [&mut self.message, &mut self.fields] {
            text.truncate(text.floor_char_boundary(MAX_TEXT));
        }
    }
}

/// The events that `run` logs on this thread.
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
            for number in 0..=RecentEvents::CAPACITY {
                // Each has another field, so none repeats the last one.
                tracing::warn!(key = number, name = "a b", "key banned");
            }
        });
        let (all, count) = (events.numbered(..), events.count());
        assert_eq!(
            (all.len(), count),
            (RecentEvents::CAPACITY, RecentEvents::CAPACITY as u64 + 1)
        );
        let expected = json!({
            "time": "1970-01-01T00:00:00.000Z",
            "level": "WARN",
            "message": "key banned",
            "fields": "key=1 name=a b",
            "count": 1,
        });
        assert_eq!(all[0], expected);
        assert_eq!(
            events.numbered(count..),
            [all[RecentEvents::CAPACITY - 1].clone()]
        );
        assert_eq!(
            events.numbered(..=count - 1),
            all[..RecentEvents::CAPACITY - 1]
        );
    }

    #[test]
    fn a_flood_of_one_event_leaves_the_others_in_place() {
        let events = RecentEvents::default();
        let event = |message: &str| json!({"level": "WARN", "message": message, "fields": ""});
        events.add(event("key banned"));
        for _ in 0..1_000 {
            events.add(event("invalid admin token"));
        }
        let (kept, count) = (events.numbered(..), events.count());
        assert_eq!((kept.len(), count), (2, 1_001));
        assert_eq!(
            (&kept[0]["message"], &kept[1]["count"]),
            (&json!("key banned"), &json!(1_000))
        );
        assert_eq!(events.numbered(500..), kept[1..]);
        for number in 0..1_000 {
            let mut event = event("invalid admin token");
            event["fields"] = format!("client=192.0.2.{}", number % 4).into();
            events.add(event);
        }
        let kept = events.numbered(..);
        assert_eq!(kept.len(), RecentEvents::CAPACITY);
        assert_eq!(kept[0]["message"], "key banned");
    }

    #[test]
    fn the_text_of_an_event_is_bounded() {
        let events = recorded(|| tracing::warn!(cause = "ä".repeat(5_000), "failed"));
        let event = &events.numbered(..)[0];
        let length = event["fields"].as_str().map(str::len);
        assert_eq!(
            (length, &event["message"]),
            (Some(MAX_TEXT), &json!("failed"))
        );
    }
}
