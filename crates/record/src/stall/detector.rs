//! One law for stalls: frames in order, the beginnings and ends of stalls out.
//!
//! ```text
//! frame ─ hole? clock set back? ─▶ end all
//!       ─ for each disk with victims ─▶ its episode, begun or gone on
//!       ─ episodes without victims for 2 s ─▶ end
//! ```
//!
//! An episode is a time in which some victim waits for a disk. Once it has lasted more than a
//! second, it is a stall. Times are milliseconds since 1970; a frame's time is its end.
//!
//! Waits are known when they end, and by the age of the oldest under way. So the first frame tells
//! how long its victims had waited already. It began that long ago, even if that was before the
//! frame's window. When in the window a wait ended is not known: the beginning may be late by a
//! window. Of many short waits only the sum is known: the episode began that long ago, and not
//! before the window. A sum over threads can put the beginning too early, by a window at most. The
//! end is the end of the last frame with a victim: at most a window late.

use std::collections::BTreeMap;

use floodwall_model::frame::Frame;
use floodwall_model::stall::Stall;

use super::episode::Episode;

/// An episode ends when no victim was seen for so long, in milliseconds. Between two commits of a
/// database a window of one second may have no wait in it; two in a row tell that it goes on well.
pub const QUIET_MS: u64 = 2_000;

/// An episode that lasted longer is a stall, in milliseconds.
pub const COUNTS_MS: u64 = 1_000;

/// What became of a stall.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// An episode has lasted long enough to be a stall. It goes on.
    Began(Stall),
    /// A stall has ended; each one that began does.
    Ended(Stall),
}

/// Finds stalls in frames.
#[derive(Debug, Default)]
pub struct Detector {
    last: Option<Window>,
    episodes: Vec<Episode>,
    open: Vec<Stall>,
    /// When the last stall of each disk ended: the next one does not begin before.
    ended: BTreeMap<String, u64>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    at_ms: u64,
    window_ms: u64,
}

impl Detector {
    /// One that has seen nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// One that goes on after stalls that ended: none of its stalls begins before their ends.
    #[must_use]
    pub fn after<'a>(stalls: impl Iterator<Item = &'a Stall>) -> Self {
        let mut detector = Self::default();
        for stall in stalls {
            let ended_ms = detector.ended.entry(stall.disk.clone()).or_default();
            *ended_ms = stall.ended_unix_ms.max(*ended_ms);
        }
        detector
    }

    /// Takes the next frame, and tells which stalls ended and began.
    pub fn frame(&mut self, frame: &Frame) -> Vec<Event> {
        let mut events = Vec::new();
        match self.last {
            Some(last) if frame.at_unix_ms < last.at_ms => {
                events = self.finish();
                // Its times come a second time.
                self.ended.clear();
            }
            Some(last) if frame.is_after_hole(last.at_ms, last.window_ms) => events = self.finish(),
            _ => {}
        }
        self.last = Some(Window { at_ms: frame.at_unix_ms, window_ms: frame.window_ms });
        self.go_on(frame, &mut events);
        self.open = self.episodes.iter().filter(|e| e.is_stall()).map(Episode::stall).collect();
        events
    }

    /// Ends the open stalls at the last frame, as no other frame follows.
    pub fn finish(&mut self) -> Vec<Event> {
        let last_ms = self.last.map_or(0, |last| last.at_ms);
        self.open.clear();
        let episodes = std::mem::take(&mut self.episodes);
        episodes.into_iter().filter_map(|episode| self.end(&episode, last_ms)).collect()
    }

    /// The stalls that go on, as they are so far.
    #[must_use]
    pub fn open(&self) -> &[Stall] {
        &self.open
    }

    /// Whether no victim has been seen lately: a new detector would find the same from here on.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        self.episodes.is_empty()
    }

    /// All stalls of frames up to this moment have been told. A new detector that goes on after it
    /// would find the same as this one. `None` before the first frame.
    #[must_use]
    pub fn settled_unix_ms(&self) -> Option<u64> {
        let began = self.episodes.iter().map(|episode| episode.began_ms().saturating_sub(1)).min();
        let last_ms = self.last?.at_ms;
        Some(began.map_or(last_ms, |began| began.min(last_ms)))
    }

    fn go_on(&mut self, frame: &Frame, events: &mut Vec<Event>) {
        for disk in Episode::stalling(frame) {
            if !self.episodes.iter().any(|episode| episode.disk() == disk) {
                let floor_ms = self.ended.get(disk).copied().unwrap_or(0);
                self.episodes.push(Episode::new(disk, frame, floor_ms));
            }
        }
        let mut began = Vec::new();
        for mut episode in std::mem::take(&mut self.episodes) {
            episode.frame(frame);
            if frame.at_unix_ms.saturating_sub(episode.ended_ms()) >= QUIET_MS {
                events.extend(self.end(&episode, frame.at_unix_ms));
                continue;
            }
            if episode.lasted_ms() > COUNTS_MS && episode.count() {
                began.push(Event::Began(episode.stall()));
            }
            self.episodes.push(episode);
        }
        events.append(&mut began);
    }

    /// The end of an episode, if it is a stall.
    fn end(&mut self, episode: &Episode, last_ms: u64) -> Option<Event> {
        if !episode.is_stall() {
            return None;
        }
        let stall = Stall { end_unseen: episode.ended_ms() >= last_ms, ..episode.stall() };
        self.ended.insert(stall.disk.clone(), stall.ended_unix_ms);
        Some(Event::Ended(stall))
    }
}
