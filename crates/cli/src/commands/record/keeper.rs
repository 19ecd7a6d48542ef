//! A thread that writes frames and the stall log.

use std::path::Path;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread::JoinHandle;

use floodwall_model::Bytes;
use floodwall_model::frame::Frame;
use floodwall_record::stall::Watch;
use floodwall_record::{Appended, Limits, RecordError, Writer};

/// Frames that wait while a write hangs: ten minutes of a stall. Further ones are lost.
const WAITING: usize = 600;

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

/// The thread, and what it has to say.
pub(super) struct Keeper {
    frames: Option<SyncSender<Box<Frame>>>,
    said: Receiver<Said>,
    thread: Option<JoinHandle<()>>,
    /// Frames that had no room since a write began to hang.
    unwritten: u64,
}

/// What there is to say.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// Lines for the log.
    pub(super) lines: Vec<String>,
    /// Frames that were lost.
    pub(super) lost: u64,
}

impl Keeper {
    /// Makes this process the recorder of a directory.
    ///
    /// # Errors
    /// It can't be used, or another process records there.
    pub(super) fn start(directory: &Path, limits: Limits) -> Result<Self, RecordError> {
        let mut writer = Writer::open(directory, limits)?;
        let mut watch = Watch::new(directory, u64::from(limits.days) * DAY_MS);
        let (frames, queue) = mpsc::sync_channel::<Box<Frame>>(WAITING);
        let (say, said) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let (mut failing, mut log) = (Failing::default(), Failing::default());
            for frame in queue {
                watch.frame(&frame);
                let appended = writer.append(&frame);
                let lost = u64::from(appended.is_err());
                let lines = [
                    failing.told("a frame is lost", appended),
                    log.told("a stall is not logged yet", watch.write().map(|()| Appended::Within)),
                ];
                let lines: Vec<String> = lines.into_iter().flatten().collect();
                if lost > 0 || !lines.is_empty() {
                    // The receiver is gone only when the process ends.
                    let _ = say.send(Said { lines, lost });
                }
            }
            watch.finish();
            if let Some(line) =
                log.told("a stall is not logged", watch.write().map(|()| Appended::Within))
            {
                let _ = say.send(Said { lines: vec![line], lost: 0 });
            }
        });
        Ok(Self { frames: Some(frames), said, thread: Some(thread), unwritten: 0 })
    }

    /// Hands a frame over; returns what there is to say.
    pub(super) fn keep(&mut self, frame: Frame) -> Said {
        let sent = self.frames.as_ref().map(|frames| frames.try_send(Box::new(frame)));
        let mut said = self.said();
        match sent {
            Some(Err(TrySendError::Full(_))) => {
                self.unwritten += 1;
                said.lost += 1;
            }
            _ if self.unwritten > 0 => {
                said.lines.push(format!("{} frames are lost: writing them hung", self.unwritten));
                self.unwritten = 0;
            }
            _ => {}
        }
        said
    }

    /// Writes what waits, and ends.
    pub(super) fn finish(&mut self) -> Said {
        self.frames = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.said()
    }

    fn said(&self) -> Said {
        let mut all = Said::default();
        for said in self.said.try_iter() {
            all.lines.extend(said.lines);
            all.lost += said.lost;
        }
        all
    }
}

/// Writes that failed: the first error is said, and the end of the errors.
#[derive(Default)]
struct Failing {
    failed: u64,
}

impl Failing {
    fn told(&mut self, what: &str, appended: Result<Appended, RecordError>) -> Option<String> {
        match appended {
            Err(error) => {
                self.failed += 1;
                (self.failed == 1).then(|| format!("{what}: {}", chain(&error)))
            }
            Ok(kept) => {
                let failed = std::mem::take(&mut self.failed);
                match kept {
                    Appended::OverLimit { today_bytes } => Some(format!(
                        "this day alone takes {}, which is more than is to be kept",
                        Bytes(today_bytes)
                    )),
                    Appended::Within if failed > 0 => {
                        Some(format!("writing works again, after {failed} failures"))
                    }
                    Appended::Within => None,
                }
            }
        }
    }
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(one) = cause {
        text.push_str(&format!(": {one}"));
        cause = one.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use floodwall_record::Recording;

    use super::*;

    fn full() -> RecordError {
        let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
        RecordError::Io { what: "write", path: "/x".into(), source }
    }

    #[test]
    fn frames_are_written_before_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let mut keeper = Keeper::start(dir.path(), Limits::default()).unwrap();
        for n in 1..=20 {
            let frame = Frame { at_unix_ms: n * 1000, ..Frame::default() };
            assert!(keeper.keep(frame).lines.is_empty());
        }
        assert!(keeper.finish().lines.is_empty());
        let mut recording = Recording::open(dir.path()).unwrap();
        assert_eq!(recording.between(0, u64::MAX).count(), 20);
    }

    #[test]
    fn a_full_disk_is_told_once_and_so_is_its_end() {
        let mut failing = Failing::default();
        let first = failing.told("a frame is lost", Err(full())).unwrap();
        assert!(first.starts_with("a frame is lost: can't write '/x': "), "{first}");
        assert_eq!(failing.told("a frame is lost", Err(full())), None);
        let end = "writing works again, after 2 failures";
        assert_eq!(failing.told("", Ok(Appended::Within)).as_deref(), Some(end));
        assert_eq!(failing.told("", Ok(Appended::Within)), None);
    }
}
