//! The processes of a frame.

use std::collections::BTreeMap;

use floodwall_host::findings::{DiskUser, Look};
use floodwall_model::diagnosis::Diagnosis;
use floodwall_model::frame::{Group, GuardedDisk, Process, Waits};
use floodwall_model::{DeviceId, LatencyCounts};
use floodwall_probe::{OTHERS, ProcessUse, Snapshot};

use super::disks::{octaves, p99_us, percentile_us};

/// More rows than this are no help to anybody, and a recording of them is large. Those that waited
/// or wrote least are left out.
const MOST: usize = 512;

/// Processes that waited for a disk or wrote, without Floodwall's own.
pub(super) fn processes(
    snapshot: &Snapshot,
    diagnosis: &Diagnosis,
    look: Look<'_>,
) -> Vec<Process> {
    let names: BTreeMap<DeviceId, &str> =
        snapshot.devices.iter().map(|used| (used.id, used.name.as_str())).collect();
    let used = snapshot.processes.iter().filter(|one| !look.own.contains(&one.pid));
    let mut processes: Vec<Process> = used
        .filter_map(|one| {
            let name =
                |id: DeviceId| names.get(&id).map_or_else(|| id.to_string(), |&name| name.into());
            let mut process = process(one, one.device.map(name))?;
            judge(&mut process, one.device, diagnosis);
            Some(process)
        })
        .collect();
    if processes.len() > MOST {
        let weight = |p: &Process| (p.is_victim || p.is_flood, p.waited_us(), p.dirtied_bytes);
        processes.sort_by_key(|process| std::cmp::Reverse(weight(process)));
        processes.truncate(MOST);
    }
    let users: BTreeMap<u32, &DiskUser> = look.users.iter().map(|user| (user.pid, user)).collect();
    for process in &mut processes {
        let Some(user) = users.get(&process.pid) else { continue };
        process.workload = user.workload.clone();
        if process.is_victim || process.is_flood {
            process.group = group(user, process.is_flood, look);
        }
    }
    processes
}

/// A process's control group, as the look found it.
fn group(user: &DiskUser, is_flood: bool, look: Look<'_>) -> Option<Group> {
    let path = user.group.value()?.trim_matches('/').to_owned();
    Some(Group {
        memory_bytes: look.group_memory.get(&path).copied().filter(|_| is_flood),
        is_limited: look.limited_groups.contains(&path),
        path,
    })
}

/// One process; `None` if it neither waited nor wrote.
fn process(used: &ProcessUse, disk: Option<String>) -> Option<Process> {
    let calls = used.calls.iter().map(|(call, counts)| (call.name(), counts));
    let kinds = calls.chain([("read", &used.reads)]).filter(|(_, counts)| !counts.is_empty());
    let mut waits: Vec<Waits> = kinds.map(|(call, counts)| waited(call, counts)).collect();
    waits.sort_by_key(|waits| std::cmp::Reverse(waits.sum_us));
    let process = Process {
        pid: used.pid,
        name: used.name.clone(),
        disk,
        waits,
        waiting: u64::from(used.waiting),
        oldest_us: used.oldest.as_micros() as u64,
        dirtied_bytes: used.dirtied_bytes,
        throttled_ms: used.throttled.as_millis() as u64,
        ..Process::default()
    };
    let is_used = process.waited_us() > 0
        || process.waiting > 0
        || process.dirtied_bytes.unwrap_or(0) > 0
        || process.throttled_ms > 0;
    is_used.then_some(process)
}

/// Waits of one kind of call.
pub(in crate::commands) fn waited(call: &str, counts: &LatencyCounts) -> Waits {
    Waits {
        call: call.to_owned(),
        count: counts.count(),
        p50_us: percentile_us(counts, 0.5).unwrap_or(0),
        p99_us: p99_us(counts),
        max_us: counts.max_ns() / 1000,
        sum_us: counts.sum_ns() / 1000,
        octaves: octaves(counts),
    }
}

/// Marks victims and floods, as the diagnosis tells them.
fn judge(process: &mut Process, disk: Option<DeviceId>, diagnosis: &Diagnosis) {
    if process.pid == OTHERS {
        return;
    }
    for one in &diagnosis.disks {
        let floods = |flood: &floodwall_model::diagnosis::Flood| flood.process.pid == process.pid;
        if Some(one.id) == disk {
            process.is_victim |= one.victims.iter().any(|v| v.process.pid == process.pid);
            process.is_flood |= one.floods.iter().any(floods);
        }
    }
}

/// Processes that waited longer than a guard's goal are victims too. The diagnosis knows no goal.
pub(super) fn over_goal(processes: &mut [Process], guarded: &[GuardedDisk]) {
    for process in processes.iter_mut().filter(|process| !process.is_flood) {
        let of = |disk: &&GuardedDisk| process.disk.as_deref() == Some(&disk.name);
        let goal_us = guarded.iter().find(of).map(|disk| disk.goal_us).filter(|goal| *goal > 0);
        // A goal is for 99 of 100 operations; a few have a median alone.
        let of = |waits: &Waits| waits.p99_us.unwrap_or(waits.p50_us);
        let typical = process.waits.iter().map(of).max().unwrap_or(0);
        let longest = typical.max(process.oldest_us);
        process.is_victim |= goal_us.is_some_and(|goal| longest > goal);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use floodwall_probe::Call;

    use super::*;

    fn counts(ms: &[u64]) -> LatencyCounts {
        LatencyCounts::from_values(ms.iter().map(|ms| ms * 1_000_000))
    }

    #[test]
    fn waits_are_told_by_call_the_longest_sum_first() {
        let used = ProcessUse {
            pid: 7,
            name: "db".into(),
            calls: [(Call::Fsync, counts(&[1, 2, 900])), (Call::Sync, counts(&[3]))].into(),
            reads: counts(&[40, 50]),
            waiting: 1,
            oldest: Duration::from_millis(30),
            dirtied_bytes: Some(0),
            ..ProcessUse::default()
        };
        let process = process(&used, Some("sda".into())).unwrap();
        let told: Vec<_> = process.waits.iter().map(|w| (w.call.as_str(), w.count)).collect();
        assert_eq!(told, [("fsync", 3), ("read", 2), ("sync", 1)]);
        assert_eq!((process.slowest_us(), process.oldest_us), (900_000, 30_000));
        assert_eq!(process.waits[0].sum_us, 903_000);
        assert_eq!(process.dirtied_bytes, Some(0), "zero is not unknown");
        let idle = ProcessUse { dirtied_bytes: Some(0), ..ProcessUse::default() };
        assert_eq!(super::process(&idle, None), None);
    }

    #[test]
    fn a_guards_goal_makes_victims_of_those_that_wait_longer() {
        let guarded = [GuardedDisk { name: "sda".into(), goal_us: 5000, ..GuardedDisk::default() }];
        let is_victim = |disk: &str, waits: &LatencyCounts, is_flood: bool| {
            let mut process = Process {
                disk: Some(disk.to_owned()),
                waits: vec![waited("fsync", waits)],
                is_flood,
                ..Process::default()
            };
            over_goal(std::slice::from_mut(&mut process), &guarded);
            process.is_victim
        };
        assert!(is_victim("sda", &counts(&[6; 10]), false));
        assert!(!is_victim("sda", &counts(&[4; 10]), false));
        assert!(!is_victim("sdb", &counts(&[6; 10]), false));
        assert!(!is_victim("sda", &counts(&[6; 10]), true));
        // One of a hundred may take longer.
        let rare = counts(&[[1; 199].as_slice(), &[90]].concat());
        assert!(!is_victim("sda", &rare, false));
    }
}
