//! Whose data a disk's backlog is: an estimate, because the kernel does not count dirty pages by
//! process.
//!
//! ```text
//! bytes that a process dirtied ─▶ added to its part ─▶ all parts of a disk shrink alike,
//!                                        until together they are no more than its backlog
//! ```
//!
//! So a process keeps its part after it has ended, until the disk has written it. The flusher
//! visits inodes in turn (fs/fs-writeback.c `queue_io`), and so takes from all of them.

use std::collections::BTreeMap;

use floodwall_model::frame::{Disk, Process};
use floodwall_model::workload::Workload;

use super::round::rounded;

/// A smaller part of a backlog is not shown.
const LEAST: f64 = 0.01;
/// A smaller backlog has no authors that matter: it is written at once.
const LEAST_BACKLOG_BYTES: u64 = 4 << 20;

/// The parts of all disks' backlogs, by disk and process.
#[derive(Debug, Default)]
pub(in crate::commands) struct Shares {
    parts: BTreeMap<String, BTreeMap<u32, Part>>,
}

#[derive(Debug)]
struct Part {
    name: String,
    workload: Workload,
    bytes: f64,
}

impl Shares {
    /// Takes a window in: sets `backlog_percent` of its processes, and adds those that have ended
    /// or are idle and still have a part.
    pub(in crate::commands) fn frame(&mut self, disks: &[Disk], processes: &mut Vec<Process>) {
        self.parts.retain(|name, _| disks.iter().any(|disk| disk.name == *name));
        for disk in disks {
            let Some(backlog) = disk.backlog_bytes else { continue };
            let parts = self.parts.entry(disk.name.clone()).or_default();
            let here = |process: &&Process| process.disk.as_deref() == Some(&disk.name);
            for process in processes.iter().filter(here) {
                let dirtied = process.dirtied_bytes.unwrap_or(0) as f64;
                let part = parts.entry(process.pid).or_insert_with(|| Part {
                    name: String::new(),
                    workload: Workload::default(),
                    bytes: 0.0,
                });
                // A number may come back as another process.
                if part.name != process.name {
                    (part.name, part.bytes) = (process.name.clone(), 0.0);
                }
                part.workload = process.workload.clone();
                part.bytes += dirtied;
            }
            shrink(parts, backlog as f64);
            parts.retain(|_, part| part.bytes >= LEAST * backlog as f64 && part.bytes > 0.0);
            if backlog >= LEAST_BACKLOG_BYTES {
                show(parts, disk, backlog as f64, processes);
            }
        }
    }
}

/// Parts shrink alike until their sum is no more than the backlog.
fn shrink(parts: &mut BTreeMap<u32, Part>, backlog: f64) {
    let sum: f64 = parts.values().map(|part| part.bytes).sum();
    if sum > backlog {
        parts.values_mut().for_each(|part| part.bytes *= backlog / sum);
    }
}

fn show(parts: &BTreeMap<u32, Part>, disk: &Disk, backlog: f64, processes: &mut Vec<Process>) {
    for (pid, part) in parts {
        let percent = Some(rounded(100.0 * part.bytes / backlog));
        let same = |p: &&mut Process| p.pid == *pid && p.disk.as_deref() == Some(&disk.name);
        match processes.iter_mut().find(same) {
            Some(process) => process.backlog_percent = percent,
            None => processes.push(Process {
                pid: *pid,
                name: part.name.clone(),
                workload: part.workload.clone(),
                disk: Some(disk.name.clone()),
                backlog_percent: percent,
                ..Process::default()
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn disk(backlog_mib: u64) -> Disk {
        let backlog_bytes = Some(backlog_mib * MIB);
        Disk { name: "sda".into(), backlog_bytes, ..Disk::default() }
    }

    fn writes(pid: u32, mib: u64) -> Process {
        Process {
            pid,
            name: format!("p{pid}"),
            disk: Some("sda".into()),
            dirtied_bytes: Some(mib * MIB),
            ..Process::default()
        }
    }

    fn percents(shares: &mut Shares, backlog_mib: u64, writers: &[(u32, u64)]) -> Vec<(u32, f32)> {
        let mut processes: Vec<Process> = writers.iter().map(|(p, mib)| writes(*p, *mib)).collect();
        shares.frame(&[disk(backlog_mib)], &mut processes);
        let shown = processes.iter().filter_map(|p| Some((p.pid, p.backlog_percent?)));
        let mut shown: Vec<_> = shown.collect();
        shown.sort_by_key(|(pid, _)| *pid);
        shown
    }

    #[test]
    fn a_backlog_belongs_to_those_who_dirtied_it_also_after_their_end() {
        let mut shares = Shares::default();
        assert_eq!(percents(&mut shares, 400, &[(1, 300), (2, 100)]), [(1, 75.0), (2, 25.0)]);
        // Both have ended, half is written, and nobody else has dirtied anything.
        assert_eq!(percents(&mut shares, 200, &[]), [(1, 75.0), (2, 25.0)]);
        assert_eq!(percents(&mut shares, 400, &[(3, 200)]), [(1, 37.5), (2, 12.5), (3, 50.0)]);
        assert_eq!(percents(&mut shares, 0, &[]), []);
        assert_eq!(percents(&mut shares, 400, &[]), [], "an older backlog has no known author");
    }

    #[test]
    fn what_was_there_before_belongs_to_nobody() {
        let mut shares = Shares::default();
        assert_eq!(percents(&mut shares, 1000, &[(1, 100)]), [(1, 10.0)]);
    }

    #[test]
    fn a_number_that_comes_back_is_another_process() {
        let mut shares = Shares::default();
        percents(&mut shares, 100, &[(1, 100)]);
        let mut again = vec![Process { name: "other".into(), ..writes(1, 0) }];
        shares.frame(&[disk(100)], &mut again);
        assert_eq!(again[0].backlog_percent, None);
    }
}
