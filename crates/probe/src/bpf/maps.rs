//! The programs' maps: how one is opened, and how a set of counters is taken out of one.

use aya::Ebpf;
use aya::maps::{HashMap as Map, MapData};

use super::error::{failed, refused};
use super::layout::u32_at;
use crate::error::ProbeError;

/// A map by its name in `probe.bpf.c`.
///
/// # Errors
/// [`ProbeError::Bpf`] if there is no such map, or it is of another kind.
pub(super) fn map<M: TryFrom<aya::maps::Map, Error = aya::maps::MapError>>(
    programs: &mut Ebpf,
    name: &str,
) -> Result<M, ProbeError> {
    let map = programs.take_map(name).ok_or_else(|| refused(format!("{name}: no such map")))?;
    M::try_from(map).map_err(|e| failed(name, &e))
}

/// Removes all of a set's entries and hands them over, one after another: together they may be
/// 17 MB.
pub(super) fn take_each<const K: usize, const V: usize>(
    map: &mut Map<MapData, [u8; K], [u8; V]>,
    epoch: u32,
    mut each: impl FnMut(&[u8; K], &[u8; V]),
) {
    let keys = map.keys().filter_map(Result::ok).filter(|key| u32_at(key, 0) == Some(epoch));
    for key in keys.collect::<Vec<_>>() {
        if let Ok(value) = map.get(&key, 0)
            && map.remove(&key).is_ok()
        {
            each(&key, &value);
        }
    }
}
