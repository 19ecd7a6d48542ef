//! The system calls that rustix lacks.
#![expect(
    unsafe_code,
    reason = "rustix has no ioprio_set(2), no cachestat(2) and no sigaction(2); pre_exec is unsafe"
)]

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::SigId;

/// `IOPRIO_WHO_PROCESS`: the number is a thread's, 0 the caller's (include/uapi/linux/ioprio.h).
const ONE_THREAD: libc::c_int = 1;
/// `IOPRIO_PRIO_VALUE(IOPRIO_CLASS_IDLE, 0)`.
const IDLE: libc::c_int = 3 << 13;
/// The number of cachestat(2), the same on all architectures that have it (Linux 6.5).
const SYS_CACHESTAT: libc::c_long = 451;

/// Gives the calling thread the idle I/O priority; elevators without priorities ignore it.
pub(super) fn be_idle() {
    // SAFETY: the call takes no pointer.
    unsafe { libc::syscall(libc::SYS_ioprio_set, ONE_THREAD, 0 as libc::c_int, IDLE) };
}

/// Moves the child into a control group before exec, by the group's `cgroup.procs`. A child that
/// can't go there runs in the group of this process.
pub(super) fn enter(command: &mut Command, group: Arc<OwnedFd>) {
    let go = move || {
        let _ = rustix::io::write(&*group, b"0");
        Ok(())
    };
    // SAFETY: the closure makes one system call, and allocates nothing and takes no lock.
    unsafe { command.pre_exec(go) };
}

/// Bytes of a file's range that are dirty and not yet under writeback (cachestat(2)); `None` if the
/// kernel does not tell. `page` is the size of a page.
pub(super) fn dirty_bytes(file: BorrowedFd<'_>, offset: u64, len: u64, page: u64) -> Option<u64> {
    let range = [offset, len];
    // Pages in the cache, dirty, under writeback, evicted, recently evicted.
    let mut counts = [0_u64; 5];
    // SAFETY: the call reads two and writes five numbers of 64 bits, which both live until it
    // returns.
    let result = unsafe {
        libc::syscall(
            SYS_CACHESTAT,
            file.as_raw_fd(),
            range.as_ptr(),
            counts.as_mut_ptr(),
            0 as libc::c_uint,
        )
    };
    (result == 0).then(|| counts[1] * page)
}

/// Whether this process ignores a signal (`SIG_IGN`, sigaction(2)).
#[must_use]
pub fn ignores(signal: libc::c_int) -> bool {
    let mut action = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: without a new action the call only writes the old one, and zeros are a valid value of
    // it.
    let action = unsafe {
        libc::sigaction(signal, ptr::null(), action.as_mut_ptr());
        action.assume_init()
    };
    action.sa_sigaction == libc::SIG_IGN
}

/// Whether a signal came.
#[derive(Debug, Default)]
pub(super) struct Flag {
    pub(super) came: AtomicBool,
    /// Whether a process sent it, and not the kernel (for a terminal).
    pub(super) from_process: AtomicBool,
}

/// Raises a flag whenever a signal comes.
pub(super) fn raise_on(signal: libc::c_int, flag: &Arc<Flag>) -> io::Result<SigId> {
    let flag = Arc::clone(flag);
    let action = move |info: &libc::siginfo_t| {
        // `SI_FROMUSER` (include/uapi/asm-generic/siginfo.h)
        if info.si_code <= 0 {
            flag.from_process.store(true, Ordering::Relaxed);
        }
        flag.came.store(true, Ordering::Release);
    };
    // SAFETY: the action only stores to atomics, as a signal handler may.
    unsafe { signal_hook_registry::register_sigaction(signal, action) }
}

/// Does what a signal does to a process without a handler.
pub(super) fn default_effect(signal: libc::c_int) {
    // Zeros are `SIG_DFL`, no flags and an empty mask.
    let default = MaybeUninit::<libc::sigaction>::zeroed();
    let mut before = MaybeUninit::<libc::sigaction>::zeroed();
    // SAFETY: the first call reads one action and writes the other, which is valid even if the call
    // fails. The last call restores that action. Both live until the calls return.
    unsafe {
        if libc::sigaction(signal, default.as_ptr(), before.as_mut_ptr()) == 0 {
            libc::raise(signal);
            libc::sigaction(signal, before.as_ptr(), ptr::null_mut());
        }
    }
}
