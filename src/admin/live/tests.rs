use std::net::Ipv4Addr;
use std::pin::pin;

use tempfile::TempDir;

use super::*;
use crate::admin::guard::AdminIdentity;
use crate::clock::{Clock, Timestamp};
use crate::metrics::ServerMetrics;
use crate::store::{Database, Mode, Store};

const VIEWER: Viewer = (
    std::net::IpAddr::V4(Ipv4Addr::LOCALHOST),
    AdminIdentity::Anonymous,
);

/// The live data of a server without animals.
async fn live(folder: &TempDir) -> Arc<Live> {
    let database = Database::Sqlite(folder.path().join("a.db"));
    let store = Store::open(&database, Mode::Migrate, 1).await.unwrap();
    let sources = AdminSources {
        store: Arc::new(store),
        metrics: Arc::new(ServerMetrics::new(1)),
        redis: None,
        readiness: Arc::default(),
        max_connections: 1,
        backup_interval: None,
        lost_lines: Arc::default(),
        clock: Clock::system(),
        started: Timestamp::default(),
    };
    Arc::new(Live::new(Arc::new(sources), Arc::default()))
}

#[tokio::test]
async fn a_page_that_lags_behind_gets_everything_again() {
    let folder = TempDir::new().unwrap();
    let live = live(&folder).await;
    let stream = live.stream(VIEWER, None, None, || true).unwrap();
    let mut stream = pin!(stream);
    let first = stream.next().await.unwrap().unwrap();
    for _ in 0..=MAX_LAG {
        live.each_second.send("missed".into()).unwrap();
    }
    live.has_new_page.store(false, Ordering::Relaxed);
    assert_eq!(stream.next().await.unwrap().unwrap(), first);
    assert!(live.has_new_page.load(Ordering::Relaxed));
    live.each_second.send("new".into()).unwrap();
    assert_eq!(stream.next().await.unwrap().unwrap(), "new");
}

#[test]
fn the_pause_after_a_count_is_200_times_as_long_but_neither_short_nor_very_long() {
    let pauses =
        [0, 1_000, 60_000].map(|took| pause_after(Duration::from_millis(took), COUNT_PAUSE_FACTOR));
    assert_eq!(pauses, [5, 200, 600].map(Duration::from_secs));
}

#[tokio::test]
async fn the_time_that_other_reads_take_does_not_make_a_count_slow() {
    let folder = TempDir::new().unwrap();
    let live = live(&folder).await;
    let read = async || {
        std::thread::sleep(Duration::from_millis(500));
        Ok(())
    };
    let (_, _, pause) = tokio::join!(off_thread(read), off_thread(read), live.count_now());
    assert!(pause < Duration::from_secs(60), "{pause:?}");
    assert!(lock(&live.pets).is_some());
}
