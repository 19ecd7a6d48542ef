//! The waiting contents of a write cache: ranges by offset, each with the version since which it is
//! not on the medium.
//!
//! ```text
//! insert ─▶ dirty (by offset) ─take─▶ in flight ─settle─▶ on the medium
//!                 ▲                      │
//!                 └──────── restore ─────┘  (protected caches, after a power cut)
//! ```
//!
//! A rewrite of a dirty range takes no more space and keeps the older `since`: the version in
//! between never reaches the medium. A rewrite of a range in flight is dirty anew. Each range
//! belongs to the flush epoch in which it became dirty, and bytes are counted by epoch. So "is
//! everything stable that this flush covers" is one look-up. Memory grows with the number of ranges
//! in the cache, not with the device.

use std::collections::VecDeque;

use crate::device::LostExtent;
use crate::sorted::{At, SortedMap};

/// A dirty range without its offset.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Piece {
    len: u64,
    since: u64,
    epoch: u64,
}

/// Contiguous dirty ranges on their way to the medium.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// Lowest version in it.
    pub(crate) since: u64,
    handle: u64,
}

struct Flight {
    handle: u64,
    offset: u64,
    len: u64,
    pieces: Vec<(u64, Piece)>,
}

/// The contents of a write cache.
pub(crate) struct DirtyMap {
    /// By offset; they do not overlap.
    dirty: SortedMap<Piece>,
    flights: Vec<Flight>,
    /// Lists of pieces for flights to come.
    spare: Vec<Vec<(u64, Piece)>>,
    handle: u64,
    dirty_bytes: u64,
    flight_bytes: u64,
    epoch: u64,
    /// Epochs, ascending, and their bytes, dirty or in flight; that of the first is not zero.
    by_epoch: VecDeque<(u64, u64)>,
}

impl DirtyMap {
    pub(crate) const fn new() -> Self {
        Self {
            dirty: SortedMap::new(),
            flights: Vec::new(),
            spare: Vec::new(),
            handle: 0,
            dirty_bytes: 0,
            flight_bytes: 0,
            epoch: 0,
            by_epoch: VecDeque::new(),
        }
    }

