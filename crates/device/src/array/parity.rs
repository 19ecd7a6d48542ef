//! Writes to rows with parity.
//!
//! A row has `d` data and `p` parity chunks.
//!
//! - A full row takes `d + p` writes and no read.
//! - Part of a row has two ways. *Read-modify-write* reads the old data and the old parity
//!   (`touched + p` reads). *Reconstruct-write* reads the data that the write leaves alone
//!   (`d − touched` reads). The cheaper one is taken; then the touched data and the parity are
//!   written. Parity is touched over the range of the chunk from the first byte written in any
//!   column to the last.
//!
//! A row is worked on by one write at a time (md's stripe lock); others wait in order. A write
//! never stands for more than its bytes. The md driver also merges neighbouring requests in its
//! stripe cache; here the cache above does that. The chunk of a missing member is neither read nor
//! written; its data is made up from the others. That is read-modify-write if the missing chunk is
//! not touched, else reconstruct-write.

use std::collections::VecDeque;

use super::rows::{Piece, Task};
use super::{Array, Owner, Sub};
use crate::device::{Op, Request};
use crate::time::Nanos;

impl Array {
    /// Cuts a write into rows and starts the idle ones.
    pub(super) fn start_rows(&mut self, now: Nanos, parent: usize, request: &Request) {
        let row_bytes = self.layout.row_bytes();
        let mut at = request.offset;
        while at < request.end() {
            let row = at / row_bytes;
            let len = ((row + 1) * row_bytes).min(request.end()) - at;
            let (reads, writes) = self.plan_row(row, at % row_bytes, len);
            let task =
                Task { parent, remaining: 0, failures: 0, row, request: *request, reads, writes };
            let slot = self.tasks.insert(task);
            if let Some(p) = self.parents.get_mut(parent) {
                p.remaining += 1;
            }
            match self.rows.0.get_mut(&row) {
                Some(waiting) => waiting.push_back(slot),
                None => {
                    self.rows.0.insert(row, VecDeque::new());
                    self.task_step(now, slot);
                }
            }
            at += len;
        }
    }

    /// What a write of `len` bytes from `from` on within a row reads and writes.
    fn plan_row(&self, row: u64, from: u64, len: u64) -> (Vec<Piece>, Vec<Piece>) {
        let chunk = self.layout.chunk;
        let columns = self.layout.data_columns();
        let base = row * chunk;
        let piece =
            |member, low: u64, high: u64| Piece { member, offset: base + low, len: high - low };
        let touched: Vec<Option<(u64, u64)>> = (0..columns as u64)
            .map(|i| {
                let low = from.max(i * chunk);
                let high = (from + len).min((i + 1) * chunk);
                (low < high).then(|| (low - i * chunk, high - i * chunk))
            })
            .collect();
        let low = touched.iter().flatten().map(|t| t.0).min().unwrap_or(0);
        let high = touched.iter().flatten().map(|t| t.1).max().unwrap_or(0);
        let parity: Vec<usize> =
            (0..self.p.level.parity()).map(|i| self.layout.parity_member(row, i)).collect();
        let data = |i| self.layout.data_member(row, i);
        let alive = |member: usize| self.members[member].alive;

        let old_data =
            touched.iter().enumerate().filter_map(|(i, t)| t.map(|(l, h)| piece(data(i), l, h)));
        let old_parity = parity.iter().map(|m| piece(*m, low, high));
        let writes: Vec<Piece> =
            old_data.clone().chain(old_parity.clone()).filter(|p| alive(p.member)).collect();
        let modify: Vec<Piece> = old_data.chain(old_parity).collect();
        let rebuild: Vec<Piece> = touched
            .iter()
            .enumerate()
            .filter(|(_, t)| **t != Some((low, high)))
            .map(|(i, _)| piece(data(i), low, high))
            .collect();
        let dead = |reads: &[Piece]| reads.iter().filter(|p| !alive(p.member)).count();
        let no_parity_left = parity.iter().all(|m| !alive(*m));
        let reads = if no_parity_left {
            Vec::new()
        } else {
            // A plan that needs a missing chunk comes second, whatever it costs.
            let cost = |reads: &[Piece]| (dead(reads), reads.len());
            if cost(&rebuild) <= cost(&modify) { rebuild } else { modify }
        };
        (reads.into_iter().filter(|p| alive(p.member)).collect(), writes)
    }

    /// Something of a row is done, or it may begin: reads first, then writes, then the next in
    /// line.
    pub(super) fn task_step(&mut self, now: Nanos, slot: usize) {
        let Some(task) = self.tasks.get_mut(slot) else { return };
        task.remaining = task.remaining.saturating_sub(1);
        if task.remaining > 0 {
            return;
        }
        let (pieces, op) = if task.reads.is_empty() {
            (std::mem::take(&mut task.writes), task.request.op)
        } else {
            (std::mem::take(&mut task.reads), Op::Read)
        };
        let request = Request { op, ..task.request };
        if pieces.is_empty() {
            return self.finish_row(now, slot);
        }
        for p in pieces {
            let request = Request { offset: p.offset, len: p.len, ..request };
            // Parity makes up for a chunk that can't be read; there is no second attempt.
            self.send(
                now,
                Sub { owner: Owner::Task(slot), member: p.member, request, retried: true },
            );
        }
    }

    fn finish_row(&mut self, now: Nanos, slot: usize) {
        let Some(task) = self.tasks.remove(slot) else { return };
        let next = self.rows.0.get_mut(&task.row).and_then(VecDeque::pop_front);
        match next {
            Some(waiting) => self.task_step(now, waiting),
            None => {
                self.rows.0.remove(&task.row);
            }
        }
        self.release(now, task.parent);
    }
}
