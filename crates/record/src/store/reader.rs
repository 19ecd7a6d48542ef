//! Reads a recording: by moment, forward and back, also while it is written.
//!
//! ```text
//! days ─▶ OpenDay (entries of one day) ─▶ Frame
//!            ▲ refreshed at its end: frames that were appended meanwhile
//! ```
//!
//! The order is that of the files. A clock that is set back makes moments go back in it.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Path, PathBuf};

use floodwall_model::frame::Frame;

use super::day::Day;
use super::directory::{Directory, io_error};
use super::error::RecordError;
use super::open_day::OpenDay;
use super::slots::Slot;

/// The longest window of a recorder, in milliseconds. A shorter time without a frame is no gap.
pub(crate) const LONGEST_WINDOW_MS: u64 = 60_000;

/// Frames that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Damage {
    /// How many.
    pub frames: u64,
    /// The last one's fault, as a part of a sentence; empty if all could be read.
    pub why: &'static str,
}

/// A recording that is read.
pub struct Recording {
    directory: Directory,
    path: PathBuf,
    /// No other day is read.
    only: Option<Day>,
    open: Option<OpenDay>,
    place: Place,
    damaged: BTreeSet<(Day, usize)>,
    why: &'static str,
    /// Days that can't be read: the error is told once.
    refused: BTreeSet<Day>,
}

/// Between two frames, or on one.
#[derive(Clone, Copy, Debug)]
struct Place {
    day: Day,
    at: usize,
    is_on: bool,
}

