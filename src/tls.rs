//! TLS for listeners and for connections to other servers: pairs of a certificate and its key, and the verification of
//! servers.

mod client;
mod der;
mod explain;
mod files;
mod pair;
mod verifier;

pub(crate) use client::{ClientTls, read_roots};
pub(crate) use der::server_end_point;
pub use files::{ClientFiles, Roots};
pub(crate) use pair::{Digest, Pair, read as read_pair};
pub(crate) use verifier::Verification;
