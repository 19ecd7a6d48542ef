//! Requests under way, as the programs know them, held against the devices' own counts.
//!
//! The end of a request can be missed: the kernel leaves out a program that interrupts itself
//! (kernel/trace/bpf_trace.c `__bpf_trace_run`), and an entry is not removed if the map's lock is
//! not had in time (kernel/bpf/hashtab.c `htab_lock_bucket`). Its entry would stay until the kernel
//! uses the same `struct request` again, and its process would wait all the while.

use std::collections::BTreeMap;

use aya::maps::{HashMap as Map, MapData};
use floodwall_host::{SysRoot, block};
use floodwall_model::DeviceId;

use super::layout::{OUTSTANDING, device_id, u32_at, u64_at};

/// A device is asked for its reads alone if one has been under way for longer, in nanoseconds.
const LONG: u64 = 1_000_000_000;

/// `struct outstanding`; 0 for what is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Outstanding {
    issued_ns: u64,
    pub(super) queued_ns: u64,
    /// Who asked; only reads have one.
    pub(super) pid: u32,
    pub(super) device: DeviceId,
}

/// By the address of the kernel's `struct request`.
type Known = BTreeMap<u64, Outstanding>;

impl Outstanding {
    pub(super) fn of(value: &[u8; OUTSTANDING]) -> Option<Self> {
        Some(Self {
            issued_ns: u64_at(value, 0)?,
            queued_ns: u64_at(value, 8)?,
            pid: u32_at(value, 16)?,
            device: device_id(u32_at(value, 20)?),
        })
    }

    fn since_ns(&self) -> u64 {
        if self.queued_ns > 0 { self.queued_ns } else { self.issued_ns }
    }
}

/// The programs' map of them.
pub(super) struct Requests {
    map: Map<MapData, u64, [u8; OUTSTANDING]>,
    /// Those beyond the devices' counts at the last look.
    beyond: Known,
}

impl Requests {
    pub(super) fn new(map: Map<MapData, u64, [u8; OUTSTANDING]>) -> Self {
        Self { map, beyond: Known::new() }
    }

    /// Forgets all: their ends were not seen.
    pub(super) fn forget_all(&mut self) {
        let keys: Vec<u64> = self.map.keys().filter_map(Result::ok).collect();
        keys.iter().for_each(|key| drop(self.map.remove(key)));
    }

    /// Those that are under way. `in_flight`: how many a device has; `None` leaves its requests
    /// alone.
    pub(super) fn under_way(
        &mut self,
        root: &SysRoot,
        now_ns: u64,
        in_flight: &dyn Fn(DeviceId) -> Option<u64>,
    ) -> impl Iterator<Item = Outstanding> + use<> {
        let entries = self.map.iter().filter_map(Result::ok);
        let mut known: Known =
            entries.filter_map(|(key, value)| Some((key, Outstanding::of(&value)?))).collect();
        let reads = |device, since_ns| {
            let is_due = now_ns.saturating_sub(since_ns) > LONG;
            let [reads, _] = is_due.then(|| block::read_in_flight(root, device))??;
            Some(reads)
        };
        let beyond = beyond(&known, in_flight, &reads);
        known.retain(|key, _| !beyond.contains_key(key));
        let before = std::mem::replace(&mut self.beyond, beyond);
        // A count may be wrong once: it is a sum over processors that go on meanwhile.
        for (key, request) in &self.beyond {
            let is_same = |value| Outstanding::of(&value).as_ref() == Some(request);
            if before.get(key) == Some(request) && self.map.get(key, 0).is_ok_and(is_same) {
                let _ = self.map.remove(key);
            }
        }
        known.into_values()
    }
}

/// The oldest requests beyond what the devices have in flight. Up to Linux 6.9 devices count
/// requests at the driver alone (block/blk-mq.c `blk_mq_check_inflight`): those that wait in the
/// elevator are beyond only where nothing is in flight.
///
/// `reads`: how many reads a device has at the driver, if its oldest known read is from this time;
/// `None` if it need not be asked. Where much is written, `in_flight` alone tells little.
fn beyond(
    known: &Known,
    in_flight: &dyn Fn(DeviceId) -> Option<u64>,
    reads: &dyn Fn(DeviceId, u64) -> Option<u64>,
) -> Known {
    let mut by_device: BTreeMap<DeviceId, Vec<(u64, Outstanding)>> = BTreeMap::new();
    for (key, request) in known {
        by_device.entry(request.device).or_default().push((*key, *request));
    }
    let mut all = Known::new();
    for (device, mut requests) in by_device {
        let Some(most) = in_flight(device) else { continue };
        if most > 0 {
            requests.retain(|(_, request)| request.issued_ns > 0);
        }
        requests.sort_unstable_by_key(|(_, request)| request.since_ns());
        let too_many = |n: usize, most| n.saturating_sub(usize::try_from(most).unwrap_or(n));
        let mut rest = requests.split_off(too_many(requests.len(), most));
        all.extend(requests);
        rest.retain(|(_, request)| request.pid > 0);
        if let Some((_, oldest)) = rest.first()
            && let Some(most) = reads(device, oldest.since_ns())
        {
            let too_many = too_many(rest.len(), most);
            all.extend(rest.into_iter().take(too_many));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const SDA: DeviceId = DeviceId { major: 8, minor: 0 };
    const SDB: DeviceId = DeviceId { major: 8, minor: 16 };

    fn request(device: DeviceId, pid: u32, queued_ns: u64, issued_ns: u64) -> Outstanding {
        Outstanding { issued_ns, queued_ns, pid, device }
    }

    /// The keys beyond these counts of requests and of reads.
    fn keys(known: &Known, in_flight: [Option<u64>; 2], reads: Option<u64>) -> Vec<u64> {
        let in_flight = |device| in_flight[usize::from(device == SDB)];
        beyond(known, &in_flight, &|_, _| reads).into_keys().collect()
    }

    #[test]
    fn without_requests_in_flight_no_read_is_under_way_and_of_some_the_youngest_are() {
        let known = Known::from([
            (1, request(SDA, 7, 300, 310)),
            (2, request(SDA, 8, 100, 110)),
            (3, request(SDA, 9, 200, 0)),
            (4, request(SDB, 7, 50, 60)),
        ]);
        assert_eq!(keys(&known, [Some(0), Some(1)], None), [1, 2, 3]);
        // The third may wait in the elevator.
        assert_eq!(keys(&known, [Some(1), Some(0)], None), [2, 4]);
        assert_eq!(keys(&known, [Some(2), Some(9)], None), [0; 0]);
        assert_eq!(keys(&known, [None, None], Some(0)), [0; 0], "they do not count");
    }

    #[test]
    fn a_flood_of_writes_hides_no_read_whose_end_was_missed() {
        let known = Known::from([
            (1, request(SDA, 7, 100, 110)),
            (2, request(SDA, 8, 200, 210)),
            (3, request(SDA, 8, 150, 0)),
            // A write.
            (4, request(SDA, 0, 50, 60)),
        ]);
        assert_eq!(keys(&known, [Some(32), None], None), [0; 0]);
        assert_eq!(keys(&known, [Some(32), None], Some(1)), [1]);
        assert_eq!(keys(&known, [Some(32), None], Some(2)), [0; 0]);
        // The write is the oldest that is too many.
        assert_eq!(keys(&known, [Some(2), None], Some(0)), [1, 2, 4]);
    }
}
