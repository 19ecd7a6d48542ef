//! Appends frames, and keeps the recording within its limits.

use std::path::Path;

use floodwall_model::frame::Frame;

use super::day::Day;
use super::directory::{Directory, LOG, Lock};
use super::error::RecordError;
use super::limits::{self, FRAMES_BEFORE_AGE, Limits};
use super::today::Today;

/// How something was appended.
#[derive(Debug)]
#[must_use]
pub enum Appended {
    /// As it should be.
    Within,
    /// The present day and the stall log take more bytes than are allowed. This is told once a day,
    /// and the frames after it are appended as well: an unrecorded stall costs more than the bytes.
    OverLimit {
        /// Bytes of both.
        today_bytes: u64,
    },
    /// Days beyond the limits could not be removed. This is tried again with the next one.
    Unremoved(RecordError),
}

/// Appends frames to a recording. One process does so at a time.
pub struct Writer {
    directory: Directory,
    _lock: Lock,
    limits: Limits,
    today: Option<Today>,
    kept: Kept,
}

/// The state of the limits since the present day was opened.
#[derive(Default)]
struct Kept {
    /// Bytes of the other days, once they have been counted.
    others_bytes: Option<u64>,
    /// Days have gone for their age.
    is_aged: bool,
    /// [`Appended::OverLimit`] has been told.
    is_told: bool,
}

impl Writer {
    /// Makes this process the recorder of a directory, which is made if it is absent.
    ///
    /// # Errors
    /// [`RecordError::Busy`] if another process records there; a directory that can't be used.
    pub fn open(directory: &Path, limits: Limits) -> Result<Self, RecordError> {
        let directory = Directory::make(directory)?;
        let lock = directory.lock()?;
        Ok(Self { directory, _lock: lock, limits, today: None, kept: Kept::default() })
    }

    /// Appends a frame to the files of its day. A recorder appends it as its detector has seen it,
    /// [condensed](crate::condensed).
    ///
    /// # Errors
    /// If it can't be written. The recording is then as it was before, and a later frame may be
    /// written again.
    pub fn append(&mut self, frame: &Frame) -> Result<Appended, RecordError> {
        let at_unix_ms = frame.at_unix_ms;
        let past = "the clock is past the year 9999";
        let day = Day::of(at_unix_ms).ok_or(RecordError::Frame { at_unix_ms, why: past })?;
        let left = self.today.take().filter(|today| today.day() == day && today.is_as_left());
        let today = match left {
            Some(today) => self.today.insert(today),
            None => {
                self.kept = Kept::default();
                self.today.insert(Today::open(&self.directory, day)?)
            }
        };
        today.append(frame)?;
        let (today_bytes, frames) = (today.bytes(), today.frames());
        let kept = self.keep(day, today_bytes, frames >= FRAMES_BEFORE_AGE);
        Ok(kept.unwrap_or_else(Appended::Unremoved))
    }

    /// Removes days beyond the limits.
    fn keep(&mut self, day: Day, bytes: u64, may_age: bool) -> Result<Appended, RecordError> {
        let bytes = bytes.saturating_add(self.directory.length(LOG)?);
        let kept = &mut self.kept;
        let is_within = kept
            .others_bytes
            .is_some_and(|others| others == 0 || others.saturating_add(bytes) <= self.limits.bytes);
        if !is_within || (may_age && !kept.is_aged) {
            let others = limits::enforce(&self.directory, self.limits, day, bytes, may_age)?;
            kept.others_bytes = Some(others);
            kept.is_aged = may_age;
        }
        if bytes <= self.limits.bytes || kept.is_told {
            return Ok(Appended::Within);
        }
        kept.is_told = true;
        Ok(Appended::OverLimit { today_bytes: bytes })
    }
}
