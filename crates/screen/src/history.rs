//! The frames of the last two minutes, for timelines and histograms.
//!
//! ```text
//! push ─▶ frames, each with the slowest wait for each disk ─▶ series: a value for each column
//!   └──▶ later: frames that came while the screen is paused
//! ```
//!
//! Times are milliseconds since 1970, by the frames' own clock.

use std::collections::{BTreeMap, HashMap, VecDeque};

use floodwall_model::frame::{Disk, Frame, Process};

/// How far back timelines reach.
pub(crate) const REACH_MS: u64 = 120_000;
/// Processes that old frames keep together: some 15 MB. A machine with more has a histogram of
/// fewer windows.
const PROCESSES: usize = 20_000;
/// The most columns of a timeline that are filled from the one before: windows are not exactly as
/// long as columns.
const BRIDGED: usize = 1;

/// A frame and what timelines ask of it.
#[derive(Debug)]
pub(crate) struct Past {
    /// The frame.
    pub(crate) frame: Frame,
    /// The slowest wait for each of its disks, in microseconds; absent where no process waited.
    slowest_us: Vec<Option<u64>>,
}

impl Past {
    fn new(frame: Frame) -> Self {
        let places: HashMap<&str, usize> =
            frame.disks.iter().enumerate().map(|(at, disk)| (disk.name.as_str(), at)).collect();
        let mut slowest_us = vec![None; frame.disks.len()];
        for process in &frame.processes {
            let place = process.disk.as_deref().and_then(|disk| places.get(disk));
            let slowest = Some(process.slowest_us()).filter(|us| *us > 0);
            if let Some(place) = place {
                slowest_us[*place] = slowest_us[*place].max(slowest);
            }
        }
        Self { frame, slowest_us }
    }

    /// The slowest wait for the disk at this place, in microseconds.
    pub(crate) fn slowest_us(&self, disk: usize) -> Option<u64> {
        self.slowest_us.get(disk).copied().flatten()
    }

    /// A disk and the slowest wait for it. `near` is where it probably is, and is set to where it
    /// was found.
    pub(crate) fn disk(&self, name: &str, near: &mut usize) -> Option<(&Disk, Option<u64>)> {
        let is_it = |disk: &Disk| disk.name == name;
        if !self.frame.disks.get(*near).is_some_and(is_it) {
            *near = self.frame.disks.iter().position(is_it)?;
        }
        Some((self.frame.disks.get(*near)?, self.slowest_us(*near)))
    }
}

/// The frames.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The oldest first; the last one is shown.
    frames: VecDeque<Past>,
    /// Those that came while the screen was paused; absent while it is not.
    later: Option<VecDeque<Past>>,
}

impl History {
    /// The frame that is shown.
    pub(crate) fn shown(&self) -> Option<&Frame> {
        self.frames.back().map(|past| &past.frame)
    }

    /// The frames that are shown, the oldest first.
    pub(crate) fn frames(&self) -> impl DoubleEndedIterator<Item = &Past> {
        self.frames.iter()
    }

    /// Takes the newest frame.
    pub(crate) fn push(&mut self, frame: Frame) {
        let kept = self.later.as_mut().unwrap_or(&mut self.frames);
        add(kept, Past::new(frame));
    }

    /// Takes frames in the place of all others.
    pub(crate) fn replace(&mut self, frames: Vec<Frame>) {
        self.frames.clear();
        for frame in frames {
            add(&mut self.frames, Past::new(frame));
        }
        if let Some(later) = &mut self.later {
            later.clear();
        }
    }

    /// Keeps what is shown until [`History::resume`].
    pub(crate) fn pause(&mut self) {
        self.later.get_or_insert_default();
    }

    /// Shows the newest frame again.
    pub(crate) fn resume(&mut self) {
        for past in self.later.take().unwrap_or_default() {
            add(&mut self.frames, past);
        }
    }

    /// A value of the frames for each column of a timeline, the oldest first. Each column is as
    /// long as the others and at least a window. It has the largest value in it, or none.
    pub(crate) fn series(
        &self,
        columns: u16,
        mut value: impl FnMut(&Past) -> Option<u64>,
    ) -> Vec<Option<u64>> {
        let Some(last) = self.frames.back().filter(|_| columns > 0) else { return Vec::new() };
        let long_ms = (REACH_MS / u64::from(columns)).max(last.frame.window_ms).max(1);
        // Columns begin at multiples of their length, so that old ones stay as they are while new
        // frames come.
        let end = last.frame.at_unix_ms / long_ms;
        let wanted = usize::from(columns).min((REACH_MS / long_ms).max(1) as usize);
        let mut series: Vec<Option<Option<u64>>> = vec![None; wanted];
        for past in &self.frames {
            let back = end.saturating_sub(past.frame.at_unix_ms / long_ms);
            let Some(at) = usize::try_from(back).ok().and_then(|back| wanted.checked_sub(back + 1))
            else {
                continue;
            };
            let seen = value(past);
            series[at] = Some(series[at].flatten().max(seen));
        }
        bridged(&series)
    }

