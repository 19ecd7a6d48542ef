//! What has to be set in a process before it becomes another program.
//!
//! The hidden command of the program runs [`launch`]: everything is set by safe calls, then `execve(2)` follows.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Resource, Rlimit, Signal};

use crate::error::GuestError;

/// For a kernel on the host: it ends when its parent does, and leaves no core file.
pub(crate) const KERNEL: &str = "kernel";
/// For the command in the guest: a session of its own, with stdin as its terminal if that is one.
pub(crate) const SESSION: &str = "session";

/// Becomes `command` as what `role` says.
///
/// # Errors
/// Returns only if that failed.
pub fn launch(role: &str, command: &[OsString]) -> GuestError {
    let [program, args @ ..] = command else { return GuestError::NotForPeople };
    let set = match role {
        KERNEL => rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).and_then(|()| {
            let none = Rlimit { current: Some(0), maximum: Some(0) };
            rustix::process::setrlimit(Resource::Core, none)
        }),
        SESSION => rustix::process::setsid().and_then(|_| {
            let stdin = rustix::stdio::stdin();
            if rustix::termios::isatty(stdin) { rustix::process::ioctl_tiocsctty(stdin) } else { Ok(()) }
        }),
        _ => return GuestError::NotForPeople,
    };
    let error = match set {
        Ok(()) => Command::new(program).args(args).exec(),
        Err(errno) => errno.into(),
    };
    GuestError::Start { program: program.into(), error }
}
