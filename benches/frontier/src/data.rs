//! A cell's file.

use floodwall_model::Setting;
use floodwall_stats::figures::Summary;
use published::origin::Origin;
use serde::{Deserialize, Serialize};

/// A cell.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// Behind a real kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lab: Option<Run>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sim: Option<Run>,
}

/// All families of a cell in interleaved rounds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Run {
    pub(crate) kernel: String,
    /// What the device takes from the flood alone, by which the paced group's rate is set.
    pub(crate) flood_bytes_per_s: f64,
    pub(crate) origin: Origin,
    /// What the run warned of: a lab that was late, a load that was not steady.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) warnings: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

/// A family.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) family: String,
    pub(crate) setting: Setting,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) summary: Option<Summary>,
    /// Why it has no figures: the kernel has no such knob …
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) failure: Option<String>,
}
