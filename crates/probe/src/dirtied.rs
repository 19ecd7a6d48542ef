//! What processes dirtied, put down to devices: those that the kernel's programs counted it for, or
//! those that a process is believed to write to. Pure.

use std::collections::HashMap;

use floodwall_model::DeviceId;

use crate::hash::Fast;
use crate::snapshot::{ByDevice, OTHERS, ProcessUse};
use crate::writers::Dirtied;

/// Adds what was counted by process and device to the uses of a window.
pub(crate) fn add_counted(processes: &mut Vec<ProcessUse>, counted: &ByDevice) {
    let of = processes.iter().enumerate().map(|(at, p)| ((p.pid, p.device), at));
    let of: HashMap<_, usize, Fast> = of.collect();
    for (&(pid, device), &bytes) in counted {
        match of.get(&(pid, device)) {
            Some(at) => *processes[*at].dirtied_bytes.get_or_insert(0) += bytes,
            None => processes.push(ProcessUse {
                pid,
                device,
                dirtied_bytes: Some(bytes),
                ..ProcessUse::default()
            }),
        }
    }
}

/// Adds bytes dirtied by process to the uses of a window. There are at most `most` uses then, and
/// one more a device for all processes that have no room. The process that dirtied most comes
/// first. `target` tells the device that a process's open files lead to, or led to before it ended.
pub(crate) fn add(
    processes: &mut Vec<ProcessUse>,
    dirtied: Dirtied,
    most: usize,
    target: &mut dyn FnMut(u32) -> Option<DeviceId>,
) {
    let mut of: HashMap<u32, Vec<usize>, Fast> = HashMap::default();
    processes.iter().enumerate().for_each(|(at, p)| of.entry(p.pid).or_default().push(at));
    let own = dirtied.by_process.into_iter().map(|(pid, bytes)| (pid, bytes, true));
    let inherited = dirtied.inherited.into_iter().map(|(pid, bytes)| (pid, bytes, false));
    let mut dirtied: Vec<(u32, u64, bool)> = own.chain(inherited).collect();
    dirtied.sort_unstable_by_key(|(pid, bytes, own)| (std::cmp::Reverse(*bytes), *pid, *own));
    for (pid, bytes, own) in dirtied {
        let here = of.entry(pid).or_default();
        let known = || here.iter().map(|at| &processes[*at]).filter(|p| p.device.is_some());
        // Where it was made to sleep it writes; else where all its open files are; else where it
        // was seen at all.
        let slept = known().max_by_key(|p| p.throttled).filter(|p| !p.throttled.is_zero());
        let device = if own {
            let slept = slept.and_then(|p| p.device);
            slept.or_else(|| target(pid)).or_else(|| known().next().and_then(|p| p.device))
        } else {
            // An unseen child may have written anywhere.
            None
        };
        let at = here.iter().copied().find(|at| processes[*at].device == device);
        match at {
            Some(at) => *processes[at].dirtied_bytes.get_or_insert(0) += bytes,
            None if processes.len() < most => {
                here.push(processes.len());
                processes.push(ProcessUse {
                    pid,
                    device,
                    dirtied_bytes: Some(bytes),
                    ..ProcessUse::default()
                });
            }
            None => {
                let others = of.entry(OTHERS).or_default();
                let at = others.iter().copied().find(|at| processes[*at].device == device);
                let at = at.unwrap_or_else(|| {
                    others.push(processes.len());
                    processes.push(ProcessUse { pid: OTHERS, device, ..ProcessUse::default() });
                    processes.len() - 1
                });
                *processes[at].dirtied_bytes.get_or_insert(0) += bytes;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const SDA: DeviceId = DeviceId { major: 8, minor: 0 };
    const SDB: DeviceId = DeviceId { major: 8, minor: 16 };

    fn at(pid: u32, device: DeviceId, slept_ms: u64) -> ProcessUse {
        let throttled = Duration::from_millis(slept_ms);
        ProcessUse { pid, device: Some(device), throttled, ..ProcessUse::default() }
    }

    fn dirtied(processes: &[ProcessUse]) -> Vec<(u32, Option<DeviceId>, u64)> {
        let all = processes.iter().filter_map(|p| Some((p.pid, p.device, p.dirtied_bytes?)));
        let mut all: Vec<_> = all.collect();
        all.sort_unstable();
        all
    }

    #[test]
    fn sleep_tells_the_device_then_open_files_then_where_it_was_seen() {
        let mut processes = vec![at(1, SDA, 0), at(1, SDB, 10), at(2, SDA, 0), at(3, SDA, 0)];
        let by_process = [(1, 100), (2, 200), (3, 300), (4, 400), (5, 500)].into_iter().collect();
        // A shell on sda has waited for an unseen writer.
        let inherited = [(3, 7000)].into_iter().collect();
        add(&mut processes, Dirtied { by_process, inherited }, 100, &mut |pid| {
            (pid == 2 || pid == 4).then_some(SDB)
        });
        let expected = [
            (1, Some(SDB), 100),
            (2, Some(SDB), 200),
            (3, None, 7000),
            (3, Some(SDA), 300),
            (4, Some(SDB), 400),
            (5, None, 500),
        ];
        assert_eq!(dirtied(&processes), expected);
    }

    #[test]
    fn counted_bytes_stay_on_their_device_and_the_rest_goes_where_the_process_writes() {
        let mut processes = vec![at(1, SDA, 10), at(2, SDA, 0)];
        let counted =
            [((1, Some(SDA)), 30), ((1, Some(SDB)), 20), ((3, None), 7), ((OTHERS, None), 5)];
        add_counted(&mut processes, &counted.into_iter().collect());
        let by_process = [(1, 1), (2, 2), (3, 3)].into_iter().collect();
        add(&mut processes, Dirtied { by_process, ..Dirtied::default() }, 100, &mut |pid| {
            (pid == 3).then_some(SDB)
        });
        let expected = [
            (OTHERS, None, 5),
            (1, Some(SDA), 31),
            (1, Some(SDB), 20),
            (2, Some(SDA), 2),
            (3, None, 7),
            (3, Some(SDB), 3),
        ];
        assert_eq!(dirtied(&processes), expected);
    }

    #[test]
    fn of_ten_thousand_writers_the_greatest_are_told_and_no_byte_is_lost() {
        let mut processes = vec![at(7, SDA, 0)];
        let by_process = (1..=10_000u32).map(|pid| (pid, u64::from(pid))).collect();
        let mut asked = Vec::new();
        add(&mut processes, Dirtied { by_process, ..Dirtied::default() }, 1000, &mut |pid| {
            asked.push(pid);
            (pid % 2 == 0).then_some(SDA)
        });
        assert_eq!(processes.len(), 1002, "999 of them, and all others on sda and elsewhere");
        assert!(processes.iter().any(|p| p.pid == 10_000));
        let all = dirtied(&processes);
        assert_eq!(all.iter().map(|(_, _, bytes)| bytes).sum::<u64>(), 10_000 * 10_001 / 2);
        assert_eq!(asked[..3], [10_000, 9_999, 9_998], "the greatest are asked for first");
    }
}
