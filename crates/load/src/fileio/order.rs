//! The stream of requests. It decides what the next one is, whoever takes it.
//!
//! ```text
//! request, request … N of them, one wrote ─▶ sync of file 0, 1, … ─▶ request …
//! ```

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use super::plan::{EndSync, Mode, Plan, Way};
use crate::buffer::rng;

/// What to do to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Call {
    Read,
    Write,
    Sync,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) call: Call,
    /// Index of the file.
    pub(super) file: u32,
    /// In bytes, as is the length; both 0 for a sync.
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// The requests that are still to come.
#[derive(Debug)]
pub(super) struct Order {
    plan: Plan,
    files: u32,
    file_len: u64,
    rng: Pcg64Mcg,
    /// Where a sequential run goes on, in bytes over all files.
    next: u64,
    laps: u32,
    /// The next file that a round of syncs has to do.
    syncing: Option<u32>,
    /// A write was handed out since the last round.
    is_dirty: bool,
    /// Requests handed out, without syncs.
    requests: u64,
    events: u64,
    /// Completed.
    reads: u64,
    writes: u64,
    /// The last round was begun.
    is_ending: bool,
    /// A block that was written and is to be read.
    again: Option<Request>,
}

impl Order {
    pub(super) fn new(plan: &Plan, files: u32, file_len: u64) -> Self {
        Self {
            plan: plan.clone(),
            files,
            file_len,
            rng: rng(plan.seed, 0),
            next: 0,
            laps: 0,
            syncing: None,
            is_dirty: false,
            requests: 0,
            events: 0,
            reads: 0,
            writes: 0,
            is_ending: false,
            again: None,
        }
    }

    /// A request is done.
    pub(super) fn completed(&mut self, call: Call) {
        match call {
            Call::Read => self.reads += 1,
            Call::Write => self.writes += 1,
            Call::Sync => {}
        }
    }

    /// The next request; `None` when there is none.
    pub(super) fn next(&mut self) -> Option<Request> {
        if self.syncing.is_none() {
            self.begin_round();
        }
        let is_sync = self.syncing.is_some();
        let is_event = !is_sync || self.plan.syncs_are_events;
        if is_event && !self.is_ending && self.is_over() {
            return None;
        }
        self.events += u64::from(is_event);
        if let Some(file) = self.syncing {
            self.syncing = Some(file + 1).filter(|next| *next < self.files);
            return Some(Request { call: Call::Sync, file, offset: 0, len: 0 });
        }
        if self.is_ending {
            return None;
        }
        if let Some(request) = self.again.take() {
            self.requests += 1;
            return Some(request);
        }
        let at = match self.plan.way {
            Way::Sequential { .. } => self.next,
            Way::Random => self.random(),
        };
        let (file, offset) = ((at / self.file_len) as u32, at % self.file_len);
        let len = self.plan.block.min(self.file_len - offset);
        self.go_on(at + len);
        self.requests += 1;
        let call = self.call();
        self.is_dirty |= call == Call::Write;
        if self.plan.mode == Mode::WriteThenRead {
            self.again = Some(Request { call: Call::Read, file, offset, len });
        }
        Some(Request { call, file, offset, len })
    }

    /// Whether a round of syncs comes next.
    fn begin_round(&mut self) {
        if self.plan.end_sync == EndSync::AfterLast && self.is_over() {
            if !self.is_ending && self.plan.writes() {
                self.syncing = Some(0);
            }
            self.is_ending = true;
            return;
        }
        let is_due = self.plan.sync_every.is_some_and(|n| self.requests.is_multiple_of(n.max(1)));
        if is_due && self.is_dirty {
            self.is_dirty = false;
            self.syncing = Some(0);
        }
    }

    fn is_over(&self) -> bool {
        let is_last_lap = match self.plan.way {
            Way::Sequential { laps: Some(laps) } => self.laps >= laps && self.again.is_none(),
            _ => false,
        };
        is_last_lap || self.plan.limit.is_some_and(|limit| self.events >= limit)
    }

    fn go_on(&mut self, to: u64) {
        self.next = to;
        if self.next >= self.file_len * u64::from(self.files) {
            self.next = 0;
            // A run through one block makes more laps than are counted.
            self.laps = self.laps.saturating_add(1);
        }
    }

    /// A multiple of the block, over all files: in a file it may begin anywhere.
    fn random(&mut self) -> u64 {
        let total = u128::from(self.file_len) * u128::from(self.files);
        // Multiply and shift instead of a remainder: fast, and biased by less than 2^-20 here.
        let at = ((u128::from(self.rng.next_u64()) * total) >> 64) as u64;
        at - at % self.plan.block
    }

