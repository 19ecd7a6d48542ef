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
    /// Name of the flood that stood first in most stalls, with what it runs in.
    pub most_frequent_flood: Option<String>,
    /// In how many.
    pub most_frequent_flood_stalls: u64,
}

impl Totals {
    /// Of these.
    #[must_use]
    pub fn of(stalls: &[Stall]) -> Self {
        // Of several that are as bad the first one counts.
        let worst = stalls.iter().rev().max_by_key(|stall| stall.slowest_us());
        let mut floods: BTreeMap<String, u64> = BTreeMap::new();
        for flood in stalls.iter().filter_map(|stall| stall.floods.first()) {
            let workload = flood.workload.label().map(|label| format!(" ({label})"));
            let name = format!("{}{}", flood.name, workload.unwrap_or_default());
            *floods.entry(name).or_default() += 1;
        }
        let most = floods.into_iter().rev().max_by_key(|(_, stalls)| *stalls);
        let (most_frequent_flood, most_frequent_flood_stalls) =
            most.map_or((None, 0), |(name, stalls)| (Some(name), stalls));
        Self {
            stalls: stalls.len() as u64,
            stalled_ms: stalls.iter().map(Stall::lasted_ms).fold(0, u64::saturating_add),
            slowest_us: worst.map_or(0, Stall::slowest_us),
            slowest_victim: worst
                .and_then(|stall| stall.victims.first())
                .map(|victim| victim.name.clone()),
            worst_unix_ms: worst.map(|stall| stall.worst_unix_ms),
            most_frequent_flood,
            most_frequent_flood_stalls,
        }
    }
}
