//! A drive's read buffer: a few segments, the newest growing while the head reads ahead.
//!
//! After a read the head stays on its track and goes on reading until another command needs it or
//! the segment is full. Bytes read ahead are known by time alone: `from + rate × (now − since)`.

use super::geometry::{Geometry, Place};
use crate::time::Nanos;

/// Reading ahead, under way or brought to its end.
#[derive(Clone, Copy, Debug)]
struct Ahead {
    since: Nanos,
    from: u64,
    /// Where `from` lies.
    place: Place,
    limit: u64,
}

#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u64,
    end: u64,
}

/// How a read can be served without moving the head away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hit {
    /// It is in the buffer.
    Buffered,
    /// The head is about to pass over it: complete at this moment.
    Riding(Nanos),
    /// Neither.
    Miss,
}

/// See the [module](self).
pub(super) struct Buffer {
    /// Newest last.
    segments: Vec<Segment>,
    ahead: Option<Ahead>,
    most: usize,
    read_ahead: u64,
    capacity: u64,
}

/// How far in front of the head a read may begin and still wait for it: less than a track, which
/// would cost a turn.
const RIDE_BYTES: u64 = 256 << 10;

impl Buffer {
    pub(super) fn new(most: usize, read_ahead: u64, capacity: u64) -> Self {
        Self { segments: Vec::new(), ahead: None, most, read_ahead, capacity }
    }

    /// First byte that the head has not yet read.
    pub(super) fn front(&self, geometry: &Geometry, now: Nanos) -> Option<u64> {
        let ahead = self.ahead?;
        Some((ahead.from + geometry.passed(&ahead.place, now.since(ahead.since))).min(ahead.limit))
    }

    /// Whether and when a read can be served from here.
    pub(super) fn look_up(&self, geometry: &Geometry, now: Nanos, offset: u64, len: u64) -> Hit {
        let end = offset + len;
        if self.segments.iter().any(|s| s.start <= offset && end <= s.end) {
            return Hit::Buffered;
        }
        let (Some(ahead), Some(newest)) = (self.ahead, self.segments.last()) else {
            return Hit::Miss;
        };
        if offset < newest.start || offset > ahead.limit + RIDE_BYTES {
            // Wherever the head is by now.
            return Hit::Miss;
        }
        let Some(front) = self.front(geometry, now) else { return Hit::Miss };
        if offset > front + RIDE_BYTES {
            Hit::Miss
        } else if end <= front {
            Hit::Buffered
        } else if front < ahead.limit {
            Hit::Riding(ahead.since + geometry.transfer(&ahead.place, end - ahead.from))
        } else {
            Hit::Miss
        }
    }

    /// The head has read a range and goes on from there.
    pub(super) fn read(&mut self, geometry: &Geometry, now: Nanos, offset: u64, len: u64) {
        self.ahead = None;
        if self.most == 0 || self.read_ahead == 0 {
            return;
        }
        let end = offset + len;
        let joined =
            self.segments.iter().rposition(|s| s.start <= offset && offset <= s.end + RIDE_BYTES);
        let start = match joined {
            Some(i) => self.segments.remove(i).start.max(end.saturating_sub(self.read_ahead)),
            None => offset,
        };
        if self.segments.len() >= self.most {
            self.segments.remove(0);
        }
        self.segments.push(Segment { start, end });
        let limit = (end + self.read_ahead).min(self.capacity);
        self.ahead = Some(Ahead { since: now, from: end, place: geometry.place(end), limit });
    }

    /// The host has read up to `end` from the buffer: there is space to read further, if the head
    /// has not stopped yet.
    pub(super) fn extend(&mut self, geometry: &Geometry, now: Nanos, end: u64) {
        let front = self.front(geometry, now);
        let limit = (end + self.read_ahead).min(self.capacity);
        let newest = self.segments.last().is_some_and(|s| s.start <= end);
        if let Some(ahead) =
            self.ahead.as_mut().filter(|a| newest && front.is_some_and(|f| f < a.limit))
        {
            ahead.limit = ahead.limit.max(limit);
        }
    }

    /// The head is needed elsewhere. Returns how far it got, if it was reading ahead.
    pub(super) fn stop(&mut self, geometry: &Geometry, now: Nanos) -> Option<u64> {
        let front = self.front(geometry, now)?;
        self.ahead = None;
        if let Some(newest) = self.segments.last_mut() {
            newest.end = newest.end.max(front);
        }
        Some(front)
    }

    /// A range is written: what the buffer holds of it is old.
    pub(super) fn invalidate(&mut self, offset: u64, len: u64) {
        let end = offset + len;
        if self.ahead.is_some_and(|a| offset < a.limit && end > a.from) {
            self.ahead = None;
        }
        self.segments.retain(|s| end <= s.start || s.end <= offset);
        if self.segments.is_empty() {
            self.ahead = None;
        }
    }

    /// Whether it holds nothing and nothing is read ahead.
    pub(super) fn is_empty(&self) -> bool {
        self.segments.is_empty() && self.ahead.is_none()
    }

    pub(super) fn clear(&mut self) {
        self.segments.clear();
        self.ahead = None;
    }
}
