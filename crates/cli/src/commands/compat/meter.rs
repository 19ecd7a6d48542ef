//! How far a tool is, for the process of Floodwall that started it beside a flood.
//!
//! ```text
//! tool ─▶ counts ◀─ a thread ─▶ 16 bytes in memory ◀─ the process that runs the flood
//! ```

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::Context;
use floodwall_load::apart::Counters;
use floodwall_load::fileio::{Counts, FileRun};

/// How often the counts are written.
const PERIOD: Duration = Duration::from_millis(10);

/// Where the counts go; nowhere if nobody asked for them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meter<'a>(Option<&'a Path>);

impl<'a> Meter<'a> {
    pub(super) fn new(file: Option<&'a PathBuf>) -> Self {
        Self(file.map(PathBuf::as_path))
    }

    /// Follows a run until the result is dropped. `done` has the counts since its begin.
    ///
    /// # Errors
    /// The file of the counts can't be opened.
    pub(super) fn follow(
        self,
        done: impl Fn() -> Counters + Send + 'static,
    ) -> anyhow::Result<Following> {
        let Some(path) = self.0 else { return Ok(Following(None)) };
        let file = File::options().write(true).open(path).context("can't open the counters")?;
        let (end, ended) = channel::<()>();
        let thread = thread::spawn(move || {
            loop {
                let is_over =
                    matches!(ended.recv_timeout(PERIOD), Err(RecvTimeoutError::Disconnected));
                // Counts that can't be written now are written with the next.
                let _ = done().write(&file);
                if is_over {
                    break;
                }
            }
        });
        Ok(Following(Some((end, thread))))
    }
}

impl Meter<'_> {
    /// Follows requests to files: reads and writes, without syncs.
    ///
    /// # Errors
    /// As of [`Self::follow`].
    pub(super) fn follow_files(self, run: &FileRun) -> anyhow::Result<Following> {
        let progress = run.progress();
        self.follow(move || {
            let Counts { reads, writes, read_bytes, written_bytes, .. } = progress.counts();
            Counters { ops: reads + writes, bytes: read_bytes + written_bytes }
        })
    }
}

/// A run that is followed. Dropping it writes the last counts.
#[must_use]
pub(super) struct Following(Option<(Sender<()>, JoinHandle<()>)>);

impl Drop for Following {
    fn drop(&mut self) {
        if let Some((end, thread)) = self.0.take() {
            drop(end);
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_counts_are_there_when_it_is_dropped() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_owned();
        let counts = Counters { ops: 7, bytes: 4096 };
        drop(Meter::new(Some(&path)).follow(move || counts).unwrap());
        assert_eq!(Counters::read(file.as_file()), Ok(counts));
        drop(Meter::new(None).follow(Counters::default).unwrap());
    }
}
