//! Whose data a disk's backlog is: an estimate, because the kernel does not count dirty pages by
//! process.
//!
//! ```text
//! bytes that a process dirtied ─▶ added to its part ─▶ all parts of a disk shrink alike,
//!                                        until together they are no more than its backlog
//! ends of windows: backlog, shares ─▶ past ─▶ the largest backlog while a process waited
//! ```
//!
//! So a process keeps its part after it has ended, until the disk has written it. The flusher
//! visits inodes in turn (fs/fs-writeback.c `queue_io`), and so takes from all of them.
//!
//! A wait that ends with its backlog is explained by what was dirty while it lasted, and by the
//! authors of that.

use std::collections::{BTreeMap, VecDeque};

use floodwall_model::diagnosis::has_authors;
use floodwall_model::frame::{Disk, Process};
use floodwall_model::workload::Workload;

use super::round::rounded;

/// A smaller part of a backlog is not shown.
const LEAST: f64 = 0.01;
/// A smaller part is not what a process waits for.
const OWN: f64 = 0.1;
/// How far back a wait is looked for, in milliseconds.
const PAST_MS: u64 = 600_000;

/// The parts of all disks' backlogs, by disk and process.
#[derive(Debug, Default)]
pub(in crate::commands) struct Shares {
    /// The end of the last window, in milliseconds since the first one began.
    at_ms: u64,
    backlogs: BTreeMap<String, Backlog>,
}

/// A disk's backlog and its past.
#[derive(Debug, Default)]
struct Backlog {
    parts: BTreeMap<u32, Part>,
    /// The ends of windows, the last one first.
    past: VecDeque<End>,
}

#[derive(Debug, Default)]
struct Part {
    name: String,
    workload: Workload,
    bytes: f64,
    /// The end of the last window in which it was a part that is shown; `None` if it never was.
    shown_ms: Option<u64>,
    /// Threads of it flooded while others waited: what they wait for is not their own.
    is_of_threads: bool,
}

/// A backlog at the end of a window.
#[derive(Debug, Default)]
struct End {
    at_ms: u64,
    bytes: u64,
    /// Shares by process, as parts of one; none of a small backlog.
    shares: BTreeMap<u32, f64>,
}

impl Shares {
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
        let mut rows: BTreeMap<String, Vec<usize>> = BTreeMap::new();
        for (row, process) in processes.iter().enumerate() {
            if let Some(disk) = &process.disk {
                rows.entry(disk.clone()).or_default().push(row);
            }
        }
        for disk in disks {
            let Some(bytes) = disk.backlog_bytes else { continue };
            let backlog = self.backlogs.entry(disk.name.clone()).or_default();
            let rows = rows.get(&disk.name).map_or(&[][..], Vec::as_slice);
            rows.iter().for_each(|row| backlog.add(&processes[*row]));
            backlog.end(self.at_ms, bytes);
            let since_ms = |process: &Process| {
                self.at_ms.saturating_sub(process.slowest_us() / 1000).min(began_ms)
            };
            let rate = disk.drain_bytes_per_s;
            let mut longest: Option<(u64, u64)> = None;
            for row in rows {
                let process = &mut processes[*row];
                if !process.is_victim {
                    continue;
                }
                let since_ms = since_ms(process);
                process.is_victim = !backlog.is_own(process, since_ms, rate);
                if process.is_victim {
                    longest = longest.max(Some((process.slowest_us(), since_ms)));
                }
            }
            let since_ms = longest.map_or(began_ms, |(_, since_ms)| since_ms);
            let Some(peak) = backlog.peak(since_ms) else { continue };
            if longest.is_some() && peak.bytes > bytes {
                disk.peak_backlog_bytes = Some(peak.bytes);
            }
            show(&peak.shares, &backlog.parts, &disk.name, rows, processes);
            backlog.forget(self.at_ms);
        }
    }
}

impl Backlog {
    /// The part of a process.
    fn part(&mut self, process: &Process) -> &mut Part {
        let pid = process.pid;
        // A number may come back as another process.
        if self.parts.get(&pid).is_some_and(|part| part.name != process.name) {
            self.parts.remove(&pid);
            self.past.iter_mut().for_each(|end| _ = end.shares.remove(&pid));
        }
        let new = || Part { name: process.name.clone(), ..Part::default() };
        self.parts.entry(pid).or_insert_with(new)
    }

    fn add(&mut self, process: &Process) {
        let part = self.part(process);
        part.workload = process.workload.clone();
        part.bytes += process.dirtied_bytes.unwrap_or(0) as f64;
        part.is_of_threads |= process.is_victim && process.is_flood;
    }

