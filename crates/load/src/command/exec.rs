//! What a command's process does between fork and exec.
#![expect(unsafe_code, reason = "code between fork and exec")]

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Arc;

use rustix::process::Signal;

use crate::dir::Dir;

/// Makes a command begin in an open directory, whatever has become of its path.
pub(super) fn enter(command: &mut Command, dir: Arc<Dir>) {
    // SAFETY: the closure makes one system call on an open descriptor, allocates nothing and takes
    // no lock.
    unsafe {
        command.pre_exec(move || rustix::process::fchdir(&*dir).map_err(std::io::Error::from));
    }
}

/// Makes a command begin in a control group, by its `cgroup.procs`.
pub(super) fn join(command: &mut Command, cgroup: Arc<File>) {
    // SAFETY: the closure makes one system call on an open descriptor, allocates nothing and takes
    // no lock.
    unsafe {
        // 0 is the process that writes (kernel/cgroup/cgroup.c cgroup_procs_write_start).
        command.pre_exec(move || {
            rustix::io::write(&*cgroup, b"0").map(drop).map_err(std::io::Error::from)
        });
    }
}

/// Makes a command begin in another session, and so in another group. It has no terminal:
/// another user's command must not type into the caller's (TIOCSTI).
pub(super) fn leave_session(command: &mut Command) {
    // SAFETY: the closure makes one system call, allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(|| rustix::process::setsid().map(drop).map_err(std::io::Error::from));
    }
}

/// The shell tells the guardian its group before it becomes the command, so that there is always a
/// process that would end it. It gets SIGKILL itself when the thread that started it ends; that
/// thread ends first only if floodwall dies.
pub(super) fn die_with_floodwall(command: &mut Command, guardian: OwnedFd) {
    let tell_and_tie = move || {
        // Ten digits and a line feed, written from the end: nothing may be allocated here.
        let mut line = [b'\n'; 11];
        let mut pid = rustix::process::getpid().as_raw_nonzero().get();
        let mut begin = line.len() - 1;
        while pid > 0 && begin > 0 {
            begin -= 1;
            line[begin] = b'0' + (pid % 10) as u8;
            pid /= 10;
        }
        // A guardian that is gone guards nothing; the load goes on.
        let _ = rustix::io::write(&guardian, &line[begin..]);
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
            .map_err(std::io::Error::from)
    };
    // SAFETY: the closure makes three system calls on its own stack and an open descriptor,
    // allocates nothing and takes no lock.
    unsafe {
        command.pre_exec(tell_and_tie);
    }
}