    /// How many waits of these processes took how long: octaves of microseconds and counts.
    pub(crate) fn octaves(&self, is_it: impl Fn(&Process) -> bool) -> BTreeMap<u8, u64> {
        let mut sum = BTreeMap::new();
        let processes = self.frames.iter().flat_map(|past| &past.frame.processes);
        let waits = processes.filter(|process| is_it(process)).flat_map(|process| &process.waits);
        for (octave, count) in waits.flat_map(|waits| &waits.octaves) {
            let entry: &mut u64 = sum.entry(*octave).or_default();
            *entry = entry.saturating_add(*count);
        }
        sum
    }
}

/// A series whose single gaps are filled: outer absence is no frame, inner absence no value.
fn bridged(series: &[Option<Option<u64>>]) -> Vec<Option<u64>> {
    let filled = |at: usize| {
        let from = at.saturating_sub(BRIDGED);
        series[from..=at].iter().rev().find_map(|seen| *seen).flatten()
    };
    (0..series.len()).map(filled).collect()
}

/// Adds a frame and forgets those out of reach. A clock that was set back begins anew.
fn add(frames: &mut VecDeque<Past>, past: Past) {
    let at = past.frame.at_unix_ms;
    frames.retain(|old| {
        let then = old.frame.at_unix_ms;
        then <= at && at - then <= REACH_MS
    });
    frames.push_back(past);
    let mut kept = 0;
    for past in frames.iter_mut().rev() {
        kept += past.frame.processes.len();
        if kept > PROCESSES {
            past.frame.processes = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(at_s: u64, drain_ms: u64) -> Frame {
        let disk = Disk { name: "sda".into(), drain_ms: Some(drain_ms), ..Disk::default() };
        Frame {
            at_unix_ms: at_s * 1000,
            window_ms: 1000,
            disks: vec![disk],
            processes: vec![Process {
                disk: Some("sda".into()),
                oldest_us: 7,
                ..Process::default()
            }],
            ..Frame::default()
        }
    }

    fn drains(past: &Past) -> Option<u64> {
        past.disk("sda", &mut 3)?.0.drain_ms
    }

    #[test]
    fn a_column_has_its_largest_value_and_a_gap_none() {
        let mut history = History::default();
        for (at_s, drain_ms) in [(961, 1), (963, 5), (966, 2), (1000, 8)] {
            history.push(frame(at_s, drain_ms));
        }
        let series = history.series(12, drains);
        // Ten seconds a column: 890 to 899, …, 1000 to 1009.
        let mut expected = vec![None; 12];
        (expected[7], expected[8], expected[11]) = (Some(5), Some(5), Some(8));
        assert_eq!(series, expected, "one gap is bridged, two are not");
        assert_eq!(history.series(500, drains).len(), 120, "a column is a window at least");
        assert_eq!(history.series(0, drains), []);
    }

    #[test]
    fn a_paused_screen_keeps_what_it_shows_and_loses_nothing() {
        let mut history = History::default();
        history.push(frame(10, 1));
        history.pause();
        history.push(frame(11, 2));
        history.push(frame(12, 3));
        assert_eq!(history.shown().map(|frame| frame.at_unix_ms), Some(10_000));
        history.resume();
        assert_eq!(history.shown().map(|frame| frame.at_unix_ms), Some(12_000));
        assert_eq!(history.frames().count(), 3);
        history.push(frame(400, 1));
        assert_eq!(history.frames().count(), 1, "older than two minutes");
        history.push(frame(5, 1));
        assert_eq!(history.frames().count(), 1, "the clock was set back");
    }

    #[test]
    fn old_frames_of_a_large_machine_lose_their_processes() {
        let mut history = History::default();
        for at_s in 0..3 {
            let mut large = frame(at_s, 1);
            large.processes = vec![Process::default(); PROCESSES / 2];
            history.push(large);
        }
        let kept: Vec<usize> = history.frames().map(|past| past.frame.processes.len()).collect();
        assert_eq!(kept, [0, PROCESSES / 2, PROCESSES / 2]);
    }

    #[test]
    fn the_slowest_wait_belongs_to_its_disk() {
        let past = Past::new(frame(1, 1));
        assert_eq!(past.disk("sda", &mut 0).and_then(|(_, slowest)| slowest), Some(7));
        assert!(past.disk("sdb", &mut 0).is_none());
    }
}
