//! The stalls of a time: from the log where a recorder watched, else from the frames.
//!
//! ```text
//! stalls.jsonl ─┬▶ stalls of watched times ─────────────────────┬▶ in order of their beginnings
//!               └▶ times in which nothing watched ─▶ frames     │
//!                                   Detector, the same law ◀────┘──▶
//! ```
//!
//! This is the only way to stalls of the past: `stalls` and the night's page both take it, and so
//! they say the same. A stall is told whole, even if it began before the time that was asked for or
//! ended after it. So its figures do not depend on the question.

use std::ops::Range;
use std::path::Path;

use floodwall_model::stall::Stall;

use super::detector::{Detector, Event, QUIET_MS};
use super::log::{self, Logged};
use crate::store::{LONGEST_WINDOW_MS, RecordError, Recording};

/// Frames are read from this long before the requested time until this long after it, in
/// milliseconds. A wait that is seen late may have begun in that time. Where a stall goes on at an
/// end, they are read from longer before, or further.
const MARGIN_MS: u64 = 600_000;

/// Logged stalls that ended earlier than this before the requested time are not read, in
/// milliseconds.
const REACH_MS: u64 = 86_400_000;

/// The stalls of a time.
#[derive(Debug, Default)]
pub struct Found {
    /// In the order of their beginnings.
    pub stalls: Vec<Stall>,
    /// The first and the last moment that frames or log know, in milliseconds since 1970; `None` if
    /// nothing was recorded.
    pub known: Option<(u64, u64)>,
    /// Frames and lines of the log that could not be read.
    pub damaged: u64,
}

/// The stalls that overlap a time, in milliseconds since 1970, of the recording at a path
/// ([`Recording::open`]).
///
/// # Errors
/// If the recording or its log can't be read.
pub fn find(path: &Path, from_ms: u64, to_ms: u64) -> Result<Found, RecordError> {
    let mut recording = Recording::open(path)?;
    let opened = recording.moments();
    let (from_ms, to_ms) = (from_ms.max(opened.start), to_ms.min(opened.end));
    let frames = recording.span()?;
    let logged = log::read(recording.directory(), from_ms.saturating_sub(REACH_MS))?;
    let mut stalls = logged.stalls.clone();
    if let Some((first_ms, last_ms)) = frames {
        let asked = from_ms..to_ms;
        for gap in gaps(&logged.watched, first_ms.saturating_sub(1)..last_ms) {
            let found = in_frames(&mut recording, &logged, &gap, &asked)?;
            found.into_iter().for_each(|stall| add(&mut stalls, stall, logged.stalls.len()));
        }
    }
    stalls.retain(|stall| stall.ended_unix_ms >= from_ms && stall.began_unix_ms < to_ms);
    stalls.sort_by(|a, b| (a.began_unix_ms, &a.disk).cmp(&(b.began_unix_ms, &b.disk)));
    let watched = logged.watched.iter().map(|time| (time.start.saturating_add(1), time.end));
    let of_opened = |(from, to): (u64, u64)| (from.max(opened.start), to.min(opened.end - 1));
    let known = watched.chain(frames).map(of_opened).filter(|(from, to)| from <= to);
    let known = known.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
    Ok(Found { stalls, known, damaged: recording.damage().frames + logged.damaged })
}

/// The parts of a time, in milliseconds since 1970, of which neither frames nor log know: those
/// longer than a minute between the first and the last moment that are [known](Found::known).
/// `None` if all of the time is such a part.
///
/// # Errors
/// If the recording or its log can't be read.
pub fn gaps_in(
    path: &Path,
    from_ms: u64,
    to_ms: u64,
    (first_ms, last_ms): (u64, u64),
) -> Result<Option<Vec<Range<u64>>>, RecordError> {
    let mut recording = Recording::open(path)?;
    let opened = recording.moments();
    let time = from_ms.max(opened.start)..to_ms.min(opened.end);
    if time.is_empty() {
        return Ok(None);
    }
    let frames = recording.span()?;
    let watched = log::read(recording.directory(), u64::MAX)?.watched;
    // Within a watched time the frames tell when the machine slept.
    let is_beside =
        |gap: &Range<u64>| frames.is_none_or(|(first, last)| gap.end <= first || gap.start >= last);
    let unknown = |gap: Range<u64>| match is_beside(&gap) {
        true => gaps(&watched, gap),
        false => vec![gap],
    };
    let mut found: Vec<_> = recording.gaps(&time)?.into_iter().flat_map(unknown).collect();
    if found == [time] {
        return Ok(None);
    }
    found.retain(|gap| gap.end > first_ms && gap.start < last_ms);
    found.retain(|gap| gap.end > gap.start + LONGEST_WINDOW_MS);
    Ok(Some(found))
}

