//! A recorder's part in stalls: each frame through the detector, each ended stall into the log.
//!
//! ```text
//! frame ─▶ Detector ─▶ Event   what the caller tells: metrics, journal
//!             └─▶ lines ─ write ─▶ log
//! ```
//!
//! The log also gets the times that were watched, when a stall has ended and once an hour. A
//! recorder that was killed leaves an hour at most that has to be found again.

use std::path::{Path, PathBuf};

use floodwall_model::frame::Frame;

use super::detector::{Detector, Event};
use super::log::{self, Line, Watched};
use crate::store::{RecordError, condensed};

/// How often the log gets the time that was watched, in milliseconds.
const MARK_MS: u64 = 3_600_000;

/// Nothing goes for its age before so many frames (an hour of them). So a clock that is wrong for a
/// moment, as at boot, removes nothing.
const FRAMES_BEFORE_AGE: u64 = 720;

/// Lines that wait while the log can't be written; then the oldest are lost.
const MOST_LINES: usize = 1_000;

/// Watches a recorder's frames for stalls.
#[derive(Debug)]
pub struct Watch {
    directory: PathBuf,
    keep_ms: u64,
    detector: Detector,
    /// The beginning of the time that the log does not have yet.
    from_ms: Option<u64>,
    last_ms: u64,
    frames: u64,
    lines: Vec<Line>,
}

impl Watch {
    /// One that logs into a directory that exists, and keeps stalls for so many milliseconds.
    #[must_use]
    pub fn new(directory: &Path, keep_ms: u64) -> Self {
        Self {
            directory: directory.to_owned(),
            keep_ms,
            detector: Detector::new(),
            from_ms: None,
            last_ms: 0,
            frames: 0,
            lines: Vec::new(),
        }
    }

    /// Takes the next frame. [`Watch::write`] logs the stalls that ended.
    pub fn frame(&mut self, frame: &Frame) -> Vec<Event> {
        let before_ms = frame.at_unix_ms.saturating_sub(1);
        // As it is recorded, so that the log and the frames tell the same figures.
        let events = self.detector.frame(&condensed(frame.clone()));
        self.log(&events);
        self.frames += 1;
        if self.from_ms.is_some() && frame.at_unix_ms < self.last_ms {
            // All before the clock was set back has ended.
            self.mark(self.last_ms);
            self.from_ms = Some(before_ms);
        }
        self.last_ms = frame.at_unix_ms;
        let from_ms = *self.from_ms.get_or_insert(before_ms);
        let settled_ms = self.detector.settled_unix_ms().unwrap_or(0);
        let has_ended = events.iter().any(|event| matches!(event, Event::Ended(_)));
        if has_ended || settled_ms.saturating_sub(from_ms) >= MARK_MS {
            self.mark(settled_ms);
        }
        events
    }

    /// Ends the open stalls, as the recorder stops. [`Watch::write`] logs them.
    pub fn finish(&mut self) -> Vec<Event> {
        let events = self.detector.finish();
        self.log(&events);
        self.mark(self.last_ms);
        events
    }

    /// Writes to the log. Lines stay until they could be written.
    ///
    /// # Errors
    /// If the log can't be written; the next call tries again.
    pub fn write(&mut self) -> Result<(), RecordError> {
        if self.lines.is_empty() {
            return Ok(());
        }
        log::append(&self.directory, &self.lines)?;
        self.lines.clear();
        // It takes a sync, so it waits until the disk does not stall.
        if self.frames >= FRAMES_BEFORE_AGE && self.detector.is_quiet() {
            log::prune(&self.directory, self.last_ms.saturating_sub(self.keep_ms))?;
        }
        Ok(())
    }

    /// The detector, for the stalls that go on.
    #[must_use]
    pub fn detector(&self) -> &Detector {
        &self.detector
    }

    fn log(&mut self, events: &[Event]) {
        let ended = events.iter().filter_map(|event| match event {
            Event::Ended(stall) => Some(Line::Stall(Box::new(stall.clone()))),
            Event::Began(_) => None,
        });
        self.lines.extend(ended);
        let excess = self.lines.len().saturating_sub(MOST_LINES);
        self.lines.drain(..excess);
    }

    /// All up to a moment is in the log, or will be with these lines.
    fn mark(&mut self, to_ms: u64) {
        if let Some(from_ms) = self.from_ms.filter(|from_ms| *from_ms < to_ms) {
            self.from_ms = Some(to_ms);
            self.lines.push(Line::Watched(Watched { from_ms, to_ms }));
        }
    }
}
