//! A recorder's part in stalls: each frame through the detector, each ended stall into the log.
//!
//! ```text
//! frame ─▶ Detector ─▶ Event   what the caller tells: metrics, journal
//!             └─▶ Lines ─▶ Log, which may have to wait for the disk
//! ```
//!
//! The log also gets the times that were watched, when a stall has ended and once an hour. A
//! recorder that was killed leaves an hour at most that has to be found again.

use floodwall_model::frame::Frame;

use super::detector::{Detector, Event};
use super::log::{Line, Lines, Watched};
use crate::store::FRAMES_BEFORE_AGE;

/// How often the log gets the time that was watched, in milliseconds.
const MARK_MS: u64 = 3_600_000;

/// Watches a recorder's frames for stalls.
#[derive(Debug, Default)]
pub struct Watch {
    detector: Detector,
    /// The beginning of the time that the log does not have yet.
    from_ms: Option<u64>,
    last_ms: u64,
    frames: u64,
    lines: Lines,
}

impl Watch {
    /// One that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next frame, [condensed](crate::condensed): the log and the recording are to tell
    /// the same figures. [`Watch::lines`] has the stalls that ended.
    pub fn frame(&mut self, frame: &Frame) -> Vec<Event> {
        let before_ms = frame.at_unix_ms.saturating_sub(1);
        let events = self.detector.frame(frame);
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

    /// Ends the open stalls, as the recorder stops. [`Watch::lines`] has them.
    pub fn finish(&mut self) -> Vec<Event> {
        let events = self.detector.finish();
        self.log(&events);
        self.mark(self.last_ms);
        events
    }

    /// Takes what is to be logged since the last call.
    pub fn lines(&mut self) -> Lines {
        // Removing old lines takes a sync, so it waits until the disk does not stall.
        let may_remove = self.frames >= FRAMES_BEFORE_AGE && self.detector.is_quiet();
        self.lines.quiet_ms = may_remove.then_some(self.last_ms);
        std::mem::take(&mut self.lines)
    }

    fn log(&mut self, events: &[Event]) {
        self.lines.extend(events.iter().filter_map(|event| match event {
            Event::Ended(stall) => Some(Line::Stall(Box::new(stall.clone()))),
            Event::Began(_) => None,
        }));
    }

    /// All up to a moment is in the log, or will be with these lines.
    fn mark(&mut self, to_ms: u64) {
        if let Some(from_ms) = self.from_ms.filter(|from_ms| *from_ms < to_ms) {
            self.from_ms = Some(to_ms);
            self.lines.extend([Line::Watched(Watched { from_ms, to_ms })]);
        }
    }
}
