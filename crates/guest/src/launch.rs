//! Settings of a process before it becomes another program.
//!
//! The hidden command of the program runs [`launch`]: everything is set by safe calls, then
//! `execve(2)` follows.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;
use std::thread;

use landlock::{
    ABI, Access, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, Scope,
};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{Pid, Resource, Rlimit, Signal};

use crate::error::GuestError;

/// For a kernel on the host: it ends when its starter does, with all its processes, and leaves no
/// core file. Its words are the directories that it may write to, [`BEFORE_KERNEL`], and the
/// command.
pub(crate) const KERNEL: &str = "kernel";
/// Separates the directories from the command.
pub(crate) const BEFORE_KERNEL: &str = "--";
/// For the command in the guest: a separate session, with stdin as its controlling terminal if
/// stdin is one.
pub(crate) const SESSION: &str = "session";

/// Becomes `command` as what `role` says.
///
/// # Errors
/// Returns only if that failed.
pub fn launch(role: &str, command: &[OsString]) -> GuestError {
    let [program, args @ ..] = command else { return GuestError::NotForPeople };
    let set = match role {
        KERNEL => return keep(command),
        SESSION => rustix::process::setsid().and_then(|_| {
            let stdin = rustix::stdio::stdin();
            if rustix::termios::isatty(stdin) {
                rustix::process::ioctl_tiocsctty(stdin)
            } else {
                Ok(())
            }
        }),
        _ => return GuestError::NotForPeople,
    };
    let error = match set {
        Ok(()) => Command::new(program).args(args).exec(),
        Err(errno) => errno.into(),
    };
    GuestError::Start { program: program.into(), error }
}

/// Starts a kernel and stays beside it, in its process group. Ends the whole group, itself
/// included, once the kernel has ended or the other end of the serial line (stdin) is closed.
/// Returns only if the kernel could not be started.
///
/// The processes of the guest are traced processes of the host. One whose tracer died alone goes on
/// as a process of the host, with the host's system calls. So the kernel must only be killed
/// together with all of them. So a parent-death signal for the kernel alone is no way. If another
/// process kills it alone (`kill -9`, the OOM killer), [`confine`] keeps them from the host's files
/// until the keeper ends them.
fn keep(words: &[OsString]) -> GuestError {
    let (writable, command) =
        words.split_at(words.iter().position(|w| w == BEFORE_KERNEL).unwrap_or(0));
    let [_, program, args @ ..] = command else { return GuestError::NotForPeople };
    if let Err(error) = confine(writable) {
        return GuestError::Start { program: program.into(), error: io::Error::other(error) };
    }
    GuestError::Start { program: program.into(), error: keep_confined(program, args) }
}

/// Has the host's kernel refuse all writes of this process and its children outside `writable`, and
/// all signals to others. This works as far as the host has Landlock (Linux 5.13; signals 6.12).
fn confine(writable: &[OsString]) -> Result<(), RulesetError> {
    let abi = ABI::V6;
    Ruleset::default()
        .handle_access(AccessFs::from_write(abi))?
        .scope(Scope::from_all(abi))?
        .create()?
        .add_rules(landlock::path_beneath_rules(writable, AccessFs::from_write(abi)))?
        // Half of a console; without it the kernel's messages go to the serial line.
        .add_rules(landlock::path_beneath_rules(["/dev/null"], AccessFs::from_write(abi)))?
        .restrict_self()
        .map(drop)
}

fn keep_confined(program: &OsString, args: &[OsString]) -> io::Error {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    if let Err(errno) = rustix::process::setrlimit(Resource::Core, none) {
        return errno.into();
    }
    // A kernel that panics sends SIGTERM to its group (arch/um/os-Linux/util.c, `os_dump_core`).
    if let Err(error) = signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::default()) {
        return error;
    }
    // As the leader of a group the kernel can't move to a new session, which it tries (setsid).
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
        while rustix::event::poll(&mut [PollFd::new(&line, PollFlags::empty())], None)
            == Err(Errno::INTR)
        {}
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