    /// Ends a window: parts shrink alike until their sum is no more than the backlog.
    fn end(&mut self, at_ms: u64, bytes: u64) {
        let sum: f64 = self.parts.values().map(|part| part.bytes).sum();
        let shrink = if sum > bytes as f64 { bytes as f64 / sum } else { 1.0 };
        let mut shares = BTreeMap::new();
        for (pid, part) in &mut self.parts {
            part.bytes *= shrink;
            let share = part.bytes / bytes as f64;
            if has_authors(bytes) && share >= LEAST {
                part.shown_ms = Some(at_ms);
                shares.insert(*pid, share);
            }
        }
        self.past.push_front(End { at_ms, bytes, shares });
    }

    /// The largest backlog since a moment, that at the end of the window before included. Of
    /// several that are as large the last one.
    fn peak(&self, since_ms: u64) -> Option<&End> {
        let later = self.past.iter().take_while(|end| end.at_ms > since_ms).count();
        self.past.iter().take(later + 1).rev().max_by_key(|end| end.bytes)
    }

    /// Whether a process waits for its own data: its part of the largest backlog explains the wait.
    /// Beside a backlog a wait may take twice as long as that drains: some of it was written
    /// meanwhile. A process that waits again and again is no copy that ends.
    fn is_own(&self, process: &Process, since_ms: u64, rate: Option<u64>) -> bool {
        let commits = process.waits.iter().filter(|waits| waits.call != "read");
        let calls = commits.map(|waits| waits.count).sum::<u64>().saturating_add(process.waiting);
        let Some(peak) = self.peak(since_ms).filter(|_| calls <= 1) else { return false };
        let share = peak.shares.get(&process.pid).copied().unwrap_or(0.0);
        let part_s = match rate {
            Some(rate) if rate > 0 => share * peak.bytes as f64 / rate as f64,
            _ => 0.0,
        };
        let is_of_threads = self.parts.get(&process.pid).is_some_and(|part| part.is_of_threads);
        share >= OWN && 2e6 * part_s >= process.slowest_us() as f64 && !is_of_threads
    }

    /// Forgets what is too long ago.
    fn forget(&mut self, at_ms: u64) {
        let is_past = |then_ms: u64| then_ms + PAST_MS <= at_ms;
        let last = self.past.iter().take_while(|end| !is_past(end.at_ms)).count();
        self.past.truncate(last.max(1));
        let bytes = self.past.front().map_or(0, |end| end.bytes);
        let least = (LEAST * bytes as f64).max(1.0);
        let is_remembered = |part: &Part| part.shown_ms.is_some_and(|then_ms| !is_past(then_ms));
        self.parts.retain(|_, part| part.bytes >= least || is_remembered(part));
    }
}

