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

use std::collections::{BTreeMap, VecDeque};

use floodwall_model::frame::{Disk, Process, has_authors};
use floodwall_model::workload::Workload;

use super::round::rounded;

/// A smaller part of a backlog is not shown.
const LEAST: f64 = 0.01;
/// A process that holds this share of a backlog waits for its own data.
const OWN: f64 = 0.5;
/// Windows whose backlogs are remembered. No wait that matters is longer.
const PAST: usize = 600;

/// The parts of all disks' backlogs, by disk and process.
#[derive(Debug, Default)]
pub(in crate::commands) struct Shares {
    /// The end of the last window, in milliseconds since the first one began.
    at_ms: u64,
    backlogs: BTreeMap<String, Backlog>,
}

/// A disk's backlog at the last window's end, and its past.
#[derive(Debug, Default)]
struct Backlog {
    bytes: u64,
    parts: BTreeMap<u32, Part>,
    /// Shares of the last backlog that had authors.
    held: Held,
    /// How large it was at the ends of windows, the last one first.
    past: VecDeque<(u64, u64)>,
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
    /// Whether no window was taken in.
    pub(super) fn is_empty(&self) -> bool {
        self.backlogs.is_empty()
    }

    /// Adds what a process dirtied before the first window.
    pub(super) fn add_earlier(&mut self, process: &Process, bytes: u64) {
        let Some(disk) = process.disk.clone() else { return };
        self.backlogs.entry(disk).or_default().part(process).bytes += bytes as f64;
    }

    /// Takes a window in. Sets `backlog_percent` of its processes and `peak_backlog_bytes` of its
    /// disks, adds processes that have ended or are idle and still have a part, and takes those out
    /// of the victims that wait for their own data. A copy's last fsync takes as long as its
    /// backlog, whatever is done.
    pub(in crate::commands) fn frame(
        &mut self,
        window_ms: u64,
        disks: &mut [Disk],
        processes: &mut Vec<Process>,
    ) {
        let began_ms = self.at_ms;
        self.at_ms += window_ms;
        self.backlogs.retain(|name, _| disks.iter().any(|disk| disk.name == *name));
        for disk in disks {
            let Some(bytes) = disk.backlog_bytes else { continue };
            let backlog = self.backlogs.entry(disk.name.clone()).or_default();
            let here = |process: &&Process| process.disk.as_deref() == Some(&disk.name);
            processes.iter().filter(here).for_each(|process| backlog.add(process));
            let before = backlog.held.clone();
            backlog.end(self.at_ms, bytes);
            // The largest one while a process waited, and during the window at least.
            let peak = |process: &Process| {
                let waited_ms = process.slowest_us() / 1000;
                backlog.peak(self.at_ms.saturating_sub(waited_ms).min(began_ms))
            };
            for process in processes.iter_mut().filter(|process| here(&&**process)) {
                let before = has_authors(peak(process)).then_some(&before);
                process.is_victim &= !backlog.is_own(process.pid, before);
            }
            let victims = processes.iter().filter(here).filter(|process| process.is_victim);
            let peak = victims.max_by_key(|victim| victim.slowest_us()).map(peak);
            disk.peak_backlog_bytes = peak.filter(|peak| *peak > bytes);
            let has_drained = has_authors(peak.unwrap_or_else(|| backlog.peak(began_ms)));
            if has_authors(bytes) || has_drained {
                backlog.show(&disk.name, processes);
            }
            backlog.forget_small();
        }
    }
}

/// Shares of a backlog by process.
type Held = BTreeMap<u32, f64>;

impl Backlog {
    /// The largest backlog since a moment, that at the end of the window before included.
    fn peak(&self, since_ms: u64) -> u64 {
        let later = self.past.iter().take_while(|(at_ms, _)| *at_ms > since_ms).count();
        self.past.iter().take(later + 1).map(|(_, bytes)| *bytes).max().unwrap_or(0)
    }

    /// Whether a process waits for its own data: that of this backlog, or of the one before, if it
    /// waited for that.
    fn is_own(&self, pid: u32, before: Option<&Held>) -> bool {
        let holds = |shares: &Held| shares.get(&pid).is_some_and(|share| *share >= OWN);
        let is_held = before.is_some_and(holds) || has_authors(self.bytes) && holds(&self.held);
        is_held && !self.parts.get(&pid).is_some_and(|part| part.is_of_threads)
    }

