//! A running `floodwall record`, and its frames.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use floodwall_model::frame::Frame;
use floodwall_record::Recording;
use floodwall_testing::{said, until};
use rustix::process::{Pid, Signal, kill_process};

use crate::FLOODWALL;

/// How long it may take to begin on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A recorder; ended when it is dropped.
pub(crate) struct Recorder {
    process: Child,
    directory: tempfile::TempDir,
}

impl Recorder {
    /// Starts one, and waits for its first frame.
    pub(crate) fn start(interval: &str) -> Result<Self, String> {
        let directory = tempfile::tempdir().map_err(said("a directory"))?;
        let process = Command::new(FLOODWALL)
            .args(["record", "--interval", interval, "--dir"])
            .arg(directory.path())
            .stdin(Stdio::null())
            .spawn()
            .map_err(said("floodwall record"))?;
        let recorder = Self { process, directory };
        until(PATIENCE, "a first frame", || !recorder.frames().is_empty())?;
        Ok(recorder)
    }

    /// All frames until now.
    pub(crate) fn frames(&self) -> Vec<Frame> {
        let Ok(mut recording) = Recording::open(self.directory.path()) else { return Vec::new() };
        recording.between(0, u64::MAX).filter_map(Result::ok).collect()
    }

    /// The frames after so many more.
    pub(crate) fn after(&self, more: usize) -> Result<Vec<Frame>, String> {
        let before = self.frames().len();
        until(PATIENCE, "more frames", || self.frames().len() >= before + more)?;
        Ok(self.frames())
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.process), Signal::TERM);
        let _ = self.process.wait();
    }
}
