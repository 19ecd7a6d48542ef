//! The thread that starts the command. Afterwards it makes a notified call now and then.
//!
//! While the keeper serves, two processes poll the listener. The kernel wakes both for one call,
//! and one receives it. The receive of the other waits for the next call (kernel/seccomp.c
//! `recv_wait_event`). If that is this process, calls in its queue wait as long, and so does its
//! end. This thread is below the filter as well: when it writes, the wait ends.

use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// Time between two writes. One takes some 20 µs.
const EVERY: Duration = Duration::from_millis(100);

/// Writes to `null`, which is /dev/null, until the thread that receives calls has ended. Its end
/// closes `ended`.
pub(super) fn nudge(null: &OwnedFd, ended: &Receiver<Infallible>) {
    while ended.recv_timeout(EVERY) != Err(RecvTimeoutError::Disconnected) {
        let _ = rustix::io::write(null, b".");
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
    fn a_receive_returns_without_a_call_of_the_command() {
        let ((give, given), (ends, ended)) = (channel(), channel());
        let nudges = thread::spawn(move || {
            give.send(filter::install().unwrap()).unwrap();
            let null = File::options().write(true).open("/dev/null").unwrap().into();
            nudge(&null, &ended);
        });
        let listener = given.recv().unwrap();
        serve(&listener);
        serve(&listener);
        drop(ends);
        // The kernel answers calls that have no receiver any more.
        drop(listener);
        nudges.join().unwrap();
    }
}
