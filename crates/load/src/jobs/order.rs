//! Which request comes next.
//!
//! ```text
//! due sync? ─▶ sync of the next file
//! else: direction by chance ─▶ next file with a block left ─▶ its next block
//! ```
//!
//! Files take turns, syncs included: with more than one file a sync need not be of the file that
//! was written before it, as in fio.

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use super::plan::JobPlan;
use crate::buffer::rng;

/// Rounds of the permutation. Four of a Feistel network give no visible pattern.
const ROUNDS: u64 = 4;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    Sync,
    SyncData,
}

/// A request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Op {
    pub(super) kind: Kind,
    pub(super) file: usize,
    pub(super) offset: u64,
    pub(super) len: u64,
}

/// How far a file's requests are in a pass.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    /// In order: bytes read and written.
    done: [u64; 2],
    /// At random: blocks.
    taken: u64,
}

/// A job's requests.
pub(super) struct Order<'p> {
    plan: &'p JobPlan,
    cursors: Vec<Cursor>,
    next_file: usize,
    /// Requests issued in all passes, without syncs.
    pub(super) issued: u64,
    writes: u64,
    /// Bytes of all passes and of this one.
    pub(super) bytes: u64,
    pass_bytes: u64,
    /// The last request that ended.
    was_sync: bool,
    mix: Pcg64Mcg,
    places: Pcg64Mcg,
    /// Of the permutation.
    key: u64,
}

impl<'p> Order<'p> {
    pub(super) fn new(plan: &'p JobPlan) -> Self {
        let mut places = rng(plan.seed, 0);
        Self {
            plan,
            cursors: vec![Cursor::default(); plan.files.len()],
            next_file: 0,
            issued: 0,
            writes: 0,
            bytes: 0,
            pass_bytes: 0,
            was_sync: false,
            mix: rng(plan.seed, 1),
            key: places.next_u64(),
            places,
        }
    }

    /// Begins a pass. Blocks come in another random order.
    pub(super) fn begin_pass(&mut self) {
        self.cursors.fill(Cursor::default());
        self.next_file = 0;
        self.pass_bytes = 0;
        self.key = self.places.next_u64();
    }

    /// All bytes or requests that were asked for are issued.
    pub(super) fn is_complete(&self) -> bool {
        self.plan.bytes.is_some_and(|most| self.bytes >= most)
            || self.plan.requests.is_some_and(|most| self.issued >= most)
    }

    /// The direction of the next request, by chance, and whether a sync is due before it.
    pub(super) fn direction(&mut self) -> bool {
        match (self.plan.reads, self.plan.writes) {
            (true, true) => {
                let percent = (u128::from(self.mix.next_u64()) * 100) >> 64;
                percent >= u128::from(self.plan.read_percent)
            }
            (_, writes) => writes,
        }
    }

    /// A sync, if one is due.
    pub(super) fn sync(&mut self) -> Option<Op> {
        let is_due = |every: u64| {
            every > 0 && self.writes > 0 && self.writes.is_multiple_of(every) && !self.was_sync
        };
        if self.is_over() {
            return None;
        }
        let kind = match (is_due(self.plan.sync_every), is_due(self.plan.sync_data_every)) {
            (true, _) => Kind::Sync,
            (false, true) => Kind::SyncData,
            (false, false) => return None,
        };
        let file = self.turn(|_, _| true)?;
        Some(Op { kind, file, offset: 0, len: 0 })
    }

    fn is_over(&self) -> bool {
        self.pass_bytes >= self.plan.total() || self.is_complete()
    }

    /// A request has ended. While a sync is in flight the next one is due as well, so a deep queue
    /// has more of them, as in fio.
    pub(super) fn ended(&mut self, kind: Kind) {
        self.was_sync = matches!(kind, Kind::Sync | Kind::SyncData);
    }

    /// The next read or write; `None` at the end of a pass.
    pub(super) fn next(&mut self, is_write: bool) -> Option<Op> {
        if self.is_over() {
            return None;
        }
        let len = self.plan.block[usize::from(is_write)];
        let file = self.turn(|order, file| order.has_block(file, is_write))?;
        let offset = self.place(file, is_write, len);
        self.issued += 1;
        self.writes += u64::from(is_write);
        self.bytes += len;
        self.pass_bytes += len;
        let kind = if is_write { Kind::Write } else { Kind::Read };
        Some(Op { kind, file, offset: self.plan.files[file].from + offset, len })
    }

    /// The next file in turn that will do.
    fn turn(&mut self, will_do: impl Fn(&Self, usize) -> bool) -> Option<usize> {
        let count = self.cursors.len();
        let found = (0..count)
            .map(|step| (self.next_file + step) % count)
            .find(|file| will_do(self, *file))?;
        self.next_file = (found + 1) % count;
        Some(found)
    }

    fn has_block(&self, file: usize, is_write: bool) -> bool {
        let (len, cursor) = (self.plan.files[file].len, &self.cursors[file]);
        match (self.plan.is_random, self.has_map()) {
            (false, _) => {
                let direction = usize::from(is_write);
                cursor.done[direction] + self.plan.block[direction] <= len
            }
            (true, true) => cursor.taken < len / self.plan.shortest(),
            (true, false) => len >= self.plan.block[usize::from(is_write)],
        }
    }

    /// Whether each block comes once. Blocks of two lengths have no common places.
    fn has_map(&self) -> bool {
        let plan = self.plan;
        plan.each_once && plan.shortest() == plan.longest()
    }

    fn place(&mut self, file: usize, is_write: bool, len: u64) -> u64 {
        let blocks = self.plan.files[file].len / len;
        let has_map = self.has_map();
        let cursor = &mut self.cursors[file];
        if !self.plan.is_random {
            let done = &mut cursor.done[usize::from(is_write)];
            *done += len;
            return *done - len;
        }
        if !has_map {
            return ((u128::from(self.places.next_u64()) * u128::from(blocks)) >> 64) as u64 * len;
        }
        cursor.taken += 1;
        permuted(cursor.taken - 1, blocks, self.key.wrapping_add(file as u64)) * len
    }
}

/// The `n`-th of a random order of the numbers below `count`.
///
/// A Feistel network permutes the numbers of an even number of bits. One of `count` or more is
/// permuted again: its cycle comes back below `count` at last.
fn permuted(n: u64, count: u64, key: u64) -> u64 {
    let bits = (64 - count.saturating_sub(1).leading_zeros()).max(2).next_multiple_of(2);
    let half = bits / 2;
    let mask = (1 << half) - 1;
    let mut n = n;
    loop {
        let (mut left, mut right) = (n >> half, n & mask);
        for round in 0..ROUNDS {
            let mixed =
                crate::buffer::mix(right ^ key.rotate_left(16 * round as u32) ^ round << 56);
            (left, right) = (right, left ^ (mixed & mask));
        }
        n = left << half | right;
        if n < count {
            return n;
        }
    }
}

#[cfg(test)]
#[path = "order_tests.rs"]
mod tests;
