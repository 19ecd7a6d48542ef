//! What was measured, as it is kept.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::stamp::Stamp;

/// A cell's measurement as it is kept.
#[derive(Deserialize, Serialize)]
pub(super) struct Measured {
    pub(super) cell: String,
    #[serde(flatten)]
    pub(super) stamp: Stamp,
    /// As they were run, but for the device and the directory.
    pub(super) commands: Vec<String>,
    pub(super) figures: BTreeMap<String, f64>,
}