/// Sets the shares of a disk's processes, and adds those that have no row.
fn show(
    shares: &BTreeMap<u32, f64>,
    parts: &BTreeMap<u32, Part>,
    disk: &str,
    rows: &[usize],
    processes: &mut Vec<Process>,
) {
    let mut left = shares.clone();
    for row in rows {
        let process = &mut processes[*row];
        process.backlog_percent = left.remove(&process.pid).map(|share| rounded(100.0 * share));
    }
    for (pid, share) in left {
        let Some(part) = parts.get(&pid) else { continue };
        processes.push(Process {
            pid,
            name: part.name.clone(),
            workload: part.workload.clone(),
            disk: Some(disk.to_owned()),
            backlog_percent: Some(rounded(100.0 * share)),
            ..Process::default()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A disk that drains 100 MiB a second.
    fn disk(backlog_mib: u64) -> Disk {
        Disk {
            name: "sda".into(),
            backlog_bytes: Some(backlog_mib * MIB),
            drain_bytes_per_s: Some(100 * MIB),
            ..Disk::default()
        }
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

    /// A victim that has waited for so long and still waits.
    fn waits(pid: u32, waited_ms: u64) -> Process {
        let oldest_us = waited_ms * 1000;
        Process { is_victim: true, waiting: 1, oldest_us, ..writes(pid, 0) }
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

    /// Whether a process is still a victim after a window that leaves this disk.
    fn is_victim(shares: &mut Shares, disk: Disk, waits: Process) -> bool {
        let mut processes = vec![Process { is_victim: true, ..waits }];
        shares.frame(1_000, &mut [disk], &mut processes);
        processes[0].is_victim
    }

    #[test]
    fn a_wait_has_the_largest_backlog_of_its_time_and_that_ones_authors() {
        let mut shares = Shares::default();
        let mut window = |backlog_mib: u64, waited_ms: Option<u64>, writers: &[(u32, u64)]| {
            let mut disks = [disk(backlog_mib)];
            let writers = writers.iter().map(|(pid, mib)| writes(*pid, *mib));
            let victim = waited_ms.map(|ms| waits(9, ms));
            let mut processes: Vec<Process> = writers.chain(victim).collect();
            shares.frame(1_000, &mut disks, &mut processes);
            let authors = processes.iter().filter(|one| one.backlog_percent.is_some());
            let authors: Vec<u32> = authors.map(|author| author.pid).collect();
            (disks[0].peak_backlog_bytes.map(|bytes| bytes / MIB), authors)
        };
        assert_eq!(window(400, Some(300), &[(1, 400)]), (None, vec![1]));
        assert_eq!(window(100, Some(1_300), &[]), (Some(400), vec![1]));
        assert_eq!(window(5, Some(2_300), &[(2, 900)]), (Some(400), vec![1]), "not of the last 5");
        assert_eq!(window(0, Some(2_900), &[]), (Some(400), vec![1]), "it began a moment later");
        assert_eq!(window(0, Some(1_900), &[]), (Some(5), vec![1, 2]));
        assert_eq!(window(0, Some(900), &[]), (None, vec![]), "it began when all had drained");
        window(400, None, &[(3, 400)]);
        assert_eq!(window(0, None, &[]), (None, vec![3]), "within the window");
        assert_eq!(window(0, None, &[]), (None, vec![]));
    }

    #[test]
    fn who_waits_for_its_own_data_is_no_victim() {
        let mut shares = Shares::default();
        percents(&mut shares, 1000, &[(1, 900), (2, 99)]);
        assert!(!is_victim(&mut shares, disk(900), waits(1, 1_000)));
        assert!(is_victim(&mut shares, disk(800), waits(2, 2_000)), "a tenth is its own");
        // The wait ends in the window in which the last of it is written.
        assert!(!is_victim(&mut shares, disk(0), waits(1, 4_000)));
        assert!(is_victim(&mut shares, disk(0), waits(1, 500)), "the next wait");
    }

    #[test]
    fn own_data_must_explain_the_wait() {
        let after = |disk: Disk, waits: Process| {
            let mut shares = Shares::default();
            percents(&mut shares, 100, &[(1, 100)]);
            is_victim(&mut shares, disk, waits)
        };
        assert!(!after(disk(100), waits(1, 2_000)));
        assert!(after(disk(100), waits(1, 2_001)), "twice its second");
        let stuck = Disk { drain_bytes_per_s: Some(0), ..disk(100) };
        assert!(after(stuck, waits(1, 2_000)));
        let unknown = Disk { drain_bytes_per_s: None, ..disk(100) };
        assert!(after(unknown, waits(1, 2_000)));
        assert!(after(disk(100), Process { waiting: 2, ..waits(1, 2_000) }), "two threads");
        // A small backlog has no authors.
        let mut small = Shares::default();
        assert!(is_victim(&mut small, disk(3), Process { ..writes(1, 3) }));
    }

    #[test]
    fn an_earlier_backlog_is_not_what_a_process_waits_for() {
        let mut shares = Shares::default();
        percents(&mut shares, 5, &[(1, 5)]);
        (0..9).for_each(|_| _ = percents(&mut shares, 0, &[]));
        // A flood and a wait within one window.
        let mut processes = vec![waits(1, 800), writes(2, 5_000)];
        shares.frame(1_000, &mut [disk(5_000)], &mut processes);
        assert!(processes[0].is_victim);
    }

    #[test]
    fn a_flood_of_before_the_first_window_waits_for_its_own_data() {
        let mut shares = Shares::default();
        shares.add_earlier(&writes(1, 0), 900 * MIB);
        assert!(!is_victim(&mut shares, disk(500), waits(1, 100)));
        assert!(is_victim(&mut shares, disk(400), waits(2, 100)));
    }

    #[test]
    fn a_process_whose_other_threads_flood_is_a_victim() {
        let mut shares = Shares::default();
        let floods = Process { is_flood: true, dirtied_bytes: Some(900 * MIB), ..waits(1, 500) };
        assert!(is_victim(&mut shares, disk(900), floods));
        assert!(is_victim(&mut shares, disk(800), waits(1, 1_500)), "after the flood too");
    }

    #[test]
    fn what_is_long_ago_is_forgotten() {
        let mut shares = Shares::default();
        percents(&mut shares, 400, &[(1, 400), (2, 0), (3, 1)]);
        assert!(shares.backlogs["sda"].parts.keys().eq([&1]), "it wrote nothing, or little");
        for _ in 0..PAST_MS / 1_000 {
            percents(&mut shares, 0, &[]);
        }
        let backlog = &shares.backlogs["sda"];
        assert_eq!((backlog.past.len() as u64, backlog.parts.len()), (PAST_MS / 1_000, 0));
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
