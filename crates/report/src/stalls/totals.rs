//! Sums over stalls.

use std::collections::BTreeMap;

use floodwall_model::stall::Stall;
use serde::Serialize;

/// Sums over stalls.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// How many.
    pub stalls: u64,
    /// How long all together, in milliseconds. Two disks that stall at once count twice.
    pub stalled_ms: u64,
    /// The slowest wait, in microseconds.
    pub slowest_us: u64,
    /// Name of the process that waited that long.
    pub slowest_victim: Option<String>,
    /// When that was seen, in milliseconds since 1970.
    pub worst_unix_ms: Option<u64>,
    /// Name of the flood that stood first in most stalls.
    pub most_frequent_flood: Option<String>,
    /// What that one runs in.
    pub most_frequent_flood_workload: Option<String>,
    /// In how many.
    pub most_frequent_flood_stalls: u64,
}

impl Totals {
    /// Of these.
    #[must_use]
    pub fn of(stalls: &[Stall]) -> Self {
        // Of several that are as bad the first one counts.
        let worst = stalls.iter().rev().max_by_key(|stall| stall.slowest_us());
        let mut floods: BTreeMap<(String, Option<String>), u64> = BTreeMap::new();
        for flood in stalls.iter().filter_map(|stall| stall.floods.first()) {
            *floods.entry((flood.name.clone(), flood.workload.label())).or_default() += 1;
        }
        let most = floods.into_iter().rev().max_by_key(|(_, stalls)| *stalls);
        let (flood, times) = most.unzip();
        let (most_frequent_flood, workload) = flood.unzip();
        Self {
            stalls: stalls.len() as u64,
            stalled_ms: stalls.iter().map(Stall::lasted_ms).fold(0, u64::saturating_add),
            slowest_us: worst.map_or(0, Stall::slowest_us),
            slowest_victim: worst
                .and_then(|stall| stall.victims.first())
                .map(|victim| victim.name.clone()),
            worst_unix_ms: worst.map(|stall| stall.worst_unix_ms),
            most_frequent_flood,
            most_frequent_flood_workload: workload.flatten(),
            most_frequent_flood_stalls: times.unwrap_or(0),
        }
    }
}
