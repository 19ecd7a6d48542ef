//! Dirtied page cache, from the maps of `dirtied.bpf.h`. Sizes are bytes.

use std::collections::{BTreeMap, HashMap};

use aya::Ebpf;
use aya::maps::{HashMap as Map, MapData, PerCpuArray, PerCpuValues};

use super::layout::{device_id, u32_at, u64_at};
use super::maps::{map, take_each};
use crate::error::ProbeError;
use crate::files::OpenFiles;
use crate::hash::Fast;
use crate::snapshot::ByDevice;

/// Bytes of the structures there.
const KEY: usize = 12;
const DIRTIED: usize = 24;
const RECENT: usize = 24;

/// The maps with dirtied bytes.
pub(super) struct DirtiedMaps {
    dirtied: Map<MapData, [u8; KEY], [u8; DIRTIED]>,
    unplaced: Map<MapData, [u8; KEY], [u8; DIRTIED]>,
    recents: PerCpuArray<MapData, [u8; RECENT]>,
}

impl DirtiedMaps {
    pub(super) fn of(programs: &mut Ebpf) -> Result<Self, ProbeError> {
        Ok(Self {
            dirtied: map(programs, "dirtied")?,
            unplaced: map(programs, "unplaced")?,
            recents: map(programs, "recents")?,
        })
    }

    /// Removes the bytes of a set that is not counted into any more.
    pub(super) fn take(&mut self, epoch: u32, files: &mut OpenFiles) -> ByDevice {
        let mut bytes: BTreeMap<(u32, u32), u64> = BTreeMap::new();
        let mut add = |(pid, dev): (u32, u32), more| *bytes.entry((pid, dev)).or_default() += more;
        let recents = self.recents(epoch);
        recents.iter().filter_map(recent_of).for_each(|(of, more)| add(of, more));
        // Nobody counts into this set now.
        if let Ok(nothing) = PerCpuValues::try_from(vec![[0; RECENT]; recents.len()]) {
            let _ = self.recents.set(epoch, nothing, 0);
        }
        for maps in [&mut self.dirtied, &mut self.unplaced] {
            take_each(maps, epoch, |key, value| {
                let Some((of, more)) = dirtied_of(key, value) else { return };
                add(of, more);
                let name = &value[8..];
                let name = &name[..name.iter().position(|b| *b == 0).unwrap_or(name.len())];
                if !name.is_empty() {
                    files.called(of.0, &String::from_utf8_lossy(name));
                }
            });
        }
        let mut by_device = ByDevice::new();
        for ((pid, dev), bytes) in bytes {
            let device = files.device_of_filesystem(device_id(dev));
            *by_device.entry((pid, device)).or_default() += bytes;
        }
        by_device
    }

    /// Bytes by process of the set that is being counted into.
    pub(super) fn so_far(&self, epoch: u32) -> HashMap<u32, u64, Fast> {
        let mut bytes: HashMap<u32, u64, Fast> = HashMap::default();
        let kept = self.dirtied.iter().filter_map(Result::ok);
        let kept = kept.filter(|(key, _)| u32_at(key, 0) == Some(epoch));
        let kept = kept.filter_map(|(key, value)| dirtied_of(&key, &value));
        for ((pid, _), more) in self.recents(epoch).iter().filter_map(recent_of).chain(kept) {
            *bytes.entry(pid).or_default() += more;
        }
        bytes
    }

    fn recents(&self, epoch: u32) -> Vec<[u8; RECENT]> {
        self.recents.get(&epoch, 0).map(|values| values.to_vec()).unwrap_or_default()
    }
}

/// `struct dirtied_key` and `struct dirtied`: process and device, and bytes.
fn dirtied_of(key: &[u8], value: &[u8]) -> Option<((u32, u32), u64)> {
    Some(((u32_at(key, 4)?, u32_at(key, 8)?), u64_at(value, 0)?))
}

/// `struct recent`: the same.
fn recent_of(value: &[u8; RECENT]) -> Option<((u32, u32), u64)> {
    let bytes = u64_at(value, 16).filter(|bytes| *bytes > 0)?;
    Some(((u32_at(value, 0)?, u32_at(value, 4)?), bytes))
}
