//! Animal Store: an HTTP JSON API for animals offered for adoption.
//!
//! The path of a request:
//!
//! ```text
//!            http       server       access          limit     api         store
//! client ──► accept ──► pipeline ──► authenticate ─► count ──► handler ──► cache or engine
//!            parse                   401, 429        429
//! client ◄── write ◄─── headers, log, metrics ◄────────────────┘
//! ```
//!
//! `admin` is a second service of [`http`], for operators: the dashboard, the admin API, metrics and health checks. [`pet`],
//! [`order`], [`page`], [`plan`] and [`key`] are the domain. A module imports only from its own layer and from lower
//! ones; ARCHITECTURE.md lists them.

pub mod access;
mod admin;
pub mod api;
mod blocking;
pub mod cli;
pub mod clock;
pub mod config;
mod counter;
pub mod fault;
pub mod files;
mod health;
mod hosts;
pub mod http;
pub mod key;
pub mod keys;
pub mod limit;
pub mod log;
pub mod metrics;
mod mutex;
mod names;
mod network;
pub mod new_file;
pub mod order;
pub mod page;
pub mod percent;
pub mod pet;
pub mod plan;
pub mod server;
mod staggered;
pub mod store;
pub mod systemd;
pub mod tls;
mod trace;
