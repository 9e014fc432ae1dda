//! The open streams of live data. A viewer at the maximum who opens another one loses the stream of the same tab, or else the oldest
//! one. If the maximum of all viewers is reached, the viewer with the most loses one, so that no script that opens many can
//! keep others out.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use super::guard::AdminIdentity;
use crate::api::ApiError;
use crate::mutex::lock;

const MAX_STREAMS: usize = 32;

/// The maximum number of open streams of one viewer. A browser opens six connections to a server at most: with a stream in each, no
/// request would be sent.
const MAX_STREAMS_PER_VIEWER: usize = 4;

/// Who looks at a page: an address, and how it is authenticated.
pub(super) type Viewer = (IpAddr, AdminIdentity);

/// An ID that a browser tab chooses. A tab that opens a stream has closed its previous one, even if the server has not noticed yet.
pub(super) type TabId = u64;

/// The open streams, the oldest first.
#[derive(Default)]
pub(super) struct Streams(Mutex<Vec<StreamEntry>>);

struct StreamEntry {
    viewer: Viewer,
    tab: Option<TabId>,
    replaced: Arc<Notify>,
    /// It was replaced, and ends when its client has read what it was sent. Until then it still uses memory, so
    /// replaced streams are limited too, to the same numbers as the others.
    is_ending: bool,
}

/// An open stream, until this is dropped.
pub(super) struct OpenStream {
    streams: Arc<Streams>,
    /// Notified when a newer stream replaces this one.
    pub(super) replaced: Arc<Notify>,
}

impl Streams {
    pub(super) fn open(
        self: &Arc<Self>,
        viewer: Viewer,
        tab: Option<TabId>,
    ) -> Result<OpenStream, ApiError> {
        let mut entries = lock(&self.0);
        let count = |ending: bool, of: Option<Viewer>| {
            let counted = |entry: &&StreamEntry| {
                entry.is_ending == ending && of.is_none_or(|viewer| entry.viewer == viewer)
            };
            entries.iter().filter(counted).count()
        };
        let is_viewer_full = count(false, Some(viewer)) == MAX_STREAMS_PER_VIEWER;
        if is_viewer_full || count(false, None) == MAX_STREAMS {
            let has_room = |viewer: &Viewer| {
                count(true, Some(*viewer)) < MAX_STREAMS_PER_VIEWER
                    && count(true, None) < MAX_STREAMS
            };
            let viewers = entries.iter().map(|entry| entry.viewer);
            let from = match is_viewer_full {
                true => Some(viewer).filter(has_room),
                false => viewers
                    .filter(has_room)
                    .max_by_key(|viewer| count(false, Some(*viewer))),
            };
            let Some(from) = from else {
                return Err(ApiError::UnavailableWithMessage(
                    "Too many replaced streams are still open: read them to their end, or close them.".into(),
                ));
            };
            let is_same_tab =
                |entry: &StreamEntry| tab.is_some() && (entry.viewer, entry.tab) == (viewer, tab);
            let streams = entries.iter_mut().filter(|entry| entry.viewer == from);
            let open = streams.filter(|entry| !entry.is_ending);
            // That of the same tab, or else the oldest.
            if let Some(replaced) = open.min_by_key(|entry| !is_same_tab(entry)) {
                replaced.is_ending = true;
                replaced.replaced.notify_one();
            }
        }
        let replaced = Arc::new(Notify::new());
        entries.push(StreamEntry {
            viewer,
            tab,
            replaced: Arc::clone(&replaced),
            is_ending: false,
        });
        Ok(OpenStream {
            streams: Arc::clone(self),
            replaced,
        })
    }

    pub(super) fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        let mut entries = lock(&self.streams.0);
        entries.retain(|entry| !Arc::ptr_eq(&entry.replaced, &self.replaced));
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures_util::FutureExt;

    use super::*;

    fn viewer(number: u8) -> Viewer {
        (
            Ipv4Addr::new(127, 0, 0, number).into(),
            AdminIdentity::Anonymous,
        )
    }

    fn open(streams: &Arc<Streams>, number: u8, count: usize) -> Vec<OpenStream> {
        let opened = (0..count).map(|_| streams.open(viewer(number), None).unwrap());
        opened.collect()
    }

    #[test]
    fn a_replaced_stream_counts_until_it_has_ended() {
        let streams = Arc::default();
        // Nobody reads them, so they do not end.
        let mut unread = open(&streams, 1, 2 * MAX_STREAMS_PER_VIEWER);
        let is_replaced = |stream: &OpenStream| stream.replaced.notified().now_or_never().is_some();
        let replaced: Vec<bool> = unread.iter().map(is_replaced).collect();
        assert_eq!(
            replaced,
            [
                [true; MAX_STREAMS_PER_VIEWER],
                [false; MAX_STREAMS_PER_VIEWER]
            ]
            .concat()
        );
        assert!(streams.open(viewer(1), None).is_err());
        assert!(
            !unread.iter().any(is_replaced),
            "for a stream that was not opened"
        );
        unread.remove(0);
        unread.extend(open(&streams, 1, 1));
        assert!(is_replaced(&unread[MAX_STREAMS_PER_VIEWER - 1]));
        assert!(streams.open(viewer(1), None).is_err());
        assert_eq!(lock(&streams.0).len(), 2 * MAX_STREAMS_PER_VIEWER);
        drop(unread);
        assert!(streams.is_empty());
    }

    #[test]
    fn a_tab_that_opens_its_stream_again_replaces_its_own_and_not_the_oldest() {
        let streams = Arc::default();
        let open = |tab| Streams::open(&streams, viewer(1), Some(tab)).unwrap();
        let opened = [1, 2, 3, 4].map(open);
        let is_replaced = |stream: &OpenStream| stream.replaced.notified().now_or_never().is_some();
        let again = open(3);
        assert_eq!(
            opened.each_ref().map(is_replaced),
            [false, false, true, false]
        );
        // Another viewer may have chosen the same tab ID.
        drop(again);
        let _other = streams.open(viewer(2), Some(1)).unwrap();
        let _fourth = open(5);
        let _fifth = open(6);
        assert_eq!(
            opened.each_ref().map(is_replaced),
            [true, false, false, false]
        );
    }

    #[test]
    fn one_viewer_leaves_room_for_others_and_all_together_have_a_limit() {
        let streams = Arc::default();
        let mut unread = open(&streams, 1, 2 * MAX_STREAMS_PER_VIEWER);
        for number in 2..=8 {
            unread.extend(open(&streams, number, MAX_STREAMS_PER_VIEWER));
        }
        // One more for another viewer, at the expense of a viewer with the most: the total stays the same.
        unread.extend(open(&streams, 9, 1));
        let is_open = |entry: &&StreamEntry| !entry.is_ending;
        assert_eq!(lock(&streams.0).iter().filter(is_open).count(), MAX_STREAMS);
        for number in 10..=250 {
            match streams.open(viewer(number), None) {
                Ok(stream) => unread.push(stream),
                Err(_) => break,
            }
        }
        assert_eq!(
            lock(&streams.0).len(),
            2 * MAX_STREAMS,
            "none of them is read"
        );
    }
}
