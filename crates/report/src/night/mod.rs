//! A night: the frames of a time, thinned, with its stalls and its worst minute.
//!
//! ```text
//! stalls ─▶ worst minute ─▶ reads: the time of frames that is wanted
//! Frame  ─▶ course   a disk's figures, the largest of each bin
//!        ─▶ minute   frame by frame: who waited, who dirtied
//!        ─▶ missing  holes, and what could not be seen
//! Night  ─▶ html::night | text
//! ```
//!
//! Frames come one by one, so that a day of them is never in memory. A bin keeps the largest value
//! of its time: a peak of one second is still there in a picture of a day. Moments are milliseconds
//! since 1970.

mod course;
mod minute;
mod missing;
mod text;

use std::ops::Range;

use floodwall_model::frame::Frame;
use floodwall_model::stall::Stall;
use jiff::tz::TimeZone;

pub use course::{Bin, Course};
pub use minute::{Minute, Moment};
pub use missing::Missing;
pub(crate) use missing::holes_in_words;
pub use text::text;
pub(crate) use text::{COLUMNS, cells, heading, sort_keys};

use crate::stalls::{Listing, Totals};

/// A time of a machine.
#[derive(Debug)]
pub struct Night<'a> {
    /// The stalls, and the time that was asked for.
    pub listing: Listing<'a>,
    /// The same summed up.
    pub totals: Totals,
    /// The machine's name.
    pub machine: String,
    /// Frames of the time.
    pub frames: u64,
    /// Its disks.
    pub courses: Vec<Course>,
    /// The minute around the slowest wait of a stall.
    pub minute: Option<Minute>,
    /// Holes, and what could not be seen.
    pub missing: Missing,
}

impl<'a> Night<'a> {
    /// One that takes frames.
    #[must_use]
    pub fn new(listing: Listing<'a>) -> Self {
        Self {
            listing,
            totals: Totals::of(listing.stalls),
            machine: String::new(),
            frames: 0,
            courses: Vec::new(),
            minute: worst(listing.stalls).map(Minute::of),
            missing: Missing::new(listing.from_unix_ms),
        }
    }

    /// The moments whose frames it takes, in their order. The worst minute may reach beyond the
    /// time that was asked for.
    #[must_use]
    pub fn reads(&self) -> Range<u64> {
        let time = self.time();
        match &self.minute {
            Some(minute) => {
                time.start.min(minute.from_unix_ms)..time.end.max(minute.to_unix_ms + 1)
            }
            None => time,
        }
    }

    /// Takes the next frame.
    pub fn add(&mut self, frame: &Frame) {
        if let Some(minute) = &mut self.minute {
            minute.add(frame);
        }
        let time = self.time();
        if !time.contains(&frame.at_unix_ms) {
            return;
        }
        self.frames += 1;
        if self.machine.is_empty() {
            self.machine.clone_from(&frame.machine.name);
        }
        self.missing.add(frame);
        for disk in &frame.disks {
            let at = self.courses.iter().position(|course| course.disk == disk.name);
            let at = at.unwrap_or_else(|| {
                self.courses.push(Course::new(&disk.name, time.clone()));
                self.courses.len() - 1
            });
            self.courses[at].add(disk, frame);
        }
    }

    /// After the last frame: `damaged_frames` could not be read. The disks that matter most come
    /// first.
    pub fn finish(&mut self, damaged_frames: u64) {
        self.missing.finish(self.listing.to_unix_ms, damaged_frames);
        let stalled_ms = |course: &Course| {
            let own = self.listing.stalls.iter().filter(|stall| stall.disk == course.disk);
            own.map(Stall::lasted_ms).fold(0, u64::saturating_add)
        };
        self.courses.sort_by_cached_key(|course| {
            let weight = (stalled_ms(course), course.slowest_us(), course.most_written());
            (std::cmp::Reverse(weight), course.disk.clone())
        });
    }

    /// The time that was asked for.
    #[must_use]
    pub fn time(&self) -> Range<u64> {
        self.listing.from_unix_ms..self.listing.to_unix_ms.max(self.listing.from_unix_ms + 1)
    }

    pub(crate) fn zone(&self) -> &TimeZone {
        self.listing.zone
    }
}

/// The stall with the slowest wait; of several that are as bad the first one.
fn worst(stalls: &[Stall]) -> Option<&Stall> {
    stalls.iter().rev().max_by_key(|stall| stall.slowest_us())
}

#[cfg(test)]
mod tests;