    fn call(&self) -> Call {
        let is_read = match self.plan.mode {
            Mode::Read => true,
            Mode::Write | Mode::WriteThenRead => false,
            Mode::Mixed(ratio) => ((self.reads + 1) as f64) / ((self.writes + 1) as f64) < ratio,
        };
        if is_read { Call::Read } else { Call::Write }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(way: Way, mode: Mode) -> Plan {
        Plan {
            way,
            mode,
            block: 16 << 10,
            threads: 1,
            sync_every: None,
            sync_each: false,
            end_sync: EndSync::Never,
            data_only: false,
            syncs_are_events: true,
            limit: None,
            rate: None,
            seed: 1,
        }
    }

    /// One thread's calls on two files of 50 KiB: `r0@0+16384`, …
    fn calls(plan: &Plan, at_most: usize) -> Vec<String> {
        let mut order = Order::new(plan, 2, 50 << 10);
        let mut calls = Vec::new();
        while let Some(request) = order.next().filter(|_| calls.len() < at_most) {
            order.completed(request.call);
            let Request { call, file, offset, len } = request;
            calls.push(match call {
                Call::Read => format!("r{file}@{offset}+{len}"),
                Call::Write => format!("w{file}@{offset}+{len}"),
                Call::Sync => format!("s{file}"),
            });
        }
        calls
    }

    /// The calls by their letters: `rws`.
    fn letters(calls: &[String]) -> String {
        calls.iter().map(|call| &call[..1]).collect()
    }

    // Each stream is what strace saw of the original, with these files.
    #[test]
    fn a_sequential_run_ends_files_with_a_short_request_and_begins_again() {
        let read = plan(Way::Sequential { laps: None }, Mode::Read);
        let wanted = "r0@0+16384 r0@16384+16384 r0@32768+16384 r0@49152+2048 r1@0+16384";
        assert_eq!(calls(&read, 5).join(" "), wanted);
        assert_eq!(calls(&read, 12)[8], "r0@0+16384");
        let merged = Plan { block: 32 << 10, ..read };
        assert_eq!(calls(&merged, 3).join(" "), "r0@0+32768 r0@32768+18432 r1@0+32768");
    }

    #[test]
    fn after_n_requests_with_a_write_all_files_are_synced_as_events() {
        let way = Way::Sequential { laps: None };
        let write = Plan { sync_every: Some(3), limit: Some(16), ..plan(way, Mode::Write) };
        assert_eq!(letters(&calls(&write, 99)), "wwwsswwwsswwwssw");
        let read = Plan { mode: Mode::Read, ..write };
        assert_eq!(letters(&calls(&read, 99)), "r".repeat(16));
    }

    #[test]
    fn the_ratio_is_kept_by_completed_calls() {
        let mixed = Plan { limit: Some(13), ..plan(Way::Random, Mode::Mixed(1.5)) };
        assert_eq!(letters(&calls(&mixed, 99)), "rwrwrrwrwrrwr");
    }

    #[test]
    fn each_block_is_written_and_then_read() {
        let way = Way::Sequential { laps: Some(1) };
        let both = plan(way, Mode::WriteThenRead);
        let first = "w0@0+16384 r0@0+16384 w0@16384+16384 r0@16384+16384";
        assert_eq!(calls(&both, 4).join(" "), first);
        assert_eq!(letters(&calls(&both, 99)), "wr".repeat(8));
        let random = calls(&Plan { way: Way::Random, limit: Some(99), ..both }, 100);
        assert!(random.chunks_exact(2).all(|pair| pair[0][1..] == pair[1][1..]));
    }

    #[test]
    fn random_requests_are_aligned_over_all_files() {
        let mut seen: Vec<_> = calls(&plan(Way::Random, Mode::Read), 2000);
        seen.sort();
        seen.dedup();
        let first = "r0@0+16384 r0@16384+16384 r0@32768+16384 r0@49152+2048";
        let second = "r1@14336+16384 r1@30720+16384 r1@47104+4096";
        assert_eq!(seen.join(" "), format!("{first} {second}"));
    }

    #[test]
    fn the_old_way_counts_no_syncs_and_ends_with_one_round() {
        let old = Plan {
            syncs_are_events: false,
            sync_every: Some(2),
            end_sync: EndSync::AfterLast,
            limit: Some(4),
            ..plan(Way::Random, Mode::Write)
        };
        assert_eq!(letters(&calls(&old, 99)), "wwsswwss");
        let lap =
            Plan { way: Way::Sequential { laps: Some(1) }, sync_every: None, limit: None, ..old };
        assert_eq!(letters(&calls(&lap, 99)), "wwwwwwwwss");
    }
}
