//! This machine, now: frames made in a thread.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver, TryRecvError};
use std::time::Duration;

use floodwall_host::SysRoot;
use floodwall_model::frame::Frame;

use super::source::{Next, Source};
use crate::commands::frames::Frames;

/// The first window is short, so that the screen is not empty for long.
const FIRST: Duration = Duration::from_millis(60);

/// Frames of this machine.
pub(super) struct Live {
    frames: Receiver<anyhow::Result<Frame>>,
}

impl Live {
    /// Starts to look. The thread ends when `stop` is raised, or with the process.
    pub(super) fn start(interval: Duration, stop: &Arc<AtomicBool>) -> Self {
        let (send, frames) = mpsc::sync_channel(1);
        let stop = Arc::clone(stop);
        std::thread::spawn(move || {
            let look = || -> anyhow::Result<()> {
                let root = SysRoot::live()?;
                let mut frames = Frames::open(&root)?;
                let mut window = FIRST.min(interval);
                while let Some(frame) = frames.next(window, &stop)? {
                    window = interval;
                    if send.send(Ok(frame)).is_err() {
                        break;
                    }
                }
                Ok(())
            };
            if let Err(error) = look() {
                let _ = send.send(Err(error));
            }
        });
        Self { frames }
    }
}

impl Source for Live {
    fn next(&mut self) -> Next {
        match self.frames.try_recv() {
            Ok(Ok(frame)) => Next::Frame(Box::new(frame)),
            Ok(Err(error)) => Next::Lost(error),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => Next::Nothing,
        }
    }
}
