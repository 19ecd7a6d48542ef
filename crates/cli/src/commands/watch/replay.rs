//! A recording: steps and jumps through its frames.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use floodwall_model::counts::whole;
use floodwall_model::frame::Frame;
use floodwall_record::{RecordError, Recording, moment};
use jiff::Zoned;
use jiff::tz::TimeZone;

use super::source::{Next, Source};
use crate::commands::recorded::{LOOKED_AT, find_disk, is_called, local, no_disk};
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
    /// What is to be said of the frame that is shown.
    beside: Option<String>,
    /// The damaged frames that the user knows of, of both readers.
    told: u64,
}

impl Replay {
    /// Opens a recording and goes to a moment, else to its end. The disk is the one that is shown.
    ///
    /// # Errors
    /// Nothing is recorded there, it can't be read, the moment is none, or it has no such disk.
    pub(super) fn open(
        directory: &Path,
        begin: Option<&str>,
        disk: Option<&str>,
        zone: &TimeZone,
    ) -> anyhow::Result<Self> {
        let mut replay = Self {
            recording: Recording::open(directory)?,
            history: Recording::open(directory)?,
            zone: zone.clone(),
            first: None,
            beside: None,
            told: 0,
        };
        let found = match begin {
            Some(text) => {
                let at = replay.moment(text).map_err(UsageError)?;
                replay.frame_at(at)?
            }
            None => replay.newest()?,
        };
        let Some(frame) = found else {
            return Err(RecordError::Nothing(directory.to_owned()).into());
        };
        let frames = replay.with_history(frame)?;
        if let Some(disk) = disk {
            replay.require(disk, &frames)?;
        }
        replay.first = Some(Next::Frames(frames));
        Ok(replay)
    }

    /// Refuses a disk that neither the shown frames have nor others.
    fn require(&mut self, disk: &str, shown: &[Frame]) -> anyhow::Result<()> {
        if shown.iter().flat_map(|frame| &frame.disks).any(|one| is_called(one, disk)) {
            return Ok(());
        }
        let (first, last) = self.history.span()?.unwrap_or_default();
        let mut others = BTreeSet::new();
        match find_disk(&mut self.history, disk, first..last, &mut others)? {
            Some(_) => Ok(()),
            None => Err(UsageError(no_disk(disk, LOOKED_AT, &others)).into()),
        }
    }

    /// The frame of a moment. Of one that is not recorded the next frame, or the last, and a
    /// sentence is to be said.
    fn frame_at(&mut self, at_unix_ms: u64) -> Result<Option<Frame>, RecordError> {
        let (found, which) = match self.recording.seek(at_unix_ms)? {
            Some(frame) => (Some(frame), "next"),
            None => (self.recording.last_frame()?, "last"),
        };
        let moment = Frame { at_unix_ms, ..Frame::default() };
        let is_elsewhere = found.as_ref().is_some_and(|frame| {
            frame.is_after_hole(at_unix_ms, 0)
                || moment.is_after_hole(frame.at_unix_ms, frame.window_ms)
        });
        self.beside = is_elsewhere.then(|| {
            let at = local(at_unix_ms, &self.zone);
            format!("nothing was recorded at {at}: this is the {which} frame")
        });
        Ok(found)
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
        match self.frame_at(at_unix_ms)? {
            Some(frame) => Ok(Next::Frames(self.with_history(frame)?)),
            None => Ok(Next::Say("the recording is empty".to_owned())),
        }
    }
}

/// An error of one day is said; another day may be readable.
fn said(next: Result<Next, RecordError>) -> Next {
    next.unwrap_or_else(|error| Next::Say(error.to_string()))
}

impl Source for Replay {
    fn next(&mut self) -> Next {
        if let Some(first) = self.first.take() {
            return first;
        }
        let said: Vec<String> = self.beside.take().into_iter().chain(self.damage()).collect();
        if said.is_empty() { Next::Nothing } else { Next::Say(said.join("; ")) }
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

    use floodwall_model::frame::Disk;
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
        let mut replay = Replay::open(dir.path(), None, None, &TimeZone::UTC).unwrap();
        let Next::Frames(frames) = replay.next() else { panic!("no frame is shown") };
        assert_eq!(frames.len(), 2);
        let Next::Say(said) = replay.next() else { panic!("nothing is said") };
        assert!(said.starts_with("frames that can't be read: 1 ("), "{said}");
        assert!(matches!(replay.next(), Next::Nothing));
    }
    /// An hour of frames a second, at 2026-11-18 11:06:40.
    fn hour(directory: &Path) {
        let mut writer = Writer::open(directory, Limits::default()).unwrap();
        let disks = vec![Disk { name: "sda".into(), id: "8:0".into(), ..Disk::default() }];
        for second in 0..3_600 {
            let at_unix_ms = 1_795_000_000_000 + second * 1_000;
            let frame = Frame { at_unix_ms, window_ms: 1_000, ..Frame::default() };
            let _ = writer.append(&Frame { disks: disks.clone(), ..frame }).unwrap();
        }
    }

    #[test]
    fn a_moment_without_frames_is_said() {
        let dir = tempfile::tempdir().unwrap();
        hour(dir.path());
        let open = |begin| Replay::open(dir.path(), Some(begin), None, &TimeZone::UTC).unwrap();
        let said = |replay: &mut Replay| match replay.next() {
            Next::Say(said) => said,
            Next::Nothing => String::new(),
            _ => panic!("frames"),
        };
        let before = "nothing was recorded at 2026-11-18 03:10:00: this is the next frame";
        let after = "nothing was recorded at 2026-11-19 00:00:00: this is the last frame";
        for (moment, expected) in [
            ("2026-11-18 03:10", before),
            ("2026-11-18 11:06:39", ""),
            ("2026-11-18 11:30", ""),
            ("2026-11-18 12:06:42", ""),
            ("2026-11-19", after),
        ] {
            let mut replay = open(moment);
            assert!(matches!(replay.next(), Next::Frames(_)), "{moment}");
            assert_eq!(said(&mut replay), expected, "{moment}");
            assert_eq!(said(&mut replay), "", "{moment}");
            let mut replay = open("2026-11-18 12:00");
            assert!(matches!(replay.next(), Next::Frames(_)));
            assert!(matches!(replay.jump(moment), Next::Frames(_)), "{moment}");
            assert_eq!(said(&mut replay), expected, "{moment}");
        }
    }

    #[test]
    fn a_disk_that_was_not_there_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        hour(dir.path());
        let mut writer = Writer::open(dir.path(), Limits::default()).unwrap();
        let disks = vec![Disk { name: "sdb".into(), ..Disk::default() }];
        let at_unix_ms = 1_795_010_000_000;
        let _ = writer.append(&Frame { at_unix_ms, disks, ..Frame::default() }).unwrap();
        let open = |disk| Replay::open(dir.path(), None, Some(disk), &TimeZone::UTC);
        for there in ["sda", "8:0", "sdb"] {
            assert!(open(there).is_ok(), "{there}");
        }
        let refused = open("sdq").err().unwrap();
        assert!(refused.is::<UsageError>());
        let expected = format!("there is no disk 'sdq' in {LOOKED_AT}; disks there: sda, sdb");
        assert_eq!(refused.to_string(), expected);
    }
}