/// Adds a stall of frames to those of the log, which come first.
fn add(stalls: &mut Vec<Stall>, stall: Stall, logged: usize) {
    let of_log = stalls.iter_mut().take(logged).filter(|other| other.disk == stall.disk);
    for other in of_log {
        let ends = |one: &Stall| (one.began_unix_ms, one.ended_unix_ms);
        if ends(other) == ends(&stall) {
            // The log has lost its last line, which said that this time was watched.
            return;
        }
        // A recorder was killed within it. The next one saw a wait that had begun before.
        if other.ended_unix_ms > stall.ended_unix_ms {
            other.began_unix_ms = other.began_unix_ms.max(stall.ended_unix_ms);
        }
    }
    stalls.push(stall);
}

/// The parts of a time that were not watched. As with watched times, a frame at the beginning of
/// one does not belong to it, and one at the end does.
fn gaps(watched: &[Range<u64>], all: Range<u64>) -> Vec<Range<u64>> {
    let mut watched = watched.to_vec();
    watched.sort_by_key(|time| time.start);
    let mut gaps = Vec::new();
    let mut from = all.start;
    for time in watched {
        if time.start > from {
            gaps.push(from..time.start.min(all.end));
        }
        from = from.max(time.end);
        if from >= all.end {
            return gaps;
        }
    }
    gaps.push(from..all.end);
    gaps
}

/// The stalls of a gap, as far as they overlap the time that was asked for.
fn in_frames(
    recording: &mut Recording,
    logged: &Logged,
    gap: &Range<u64>,
    asked: &Range<u64>,
) -> Result<Vec<Stall>, RecordError> {
    if gap.end < asked.start || gap.start >= asked.end {
        return Ok(Vec::new());
    }
    let mut margin_ms = MARGIN_MS;
    loop {
        let from_ms = asked.start.saturating_sub(margin_ms).max(gap.start);
        let to_ms = asked.end.saturating_add(margin_ms).min(gap.end);
        let before = logged.stalls.iter().filter(|stall| stall.ended_unix_ms <= gap.start);
        let found = detect(recording, Detector::after(before), from_ms..to_ms)?;
        // A stall that goes on at the beginning has begun before.
        let has_begun = |stall: &Stall| stall.began_unix_ms <= from_ms + QUIET_MS;
        // Of one that ended well before the last frame, the end is known.
        let goes_on = |stall: &Stall| {
            stall.began_unix_ms < asked.end
                && stall.ended_unix_ms.saturating_add(MARGIN_MS / 2) > to_ms
        };
        let is_cut = |stall: &Stall| {
            (from_ms > gap.start && has_begun(stall)) || (to_ms < gap.end && goes_on(stall))
        };
        if !found.iter().any(is_cut) {
            return Ok(found);
        }
        margin_ms = margin_ms.saturating_mul(8);
    }
}

/// The stalls in frames after the beginning of a time and up to its end. All of these frames are
/// looked for: a clock that was set back put some of them behind later ones.
fn detect(
    recording: &mut Recording,
    mut detector: Detector,
    time: Range<u64>,
) -> Result<Vec<Stall>, RecordError> {
    let mut events = Vec::new();
    for frame in recording.between(time.start.saturating_add(1), time.end.saturating_add(1)) {
        events.extend(detector.frame(&frame?));
    }
    events.extend(detector.finish());
    let ended = events.into_iter().filter_map(|event| match event {
        Event::Ended(stall) => Some(stall),
        Event::Began(_) => None,
    });
    Ok(ended.collect())
}
