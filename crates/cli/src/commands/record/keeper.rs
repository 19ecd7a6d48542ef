//! A thread that writes frames and the stall log.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;

use anyhow::bail;
use floodwall_model::Bytes;
use floodwall_model::frame::Frame;
use floodwall_record::stall::{Lines, Log, Watch};
use floodwall_record::{Appended, Limits, RecordError, Writer};

/// Rows of frames that wait while a write hangs: some 64 MB, a row takes about 1 KB. Further frames
/// are lost.
const MOST_ROWS: usize = 1 << 16;

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

/// The thread, and what it has to say.
pub(super) struct Keeper {
    queue: Option<Sender<Waiting>>,
    /// Rows that wait or are being written.
    rows: Arc<AtomicUsize>,
    said: Receiver<Said>,
    thread: Option<JoinHandle<()>>,
    /// Frames that had no room since a write began to hang.
    unwritten: u64,
}

/// One piece of work for the thread.
struct Waiting {
    /// Absent with the last lines.
    frame: Option<Box<Frame>>,
    lines: Lines,
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
        let mut log = Log::open(directory, u64::from(limits.days) * DAY_MS)?;
        let (queue, waiting) = mpsc::channel::<Waiting>();
        let (say, said) = mpsc::channel();
        let rows = Arc::new(AtomicUsize::new(0));
        let its_rows = Arc::clone(&rows);
        let thread = std::thread::spawn(move || {
            let (mut frames, mut stalls) = (Failing::default(), Failing::default());
            for Waiting { frame, lines } in waiting {
                let mut now = Said::default();
                if let Some(frame) = frame {
                    let appended = writer.append(&frame);
                    now.lost = u64::from(appended.is_err());
                    now.lines.extend(frames.told("a frame is lost", appended));
                    its_rows.fetch_sub(rows_of(&frame), Ordering::SeqCst);
                }
                now.lines.extend(stalls.told("a stall is not logged yet", log.write(lines)));
                if now.lost > 0 || !now.lines.is_empty() {
                    // The receiver is gone only when the process ends.
                    let _ = say.send(now);
                }
            }
        });
        Ok(Self { queue: Some(queue), rows, said, thread: Some(thread), unwritten: 0 })
    }

    /// Hands over a frame that has been watched, and what is to be logged; returns what there is to
    /// say. Without room the frame is lost, and the log's lines stay where they are.
    ///
    /// # Errors
    /// The thread has ended: nothing can be written any more.
    pub(super) fn keep(&mut self, frame: Frame, watch: &mut Watch) -> anyhow::Result<Said> {
        let rows = rows_of(&frame);
        let waiting = self.rows.load(Ordering::SeqCst);
        if waiting > 0 && waiting + rows > MOST_ROWS {
            self.unwritten += 1;
            let said = self.said();
            return Ok(Said { lost: said.lost + 1, ..said });
        }
        self.rows.fetch_add(rows, Ordering::SeqCst);
        self.send(Waiting { frame: Some(Box::new(frame)), lines: watch.lines() })?;
        let mut said = self.said();
        if self.unwritten > 0 {
            said.lines.push(format!("{} frames are lost: writing them hung", self.unwritten));
            self.unwritten = 0;
        }
        Ok(said)
    }

    /// Writes what waits, and the last lines of the log, and ends.
    pub(super) fn finish(&mut self, lines: Lines) -> Said {
        // A thread that has ended has been told.
        let _ = self.send(Waiting { frame: None, lines });
        self.queue = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.said()
    }

    fn send(&self, waiting: Waiting) -> anyhow::Result<()> {
        match self.queue.as_ref().map(|queue| queue.send(waiting)) {
            Some(Ok(())) => Ok(()),
            _ => bail!("the thread that writes has ended; start the recorder again"),
        }
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

/// A frame's rows: itself, its disks, its processes.
fn rows_of(frame: &Frame) -> usize {
    1 + frame.disks.len() + frame.processes.len()
}

/// Writes that failed: the first error is said, and the end of the errors.
#[derive(Default)]
struct Failing {
    failed: u64,
    /// It has been said that old files could not be removed.
    is_unremoved: bool,
}

impl Failing {
    fn told(&mut self, what: &str, appended: Result<Appended, RecordError>) -> Option<String> {
        match appended {
            Err(error) => {
                self.failed += 1;
                (self.failed == 1).then(|| format!("{what}: {}", chain(&error)))
            }
            Ok(Appended::Unremoved(error)) => (!std::mem::replace(&mut self.is_unremoved, true))
                .then(|| format!("what is beyond the limits stays: {}", chain(&error))),
            Ok(Appended::OverLimit { today_bytes }) => Some(format!(
                "this day and the stall log take {}, which is more than is to be kept",
                Bytes(today_bytes)
            )),
            Ok(Appended::Within) => {
                self.is_unremoved = false;
                match std::mem::take(&mut self.failed) {
                    0 => None,
                    failed => Some(format!("writing works again, after {failed} failures")),
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
    use floodwall_model::frame::Process;
    use floodwall_record::Recording;
    use floodwall_record::stall::LOG;

    use super::*;

    fn full() -> RecordError {
        let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
        RecordError::Io { what: "write", path: "/x".into(), source }
    }

    /// Without a thread: the test has the other end.
    fn hanging() -> (Keeper, Receiver<Waiting>) {
        let (queue, waiting) = mpsc::channel();
        let (_, said) = mpsc::channel();
        let rows = Arc::default();
        (Keeper { queue: Some(queue), rows, said, thread: None, unwritten: 0 }, waiting)
    }

    #[test]
    fn frames_are_written_before_it_ends() {
        let dir = tempfile::tempdir().unwrap();
        let mut keeper = Keeper::start(dir.path(), Limits::default()).unwrap();
        let mut watch = Watch::new();
        for n in 1..=20 {
            let frame = Frame { at_unix_ms: n * 1000, ..Frame::default() };
            watch.frame(&frame);
            assert!(keeper.keep(frame, &mut watch).unwrap().lines.is_empty());
        }
        watch.finish();
        assert!(keeper.finish(watch.lines()).lines.is_empty());
        let mut recording = Recording::open(dir.path()).unwrap();
        assert_eq!(recording.between(0, u64::MAX).count(), 20);
        assert!(dir.path().join(LOG).exists());
        assert_eq!(keeper.rows.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn rows_bound_what_waits_while_a_write_hangs() {
        let (mut keeper, waiting) = hanging();
        let mut watch = Watch::new();
        let frame = Frame { processes: vec![Process::default(); 511], ..Frame::default() };
        let mut keep = |keeper: &mut Keeper| keeper.keep(frame.clone(), &mut watch).unwrap();
        let lost: u64 = (0..200).map(|_| keep(&mut keeper).lost).sum();
        assert_eq!(lost, 200 - 128, "128 frames of 512 rows have room");
        let one = waiting.recv().unwrap().frame.unwrap();
        keeper.rows.fetch_sub(rows_of(&one), Ordering::SeqCst);
        let said = keep(&mut keeper);
        assert_eq!((said.lost, &*said.lines[0]), (0, "72 frames are lost: writing them hung"));
        keeper.rows.store(0, Ordering::SeqCst);
        let huge = Frame { processes: vec![Process::default(); MOST_ROWS], ..Frame::default() };
        assert_eq!(keeper.keep(huge, &mut watch).unwrap().lost, 0, "one has room in any case");
    }

    #[test]
    fn a_thread_that_has_ended_is_an_error() {
        let (mut keeper, waiting) = hanging();
        drop(waiting);
        assert!(keeper.keep(Frame::default(), &mut Watch::new()).is_err());
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
        let stays = failing.told("", Ok(Appended::Unremoved(full()))).unwrap();
        assert!(stays.starts_with("what is beyond the limits stays: "), "{stays}");
        assert_eq!(failing.told("", Ok(Appended::Unremoved(full()))), None);
    }
}
