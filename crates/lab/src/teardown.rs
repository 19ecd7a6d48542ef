//! Taking a lab down, from any state that it may have been left in.
//!
//! ```text
//! live server:  answer at once from now on ─▶ unmount ─▶ detach loop ─▶ unmount FUSE
//!               ─▶ the server ends by itself
//! dead server:  shut filesystem down       ─▶ unmount ─▶ detach loop ─▶ unmount FUSE
//! ```
//!
//! Every step does nothing if its part is gone, and may be taken by two processes at once. No step
//! waits without end: after a time the FUSE connection is aborted, which makes the kernel fail the
//! requests that the step waits for. Contents are in memory and go with the lab, so
//! nothing is lost by force that would not be lost anyway.

use std::path::PathBuf;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;

use crate::control::{self, Request};
use crate::error::LabError;
use crate::loopdev::{self, LoopDevice};
use crate::mounts::{self, Mount};
use crate::server::SUBTYPE;
use crate::state::StateDir;
use crate::unmount::{Force, abort_fuse, shut_down, unmount};

/// The process that asks for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By<'a> {
    /// A caller's; the server may be alive.
    Caller,
    /// The guardian's of the lab with this token; its server is gone.
    Guardian(&'a str),
}

/// How long a caller waits for a process that starts a part of the lab, or takes it down already.
const CALLER_WAITS: Duration = Duration::from_secs(10);
/// How long a guardian does: a caller who unmounts may itself wait for the server that has just
/// died.
const GUARDIAN_WAITS: Duration = Duration::from_secs(2);
/// How long a live filesystem may stay busy before it is shut down. What a command leaves behind
/// when it ends (a child that is just ending, an io_uring whose files the kernel closes a little
/// later) is gone long before.
const SETTLE: Duration = Duration::from_secs(2);
/// How long an unmount may take before the connection is aborted. At the speed of memory this
/// writes tens of gigabytes.
const UNMOUNT: Duration = Duration::from_secs(20);
/// How long a loop device may stay busy: users of a filesystem that was shut down get errors at
/// once and mostly end.
const DETACH: Duration = Duration::from_secs(8);
/// How long each way of ending a process is given.
const END: Duration = Duration::from_secs(2);

/// Takes a lab down and removes its state.
///
/// # Errors
/// [`LabError::Busy`] if a process still uses the device; everything that could be taken away has
/// been then, and the state is kept for another try.
pub(crate) fn take_down(state: &StateDir, by: By) -> Result<(), LabError> {
    if !state.exists() {
        return Ok(());
    }
    let _lock = match by {
        By::Caller => {
            // Before waiting for the lock: a server that is still starting gives up when it gets
            // it.
            state.mark_going();
            state.lock(CALLER_WAITS)
        }
        By::Guardian(_) => state.lock(GUARDIAN_WAITS),
    };
    if !state.exists() {
        return Ok(());
    }
    let spec = state.spec().ok();
    if let (By::Guardian(token), Some(spec)) = (by, &spec)
        && spec.token != token
    {
        // During the wait for the lock this lab went and another one took its name.
        return Ok(());
    }
    let mut alive = by == By::Caller && state.server_alive();
    if alive && control::ask(&state.name(), &state.control(), &Request::Hurry).is_err() {
        // It does not answer: nothing that waits for it may go on waiting.
        abort(state);
        alive = false;
    }
    if let Some(spec) = &spec {
        free_devices(state, &spec.file_name(), alive)?;
    }
    unmount_fuse(state)?;
    end_server(state);
    // Removing the directory must not reach into anything that is mounted in it.
    if let Some(mount) = mounts::all()?.into_iter().find(|m| m.dir.starts_with(state.path())) {
        return Err(LabError::Busy { device: mount.dir, pids: Vec::new() });
    }
    state.remove()
}

/// The lab's FUSE mount, if it is there.
fn fuse_mount(state: &StateDir) -> Option<Mount> {
    let mount = mounts::on(&state.fuse()).ok()??;
    (mount.fs_type == format!("fuse.{SUBTYPE}")).then_some(mount)
}

/// Fails everything that waits for the server.
fn abort(state: &StateDir) {
    if let Some(mount) = fuse_mount(state) {
        abort_fuse(&mount);
    }
}