    /// Bytes that no transfer has begun for.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        self.dirty_bytes
    }

    /// Bytes that take up space: dirty and in flight.
    pub(crate) fn bytes(&self) -> u64 {
        self.dirty_bytes + self.flight_bytes
    }

    /// Bytes that a write would add, rewrites of dirty ranges not counted. `at` is the first range
    /// at or after it.
    fn growth(&self, at: At, offset: u64, len: u64) -> u64 {
        len - self
            .overlapping(at, offset, len)
            .map(|(o, p)| overlap(o, p.len, offset, len))
            .sum::<u64>()
    }

    /// The dirty range that begins before a place and reaches beyond an offset.
    fn reaching_over(&self, at: At, offset: u64) -> Option<(u64, Piece)> {
        self.dirty.before(at).and_then(|b| self.dirty.get(b)).filter(|(o, p)| o + p.len > offset)
    }

    /// Dirty ranges that touch `[offset, offset + len)`, in order. `at` is the first range at or
    /// after it.
    fn overlapping(
        &self,
        at: At,
        offset: u64,
        len: u64,
    ) -> impl Iterator<Item = (u64, Piece)> + '_ {
        let end = offset.saturating_add(len);
        let inside = self.dirty.ascending(at).take_while(move |(o, _)| *o < end);
        self.reaching_over(at, offset).into_iter().chain(inside)
    }

    /// Adds a write if it takes no more than `room` bytes.
    ///
    /// # Errors
    /// The bytes that it would take. They can only become more as long as nothing is inserted.
    pub(crate) fn admit(
        &mut self,
        offset: u64,
        len: u64,
        version: u64,
        room: u64,
    ) -> Result<(), u64> {
        let end = offset + len;
        let at = self.dirty.at_or_after(offset);
        let before = self.reaching_over(at, offset);
        let next = self.dirty.get(at).filter(|(o, _)| *o < end);
        if next.is_some_and(|(o, p)| o == offset && o + p.len >= end) {
            // All of it is a rewrite of one range.
        } else if before.is_none() && next.is_none() {
            // All of it is new.
            if len > room {
                return Err(len);
            }
            self.add(at, offset, len, version);
        } else {
            let growth = self.growth(at, offset, len);
            if growth > room {
                return Err(growth);
            }
            if growth > 0 {
                self.insert(offset, len, version);
            }
        }
        Ok(())
    }

    /// Adds a write. What of it was dirty already keeps its place, age and space.
    pub(crate) fn insert(&mut self, offset: u64, len: u64, version: u64) {
        let end = offset + len;
        let mut from = offset;
        while from < end {
            let at = self.dirty.at_or_after(from);
            if let Some((o, p)) = self.reaching_over(at, from) {
                from = o + p.len;
                continue;
            }
            let next = self.dirty.get(at).filter(|(o, _)| *o < end);
            self.add(at, from, next.map_or(end, |(o, _)| o) - from, version);
            from = next.map_or(end, |(o, p)| o + p.len);
        }
    }

    /// Adds a wholly clean range, before a place.
    fn add(&mut self, at: At, offset: u64, len: u64, version: u64) {
        if len == 0 {
            return;
        }
        self.dirty.insert(at, offset, Piece { len, since: version, epoch: self.epoch });
        self.dirty_bytes += len;
        match self.by_epoch.back_mut() {
            Some((epoch, sum)) if *epoch == self.epoch => *sum += len,
            _ => self.by_epoch.push_back((self.epoch, len)),
        }
    }

    /// Takes bytes from an epoch.
    fn discount(&mut self, epoch: u64, bytes: u64) {
        let i = self.by_epoch.partition_point(|(e, _)| *e < epoch);
        if let Some((_, sum)) = self.by_epoch.get_mut(i).filter(|(e, _)| *e == epoch) {
            *sum -= bytes;
        }
        while self.by_epoch.front().is_some_and(|(_, sum)| *sum == 0) {
            self.by_epoch.pop_front();
        }
    }

    /// The dirty range that contains a byte.
    fn containing(&self, byte: u64) -> Option<(u64, Piece)> {
        let at = self.dirty.at_or_after(byte);
        self.dirty.get(at).filter(|(o, _)| *o == byte).or_else(|| self.reaching_over(at, byte))
    }

    /// The first dirty range that touches a window.
    fn first_overlap(&self, offset: u64, len: u64) -> Option<(u64, Piece)> {
        self.overlapping(self.dirty.at_or_after(offset), offset, len).next()
    }

    /// Offset of the first dirty range that touches a window.
    pub(crate) fn first_in(&self, offset: u64, len: u64) -> Option<u64> {
        self.first_overlap(offset, len).map(|(o, _)| o)
    }

    /// Up to `n` dirty ranges of epoch `through` or an older one on either side of an offset: what
    /// a head there would look at.
    pub(crate) fn near(
        &self,
        offset: u64,
        n: usize,
        through: u64,
    ) -> impl Iterator<Item = u64> + '_ {
        let at = self.dirty.at_or_after(offset);
        let covered = move |(_, p): &(u64, Piece)| p.epoch <= through;
        let above = self.dirty.ascending(at).filter(covered).take(n);
        above.chain(self.dirty.descending(at).filter(covered).take(n)).map(|(o, _)| o)
    }

    /// Takes the dirty range that contains `from`, or the first one after it, or the first one at
    /// all: an elevator that goes one way. Of those of epoch `through` or an older one, if there
    /// are any. See [`Self::take`].
    pub(crate) fn take_next(
        &mut self,
        from: u64,
        max_len: u64,
        coalesce: bool,
        through: u64,
    ) -> Option<Run> {
        let mut at = self.dirty.at_or_after(from);
        // One that begins here comes before one that reaches over it: they do not overlap.
        if let Some(before) = self.dirty.before(at)
            && let Some((o, p)) = self.dirty.get(before)
            && o + p.len > from
        {
            at = before;
        }
        if self.dirty.get(at).is_none_or(|(_, p)| p.epoch > through) {
            let covered = |(_, p): &(u64, Piece)| p.epoch <= through;
            let first = self.dirty.at_or_after(0);
            let next = self
                .dirty
                .ascending(at)
                .find(covered)
                .or_else(|| self.dirty.ascending(first).find(covered));
            at = next.map_or(first, |(offset, _)| self.dirty.at_or_after(offset));
        }
        self.take_at(at, max_len, coalesce)
    }

    /// Takes the dirty range that begins at `start`, with what follows it without a gap, up to
    /// `max_len` bytes; the rest of a longer range stays dirty. With `coalesce` off it takes one
    /// range only (then `since` is exact for every byte of it).
    pub(crate) fn take(&mut self, start: u64, max_len: u64, coalesce: bool) -> Option<Run> {
        let at = self.dirty.at_or_after(start);
        self.dirty.get(at).filter(|(o, _)| *o == start)?;
        self.take_at(at, max_len, coalesce)
    }

    fn take_at(&mut self, mut at: At, max_len: u64, coalesce: bool) -> Option<Run> {
        let (start, _) = self.dirty.get(at).filter(|_| max_len > 0)?;
        let mut pieces = self.spare.pop().unwrap_or_default();
        let (mut len, mut since) = (0, u64::MAX);
        let mut more = true;
        while more {
            // What of it is in one block of the map leaves it together.
            let (mut whole, mut cut) = (0, None);
            more = false;
            for (offset, mut piece) in self.dirty.rest_of_block(at) {
                more = offset == start + len && len < max_len && (coalesce || len == 0);
                if !more {
                    break;
                }
                let room = max_len - len;
                if piece.len > room {
                    cut = Some((offset + room, Piece { len: piece.len - room, ..piece }));
                    piece.len = room;
                } else {
                    whole += 1;
                }
                len += piece.len;
                since = since.min(piece.since);
                pieces.push((offset, piece));
            }
            if let Some((offset, rest)) = cut {
                self.dirty.replace(at.further(whole), offset, rest);
            }
            at = self.dirty.remove(at, whole);
        }
        self.dirty_bytes -= len;
        self.flight_bytes += len;
        self.handle += 1;
        self.flights.push(Flight { handle: self.handle, offset: start, len, pieces });
        Some(Run { offset: start, len, since, handle: self.handle })
    }

    /// A run is on the medium.
    pub(crate) fn settle(&mut self, run: &Run) {
        let Some(i) = self.flights.iter().position(|f| f.handle == run.handle) else { return };
        let mut flight = self.flights.swap_remove(i);
        self.flight_bytes -= flight.len;
        for (_, piece) in flight.pieces.drain(..) {
            self.discount(piece.epoch, piece.len);
        }
        self.spare.push(flight.pieces);
    }

    /// A newer version of a range is on the medium, written past the cache. The range's dirty bytes
    /// are out of date. None of them may be in flight.
    pub(crate) fn supersede(&mut self, offset: u64, len: u64) {
        let end = offset + len;
        while let Some((start, piece)) = self.first_overlap(offset, len) {
            let at = self.dirty.at_or_after(start);
            self.dirty.remove(at, 1);
            let piece_end = start + piece.len;
            let kept = [(start, offset.max(start)), (end.min(piece_end), piece_end)];
            for (from, to) in kept.into_iter().filter(|(from, to)| from < to) {
                let at = self.dirty.at_or_after(from);
                self.dirty.insert(at, from, Piece { len: to - from, ..piece });
            }
            let gone = overlap(start, piece.len, offset, len);
            self.dirty_bytes -= gone;
            self.discount(piece.epoch, gone);
        }
    }

    /// Whether any byte of a range is dirty or in flight.
    pub(crate) fn touches(&self, offset: u64, len: u64) -> bool {
        self.first_in(offset, len).is_some()
            || self.flights.iter().any(|f| overlap(f.offset, f.len, offset, len) > 0)
    }

    /// Whether every byte of a range can be read from the cache.
    pub(crate) fn covers(&self, offset: u64, len: u64) -> bool {
        let end = offset + len;
        let mut at = offset;
        while at < end {
            let flight = || {
                self.flights
                    .iter()
                    .find(|f| f.offset <= at && at < f.offset + f.len)
                    .map(|f| f.offset + f.len)
            };
            match self.containing(at).map(|(o, p)| o + p.len).or_else(flight) {
                Some(to) => at = to,
                None => return false,
            }
        }
        true
    }

    /// Closes the current epoch and returns its number: a flush that begins now waits until
    /// [`Self::stable_through`] it.
    pub(crate) fn close_epoch(&mut self) -> u64 {
        self.epoch += 1;
        self.epoch - 1
    }

    /// Whether nothing of this epoch or an older one is left.
    pub(crate) fn stable_through(&self, epoch: u64) -> bool {
        self.by_epoch.front().is_none_or(|(e, _)| *e > epoch)
    }

    /// Everything that is not on the medium.
    pub(crate) fn lost(&self) -> impl Iterator<Item = LostExtent> + '_ {
        let flights = self.flights.iter().flat_map(|f| f.pieces.iter().copied());
        self.dirty.iter().chain(flights).map(|(offset, p)| LostExtent {
            offset,
            len: p.len,
            since: p.since,
        })
    }

    /// Forgets everything: the power failed and nothing kept it.
    pub(crate) fn clear(&mut self) {
        *self = Self::new();
    }

    /// Ranges that were in flight are dirty again: the power failed and a battery kept the cache.
    /// Where a newer write is dirty too, the range keeps the older `since`.
    pub(crate) fn restore(&mut self) {
        let mut flights = std::mem::take(&mut self.flights);
        flights.sort_unstable_by_key(|f| f.handle);
        let dirty = std::mem::replace(&mut self.dirty, SortedMap::new());
        (self.dirty_bytes, self.flight_bytes) = (0, 0);
        self.by_epoch.clear();
        let oldest_first = flights.into_iter().flat_map(|f| f.pieces).chain(dirty.iter());
        for (offset, piece) in oldest_first {
            self.insert(offset, piece.len, piece.since);
        }
    }
}

/// Bytes that two ranges have in common.
pub(crate) fn overlap(a: u64, a_len: u64, b: u64, b_len: u64) -> u64 {
    (a + a_len).min(b + b_len).saturating_sub(a.max(b))
}

#[cfg(test)]
mod tests;
