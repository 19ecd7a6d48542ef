//! The messages of parent and worker: JSON lines over the worker's stdin and stdout.
//!
//! ```text
//! parent ─ Begin, Settings, Stop ─▶ worker's stdin      its end of file: the parent is gone
//! parent ◀─ Ready, Beat, … ──────── worker's stdout     its end of file: the worker is gone
//!                                                       silence: the worker hangs
//! ```

use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::config::Settings;

/// The worker's first input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Begin {
    pub(crate) settings: Settings,
    /// How long ago the guard was started.
    pub(crate) age: Duration,
    pub(crate) parent_pid: u32,
    /// Workers before this one.
    pub(crate) restarts: u32,
    /// `None`: not paused; `Some(None)`: until a client resumes it.
    pub(crate) paused: Pause,
}

/// A pause that outlives a worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Pause {
    /// It works.
    #[default]
    None,
    /// Until it is told to resume.
    Endless,
    /// For this time more.
    For(Duration),
}

/// To the worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Order {
    Begin(Box<Begin>),
    Settings(Box<Settings>),
    Stop,
}

/// From the worker.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Sign {
    /// The first look was taken; it can be asked.
    Ready,
    /// It lives.
    Beat,
    /// In a few words, for `systemctl status`.
    Status(String),
    /// New settings are in force, or the old ones still are.
    Configured { taken: bool },
    /// It was paused or resumed.
    Paused(Pause),
    /// It can't go on: it puts everything back, which may take its time, and ends.
    Ending,
}

/// The outcome of sending a sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Given {
    Sent,
    /// There was no room for it.
    Lost,
    /// The reader is gone.
    Gone,
}

/// A message as a line.
pub(crate) fn line<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// The worker's way to its parent. Never waits: a parent that was stopped must not stop the worker.
pub(crate) struct Signs(io::Stdout);

impl Signs {
    pub(crate) fn open() -> io::Result<Self> {
        let stdout = io::stdout();
        let flags = rustix::fs::fcntl_getfl(stdout.as_fd())?;
        rustix::fs::fcntl_setfl(stdout.as_fd(), flags | OFlags::NONBLOCK)?;
        Ok(Self(stdout))
    }

    /// A pipe that is full loses the message: a line is written whole or not at all (PIPE_BUF,
    /// pipe(7)).
    pub(crate) fn give(&self, sign: &Sign) -> Given {
        let Ok(line) = line(sign) else { return Given::Lost };
        match rustix::io::write(self.0.as_fd(), &line) {
            Ok(_) => Given::Sent,
            Err(Errno::PIPE) => Given::Gone,
            Err(_) => Given::Lost,
        }
    }
}
