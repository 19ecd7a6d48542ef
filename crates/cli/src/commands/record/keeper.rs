//! Writes frames in a thread of its own.

use std::path::Path;
use std::sync::mpsc::{self, Receiver, SyncSender, TrySendError};
use std::thread::JoinHandle;

use floodwall_model::Bytes;
use floodwall_model::frame::Frame;
use floodwall_record::{Appended, Limits, RecordError, Writer};

/// Frames that wait while a write hangs: ten minutes of a stall. Further ones are lost.
const WAITING: usize = 600;

/// The thread, and what it has to say.
pub(super) struct Keeper {
    frames: Option<SyncSender<Frame>>,
    lines: Receiver<String>,
    thread: Option<JoinHandle<()>>,
    /// Frames that had no room, and have not been told of.
    lost: u64,
}

impl Keeper {
    /// Makes this process the recorder of a directory.
    ///
    /// # Errors
    /// It can't be used, or another process records there.
    pub(super) fn start(directory: &Path, limits: Limits) -> Result<Self, RecordError> {
        let mut writer = Writer::open(directory, limits)?;
        let (frames, queue) = mpsc::sync_channel::<Frame>(WAITING);
        let (say, lines) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut failing = Failing::default();
            for frame in queue {
                if let Some(line) = failing.told(writer.append(&frame)) {
                    // Nobody listens any more only when the process ends.
                    let _ = say.send(line);
                }
            }
        });
        Ok(Self { frames: Some(frames), lines, thread: Some(thread), lost: 0 })
    }

    /// Hands a frame over; returns what there is to say.
    pub(super) fn keep(&mut self, frame: Frame) -> Vec<String> {
        let sent = self.frames.as_ref().map(|frames| frames.try_send(frame));
        let mut said: Vec<String> = self.lines.try_iter().collect();
        match sent {
            Some(Err(TrySendError::Full(_))) => self.lost += 1,
            _ if self.lost > 0 => {
                said.push(format!("{} frames are lost: writing them hung", self.lost));
                self.lost = 0;
            }
            _ => {}
        }
        said
    }

    /// Writes what waits, and ends.
    pub(super) fn finish(&mut self) -> Vec<String> {
        self.frames = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.lines.try_iter().collect()
    }
}

/// Frames that could not be written: the first error is said, and how it ended.
#[derive(Default)]
struct Failing {
    lost: u64,
}

impl Failing {
    fn told(&mut self, appended: Result<Appended, RecordError>) -> Option<String> {
        match appended {
            Err(error) => {
                self.lost += 1;
                (self.lost == 1).then(|| format!("a frame is lost: {}", chain(&error)))
            }
            Ok(kept) => {
                let lost = std::mem::take(&mut self.lost);
                match kept {
                    Appended::OverLimit { today_bytes } => Some(format!(
                        "this day alone takes {}, which is more than is to be kept",
                        Bytes(today_bytes)
                    )),
                    Appended::Within if lost > 0 => {
                        Some(format!("recording goes on; {lost} frames were lost"))
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
            assert!(keeper.keep(frame).is_empty());
        }
        assert!(keeper.finish().is_empty());
        let mut recording = Recording::open(dir.path()).unwrap();
        assert_eq!(recording.between(0, u64::MAX).count(), 20);
    }

    #[test]
    fn a_full_disk_is_told_once_and_so_is_its_end() {
        let mut failing = Failing::default();
        let first = failing.told(Err(full())).unwrap();
        assert!(first.starts_with("a frame is lost: can't write '/x': "), "{first}");
        assert_eq!(failing.told(Err(full())), None);
        let end = "recording goes on; 2 frames were lost";
        assert_eq!(failing.told(Ok(Appended::Within)).as_deref(), Some(end));
        assert_eq!(failing.told(Ok(Appended::Within)), None);
    }
}
