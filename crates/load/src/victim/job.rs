//! A thread's part of a victim.

use std::sync::Arc;

use floodwall_model::Victim;

use super::files::Files;
use crate::pace::Tickets;

/// What one thread of a victim has to do.
pub(super) struct Job {
    pub(super) victim: Victim,
    pub(super) files: Arc<Files>,
    /// The open loop's operations; `None` in a closed loop.
    pub(super) tickets: Option<Arc<Tickets>>,
    pub(super) seed: u64,
    /// Counts from 0.
    pub(super) thread: u32,
}
