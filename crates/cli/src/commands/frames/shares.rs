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

use floodwall_model::frame::{Disk, Process, has_authors};
use floodwall_model::workload::Workload;

use super::round::rounded;

/// A smaller part of a backlog is not shown.
const LEAST: f64 = 0.01;
/// A process that holds this share of a backlog waits for its own data.
const OWN: f64 = 0.5;

/// The parts of all disks' backlogs, by disk and process.
#[derive(Debug, Default)]
pub(in crate::commands) struct Shares(BTreeMap<String, Backlog>);

/// A disk's backlog at the last window's end.
#[derive(Debug, Default)]
struct Backlog {
    bytes: u64,
    parts: BTreeMap<u32, Part>,
}

#[derive(Debug, Default)]
struct Part {
    name: String,
    workload: Workload,
    bytes: f64,
    /// Threads of it flooded while others waited: what they wait for is not their own.
    is_of_threads: bool,
}

impl Shares {
    /// Takes a window in. Sets `backlog_percent` of its processes, adds those that have ended or
    /// are idle and still have a part, and takes those out of the victims that wait for their own
    /// data. A copy's last fsync takes as long as its backlog, whatever is done.
    pub(in crate::commands) fn frame(&mut self, disks: &[Disk], processes: &mut Vec<Process>) {
        self.0.retain(|name, _| disks.iter().any(|disk| disk.name == *name));
        for disk in disks {
            let Some(bytes) = disk.backlog_bytes else { continue };
            let backlog = self.0.entry(disk.name.clone()).or_default();
            let was_long = backlog.bytes >= disk.drain_bytes_per_s.unwrap_or(0);
            let before = backlog.shares();
            let here = |process: &&Process| process.disk.as_deref() == Some(&disk.name);
            processes.iter().filter(here).for_each(|process| backlog.add(process));
            backlog.shrink(bytes);
            let after = backlog.shares();
            for process in processes.iter_mut().filter(|process| here(&&**process)) {
                let holds = |of: &Held| of.get(&process.pid).is_some_and(|share| *share >= OWN);
                let part = backlog.parts.get(&process.pid);
                let is_of_threads = part.is_some_and(|part| part.is_of_threads);
                if (holds(&before) || holds(&after)) && !is_of_threads {
                    process.is_victim = false;
                }
            }
            if has_authors(bytes) {
                backlog.show(&after, &disk.name, processes);
            } else if was_long {
                backlog.show(&before, &disk.name, processes);
            }
            backlog.forget_small();
        }
    }
}

/// Shares of a backlog by process.
type Held = BTreeMap<u32, f64>;

impl Backlog {
    /// None of a small backlog.
    fn shares(&self) -> Held {
        let share = |(pid, part): (&u32, &Part)| (*pid, part.bytes / self.bytes as f64);
        self.parts.iter().filter(|_| has_authors(self.bytes)).map(share).collect()
    }

    fn add(&mut self, process: &Process) {
        let part = self.parts.entry(process.pid).or_default();
        // A number may come back as another process.
        if part.name != process.name {
            *part = Part { name: process.name.clone(), ..Part::default() };
        }
        part.workload = process.workload.clone();
        part.bytes += process.dirtied_bytes.unwrap_or(0) as f64;
        part.is_of_threads |= process.is_victim && process.is_flood;
    }

    /// Parts shrink alike until their sum is no more than the backlog.
    fn shrink(&mut self, bytes: u64) {
        self.bytes = bytes;
        let sum: f64 = self.parts.values().map(|part| part.bytes).sum();
        if sum > bytes as f64 {
            self.parts.values_mut().for_each(|part| part.bytes *= bytes as f64 / sum);
        }
    }

    fn show(&self, shares: &Held, disk: &str, processes: &mut Vec<Process>) {
        for (pid, share) in shares.iter().filter(|(_, share)| **share >= LEAST) {
            let Some(part) = self.parts.get(pid) else { continue };
            let percent = Some(rounded(100.0 * share));
            let same = |p: &&mut Process| p.pid == *pid && p.disk.as_deref() == Some(disk);
            match processes.iter_mut().find(same) {
                Some(process) => process.backlog_percent = percent,
                None => processes.push(Process {
                    pid: *pid,
                    name: part.name.clone(),
                    workload: part.workload.clone(),
                    disk: Some(disk.to_owned()),
                    backlog_percent: percent,
                    ..Process::default()
                }),
            }
        }
    }

    fn forget_small(&mut self) {
        let least = LEAST * self.bytes as f64;
        self.parts.retain(|_, part| part.bytes >= least && part.bytes > 0.0);
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
        // All of it has drained within the window.
        assert_eq!(percents(&mut shares, 0, &[]), [(1, 37.5), (2, 12.5), (3, 50.0)]);
        assert_eq!(percents(&mut shares, 0, &[]), []);
        assert_eq!(percents(&mut shares, 400, &[]), [], "an older backlog has no known author");
    }

    #[test]
    fn a_backlog_of_less_than_a_second_has_no_authors_after_its_end() {
        let mut shares = Shares::default();
        percents(&mut shares, 100, &[(1, 100)]);
        let mut idle = vec![writes(1, 0)];
        let drain_bytes_per_s = Some(101 * MIB);
        shares.frame(&[Disk { drain_bytes_per_s, ..disk(0) }], &mut idle);
        assert_eq!(idle[0].backlog_percent, None);
    }

    #[test]
    fn what_was_there_before_belongs_to_nobody() {
        let mut shares = Shares::default();
        assert_eq!(percents(&mut shares, 1000, &[(1, 100)]), [(1, 10.0)]);
    }

    /// Whether a process that waits is still a victim after a window that leaves this backlog.
    fn is_victim(shares: &mut Shares, backlog_mib: u64, waits: Process) -> bool {
        let mut processes = vec![Process { is_victim: true, ..waits }];
        shares.frame(&[disk(backlog_mib)], &mut processes);
        processes[0].is_victim
    }

    #[test]
    fn who_waits_for_its_own_data_is_no_victim() {
        let mut shares = Shares::default();
        percents(&mut shares, 1000, &[(1, 900), (2, 100)]);
        assert!(!is_victim(&mut shares, 500, writes(1, 0)));
        assert!(is_victim(&mut shares, 500, writes(2, 0)), "a tenth is its own");
        // The wait ends in the window in which the last of it is written.
        assert!(!is_victim(&mut shares, 0, writes(1, 0)));
        assert!(is_victim(&mut shares, 0, writes(1, 0)), "the next wait");
        // A small backlog explains nothing: the disk is slow.
        assert!(is_victim(&mut shares, 3, writes(1, 3)));
    }

    #[test]
    fn a_process_whose_other_threads_flood_is_a_victim() {
        let mut shares = Shares::default();
        let floods = Process { is_flood: true, ..writes(1, 900) };
        assert!(is_victim(&mut shares, 900, floods));
        assert!(is_victim(&mut shares, 800, writes(1, 0)), "after the flood too");
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
