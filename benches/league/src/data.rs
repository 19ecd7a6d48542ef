//! The stored data of a cell: enough to write the tables again without running anything, and to run
//! only the missing parts.
//!
//! One JSON file a cell. Scores are logarithms (differences are factors). Of the grid's points only
//! their scores are kept, in hundredths. A point's trial can be run again at will: the simulator
//! gives the same trial every time.

use std::collections::BTreeMap;

use floodwall_model::Setting;
use published::origin::Origin;
use serde::{Deserialize, Serialize};

/// What a setting's figures in a cell depend on.
pub(crate) const MEASURED_WITH: [&str; 3] = ["simulator", "device-presets", "setting-presets"];
/// What a search depends on; the space is the tuner's.
pub(crate) const SEARCHED_WITH: [&str; 3] = ["tuner", "simulator", "device-presets"];

/// A cell's file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct CellData {
    /// What the default setting gave when the cell was begun. The simulator is deterministic: if
    /// it gives something else now, it is another one and the rest is stale.
    pub(crate) reference: Alone,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) grid: Option<Grid>,
    /// Searches, by their seed.
    #[serde(default)]
    pub(crate) searches: BTreeMap<u64, Search>,
    /// What settings are worth in fresh, long rounds, by the setting.
    #[serde(default)]
    pub(crate) measured: BTreeMap<String, Measured>,
    /// What the grid and the fresh rounds were measured with; empty if that was not recorded.
    #[serde(default, skip_serializing_if = "Origin::is_empty")]
    pub(crate) measured_with: Origin,
    /// What the searches were run with.
    #[serde(default, skip_serializing_if = "Origin::is_empty")]
    pub(crate) searched_with: Origin,
    /// Seconds that the cell took, all runs together; cells that run at the same time share the
    /// processors.
    #[serde(default)]
    pub(crate) wall_s: f64,
}

/// The rates of a cell's loads alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Alone {
    pub(crate) iops: f64,
    pub(crate) flood_bytes_per_s: f64,
    pub(crate) burst_bytes_per_s: f64,
    pub(crate) drain_bytes_per_s: f64,
}

/// The exhaustive grid.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Grid {
    pub(crate) points: usize,
    /// Trials that it took, those of the second look included.
    pub(crate) trials: usize,
    /// Log score of each point in its first trial, in hundredths, in the order of the space;
    /// `null` where the kernel refuses it.
    pub(crate) centi_scores: Vec<Option<i32>>,
    /// The best after the second look, the best first.
    pub(crate) best: Vec<Setting>,
}

/// A search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Search {
    pub(crate) trials: u32,
    pub(crate) seconds: f64,
    /// `recommended`, `keep`, `undecided`, or why nothing was measured.
    pub(crate) outcome: String,
    /// The recommended setting; empty: the setting in force.
    pub(crate) setting: Setting,
    /// The best of its race, recommended or not.
    pub(crate) winner: Setting,
}

/// A setting in fresh rounds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    pub(crate) score: f64,
    /// Standard error of the score over the rounds.
    pub(crate) error: f64,
    pub(crate) victim_kept: f64,
    pub(crate) flood_kept: f64,
    pub(crate) burst_kept: f64,
    pub(crate) dead_share: f64,
    pub(crate) p99_us: f64,
}

/// What all of some cells were measured and searched with.
pub(crate) fn origin<'a>(cells: impl Iterator<Item = &'a CellData>) -> Origin {
    Origin::of_parts(cells.flat_map(|cell| [&cell.measured_with, &cell.searched_with]))
}

impl CellData {
    pub(crate) fn of(&self, setting: &Setting) -> Option<&Measured> {
        self.measured.get(&setting.to_string())
    }
}

#[cfg(test)]
mod tests {
    use published::stored;

    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_was_cut_is_said() {
        let dir = std::env::temp_dir().join(format!("league-data-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("cell.json");
        assert_eq!(stored::read::<CellData>(&path).unwrap(), None);
        let mut data = CellData::default();
        let setting: Setting = [("scheduler".to_owned(), "bfq".to_owned())].into_iter().collect();
        data.measured.insert(setting.to_string(), Measured { score: -0.3, ..Measured::default() });
        data.grid = Some(Grid {
            points: 2,
            trials: 3,
            centi_scores: vec![Some(-31), None],
            best: vec![setting.clone()],
        });
        stored::write(&path, &data).unwrap();
        let read = stored::read::<CellData>(&path).unwrap().unwrap();
        assert_eq!(read, data);
        assert_eq!(read.of(&setting).unwrap().score, -0.3);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, &text[..text.len() / 2]).unwrap();
        assert!(
            stored::read::<CellData>(&path).unwrap_err().to_string().contains("changed or cut")
        );
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
