//! The messages between a node and a limiter that decides for all nodes: the state of the node, and the decision of the limiter.

use super::ban::Ban;
use super::window::Windows;
use crate::clock::Timestamp;

/// The state of a key on one node.
#[derive(Clone, Copy, Debug, Default)]
pub struct NodeState {
    /// Its windows.
    pub windows: Windows,
    /// Its last ban.
    pub ban: Option<Ban>,
    /// The last unban by an operator.
    pub unbanned_at: Option<Timestamp>,
}

/// A decision for all nodes.
#[derive(Clone, Copy, Debug)]
pub struct SharedDecision {
    /// Its time, by the reference clock.
    pub now: Timestamp,
    /// Whether the request was counted.
    pub admitted: bool,
    /// Whether the ban began with it.
    pub is_new_ban: bool,
    /// The windows after it.
    pub windows: Windows,
    /// The last ban, active or expired.
    pub ban: Option<Ban>,
    /// The last unban that the requesting node knew of.
    pub unban_known: Option<Timestamp>,
}
