//! The disks that a guard steers, asked for while a look lasts. One that hangs holds nothing up.

use std::sync::mpsc::{self, Receiver};

use floodwall_daemon::DaemonError;
use floodwall_daemon::document::Status;
use floodwall_daemon::socket::{self, Reply, Request};
use floodwall_host::SysRoot;

/// The disks that a guard steers.
pub(in crate::commands) enum Guarded {
    /// Asked for while a look lasts.
    Asked(Receiver<Vec<String>>),
    /// Known without a question; `None` if a guard that was asked did not answer.
    Known(Option<Vec<String>>),
}

impl Guarded {
    /// No disk, for a look that asks no guard.
    pub(in crate::commands) fn nothing() -> Self {
        Self::Known(Some(Vec::new()))
    }

    /// Asks. Only root may, and only on this machine.
    pub(in crate::commands) fn ask(root: &SysRoot, is_root: bool) -> Self {
        if is_root && root.is_live() {
            Self::Asked(in_background(guarded))
        } else {
            Self::nothing()
        }
    }

    /// The answer; `None` if the guard has not given it yet.
    pub(in crate::commands) fn by_now(self) -> Option<Vec<String>> {
        match self {
            Self::Asked(answer) => answer.try_recv().ok(),
            Self::Known(disks) => disks,
        }
    }
}

/// Does something meanwhile. What never ends there, ends with the process.
pub(in crate::commands) fn in_background<T: Send + 'static>(
    ask: impl FnOnce() -> T + Send + 'static,
) -> Receiver<T> {
    let (answer, answered) = mpsc::sync_channel(1);
    std::thread::spawn(move || answer.send(ask()));
    answered
}

/// The disks that the guard steers. One that only rehearses, or guards a simulated machine, steers
/// none.
fn guarded() -> Vec<String> {
    let steering = ask_guard().flatten().filter(|status| !status.dry_run);
    steering.into_iter().flat_map(|status| status.devices).map(|device| device.name).collect()
}

/// The status of this machine's guard: `Some(None)` if none runs, `None` if one did not answer. A
/// guard of a simulated machine does not count.
pub(in crate::commands) fn ask_guard() -> Option<Option<Box<Status>>> {
    match socket::ask(None, Request::Status) {
        Ok(Reply::Status(status)) => Some(Some(status).filter(|status| status.source != "sim")),
        Err(DaemonError::NoGuard { .. }) => Some(None),
        Ok(_) | Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guard_that_hangs_holds_nothing_up() {
        let (_hangs, until) = mpsc::channel::<()>();
        assert!(in_background(move || until.recv()).try_recv().is_err());
        assert_eq!(in_background(|| 7).recv(), Ok(7));
    }

    #[test]
    fn a_guard_that_did_not_answer_is_not_taken_for_none_in_the_next_window() {
        assert_eq!(Guarded::nothing().by_now(), Some(Vec::new()));
        assert_eq!(Guarded::Known(None).by_now(), None);
    }
}
