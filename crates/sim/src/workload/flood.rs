//! Floods: buffered writes as fast as they are accepted, as many pages at a time as the throttle
//! lets through before it looks again.

use floodwall_device::Nanos;
use rand_core::Rng;

use super::task::{FloodKind, Program, State};
use super::victim::pages_of;
use crate::cost;
use crate::fs::{Extent, SyncJob};
use crate::machine::Machine;
use crate::page_cache::InodeId;

/// The most bytes dirtied in one step of the model while no process is throttled: some 2 ms of a
/// core.
const STEP: u64 = 4 << 20;
/// Length of each write of a burst.
const BURST_BLOCK: u64 = 1 << 20;
/// What a page fault on a shared mapping costs beside the copy.
const FAULT: Nanos = Nanos(700);
/// Metadata blocks of a small file: its directory entry's share, its inode's, its blocks'.
const FILE_BLOCKS: u64 = 1;

impl Machine {
    /// The next piece of a flood.
    pub(super) fn begin_flood(&mut self, t: usize) -> bool {
        let now = self.now;
        let Program::Flood(flood) = self.tasks[t].program.clone() else { return false };
        let block = flood.block;
        let piece = match flood.kind {
            FloodKind::Random => block,
            FloodKind::Files { bytes } => (bytes - flood.partial).min(block),
            FloodKind::Sequential | FloodKind::Mapped => {
                self.run_length(t, block).min(flood.space - flood.cursor).max(1)
            }
            // A block is read before it is written.
            FloodKind::Copy { .. } => block.min(flood.space - flood.cursor),
        };
        // A limit is kept by whole blocks.
        if let Some(wait) = self.paced(t, &flood, piece) {
            return self.wait_for_turn(t, wait);
        }
        let offset = match flood.kind {
            FloodKind::Random => {
                let slots = (flood.space / block).max(1);
                let task = &mut self.tasks[t];
                (((u128::from(task.rng.next_u64()) * u128::from(slots)) >> 64) as u64) * block
            }
            _ => flood.cursor,
        };
        let (begin, end) = pages_of(offset, piece);
        let mut cpu = cost::pages(cost::PAGE, piece.div_ceil(4096));
        let blocks = piece.div_ceil(block);
        match flood.kind {
            FloodKind::Mapped => cpu += cost::pages(FAULT, end - begin),
            FloodKind::Files { .. } if flood.partial == 0 => {
                cpu += cost::CREATE + cost::SYSCALL;
                self.join_commit(self.tasks[t].file, false, FILE_BLOCKS);
            }
            _ => cpu += Nanos(cost::SYSCALL.0 * blocks),
        }
        self.tasks[t].op.inode = self.tasks[t].file;
        self.advance_cursor(t, piece);
        if let FloodKind::Copy { source } = flood.kind {
            let state = State::Copy { begin, end, bytes: piece };
            return self.read_then(t, source, begin, end, cpu, state);
        }
        let _ = now;
        self.spend(t, cpu, State::Copy { begin, end, bytes: piece })
    }

    /// Bytes that can be written before the throttle wants to look.
    fn run_length(&self, t: usize, block: u64) -> u64 {
        let until = self.throttle.until_check(self.tasks[t].who);
        let each = if self.generation.counts_visits() { block.min(4096) } else { 4096 };
        (until.saturating_mul(each)).clamp(1, STEP).next_multiple_of(each.max(1))
    }

    /// How often writing so many bytes goes through the write path, a page or a block at a time.
    pub(super) fn visits(&self, t: usize, bytes: u64) -> u64 {
        let block = match &self.tasks[t].program {
            Program::Flood(flood) => flood.block,
            _ => 4096,
        };
        bytes.div_ceil(block.clamp(1, 4096))
    }

    /// When a limited flood may write the next piece, if not now.
    fn paced(&mut self, t: usize, flood: &super::FloodProgram, piece: u64) -> Option<Nanos> {
        let now = self.now;
        let task = &mut self.tasks[t];
        let load = &mut self.loads[task.load];
        let limit = load.limit.as_mut()?;
        if !matches!(task.state, State::Due) {
            let _ = flood;
            task.op.since = load.began + limit.reserve(piece, now.since(load.began));
        }
        (task.op.since > now).then_some(task.op.since)
    }

    fn wait_for_turn(&mut self, t: usize, until: Nanos) -> bool {
        self.tasks[t].state = State::Due;
        let process = self.tasks[t].process;
        self.sleep_until(process, until);
        false
    }

    fn advance_cursor(&mut self, t: usize, piece: u64) {
        if let Program::Flood(flood) = &mut self.tasks[t].program {
            if let FloodKind::Files { bytes } = flood.kind {
                flood.partial = (flood.partial + piece) % bytes;
            }
            // Small files take whole pages, one after the other.
            let step = match flood.kind {
                FloodKind::Files { .. } if flood.partial == 0 => piece.next_multiple_of(4096),
                FloodKind::Random => 0,
                _ => piece,
            };
            flood.cursor += step;
            if flood.cursor >= flood.space {
                flood.cursor = 0;
            }
        }
    }

    /// Counts accepted bytes; an operation is a whole block.
    pub(super) fn count_flood(&mut self, t: usize, bytes: u64) {
        let task = &mut self.tasks[t];
        let meter = &mut self.loads[task.load].meter;
        match &mut task.program {
            Program::Flood(flood) => {
                if matches!(flood.kind, FloodKind::Files { .. }) {
                    return meter.add_untimed(1, bytes);
                }
                let have = flood.partial + bytes;
                flood.partial = have % flood.block;
                meter.add_untimed(have / flood.block, bytes);
            }
            Program::Burst { left } => {
                *left -= bytes.min(*left);
                meter.add_untimed(1, bytes);
            }
            Program::Victim(_) | Program::SyncAll { .. } => {}
        }
    }

    /// The next write of a burst.
    pub(super) fn begin_burst(&mut self, t: usize, left: u64) -> bool {
        if left == 0 {
            self.tasks[t].state = State::Stopped;
            return false;
        }
        let file = self.tasks[t].file;
        let offset = self.cache.inode(file).pages << 12;
        let piece = self.run_length(t, BURST_BLOCK).min(BURST_BLOCK).min(left);
        let (begin, end) = pages_of(offset, piece);
        self.tasks[t].op.inode = file;
        let cpu = cost::SYSCALL + cost::pages(cost::PAGE, end - begin);
        self.spend(t, cpu, State::Copy { begin, end, bytes: piece })
    }

    /// syncfs(2): the next file that has anything dirty or under way.
    pub(super) fn sync_next(&mut self, t: usize, from: u32) -> bool {
        let inodes = &self.cache.inodes;
        let next = inodes
            .iter()
            .skip(from as usize)
            .position(|i| !i.dirty.is_empty() || !i.writeback.is_empty());
        let Some(next) = next else {
            self.tasks[t].state = State::Stopped;
            return false;
        };
        let id = from + next as u32;
        self.tasks[t].program = Program::SyncAll { inode: id + 1 };
        let job = SyncJob::new(InodeId(id), (0, u64::MAX), true, Extent::Full, self.now);
        self.tasks[t].state = State::Sync(job);
        true
    }
}
