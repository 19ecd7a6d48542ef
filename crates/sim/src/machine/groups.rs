//! Control groups of a machine: a writeback context, a dirty domain and limits for each.
//!
//! ```text
//! writer ─▶ pages: the file's group ─▶ that group's dirty limits and flusher
//!                                                        │
//! bio ─▶ group's io.max ── within ──────────────▶ request slots, wbt …
//!              └ beyond: queued ─ timer ─▶ kthrotld ─▶ ┘
//! ```
//!
//! Groups exist only if a setting names one of their knobs; without, all is the root group's. A bio
//! of writeback belongs to the group of its file's writeback context, independent of its submitter
//! (`wbc_init_bio`). Any other bio belongs to the group of its process. The journal's thread is in
//! the root group, and `io.max` lets bios marked as metadata through, as records and blocks of a
//! journal are (`bio_issue_as_root_blkg`). With xfs, whose log is mostly written by the process
//! that syncs, the kernel would charge those bytes to that process's group.
//!
//! A throttled bio does not block its submitter: a flusher puts all it finds into the group's
//! queue, where it counts as under writeback. One worker of the device submits what the
//! limits of all its groups let through and sleeps for request slots as any submitter does
//! (`blk_throtl_dispatch_work_fn`).
//!
//! Of `memory.high` (mm/memcontrol.c) the dirty domain is modelled: a group's dirty limits are
//! shares of its allowance. A group's memory is the dirty and writeback pages of its page cache.
//! Clean pages are reclaimed at once whenever room is wanted, which costs nothing here. So no group
//! is above its limit, and no process sleeps for that (`mem_cgroup_handle_over_high`). A writer
//! leaves `balance_dirty_pages` only when the group has fewer dirty pages than its dirty limit,
//! which is at most `memory.high`. Also left out are anonymous and kernel memory, rereading
//! reclaimed pages, flushers that reclaim wakes (`wakeup_flusher_threads`), and limits of
//! ancestors. The same holds for files that another group takes over (`inode_switch_wbs`).

use std::collections::VecDeque;

use floodwall_device::Nanos;

use super::state::{Kthrotld, Wb};
use crate::block::{Bio, End, IoMax};
use crate::event::Event;
use crate::groups::GroupLimits;
use crate::machine::{Machine, Role};
use crate::page_cache::WbPages;
use crate::request::ProcessIndex;
use crate::throttle::jiffies::Clock;
use crate::throttle::{BdiId, MemcgCounts};

impl Machine {
    /// Makes the control groups, each with a writeback context and a flusher (`cgwb_create`).
    pub(super) fn add_groups(&mut self, bdi: BdiId, groups: Vec<GroupLimits>) {
        for _ in &groups {
            let memcg = self.throttle.add_memcg();
            let id = self.throttle.add_wb(bdi, Some(memcg));
            let process = self.add_process(Role::Flusher(self.wbs.len() as u32));
            self.wbs.push(Wb::new(id, process));
            self.cache.wbs.push(WbPages::default());
        }
        self.groups = groups;
        if self.groups.iter().any(|limits| !limits.io.is_unlimited()) {
            self.begin_throttling();
        }
    }

    /// A disk's first `io.max` (`blk_throtl_init`).
    fn begin_throttling(&mut self) {
        let process = self.add_process(Role::Kthrotld);
        // The root group has no limit.
        let rates =
            std::iter::once(Default::default()).chain(self.groups.iter().map(|limits| limits.io));
        let limits = IoMax::new(Clock::new(self.hz, true), rates);
        self.kthrotld = Some(Kthrotld { process, limits, ready: VecDeque::new(), timer: 0 });
    }

    /// Gives a group, counted without the root group, other limits.
    pub(crate) fn limit_group(&mut self, group: usize, limits: GroupLimits) {
        self.groups[group] = limits;
        let Some(kthrotld) = &mut self.kthrotld else {
            if !limits.io.is_unlimited() {
                self.begin_throttling();
            }
            return;
        };
        if let Some(at) = kthrotld.limits.change(self.now, group + 1, limits.io) {
            self.arm_io_max(at);
        }
    }

    /// Number of the group that a scenario's victims or floods run in: the root group unless there
    /// are groups.
    pub(crate) fn group_called(&self, name: &str) -> u32 {
        match crate::groups::NAMES.iter().position(|group| *group == name) {
            Some(i) if i + 1 < self.wbs.len() => i as u32 + 1,
            _ => 0,
        }
    }

    /// A context's memory control group as the dirty limits see it (`mem_cgroup_wb_stats`).
    pub(super) fn memcg_counts(&self, wb: usize) -> Option<MemcgCounts> {
        // The root group has no limits.
        let limits = self.groups.get(wb.checked_sub(1)?)?;
        let WbPages { dirty, writeback, .. } = self.cache.wbs[wb];
        let file = dirty + writeback;
        let headroom = limits.high_pages.map_or(u64::MAX, |high| high.saturating_sub(file));
        Some(MemcgCounts { file, headroom, dirty, writeback })
    }

    /// Asks the limits of a bio's group. `false`: it was queued, and its submitter goes on.
    pub(super) fn within_io_max(&mut self, process: ProcessIndex, bio: &mut Bio) -> bool {
        let Some(kthrotld) = &mut self.kthrotld else { return true };
        if bio.let_through {
            return true;
        }
        bio.let_through = true;
        let submitter = bio.on_behalf_of.unwrap_or(process);
        bio.submitter = Some(submitter);
        let group = match bio.end {
            End::Pages { inode, .. } => self.cache.inode(inode).wb(),
            _ => self.processes[submitter.0 as usize].group as usize,
        };
        let submitted = kthrotld.limits.submit(self.now, group, bio);
        if let Some(at) = submitted.timer {
            self.arm_io_max(at);
        }
        submitted.passes
    }

    fn arm_io_max(&mut self, at: Nanos) {
        let Some(kthrotld) = &mut self.kthrotld else { return };
        kthrotld.timer += 1;
        let timer = kthrotld.timer;
        self.at(at, Event::IoMax { timer });
    }

    /// The moment has come at which some group's first bio may go on.
    pub(super) fn io_max_timer(&mut self, timer: u32) {
        let now = self.now;
        let Some(kthrotld) = &mut self.kthrotld else { return };
        if kthrotld.timer != timer {
            return;
        }
        let next = kthrotld.limits.dispatch(now, &mut kthrotld.ready);
        let process = kthrotld.process;
        if let Some(at) = next {
            self.arm_io_max(at);
        }
        self.wake(process);
    }

    /// The worker submits what may go on, and looks again.
    pub(super) fn kthrotld_step(&mut self) {
        loop {
            let Some(kthrotld) = &self.kthrotld else { return };
            let process = kthrotld.process;
            if !self.pump(process) {
                return;
            }
            let Some(kthrotld) = &mut self.kthrotld else { return };
            if kthrotld.ready.is_empty() {
                return;
            }
            let ready = std::mem::take(&mut kthrotld.ready);
            self.processes[process.0 as usize].queue_all(ready);
        }
    }
}
