//! Stored data of a cell, and of the draws of devices.

use std::collections::BTreeMap;

use published::origin::Origin;
use serde::{Deserialize, Serialize};

use super::script::Run;
use crate::cells::{self, Cell};
use crate::data::Alone;

/// Machines with other seeds that the guard, the default and the finalists go through.
pub(super) const MACHINES: [u64; 6] = [101, 102, 103, 104, 105, 106];

/// The stored data of a cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Guarded {
    pub(super) origin: Origin,
    /// The rates of the loads alone.
    pub(super) reference: Alone,
    pub(super) machines: Vec<u64>,
    /// Fixed settings on the choosing machines: the mean of their scores' logarithms.
    pub(super) chosen_from: BTreeMap<String, f64>,
    /// The default, finalists and the guard, machine by machine.
    pub(super) default: Vec<Run>,
    pub(super) finalists: BTreeMap<String, Vec<Run>>,
    pub(super) guard: Vec<Run>,
}

/// The draws of devices.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Draws {
    /// The first draw's seed: eight hexadecimal digits.
    pub(super) seed: String,
    /// How many; each further seed is one more.
    pub(super) count: u32,
    /// The commit that last changed the law when the devices were drawn.
    pub(super) law: String,
}

impl Draws {
    pub(super) fn first(&self) -> anyhow::Result<u32> {
        seed(&self.seed).map_err(anyhow::Error::msg)
    }

    pub(super) fn cells(&self) -> anyhow::Result<Vec<Cell>> {
        let first = self.first()?;
        Ok(cells::drawn((0..self.count).map(|n| first.wrapping_add(n))))
    }
}

/// A seed as people write it.
pub(super) fn seed(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 16)
        .map_err(|_| format!("'{text}' is no seed: write up to 8 hexadecimal digits"))
}
