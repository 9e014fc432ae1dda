//! The test harness: a server on a real socket and a real file, a clock that a test moves, and a client that checks every response.
//!
//! ```no_run
//! let (app, anonymous, key) = harness::App::start();
//! assert_eq!(anonymous.get("/v1/pets").status, 401);
//! assert_eq!(key.get("/v1/pets").json(), serde_json::json!([]));
//! app.clock.advance(std::time::Duration::from_secs(60));
//! ```

mod app;
mod client;
mod connection;
mod daemon;
mod document;
mod http2;
mod load;
mod operator;
mod postgres;
mod process;
mod prometheus;
mod proxy;
mod redis;
mod response;
mod sql_client;
mod stopwatch;
mod stream;
mod terminal;
mod tls;

pub use app::{
    App, START, database_for, enterprise, propagation_time, redis_behind_proxy, redis_url,
};
pub use client::{Client, Request};
pub use connection::Connection;
pub use daemon::free_port;
pub use load::{StopOnDrop, creations, figures, load_during_imports};
pub use operator::Operator;
pub use postgres::Postgres;
pub use process::{Output, Process, command, eventually, run};
pub use prometheus::Prometheus;
pub use proxy::Proxy;
pub use redis::Redis;
pub use response::Response;
pub use sql_client::SqlClient;
pub use stopwatch::Stopwatch;
pub use terminal::run as on_terminal;
pub use tls::{Authority, Certificate, Signed, TlsClient};

/// Whether to run the long versions of tests.
pub fn is_long() -> bool {
    std::env::var("ANIMAL_STORE_TEST_LONG").is_ok_and(|value| value == "1")
}
