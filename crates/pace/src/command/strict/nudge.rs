//! The thread that starts the command, and then makes calls of its own now and then.
//!
//! While the keeper serves, two processes poll the listener. Both are told of a call, and one
//! receives it. The receive of the other waits for the next call (kernel/seccomp.c
//! `recv_wait_event`). If that is this process, calls in its queue wait as long, and so does its
//! end. The thread here is below the filter as well, so a write of its own ends the wait.

use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// Time between two writes while calls wait.
const EVERY: Duration = Duration::from_millis(100);

/// Dropping this ends the thread, after one more write.
#[derive(Debug)]
pub(in super::super) struct Nudging(
    #[expect(dead_code, reason = "dropping it is its use")] Sender<Infallible>,
);

impl Nudging {
    pub(super) fn new(ends: Sender<Infallible>) -> Self {
        Self(ends)
    }
}

/// Writes to `null`, which is /dev/null, while calls wait and once `ended` is closed.
pub(super) fn nudge(null: &OwnedFd, calls_wait: impl Fn() -> bool, ended: &Receiver<Infallible>) {
    loop {
        let has_ended = ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Disconnected);
        if has_ended || calls_wait() {
            let _ = rustix::io::write(null, b".");
        }
        if has_ended {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::sync::mpsc::channel;
    use std::thread;

    use super::super::filter;
    use super::super::kernel::{Notification, go_on, receive};
    use super::*;

    /// Receives without a look whether a call has come, as after one that the keeper received.
    fn serve(listener: &OwnedFd) {
        let mut call = Notification::NONE;
        receive(listener.as_fd(), &mut call).unwrap();
        go_on(listener.as_fd(), call.call.id).unwrap();
    }

    #[test]
    fn a_receive_returns_while_calls_wait_and_at_the_end() {
        let (give, given) = channel();
        let (ends, ended) = channel();
        let nudges = thread::spawn(move || {
            give.send(filter::install().unwrap()).unwrap();
            let null = File::options().write(true).open("/dev/null").unwrap().into();
            nudge(&null, || true, &ended);
        });
        let listener = given.recv().unwrap();
        serve(&listener);
        serve(&listener);
        drop(ends);
        serve(&listener);
        nudges.join().unwrap();
    }
}