/// Takes the loop devices off the lab's file, with their mounts. `alive` says whether requests to
/// them are still answered.
///
/// # Errors
/// [`LabError::Busy`] if a process still uses a device; it is unmounted nevertheless.
pub(crate) fn free_devices(state: &StateDir, file_name: &str, alive: bool) -> Result<(), LabError> {
    for device in loopdev::find(file_name) {
        let holders = unmount_all(state, &device, alive)?;
        loopdev::detach(&device, file_name, DETACH).map_err(|e| match e {
            // Out of the tree, a filesystem no longer shows its users.
            LabError::Busy { device, pids } if pids.is_empty() => {
                LabError::Busy { device, pids: holders }
            }
            other => other,
        })?;
    }
    Ok(())
}

/// Unmounts whatever is mounted from a loop device. Busy filesystems are taken out of the tree;
/// returns the processes that are in them.
fn unmount_all(state: &StateDir, device: &LoopDevice, alive: bool) -> Result<Vec<i32>, LabError> {
    let mut holders = Vec::new();
    for mount in mounts::of_device(&device.path(), device.dev().as_deref())? {
        if !alive {
            // Otherwise writers would go on filling the page cache of a dead disk.
            shut_down(&mount.dir);
        }
        let patience = if alive { SETTLE } else { Duration::ZERO };
        match within(UNMOUNT, || abort(state), || unmount(&mount.dir, Force::No(patience))) {
            Err(LabError::Busy { pids, .. }) => {
                holders.extend(pids);
                shut_down(&mount.dir);
                within(UNMOUNT, || abort(state), || unmount(&mount.dir, Force::Lazy))?;
            }
            other => other?,
        }
    }
    Ok(holders)
}

/// Unmounts the FUSE file, which ends the server.
fn unmount_fuse(state: &StateDir) -> Result<(), LabError> {
    while let Some(mount) = fuse_mount(state) {
        if unmount(&mount.dir, Force::No(Duration::ZERO)).is_err() {
            abort_fuse(&mount);
            unmount(&mount.dir, Force::Lazy)?;
        }
    }
    Ok(())
}

/// Sees to it that the server ends, by ever stronger means.
fn end_server(state: &StateDir) {
    let Some(server) = state.server() else { return };
    if server.wait(END) {
        return;
    }
    for signal in [Signal::TERM, Signal::KILL] {
        server.signal(signal);
        if server.wait(END) {
            return;
        }
    }
}

/// Runs `step`; if it takes longer than `limit`, runs `rescue` beside it, once.
fn within<T>(limit: Duration, rescue: impl FnOnce() + Send, step: impl FnOnce() -> T) -> T {
    let (done, waiting) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            if waiting.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                rescue();
            }
        });
        let result = step();
        drop(done);
        result
    })
}

/// Where the lab's device is mounted.
pub(crate) fn mounted_at(device: &LoopDevice) -> Vec<PathBuf> {
    mounts::of_device(&device.path(), device.dev().as_deref())
        .map(|mounts| mounts.into_iter().map(|m| m.dir).collect())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;
    use crate::state::tests::spec;

    #[test]
    fn a_state_in_which_nothing_was_made_yet_is_taken_down() {
        let root = tempfile::tempdir().unwrap();
        let state = StateDir::create(root.path(), &spec("a")).unwrap();
        take_down(&state, By::Caller).unwrap();
        assert!(!state.exists());
        take_down(&state, By::Caller).unwrap();
        // Not even the specification.
        std::fs::create_dir(root.path().join("b")).unwrap();
        take_down(&StateDir::new(root.path().join("b")), By::Caller).unwrap();
        assert!(!root.path().join("b").exists());
    }

    #[test]
    fn a_step_that_takes_too_long_is_rescued_and_one_that_does_not_is_left_alone() {
        let rescued = AtomicBool::new(false);
        let (wake, asleep) = channel();
        let rescue = || {
            rescued.store(true, Ordering::SeqCst);
            wake.send(()).unwrap();
        };
        within(Duration::from_millis(10), rescue, || asleep.recv().unwrap());
        assert!(rescued.load(Ordering::SeqCst));
        within(Duration::from_secs(3600), || panic!("nothing to rescue"), || ());
    }
}
