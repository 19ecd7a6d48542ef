//! The guest's end of the second serial line.

use std::fs::File;
use std::io::Write;
use std::sync::Mutex;

use rustix::fs::{Mode, OFlags};
use rustix::termios::OptionalActions;

use crate::said::Said;

const LINE: &str = "/dev/ttyS1";

pub(crate) struct Line(Mutex<File>);

impl Line {
    /// Opens it as a plain stream of bytes.
    pub(crate) fn open() -> anyhow::Result<Self> {
        let line =
            rustix::fs::open(LINE, OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
        let mut modes = rustix::termios::tcgetattr(&line)?;
        modes.make_raw();
        rustix::termios::tcsetattr(&line, OptionalActions::Now, &modes)?;
        Ok(Self(Mutex::new(line.into())))
    }

    /// Tells the host; it ends the guest if it does not listen.
    pub(crate) fn say(&self, said: &Said) {
        let Ok(mut text) = serde_json::to_vec(said) else { return };
        text.push(b'\n');
        if let Ok(mut line) = self.0.lock() {
            let _ = line.write_all(&text);
            let _ = rustix::termios::tcdrain(&*line);
        }
    }
}
