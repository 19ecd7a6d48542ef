//! What has to be set in a process before it becomes another program.
//!
//! The hidden command of the program runs [`launch`]: everything is set by safe calls, then `execve(2)` follows.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal};

use crate::error::GuestError;

/// For a kernel on the host: it ends when its starter does, with all its processes, and leaves no core file.
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
        KERNEL => {
            let error = keep(program, args);
            return GuestError::Start { program: program.into(), error };
        }
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

/// Starts a kernel and stays beside it, in its process group: ends the whole group, itself included, once the kernel
/// has ended or the other end of the serial line (stdin) is closed. Returns only if the kernel could not be started.
///
/// The processes of the guest are traced processes of the host. One whose tracer died alone would go on as a process
/// of the host, and its system calls would be the host's: the kernel must never be killed but with all of them. So a
/// parent-death signal for the kernel alone is no way.
fn keep(program: &OsString, args: &[OsString]) -> io::Error {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    if let Err(errno) = rustix::process::setrlimit(Resource::Core, none) {
        return errno.into();
    }
    // A kernel that panics sends SIGTERM to its group (arch/um/os-Linux/util.c, `os_dump_core`).
    if let Err(error) = signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::default()) {
        return error;
    }
    // As the leader of a group the kernel can't leave it for a session of its own, which it tries (setsid).
    let mut kernel = match Command::new(program).args(args).process_group(0).spawn() {
        Ok(kernel) => kernel,
        Err(error) => return error,
    };
    if let Err(errno) = rustix::process::setpgid(None, Pid::from_raw(kernel.id() as i32)) {
        // It has run for no longer than a moment: it has no processes yet.
        let _ = kernel.kill();
        return errno.into();
    }
    thread::spawn(|| {
        let line = rustix::stdio::stdin();
        // No event is asked for: errors and hang-ups are always told (poll(2)).
        while rustix::event::poll(&mut [PollFd::new(&line, PollFlags::empty())], None) == Err(Errno::INTR) {}
        end_group();
    });
    let _ = kernel.wait();
    end_group();
    io::Error::from(Errno::SRCH)
}

/// Ends this process and all of its group at once.
fn end_group() {
    let _ = rustix::process::kill_current_process_group(Signal::KILL);
}
