//! A cell's file.

use std::path::Path;

use anyhow::Context;
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

/// A cell's file; `None` where it was never measured.
pub(crate) fn read(path: &Path) -> anyhow::Result<Option<Measured>> {
    if !path.exists() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("can't read '{}'", path.display()))?;
    serde_json::from_str(&text).map(Some).with_context(|| format!("'{}'", path.display()))
}

/// Writes a cell's file.
pub(crate) fn write(path: &Path, measured: &Measured) -> anyhow::Result<()> {
    let text = serde_json::to_string(measured)? + "\n";
    let written = std::fs::create_dir_all(path.parent().unwrap_or(path))
        .and_then(|()| std::fs::write(path, text));
    written.with_context(|| format!("can't write '{}'", path.display()))
}
