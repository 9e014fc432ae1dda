//! Animal Store: an HTTP JSON API for animals offered for adoption.
//!
//! A request goes one way, and back out as bytes:
//!
//! ```text
//! server ──► access ──► limit ──► api ──► store
//! sockets,   who is     may it    what    where animals, keys
//! threads    calling    go on     it is   and their use are
//! ```
//!
//! [`http`] lies below them all: what a request and a response are made of.
//! Nothing below knows anything above. The domain, [`pet`], [`order`], [`page`], [`plan`] and [`key`], knows no one.
//! The [`clock`] is handed in. [`config`] and [`cli`] stand before the server, [`admin`] beside it.

pub mod access;
pub mod admin;
pub mod api;
pub mod cli;
pub mod clock;
pub mod config;
pub mod counter;
pub mod fault;
mod health;
mod hosts;
pub mod http;
pub mod key;
pub mod keys;
pub mod limit;
pub mod log;
pub mod metrics;
mod network;
pub mod order;
pub mod page;
pub mod pet;
pub mod plan;
pub mod server;
pub mod store;