impl Recording {
    /// Opens the recording in a directory, which may be empty. The path of a day's file stands for
    /// this day alone of the recording that it is in.
    ///
    /// # Errors
    /// [`RecordError::NoDirectory`], [`RecordError::OtherFile`], [`RecordError::NoDay`], or that it
    /// can't be opened.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let only = day_of(path)?;
        let path = if only.is_some() { path.parent().unwrap_or(path) } else { path };
        // The directory of a bare name.
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let directory = Directory::open(path)?;
        for name in only.iter().flat_map(|day| [day.frames(), day.index()]) {
            if directory.file(&name)?.is_none() {
                return Err(RecordError::NoDay(directory.path_of(&name)));
            }
        }
        Ok(Self {
            directory,
            path: path.to_owned(),
            only,
            open: None,
            place: Place { day: Day::of_any(0), at: 0, is_on: false },
            damaged: BTreeSet::new(),
            why: "",
            refused: BTreeSet::new(),
        })
    }

    /// The directory that it is in.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.path
    }

    /// The moments of the one day that was opened, in milliseconds since 1970, else all.
    #[must_use]
    pub fn moments(&self) -> Range<u64> {
        self.only.map_or(0..u64::MAX, Day::moments)
    }

    /// The moments of its earliest and its latest frame, in milliseconds since 1970, as far as the
    /// indexes tell. `None` if it is empty.
    ///
    /// # Errors
    /// A day that can't be read, or is of a newer format.
    pub fn span(&mut self) -> Result<Option<(u64, u64)>, RecordError> {
        let days = self.days()?;
        let (mut first, mut last) = (None, None);
        for day in &days {
            first = self.slots(*day)?.iter().filter_map(Slot::at_unix_ms).min();
            if first.is_some() {
                break;
            }
        }
        for day in days.iter().rev() {
            last = self.slots(*day)?.iter().filter_map(Slot::at_unix_ms).max();
            if last.is_some() {
                break;
            }
        }
        Ok(first.zip(last))
    }

    /// The first frame at a moment or after it, in milliseconds since 1970; `None` after
    /// the last one. [`Self::next_frame`] and [`Self::previous_frame`] go on from there.
    ///
    /// # Errors
    /// A day that can't be read, or is of a newer format. The next call goes on after it.
    pub fn seek(&mut self, unix_ms: u64) -> Result<Option<Frame>, RecordError> {
        let day = Day::of_any(unix_ms);
        self.place = Place { day, at: 0, is_on: false };
        let slots = self.slots(day)?;
        let is_there = |slot: &Slot| slot.at_unix_ms().is_some_and(|at| at >= unix_ms);
        self.place.at = slots.iter().position(is_there).unwrap_or(slots.len());
        self.next_frame()
    }

    /// The last frame.
    ///
    /// # Errors
    /// As [`Self::seek`].
    pub fn last_frame(&mut self) -> Result<Option<Frame>, RecordError> {
        self.place = Place { day: Day::of_any(u64::MAX), at: 0, is_on: false };
        self.previous_frame()
    }

    /// The frame after the present one; `None` at the end. One that is appended later is found
    /// later.
    ///
    /// # Errors
    /// As [`Self::seek`].
    pub fn next_frame(&mut self) -> Result<Option<Frame>, RecordError> {
        self.forward(|_| true, None)
    }

    /// The frame before the present one; `None` at the beginning.
    ///
    /// # Errors
    /// As [`Self::seek`].
    pub fn previous_frame(&mut self) -> Result<Option<Frame>, RecordError> {
        let days = self.days()?;
        let Place { day, mut at, .. } = self.place;
        for day in days.into_iter().rev().filter(|d| *d <= day) {
            let length = self.slots(day)?.len();
            at = if day == self.place.day { at.min(length) } else { length };
            while at > 0 {
                at -= 1;
                if let Some(frame) = self.read(day, at) {
                    self.place = Place { day, at, is_on: true };
                    return Ok(Some(frame));
                }
            }
        }
        Ok(None)
    }

    /// The frames from a moment on and before another one, in milliseconds since 1970, in the order
    /// of the files.
    pub fn between(&mut self, from_unix_ms: u64, to_unix_ms: u64) -> Between<'_> {
        self.place = Place { day: Day::of_any(from_unix_ms), at: 0, is_on: false };
        Between { recording: self, from_unix_ms, to_unix_ms }
    }

    /// The parts of a time, in milliseconds since 1970, that no frame is of, as far as the indexes
    /// tell: those longer than [`LONGEST_WINDOW_MS`], or all of it.
    ///
    /// # Errors
    /// As [`Self::seek`].
    pub(crate) fn gaps(&mut self, time: &Range<u64>) -> Result<Vec<Range<u64>>, RecordError> {
        let reach = time.start..time.end.saturating_add(LONGEST_WINDOW_MS);
        let days = Day::of_any(reach.start)..=Day::of_any(reach.end);
        let mut moments = Vec::new();
        for day in self.days()?.into_iter().filter(|day| days.contains(day)) {
            moments.extend(self.slots(day)?.iter().filter_map(Slot::at_unix_ms));
        }
        moments.retain(|at| reach.contains(at));
        moments.sort_unstable();
        let is_gap = |gap: &Range<u64>| gap == time || gap.end > gap.start + LONGEST_WINDOW_MS;
        let mut gaps = Vec::new();
        let mut from = time.start;
        for at in moments {
            if is_gap(&(from..at.min(time.end))) {
                let began = self.seek(at)?.map_or(at, |frame| frame.began_unix_ms().min(at));
                gaps.push(from..began.min(time.end));
            }
            from = at.min(time.end);
        }
        gaps.push(from..time.end);
        gaps.retain(is_gap);
        Ok(gaps)
    }

    /// The frames that could not be read so far. Each counts once.
    #[must_use]
    pub fn damage(&self) -> Damage {
        Damage { frames: self.damaged.len() as u64, why: self.why }
    }

    /// The next frame whose moment is wanted, up to a day.
    fn forward(
        &mut self,
        is_wanted: impl Fn(u64) -> bool,
        last: Option<Day>,
    ) -> Result<Option<Frame>, RecordError> {
        let Place { mut day, at, is_on } = self.place;
        let mut at = at + usize::from(is_on);
        loop {
            while let Some(slot) = self.slot(day, at)? {
                if slot.at_unix_ms().is_none_or(&is_wanted)
                    && let Some(frame) = self.read(day, at)
                {
                    self.place = Place { day, at, is_on: true };
                    return Ok(Some(frame));
                }
                at += 1;
                self.place = Place { day, at, is_on: false };
            }
            let is_next = |next: &Day| *next > day && last.is_none_or(|last| *next <= last);
            let Some(next) = self.days()?.into_iter().find(is_next) else { return Ok(None) };
            (day, at) = (next, 0);
        }
    }

    /// The days that can be read, in their order.
    fn days(&self) -> Result<Vec<Day>, RecordError> {
        let mut days = self.directory.days()?;
        days.retain(|day| self.can_read(*day));
        Ok(days)
    }

    fn can_read(&self, day: Day) -> bool {
        self.only.is_none_or(|only| only == day) && !self.refused.contains(&day)
    }

    /// An entry of a day; what has been appended is looked for at its end.
    fn slot(&mut self, day: Day, at: usize) -> Result<Option<Slot>, RecordError> {
        if let Some(open) = self.open.as_ref().filter(|open| open.day() == day)
            && let Some(slot) = open.slots().get(at)
        {
            return Ok(Some(*slot));
        }
        Ok(self.slots(day)?.get(at).copied())
    }

    /// The entries of a day as they are now; none if it has gone.
    fn slots(&mut self, day: Day) -> Result<&[Slot], RecordError> {
        if !self.can_read(day) {
            return Ok(&[]);
        }
        let kept = self.open.take().filter(|open| open.day() == day && open.is_there());
        let opened = match kept {
            Some(open) => Ok(Some(open)),
            None => OpenDay::new(&self.directory, day),
        };
        let refreshed = opened.and_then(|open| {
            let Some(mut open) = open else { return Ok(None) };
            let index = || self.directory.path_of(&day.index());
            open.refresh().map_err(|e| io_error("read", &index(), e))?;
            Ok(Some(open))
        });
        match refreshed {
            Ok(open) => self.open = open,
            Err(e) => {
                self.refused.insert(day);
                return Err(e);
            }
        }
        Ok(self.open.as_ref().map_or(&[], |open| open.slots()))
    }

    /// A frame; `None` if it is damaged, which is counted.
    fn read(&mut self, day: Day, at: usize) -> Option<Frame> {
        match self.open.as_mut()?.read(at) {
            Ok(frame) => Some(frame),
            Err(why) => {
                self.damaged.insert((day, at));
                self.why = why;
                None
            }
        }
    }
}

/// The day whose file a path is, by its name; `None` of a directory.
fn day_of(path: &Path) -> Result<Option<Day>, RecordError> {
    if path.is_dir() {
        return Ok(None);
    }
    let name = path.file_name().and_then(OsStr::to_str);
    match name.and_then(Day::of_file) {
        None if path.exists() => Err(RecordError::OtherFile(path.to_owned())),
        day => Ok(day),
    }
}

/// Frames between two moments.
pub struct Between<'a> {
    recording: &'a mut Recording,
    from_unix_ms: u64,
    to_unix_ms: u64,
}

impl Between<'_> {
    /// The frames that could not be read so far.
    #[must_use]
    pub fn damage(&self) -> Damage {
        self.recording.damage()
    }
}

impl Iterator for Between<'_> {
    type Item = Result<Frame, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        let wanted = self.from_unix_ms..self.to_unix_ms;
        let last = Day::of_any(self.to_unix_ms);
        self.recording.forward(|at| wanted.contains(&at), Some(last)).transpose()
    }
}