    /// The part of a process.
    fn part(&mut self, process: &Process) -> &mut Part {
        let part = self.parts.entry(process.pid).or_default();
        // A number may come back as another process.
        if part.name != process.name {
            *part = Part { name: process.name.clone(), ..Part::default() };
            self.held.remove(&process.pid);
        }
        part
    }

    fn add(&mut self, process: &Process) {
        let part = self.part(process);
        part.workload = process.workload.clone();
        part.bytes += process.dirtied_bytes.unwrap_or(0) as f64;
        part.is_of_threads |= process.is_victim && process.is_flood;
    }

    /// Parts shrink alike until their sum is no more than the backlog.
    fn end(&mut self, at_ms: u64, bytes: u64) {
        let sum: f64 = self.parts.values().map(|part| part.bytes).sum();
        let shrink = (bytes as f64 / sum).min(1.0);
        self.parts.values_mut().for_each(|part| part.bytes *= shrink);
        self.bytes = bytes;
        if has_authors(bytes) {
            let share = |(pid, part): (&u32, &Part)| (*pid, part.bytes / bytes as f64);
            self.held = self.parts.iter().map(share).collect();
        }
        self.past.push_front((at_ms, bytes));
        self.past.truncate(PAST);
    }

    fn show(&self, disk: &str, processes: &mut Vec<Process>) {
        for (pid, share) in self.held.iter().filter(|(_, share)| **share >= LEAST) {
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

    /// Forgets small parts, but none of the last backlog that had authors.
    fn forget_small(&mut self) {
        let least = LEAST * self.bytes as f64;
        let held = &self.held;
        let is_held = |pid: &u32| held.get(pid).is_some_and(|share| *share >= LEAST);
        self.parts.retain(|pid, part| part.bytes >= least && part.bytes > 0.0 || is_held(pid));
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
        shares.frame(1_000, &mut [disk(backlog_mib)], &mut processes);
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
    fn what_was_there_before_belongs_to_nobody() {
        let mut shares = Shares::default();
        assert_eq!(percents(&mut shares, 1000, &[(1, 100)]), [(1, 10.0)]);
    }

    /// Whether a process that waits is still a victim after a window that leaves this backlog.
    fn is_victim(shares: &mut Shares, backlog_mib: u64, waits: Process) -> bool {
        let mut processes = vec![Process { is_victim: true, ..waits }];
        shares.frame(1_000, &mut [disk(backlog_mib)], &mut processes);
        processes[0].is_victim
    }

    #[test]
    fn a_wait_has_the_largest_backlog_of_its_time_and_that_ones_authors() {
        let mut shares = Shares::default();
        let mut window = |backlog_mib: u64, waited_ms: Option<u64>| {
            let mut disks = [disk(backlog_mib)];
            let victim = waited_ms.map(|ms| Process {
                is_victim: true,
                oldest_us: ms * 1000,
                ..writes(2, 0)
            });
            let mut processes: Vec<Process> = victim.into_iter().collect();
            if backlog_mib == 400 {
                processes.push(writes(1, 400));
            }
            shares.frame(1_000, &mut disks, &mut processes);
            let author = processes.iter().find(|process| process.pid == 1);
            let peak = disks[0].peak_backlog_bytes.map(|bytes| bytes / MIB);
            (peak, author.and_then(|author| author.backlog_percent))
        };
        assert_eq!(window(400, Some(300)), (None, Some(100.0)));
        assert_eq!(window(100, Some(1_300)), (Some(400), Some(100.0)));
        assert_eq!(window(0, Some(2_300)), (Some(400), Some(100.0)));
        assert_eq!(window(0, Some(1_900)), (Some(100), Some(100.0)), "it began a window later");
        assert_eq!(window(0, Some(900)), (None, None), "it began when all had drained");
        window(400, None);
        assert_eq!(window(0, None), (None, Some(100.0)), "within the window");
        assert_eq!(window(0, None), (None, None));
    }

    #[test]
    fn a_flood_of_before_the_first_window_waits_for_its_own_data() {
        let mut shares = Shares::default();
        assert!(shares.is_empty());
        shares.add_earlier(&writes(1, 0), 900 * MIB);
        assert!(!is_victim(&mut shares, 500, writes(1, 0)));
        assert!(is_victim(&mut shares, 400, writes(2, 0)));
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
        shares.frame(1_000, &mut [disk(100)], &mut again);
        assert_eq!(again[0].backlog_percent, None);
    }
}
