//! What was measured, as it is kept.

use std::collections::BTreeMap;

use published::origin::Origin;
use serde::{Deserialize, Serialize};

/// A cell's measurement as it is kept.
#[derive(Deserialize, Serialize)]
pub(super) struct Measured {
    pub(super) cell: String,
    pub(super) round: u32,
    pub(super) origin: Origin,
    pub(super) date: String,
    pub(super) kernel: String,
    /// Processes that ran or waited for the disk on average in the minute before.
    pub(super) load: f64,
    /// Whether the lab kept up with its model; `None` if it can't tell.
    pub(super) kept_up: Option<bool>,
    /// As they were run, but for the device and the directory.
    pub(super) commands: Vec<String>,
    pub(super) figures: BTreeMap<String, f64>,
}
