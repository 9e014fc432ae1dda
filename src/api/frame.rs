//! The headers that answers have in common, in one map that is copied whole. Putting the same headers into an empty map one
//! by one hashes every name for every answer, and costs several times as much (docs/decisions.md has the figures).

use std::sync::LazyLock;

use bytes::Bytes;
use hyper::header::{
    CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, IterMut, LINK, RETRY_AFTER,
    X_CONTENT_TYPE_OPTIONS,
};
use hyper::{Response, StatusCode};

use super::header::text;
use super::{Answer, header};
use crate::http::Content;
use crate::limit::Rate;

/// What differs from response to response and is known last. Every frame has a place for each.
static PLACES: [HeaderName; 4] = [
    header::RATE_LIMIT,
    header::RATE_REMAINING,
    header::RATE_RESET,
    header::REQUEST_ID,
];

/// Any answer of the API: JSON, not to be stored, not to be guessed at.
pub(super) static PLAIN: LazyLock<Frame> = LazyLock::new(|| Frame::new([]));

/// An answer with a link to the next page, which is known last too.
pub(super) static WITH_LINK: LazyLock<Frame> =
    LazyLock::new(|| Frame::new([(LINK, HeaderValue::from_static(""))]));

/// An answer that says when to come again, which is known last too.
pub(super) static WITH_RETRY: LazyLock<Frame> =
    LazyLock::new(|| Frame::new([(RETRY_AFTER, HeaderValue::from_static(""))]));

/// Headers to begin an answer with.
#[derive(Debug)]
pub(super) struct Frame(HeaderMap);

impl Frame {
    /// What all answers have, and what these have besides.
    pub(super) fn new<const N: usize>(besides: [(HeaderName, HeaderValue); N]) -> Self {
        let common = [
            (CONTENT_TYPE, header::JSON),
            (CACHE_CONTROL, header::NO_STORE),
            (X_CONTENT_TYPE_OPTIONS, header::NOSNIFF),
        ];
        // First, because a map is usually walked in the order in which it was filled, and `finish` begins there.
        let places = PLACES
            .iter()
            .map(|name| (name.clone(), HeaderValue::from_static("")));
        Self(places.chain(besides).chain(common).collect())
    }

    /// An answer in this frame, its places still empty.
    pub(super) fn answer(&self, status: StatusCode, body: Bytes) -> Answer {
        let mut answer = Response::new(Content::from(body));
        *answer.status_mut() = status;
        *answer.headers_mut() = self.0.clone();
        answer
    }

    /// An answer in this frame, with this value in the place that it has besides.
    pub(super) fn answer_with(
        &self,
        status: StatusCode,
        body: Bytes,
        name: &HeaderName,
        value: HeaderValue,
    ) -> Answer {
        let mut answer = self.answer(status, body);
        if let Some(place) = answer.headers_mut().get_mut(name) {
            *place = value;
        }
        answer
    }
}

/// Says what the caller has left, and the request's name. The last step of every answer, framed or not: without a rate
/// there is none to tell, and an answer that has places for it loses them.
pub fn finish(answer: &mut Answer, rate: Option<Rate>, id: HeaderValue) {
    let headers = answer.headers_mut();
    let Some(rate) = rate else {
        for name in &PLACES {
            headers.remove(name);
        }
        headers.insert(header::REQUEST_ID, id);
        return;
    };
    // A map promises no order, so the name of an entry decides; but the places usually come first, in this order, and then no name
    // has to be hashed.
    let mut entries = headers.iter_mut();
    let left_over = [
        fill(&mut entries, text::RATE_LIMIT, rate.limit.into()),
        fill(&mut entries, text::RATE_REMAINING, rate.remaining.into()),
        fill(
            &mut entries,
            text::RATE_RESET,
            rate.reset.as_secs_ceil().into(),
        ),
        fill(&mut entries, text::REQUEST_ID, id),
    ];
    for (name, value) in PLACES.iter().zip(left_over) {
        if let Some(value) = value {
            headers.insert(name.clone(), value);
        }
    }
}

/// Puts a value into the next entry, if that has this name; otherwise gives it back.
fn fill(
    entries: &mut IterMut<'_, HeaderValue>,
    name: &'static str,
    value: HeaderValue,
) -> Option<HeaderValue> {
    match entries.next() {
        Some((next, place)) if next.as_str() == name => {
            *place = value;
            None
        }
        _ => Some(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;

    const RATE: Rate = Rate {
        limit: 60,
        remaining: 59,
        reset: Timestamp::from_secs(120),
    };

    fn finished(mut answer: Answer, rate: Option<Rate>) -> Vec<(String, String)> {
        finish(&mut answer, rate, HeaderValue::from_static("id"));
        let text = |value: &HeaderValue| value.to_str().unwrap().to_owned();
        let mut all: Vec<_> = answer
            .headers()
            .iter()
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect();
        all.sort();
        all
    }

    #[test]
    fn every_place_gets_its_own_value() {
        let link = HeaderValue::from_static("<x>");
        let answer = WITH_LINK.answer_with(StatusCode::OK, Bytes::new(), &LINK, link);
        let expected = [
            ("cache-control", "no-store"),
            ("content-type", "application/json"),
            ("link", "<x>"),
            ("x-content-type-options", "nosniff"),
            ("x-ratelimit-limit", "60"),
            ("x-ratelimit-remaining", "59"),
            ("x-ratelimit-reset", "120"),
            ("x-request-id", "id"),
        ];
        let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(finished(answer, Some(RATE)), expected);
    }

    #[test]
    fn values_find_their_places_by_name_in_whatever_order_a_map_has_them() {
        let expected = finished(PLAIN.answer(StatusCode::OK, Bytes::new()), Some(RATE));
        let headers: Vec<_> = PLAIN.0.iter().collect();
        for rotation in 0..headers.len() {
            for reversed in [false, true] {
                let mut order = headers.clone();
                order.rotate_left(rotation);
                if reversed {
                    order.reverse();
                }
                let mut answer = Answer::default();
                let pairs = order
                    .into_iter()
                    .map(|(name, value)| (name.clone(), value.clone()));
                *answer.headers_mut() = pairs.collect();
                assert_eq!(finished(answer, Some(RATE)), expected);
            }
        }
        // One that has some of the places gets the others.
        let mut answer = PLAIN.answer(StatusCode::OK, Bytes::new());
        answer.headers_mut().remove(header::RATE_REMAINING);
        assert_eq!(finished(answer, Some(RATE)), expected);
    }

    #[test]
    fn without_a_rate_no_place_is_left_empty() {
        let names = |answer: Answer| {
            let all = finished(answer, None);
            assert!(all.iter().all(|(_, value)| !value.is_empty()), "{all:?}");
            all.len()
        };
        assert_eq!(names(PLAIN.answer(StatusCode::OK, Bytes::new())), 4);
        assert_eq!(names(Answer::default()), 1);
    }

    #[test]
    fn an_answer_without_a_frame_is_told_the_rate_too() {
        assert_eq!(finished(Answer::default(), Some(RATE)).len(), 4);
    }
}
