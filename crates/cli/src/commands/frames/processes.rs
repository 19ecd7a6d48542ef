//! The processes of a frame.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use floodwall_host::findings::{DiskUser, Look};
use floodwall_model::diagnosis::Diagnosis;
use floodwall_model::frame::{Group, GuardedDisk, Process, Waits};
use floodwall_model::{DeviceId, LatencyCounts};
use floodwall_probe::{OTHERS, ProcessUse, Snapshot};

use super::disks::{octaves, p99_us, percentile_us};

/// Rows of a frame. More would make a recording large, and no list shows them.
const MOST: usize = 512;

/// Processes that waited for a disk or wrote, without Floodwall's own. Above [`MOST`], those that
/// waited and dirtied least are one row for each disk. Processes that waited longer than a guard's
/// goal are victims too: the diagnosis knows no goal.
pub(super) fn processes(
    snapshot: &Snapshot,
    diagnosis: &Diagnosis,
    look: Look<'_>,
    goals: &[GuardedDisk],
) -> Vec<Process> {
    let names: BTreeMap<DeviceId, &str> =
        snapshot.devices.iter().map(|used| (used.id, used.name.as_str())).collect();
    let row = |used: &ProcessUse| {
        let name =
            |id: DeviceId| names.get(&id).map_or_else(|| id.to_string(), |&name| name.into());
        let mut process = process(used, used.device.map(name))?;
        judge(&mut process, used.device, diagnosis);
        over_goal(&mut process, goals);
        Some(process)
    };
    let used = snapshot.processes.iter().filter(|one| !look.own.contains(&one.pid));
    let rows = used.filter_map(|used| Some((used, row(used)?))).collect();
    let (mut processes, others) = at_most(MOST, rows);
    processes.extend(others.iter().filter_map(row));
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

/// The rows that say most, and the use of each disk by all others: victims and floods, then those
/// that waited or dirtied most.
fn at_most(most: usize, rows: Vec<(&ProcessUse, Process)>) -> (Vec<Process>, Vec<ProcessUse>) {
    if rows.len() <= most {
        return (rows.into_iter().map(|(_, process)| process).collect(), Vec::new());
    }
    let mut places = vec![usize::MAX; rows.len()];
    for weight in [Process::waited_us, |p: &Process| p.dirtied_bytes.unwrap_or(0)] {
        let mut order: Vec<usize> = (0..rows.len()).collect();
        order.sort_by_cached_key(|i| Reverse(weight(&rows[*i].1)));
        for (place, i) in order.into_iter().enumerate() {
            places[i] = places[i].min(place);
        }
    }
    let is_marked = |process: &Process| process.is_victim || process.is_flood;
    let mut rows: Vec<_> = places.into_iter().zip(rows).collect();
    rows.sort_by_key(|(place, (used, p))| (used.pid == OTHERS, !is_marked(p), *place));
    let rest = rows.split_off(most);
    let mut others: BTreeMap<Option<DeviceId>, ProcessUse> = BTreeMap::new();
    for (_, (used, _)) in rest {
        let other = others.entry(used.device).or_insert_with(|| ProcessUse {
            pid: OTHERS,
            name: "others".to_owned(),
            device: used.device,
            ..ProcessUse::default()
        });
        other.merge(used);
    }
    (rows.into_iter().map(|(_, (_, process))| process).collect(), others.into_values().collect())
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
        oldest_call: used.oldest_call.map(str::to_owned),
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

/// Marks a process that waited longer than a guard's goal.
fn over_goal(process: &mut Process, goals: &[GuardedDisk]) {
    let of = |disk: &&GuardedDisk| process.disk.as_deref() == Some(&disk.name);
    let goal_us = goals.iter().find(of).map(|disk| disk.goal_us).filter(|goal| *goal > 0);
    // A goal is for 99 of 100 operations; a few have a median alone.
    let of = |waits: &Waits| waits.p99_us.unwrap_or(waits.p50_us);
    let typical = process.waits.iter().map(of).max().unwrap_or(0);
    let longest = typical.max(process.oldest_us);
    let is_over = goal_us.is_some_and(|goal| longest > goal);
    process.is_victim |= is_over && !process.is_flood && process.pid != OTHERS;
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
            oldest_call: Some("read"),
            dirtied_bytes: Some(0),
            ..ProcessUse::default()
        };
        let process = process(&used, Some("sda".into())).unwrap();
        let told: Vec<_> = process.waits.iter().map(|w| (w.call.as_str(), w.count)).collect();
        assert_eq!(told, [("fsync", 3), ("read", 2), ("sync", 1)]);
        assert_eq!((process.slowest_us(), process.oldest_us), (900_000, 30_000));
        assert_eq!(process.oldest_call.as_deref(), Some("read"));
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
                pid: 7,
                disk: Some(disk.to_owned()),
                waits: vec![waited("fsync", waits)],
                is_flood,
                ..Process::default()
            };
            over_goal(&mut process, &guarded);
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

    #[test]
    fn rows_without_room_are_one_row_and_lose_nothing() {
        let disk = Some(DeviceId { major: 8, minor: 0 });
        let used = |pid: u32, waited_ms: u64, dirtied: u64| ProcessUse {
            pid,
            device: disk,
            reads: counts(&[waited_ms]),
            dirtied_bytes: Some(dirtied),
            ..ProcessUse::default()
        };
        // The fourth dirtied most, the fifth waits as a victim.
        let uses = [used(1, 9, 0), used(2, 8, 1), used(3, 7, 2), used(4, 1, 99), used(5, 2, 0)];
        let row = |one| {
            let process = process(one, Some("sda".into())).unwrap();
            (one, Process { is_victim: one.pid == 5, ..process })
        };
        let (kept, others) = at_most(3, uses.iter().map(row).collect());
        let pids: Vec<u32> = kept.iter().map(|process| process.pid).collect();
        assert_eq!(pids, [5, 1, 4]);
        let [others] = others.as_slice() else { panic!("{others:?}") };
        assert_eq!((others.pid, others.device, others.dirtied_bytes), (OTHERS, disk, Some(3)));
        assert_eq!((others.reads.count(), others.reads.sum_ns()), (2, 15_000_000));
        assert!(at_most(5, uses.iter().map(row).collect()).1.is_empty());
    }
}
