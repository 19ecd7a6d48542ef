//! From the entries in the maps to counts. Pure, but for names of processes and devices of files.

use std::collections::BTreeMap;

use floodwall_model::DeviceId;

use super::layout::{HISTOGRAM, device_id, histogram, u32_at, u64_at};
use crate::event::{Call, Class};
use crate::files::OpenFiles;
use crate::snapshot::{ProcessUse, Requests};

/// `enum kind` beyond the calls.
const READ: u32 = 8;

/// By process and device.
pub(super) type Processes = BTreeMap<(u32, Option<DeviceId>), ProcessUse>;

fn entry(processes: &mut Processes, pid: u32, device: Option<DeviceId>) -> &mut ProcessUse {
    processes.entry((pid, device)).or_insert_with(|| ProcessUse {
        pid,
        device,
        ..ProcessUse::default()
    })
}

/// `struct use_key` and `struct use`.
pub(super) fn use_of(
    key: &[u8],
    value: &[u8],
    files: &mut OpenFiles,
    processes: &mut Processes,
) -> Option<()> {
    let (pid, dev, kind) = (u32_at(key, 4)?, u32_at(key, 8)?, u32_at(key, 12)?);
    let took = histogram(value.get(24..24 + HISTOGRAM)?)?;
    let comm = value.get(8..24)?;
    let name = &comm[..comm.iter().position(|b| *b == 0).unwrap_or(comm.len())];
    if !name.is_empty() {
        files.called(pid, &String::from_utf8_lossy(name));
    }
    if kind == READ {
        let process = entry(processes, pid, Some(device_id(dev)));
        process.reads = took;
        process.read_bytes = u64_at(value, 0)?;
        return Some(());
    }
    let device = files.device_of_filesystem(device_id(dev));
    let calls = &mut entry(processes, pid, device).calls;
    calls.entry(*Call::ALL.get(kind as usize)?).or_default().merge(&took);
    Some(())
}

/// `struct device_key` and `struct device`.
pub(super) fn requests_of(
    key: &[u8],
    value: &[u8],
    devices: &mut BTreeMap<DeviceId, BTreeMap<Class, Requests>>,
) -> Option<()> {
    let class = *Class::ALL.get(u32_at(key, 8)? as usize)?;
    let requests = Requests {
        bytes: u64_at(value, 0)?,
        queue: histogram(value.get(8..8 + HISTOGRAM)?)?,
        device: histogram(value.get(8 + HISTOGRAM..8 + 2 * HISTOGRAM)?)?,
    };
    devices.entry(device_id(u32_at(key, 4)?)).or_default().insert(class, requests);
    Some(())
}

/// A call under way: thread and process, `struct pending`.
pub(super) fn pending_of(
    id: u64,
    value: &[u8],
    now_ns: u64,
    files: &mut OpenFiles,
    processes: &mut Processes,
) -> Option<()> {
    let pid = (id >> 32) as u32;
    let device = files.device_of_filesystem(device_id(u32_at(value, 8)?));
    entry(processes, pid, device).waits(now_ns, u64_at(value, 0)?);
    Some(())
}

/// A request under way, `struct outstanding`; only reads have a waiting process.
pub(super) fn read_of(
    value: &[u8],
    now_ns: u64,
    files: &mut OpenFiles,
    processes: &mut Processes,
) -> Option<()> {
    let pid = u32_at(value, 16).filter(|pid| *pid != 0)?;
    let device = device_id(u32_at(value, 20)?);
    files.name(pid);
    entry(processes, pid, Some(device)).waits(now_ns, u64_at(value, 8)?);
    Some(())
}
