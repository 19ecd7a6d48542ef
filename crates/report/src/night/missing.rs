//! What a recording does not tell: times without frames, frames that are damaged, and what the
//! recorder could not see.

use std::collections::BTreeMap;
use std::ops::Range;

use floodwall_model::frame::Frame;
use jiff::tz::TimeZone;

use crate::local_time::{date_time, length};
use crate::numbers::{percent, whole};

/// Holes that are listed; the longest count.
const LISTED: usize = 12;

/// Different reasons that are kept: a recorder's are few.
const REASONS: usize = 32;

/// Gaps of a recording.
#[derive(Debug, Default)]
pub struct Missing {
    /// Times without frames.
    pub holes: Vec<Range<u64>>,
    /// Frames that could not be read.
    pub damaged_frames: u64,
    /// Reasons why something could not be seen, each with the number of its frames.
    pub unseen: BTreeMap<String, u64>,
    /// Things that root would have added, each with the number of its frames.
    pub root_would_add: BTreeMap<String, u64>,
    /// Events of the kernel that the probe had no room for.
    pub lost_events: u64,
    frames: u64,
    last: (u64, u64),
}

impl Missing {
    pub(super) fn new(from_unix_ms: u64) -> Self {
        Self { last: (from_unix_ms, 0), ..Self::default() }
    }

    pub(super) fn add(&mut self, frame: &Frame) {
        self.frames += 1;
        let (last_ms, window_ms) = self.last;
        if frame.is_after_hole(last_ms, window_ms) {
            self.holes.push(last_ms..frame.began_unix_ms());
        }
        self.last = (frame.at_unix_ms, frame.window_ms);
        self.lost_events = self.lost_events.saturating_add(frame.lost_events);
        count(&mut self.unseen, &frame.unseen);
        count(&mut self.root_would_add, &frame.root_would_add);
    }

    pub(super) fn finish(&mut self, to_unix_ms: u64, damaged_frames: u64) {
        let (last_ms, window_ms) = self.last;
        let end = Frame { at_unix_ms: to_unix_ms, ..Frame::default() };
        if end.is_after_hole(last_ms, window_ms) {
            self.holes.push(last_ms..to_unix_ms);
        }
        self.damaged_frames = damaged_frames;
    }

    /// The same in sentences; none if all is there.
    #[must_use]
    pub fn sentences(&self, zone: &TimeZone) -> Vec<String> {
        let mut told = Vec::new();
        if self.frames == 0 {
            told.push("No frame was recorded in this time.".to_owned());
        } else if !self.holes.is_empty() {
            told.push(holes_in_words(&self.holes, zone));
        }
        if self.damaged_frames > 0 {
            told.push(format!("{} frames are damaged.", whole(self.damaged_frames)));
        }
        told.extend(self.shares("Not seen", &self.unseen));
        told.extend(self.shares("Root would have added", &self.root_would_add));
        if self.lost_events > 0 {
            let lost = whole(self.lost_events);
            told.push(format!("{lost} events of the kernel were lost: figures may be too low."));
        }
        told
    }

    fn shares(&self, what: &str, of: &BTreeMap<String, u64>) -> Vec<String> {
        let told = of.iter().map(|(reason, frames)| {
            let share = *frames as f64 / self.frames.max(1) as f64;
            match *frames == self.frames {
                true => format!("{what}: {reason}."),
                false => format!("{what}, in {} % of the frames: {reason}.", percent(share)),
            }
        });
        told.collect()
    }
}

/// Times without frames, the longest ones, in a sentence.
pub(crate) fn holes_in_words(holes: &[Range<u64>], zone: &TimeZone) -> String {
    let lasted = |hole: &Range<u64>| hole.end.saturating_sub(hole.start);
    let sum = holes.iter().map(lasted).fold(0, u64::saturating_add);
    let mut longest = holes.to_vec();
    longest.sort_by_key(|hole| std::cmp::Reverse(lasted(hole)));
    longest.truncate(LISTED);
    longest.sort_unstable_by_key(|hole| hole.start);
    let listed: Vec<String> = longest
        .iter()
        .map(|hole| {
            let (from, to) = (date_time(hole.start, zone), date_time(hole.end, zone));
            format!("{from} to {to} ({})", length(lasted(hole)))
        })
        .collect();
    let more = match holes.len() - listed.len() {
        0 => String::new(),
        more => format!(", and {} shorter times", whole(more as u64)),
    };
    let listed = listed.join(", ");
    format!("Without frames, {} in all: {listed}{more}.", length(sum))
}

fn count(reasons: &mut BTreeMap<String, u64>, seen: &[String]) {
    for reason in seen {
        if let Some(frames) = reasons.get_mut(reason) {
            *frames += 1;
        } else if reasons.len() < REASONS {
            reasons.insert(reason.clone(), 1);
        }
    }
}
