//! From the entries in the maps to counts. Pure, but for names of processes and devices of files.

use std::collections::BTreeMap;

use floodwall_model::DeviceId;

use super::layout::{HISTOGRAM, device_id, histogram, u32_at, u64_at};
use super::requests::Outstanding;
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
    let call = Call::ALL.get(u32_at(value, 12)? as usize)?;
    entry(processes, pid, device).waits(now_ns, u64_at(value, 0)?, call.name());
    Some(())
}

/// A request under way; only reads have a waiting process.
pub(super) fn read_of(
    request: &Outstanding,
    now_ns: u64,
    files: &mut OpenFiles,
    processes: &mut Processes,
) {
    let Outstanding { pid, device, queued_ns, .. } = *request;
    if pid != 0 {
        files.name(pid);
        entry(processes, pid, Some(device)).waits(now_ns, queued_ns, Class::Read.name());
    }
}

#[cfg(test)]
mod tests {
    use floodwall_host::SysRoot;

    use super::super::layout::{OUTSTANDING, PENDING};
    use super::*;

    const SDA: u32 = 8 << 20;

    /// `struct pending`.
    fn pending(since_ns: u64, kind: u32) -> [u8; PENDING] {
        let mut value = [0; PENDING];
        value[..8].copy_from_slice(&since_ns.to_ne_bytes());
        value[8..12].copy_from_slice(&SDA.to_ne_bytes());
        value[12..].copy_from_slice(&kind.to_ne_bytes());
        value
    }

    /// `struct outstanding`.
    fn outstanding(queued_ns: u64, pid: u32) -> [u8; OUTSTANDING] {
        let mut value = [0; OUTSTANDING];
        value[8..16].copy_from_slice(&queued_ns.to_ne_bytes());
        value[16..20].copy_from_slice(&pid.to_ne_bytes());
        value[20..].copy_from_slice(&SDA.to_ne_bytes());
        value
    }

    #[test]
    fn what_is_under_way_is_told_with_the_kind_of_the_oldest() {
        let dir = tempfile::tempdir().unwrap();
        let mut files = OpenFiles::new(SysRoot::new(dir.path()).unwrap());
        let mut processes = Processes::new();
        let id = |pid: u64, tid: u64| pid << 32 | tid;
        let calls = [(id(7, 7), 300, 1), (id(7, 8), 400, 0), (id(9, 9), 500, 0)];
        for (id, since_ns, kind) in calls {
            let value = pending(since_ns, kind);
            pending_of(id, &value, 1000, &mut files, &mut processes).unwrap();
        }
        // A kind that no call has.
        assert_eq!(pending_of(id(9, 8), &pending(0, 99), 1000, &mut files, &mut processes), None);
        for (queued_ns, pid) in [(400, 9), (100, 0)] {
            let request = Outstanding::of(&outstanding(queued_ns, pid)).unwrap();
            read_of(&request, 1000, &mut files, &mut processes);
        }
        let of = |p: &ProcessUse| (p.pid, p.waiting, p.oldest.as_nanos(), p.oldest_call);
        let told: Vec<_> = processes.values().map(of).collect();
        // The reads are apart: of the calls' filesystem no device is known here.
        let expected =
            [(7, 2, 700, Some("fdatasync")), (9, 1, 500, Some("fsync")), (9, 1, 600, Some("read"))];
        assert_eq!(told, expected);
    }
}
