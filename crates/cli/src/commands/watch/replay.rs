//! A recording: steps and jumps through its frames.

use std::path::Path;
use std::time::Duration;

use floodwall_model::counts::whole;
use floodwall_model::frame::Frame;
use floodwall_record::{RecordError, Recording, moment};
use jiff::Zoned;
use jiff::tz::TimeZone;

use super::source::{Next, Source};
use crate::exit::UsageError;

/// Frames of this long before the one that is shown are its history.
const HISTORY: Duration = Duration::from_secs(120);

/// A recording and a place in it.
pub(super) struct Replay {
    /// The place.
    recording: Recording,
    /// A second reader, for the frames before the place.
    history: Recording,
    zone: TimeZone,
    /// What is to be shown first.
    first: Option<Next>,
    /// The damaged frames that the user knows of, of both readers.
    told: u64,
}

impl Replay {
    /// Opens a recording and goes to a moment, else to its end.
    ///
    /// # Errors
    /// Nothing is recorded there, it can't be read, or the moment is none.
    pub(super) fn open(
        directory: &Path,
        begin: Option<&str>,
        zone: &TimeZone,
    ) -> anyhow::Result<Self> {
        let mut replay = Self {
            recording: Recording::open(directory)?,
            history: Recording::open(directory)?,
            zone: zone.clone(),
            first: None,
            told: 0,
        };
        let found = match begin {
            Some(text) => {
                let at = replay.moment(text).map_err(UsageError)?;
                match replay.recording.seek(at)? {
                    Some(frame) => Some(frame),
                    None => replay.recording.last_frame()?,
                }
            }
            None => replay.newest()?,
        };
        let Some(frame) = found else {
            return Err(RecordError::Nothing(directory.to_owned()).into());
        };
        replay.first = Some(Next::Frames(replay.with_history(frame)?));
        Ok(replay)
    }

    /// The last frame until now. A clock that was ahead for a while has left days of the future.
    fn newest(&mut self) -> Result<Option<Frame>, RecordError> {
        let now = Zoned::now().timestamp().as_millisecond() as u64;
        let is_future = self.recording.seek(now + 1)?.is_some();
        let before = if is_future { self.recording.previous_frame()? } else { None };
        if before.is_some() { Ok(before) } else { self.recording.last_frame() }
    }

    fn moment(&self, text: &str) -> Result<u64, String> {
        let now = Zoned::now().with_time_zone(self.zone.clone());
        moment::parse(text, &now).map_err(|error| error.to_string())
    }

    /// A frame after those of the two minutes before it.
    fn with_history(&mut self, frame: Frame) -> Result<Vec<Frame>, RecordError> {
        let from = frame.at_unix_ms.saturating_sub(HISTORY.as_millis() as u64);
        let mut frames = Vec::new();
        for one in self.history.between(from, frame.at_unix_ms) {
            frames.push(one?);
        }
        frames.push(frame);
        Ok(frames)
    }

    /// A sentence on damaged frames, if more were met. They are left out.
    fn damage(&mut self) -> Option<String> {
        let both = [self.recording.damage(), self.history.damage()];
        let met = both.iter().map(|damage| damage.frames).sum();
        let is_more = met > std::mem::replace(&mut self.told, met);
        // Both readers may have met the same ones.
        let most = both.into_iter().max_by_key(|damage| damage.frames)?;
        let lost = whole(most.frames);
        is_more.then(|| format!("frames that can't be read: {lost} ({})", most.why))
    }

    fn stepped(&mut self, by: i32) -> Result<Next, RecordError> {
        if by >= 0 {
            let mut frames = Vec::new();
            for _ in 0..by.max(1) {
                match self.recording.next_frame()? {
                    Some(frame) => frames.push(frame),
                    None => break,
                }
            }
            return Ok(match (frames.len(), frames.pop()) {
                (_, None) => Next::Say("the recording ends here".to_owned()),
                (1, Some(frame)) => Next::Frame(Box::new(frame)),
                (_, Some(frame)) => Next::Frames(self.with_history(frame)?),
            });
        }
        let mut found = None;
        for _ in by..0 {
            match self.recording.previous_frame()? {
                Some(frame) => found = Some(frame),
                None => break,
            }
        }
        Ok(match found {
            Some(frame) => Next::Frames(self.with_history(frame)?),
            None => Next::Say("the recording begins here".to_owned()),
        })
    }

    fn jumped(&mut self, at_unix_ms: u64) -> Result<Next, RecordError> {
        match self.recording.seek(at_unix_ms)? {
            Some(frame) => Ok(Next::Frames(self.with_history(frame)?)),
            None => match self.recording.last_frame()? {
                Some(frame) => Ok(Next::Frames(self.with_history(frame)?)),
                None => Ok(Next::Say("the recording is empty".to_owned())),
            },
        }
    }
}

/// An error of one day is said; another day may be readable.
fn said(next: Result<Next, RecordError>) -> Next {
    next.unwrap_or_else(|error| Next::Say(error.to_string()))
}

impl Source for Replay {
    fn next(&mut self) -> Next {
        self.first.take().or_else(|| self.damage().map(Next::Say)).unwrap_or(Next::Nothing)
    }

    fn step(&mut self, by: i32) -> Next {
        said(self.stepped(by))
    }

    fn jump(&mut self, moment: &str) -> Next {
        match self.moment(moment) {
            Ok(at) => said(self.jumped(at)),
            Err(why) => Next::Say(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::FileExt;

    use floodwall_record::{Limits, Writer};

    use super::*;

    #[test]
    fn damaged_frames_are_said_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = Writer::open(dir.path(), Limits::default()).unwrap();
        let day = dir.path().join("2026-11-18.frames");
        for second in 0..3 {
            let at_unix_ms = 1_795_000_000_000 + second * 1_000;
            let _ = writer.append(&Frame { at_unix_ms, ..Frame::default() }).unwrap();
        }
        let end = fs::metadata(&day).unwrap().len();
        let file = fs::OpenOptions::new().write(true).open(&day).unwrap();
        file.write_all_at(&[0xff; 4], end - 8).unwrap();
        let mut replay = Replay::open(dir.path(), None, &TimeZone::UTC).unwrap();
        let Next::Frames(frames) = replay.next() else { panic!("no frame is shown") };
        assert_eq!(frames.len(), 2);
        let Next::Say(said) = replay.next() else { panic!("nothing is said") };
        assert!(said.starts_with("frames that can't be read: 1 ("), "{said}");
        assert!(matches!(replay.next(), Next::Nothing));
    }
}
