//! What passes between a node and a limiter that decides for all nodes: what the one knows, and what the other has decided.

use super::ban::Ban;
use super::window::Windows;
use crate::clock::Timestamp;

/// What one node knows of a key.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    /// Its windows.
    pub windows: Windows,
    /// Its last ban.
    pub ban: Option<Ban>,
    /// When an operator last pardoned it.
    pub pardoned: Option<Timestamp>,
}

/// What was decided, for all nodes.
#[derive(Clone, Copy, Debug)]
pub struct Ruling {
    /// The time it was decided at, by the clock that counts.
    pub now: Timestamp,
    /// Whether the request was counted.
    pub admitted: bool,
    /// Whether it brought on the ban.
    pub is_new_ban: bool,
    /// The windows after it.
    pub windows: Windows,
    /// The last ban, running or over.
    pub ban: Option<Ban>,
    /// The last unban that the asking node knew of.
    pub asked_after: Option<Timestamp>,
}
