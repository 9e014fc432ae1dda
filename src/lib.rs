//! The map.
#![allow(missing_docs)]
pub mod access;
pub mod api;
pub mod clock;
pub mod fault;
pub mod key;
pub mod limit;
pub mod page;
pub mod pet;
pub mod plan;
pub mod span;
pub mod store;
pub mod tally;
