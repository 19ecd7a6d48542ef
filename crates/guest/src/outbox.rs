//! The host's way of writing to the guest, a window at a time.
//!
//! ```text
//! frames ─▶ queue ─▶ thread: waits for room ─▶ serial line: at most WINDOW bytes
//!                                      ▲                    that the guest has not read
//!                                      └ Frame::Read(n) from the guest
//! ```
//!
//! User-mode Linux 6.1 loses a serial line whose buffer was full once: `line_throttle()`
//! (arch/um/drivers/line.c) takes the line's descriptor out of epoll, and `line_unthrottle()` does
//! not put it back. So its buffer is never filled.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;

use crate::wire::Frame;

/// The most bytes on their way to the guest. n_tty holds 4095 and throttles where 128 are left
/// (drivers/tty/n_tty.c).
const WINDOW: usize = 2048;

/// Frames for the guest. Clones share the line.
#[derive(Clone)]
pub(crate) struct Outbox(Sender<Frame>);

impl Outbox {
    /// An outbox that writes to `line`, and what the guest's reading gives back to it.
    pub(crate) fn open(line: UnixStream) -> (Self, Arc<Room>) {
        let (outbox, frames) = mpsc::channel();
        let room = Arc::new(Room { left: Mutex::new(Some(WINDOW)), changed: Condvar::new() });
        let theirs = Arc::clone(&room);
        thread::spawn(move || write(&frames, line, &theirs));
        (Self(outbox), room)
    }

    /// Sends a frame, in its turn. Whether there still is a guest that may read it.
    pub(crate) fn send(&self, frame: Frame) -> bool {
        self.0.send(frame).is_ok()
    }
}

/// How many bytes the line still takes; nothing once the guest is gone.
pub(crate) struct Room {
    left: Mutex<Option<usize>>,
    changed: Condvar,
}

impl Room {
    /// The guest has read `length` bytes.
    pub(crate) fn give_back(&self, length: usize) {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        *left = left.map(|left| (left + length).min(WINDOW));
        self.changed.notify_all();
    }

    /// There is no guest any more.
    pub(crate) fn close(&self) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.changed.notify_all();
    }

    /// Waits for room, and takes at most `wanted` bytes of it; nothing if the guest is gone.
    fn take(&self, wanted: usize) -> Option<usize> {
        let left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = self
            .changed
            .wait_while(left, |left| *left == Some(0))
            .unwrap_or_else(PoisonError::into_inner);
        let taken = left.as_ref()?.min(&wanted).to_owned();
        *left = left.map(|left| left - taken);
        Some(taken)
    }
}

/// Writes all frames, until the outbox or the guest is gone.
fn write(frames: &Receiver<Frame>, mut line: UnixStream, room: &Room) {
    for frame in frames {
        let mut bytes = Vec::new();
        if frame.write(&mut bytes).is_err() {
            return;
        }
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let Some(length) = room.take(rest.len()) else { return };
            let (now, later) = rest.split_at(length);
            if line.write_all(now).is_err() {
                return;
            }
            rest = later;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::time::Duration;

    #[test]
    fn no_more_is_under_way_than_the_guests_line_holds() {
        let (ours, mut guest) = UnixStream::pair().unwrap();
        let (outbox, room) = Outbox::open(ours);
        assert!(outbox.send(Frame::Stdin(vec![7; 5000])));
        assert!(outbox.send(Frame::Signal(15)));
        let mut all = Vec::new();
        let mut piece = vec![0; 8192];
        while all.len() < 5005 + 9 {
            let want = WINDOW.min(5005 + 9 - all.len());
            let mut got = 0;
            while got < want {
                got += guest.read(&mut piece[got..]).unwrap();
            }
            assert_eq!(got, want, "all of the window and nothing beyond it");
            guest.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
            assert!(
                guest.read(&mut [0]).is_err(),
                "nothing more before the guest says that it has read"
            );
            guest.set_read_timeout(None).unwrap();
            all.extend(&piece[..got]);
            room.give_back(got);
        }
        let mut all = all.as_slice();
        assert_eq!(Frame::read(&mut all).unwrap(), Frame::Stdin(vec![7; 5000]));
        assert_eq!(Frame::read(&mut all).unwrap(), Frame::Signal(15));
    }

    #[test]
    fn a_guest_that_is_gone_ends_the_writing() {
        let (ours, guest) = UnixStream::pair().unwrap();
        let (outbox, room) = Outbox::open(ours);
        assert!(outbox.send(Frame::Stdin(vec![7; 5000])));
        room.close();
        drop(guest);
        while outbox.send(Frame::Beat) {
            thread::sleep(Duration::from_millis(1));
        }
    }
}
