//! The kernel's interface of seccomp notifications (seccomp_unotify(2)).
#![expect(
    unsafe_code,
    reason = "rustix has no seccomp(2), and its ioctl(2) leaves the types to us"
)]

use std::mem::size_of;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use libc::{c_ulong, seccomp_data, seccomp_notif, seccomp_notif_resp, seccomp_notif_sizes};
use rustix::io::Errno;
use rustix::ioctl::{IntegerSetter, Opcode, Setter, Updater, ioctl};

const RECEIVE: Opcode = libc::SECCOMP_IOCTL_NOTIF_RECV as Opcode;
const SEND: Opcode = libc::SECCOMP_IOCTL_NOTIF_SEND as Opcode;
const IS_VALID: Opcode = libc::SECCOMP_IOCTL_NOTIF_ID_VALID as Opcode;
const SET_FLAGS: Opcode = libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS as Opcode;
/// `SECCOMP_USER_NOTIF_FD_SYNC_WAKE_UP` (include/uapi/linux/seccomp.h, Linux 6.6).
const WAKE_ON_THIS_PROCESSOR: usize = 1;
/// Bytes for structures that later kernels may make longer.
const NOTIFICATION: usize = 128;
const ANSWER: usize = 64;

/// A notification, with room for fields that later kernels may add.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct Notification {
    pub(super) call: seccomp_notif,
    spare: [u8; NOTIFICATION - size_of::<seccomp_notif>()],
}

impl Notification {
    /// The kernel takes zeros only.
    pub(super) const NONE: Self = {
        let data = seccomp_data { nr: 0, arch: 0, instruction_pointer: 0, args: [0; 6] };
        let call = seccomp_notif { id: 0, pid: 0, flags: 0, data };
        Self { call, spare: [0; NOTIFICATION - size_of::<seccomp_notif>()] }
    };
}

#[repr(C)]
struct Answer {
    answer: seccomp_notif_resp,
    spare: [u8; ANSWER - size_of::<seccomp_notif_resp>()],
}

/// Whether the kernel's structures fit in ours.
///
/// # Errors
/// ENOSYS or EINVAL of a kernel without notifications.
pub(super) fn has_sizes() -> Result<bool, Errno> {
    let mut sizes =
        seccomp_notif_sizes { seccomp_notif: 0, seccomp_notif_resp: 0, seccomp_data: 0 };
    seccomp(libc::SECCOMP_GET_NOTIF_SIZES, 0, (&raw mut sizes).cast())?;
    Ok(usize::from(sizes.seccomp_notif) <= NOTIFICATION
        && usize::from(sizes.seccomp_notif_resp) <= ANSWER)
}

/// Puts the calling thread below a filter, and returns its listener.
///
/// # Errors
/// The kernel's answer to seccomp(2).
pub(super) fn listen(program: &[libc::sock_filter], flags: c_ulong) -> Result<OwnedFd, Errno> {
    let mut program = libc::sock_fprog {
        len: u16::try_from(program.len()).map_err(|_| Errno::INVAL)?,
        // The kernel only reads it.
        filter: program.as_ptr().cast_mut(),
    };
    let flags = flags | libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let fd = seccomp(libc::SECCOMP_SET_MODE_FILTER, flags, (&raw mut program).cast())?;
    // SAFETY: the kernel has just made this descriptor, so nobody else owns it.
    let listener = unsafe { OwnedFd::from_raw_fd(RawFd::try_from(fd).map_err(|_| Errno::BADF)?) };
    // SAFETY: the call takes a number. A kernel without it answers EINVAL, and is a little slower.
    let _ =
        unsafe { ioctl(&listener, IntegerSetter::<SET_FLAGS>::new_usize(WAKE_ON_THIS_PROCESSOR)) };
    Ok(listener)
}

fn seccomp(
    operation: libc::c_uint,
    flags: c_ulong,
    argument: *mut libc::c_void,
) -> Result<libc::c_long, Errno> {
    // SAFETY: the argument belongs to the operation, and lives until the call returns.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, operation, flags, argument) };
    if result >= 0 {
        return Ok(result);
    }
    Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL))
}

/// Receives the next call.
///
/// # Errors
/// ENOENT if its process has been killed meanwhile.
pub(super) fn receive(listener: BorrowedFd<'_>, into: &mut Notification) -> Result<(), Errno> {
    *into = Notification::NONE;
    // SAFETY: the kernel writes a notification, which is no longer than this by `has_sizes`.
    unsafe { ioctl(listener, Updater::<RECEIVE, Notification>::new(into)) }
}

/// Lets the kernel carry a call out.
///
/// # Errors
/// ENOENT if nobody waits for it any more.
pub(super) fn go_on(listener: BorrowedFd<'_>, id: u64) -> Result<(), Errno> {
    let answer = |error, flags| Answer {
        answer: seccomp_notif_resp { id, val: 0, error, flags },
        spare: [0; ANSWER - size_of::<seccomp_notif_resp>()],
    };
    match send(listener, answer(0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32)) {
        // Before Linux 5.5. `Strict::install` finds out by its first call.
        Err(Errno::INVAL) => send(listener, answer(-libc::ENOSYS, 0)),
        sent => sent,
    }
}

fn send(listener: BorrowedFd<'_>, mut answer: Answer) -> Result<(), Errno> {
    // SAFETY: the kernel reads an answer, which is no longer than this by `has_sizes`.
    unsafe { ioctl(listener, Updater::<SEND, Answer>::new(&mut answer)) }
}

/// Whether the process of a call still waits for its answer.
pub(super) fn waits(listener: &impl AsFd, id: u64) -> bool {
    // SAFETY: the kernel reads a number of 64 bits.
    unsafe { ioctl(listener, Setter::<IS_VALID, u64>::new(id)) }.is_ok()
}

/// Closes all descriptors but the standard ones, where the kernel can (Linux 5.9). For a process
/// that has just begun: it has opened none itself.
pub(super) fn close_inherited() {
    let (first, last, flags) = (3 as libc::c_uint, libc::c_uint::MAX, 0 as libc::c_uint);
    // SAFETY: the call takes no pointer, and by the condition above nobody owns the descriptors.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) };
}
