//! Why the system calls of a command can't be intercepted.

use std::io;

use rustix::io::Errno;

/// The reason why the system calls of a command can't be intercepted.
#[derive(Debug, thiserror::Error)]
pub enum StrictError {
    /// The kernel is too old, or built without it.
    #[error(
        "the kernel has no seccomp notification that lets calls go on (Linux 5.5, \
         CONFIG_SECCOMP_FILTER)"
    )]
    Missing,
    /// There is no filter for this architecture.
    #[error("there is no filter of system calls for this architecture, only x86_64 and aarch64")]
    Architecture,
    /// A filter above forbids it.
    #[error("seccomp is forbidden here, as in some containers")]
    Forbidden,
    /// A listener above has them.
    #[error("another program intercepts the system calls here, and the kernel allows one only")]
    Busy,
    /// The process that continues the calls if this one dies can't be started.
    #[error("can't start the process that lets calls go on if pace dies: {0}")]
    Keeper(io::Error),
    /// Another answer of the kernel.
    #[error("can't intercept system calls: {0}")]
    Kernel(Errno),
}

impl StrictError {
    /// For the kernel's answer to seccomp(2).
    pub(super) fn of(errno: Errno) -> Self {
        match errno {
            Errno::NOSYS | Errno::INVAL => Self::Missing,
            Errno::PERM | Errno::ACCESS => Self::Forbidden,
            Errno::BUSY => Self::Busy,
            errno => Self::Kernel(errno),
        }
    }
}
