//! The filter of system calls, a classic BPF program (seccomp(2)).
//!
//! ```text
//! another ABI (i386, x32)      ─▶ allowed, not seen
//! io_uring_setup               ─▶ ENOSYS: the writes of io_uring are not seen
//! write, pwrite64, … (CALLS)   ─▶ notified
//! any other                    ─▶ allowed
//! ```
//!
//! Not notified: mmap(2) and io_submit(2), since no call tells what they dirty, and fallocate(2)
//! and ftruncate(2), which dirty no pages of data on most filesystems.

use std::os::fd::OwnedFd;

use libc::{c_long, sock_filter};
use rustix::io::Errno;
use rustix::thread::set_no_new_privs;

use super::error::StrictError;
use super::kernel::{has_sizes, listen};

/// The calls that dirty pages of files.
pub(super) const CALLS: [c_long; 8] = [
    libc::SYS_write,
    libc::SYS_pwrite64,
    libc::SYS_writev,
    libc::SYS_pwritev,
    libc::SYS_pwritev2,
    libc::SYS_sendfile,
    libc::SYS_copy_file_range,
    libc::SYS_splice,
];
/// The calls that are answered with ENOSYS.
const REFUSED: [c_long; 1] = [libc::SYS_io_uring_setup];

/// `AUDIT_ARCH_X86_64` and `AUDIT_ARCH_AARCH64` (include/uapi/linux/audit.h).
const ARCHITECTURE: Option<u32> = if cfg!(all(target_arch = "x86_64", target_pointer_width = "64"))
{
    Some(0xC000_003E)
} else if cfg!(all(target_arch = "aarch64", target_endian = "little")) {
    Some(0xC000_00B7)
} else {
    None
};

/// Offsets in `struct seccomp_data`.
const NUMBER: u32 = 0;
const AUDIT: u32 = 4;

/// Puts the calling thread, and all that it starts, below the filter. Programs get no privileges
/// from then on, as the kernel demands it of a filter.
///
/// # Errors
/// [`StrictError`] if there is no such filter here.
pub(super) fn install() -> Result<OwnedFd, StrictError> {
    let architecture = ARCHITECTURE.ok_or(StrictError::Architecture)?;
    if !has_sizes().map_err(StrictError::of)? {
        return Err(StrictError::Missing);
    }
    set_no_new_privs(true).map_err(StrictError::of)?;
    let program = program(architecture);
    // A handler waits for a write to a file in any case. So a call that was received is not
    // interrupted by one: some programs don't expect EINTR from a file. Linux 5.19 has the flag.
    match listen(&program, libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) {
        Err(Errno::INVAL) => listen(&program, 0),
        installed => installed,
    }
    .map_err(StrictError::of)
}

fn program(architecture: u32) -> Vec<sock_filter> {
    let statement = |code: u32, k: u32| sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let load = |offset| statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, offset);
    let end = |action| statement(libc::BPF_RET | libc::BPF_K, action);
    let code = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let if_equal = |k: u32, jt: usize| sock_filter { jt: jt as u8, ..statement(code, k) };
    let mut program =
        vec![load(AUDIT), if_equal(architecture, 1), end(libc::SECCOMP_RET_ALLOW), load(NUMBER)];
    // Each jumps over the rest of the comparisons to one of three ends. The numbers of x32 have a
    // bit more, so none of them is equal.
    let comparisons = REFUSED.len() + CALLS.len();
    for (n, call) in REFUSED.iter().enumerate() {
        program.push(if_equal(*call as u32, comparisons - n + 1));
    }
    for (n, call) in CALLS.iter().enumerate() {
        program.push(if_equal(*call as u32, CALLS.len() - n));
    }
    program.push(end(libc::SECCOMP_RET_ALLOW));
    program.push(end(libc::SECCOMP_RET_USER_NOTIF));
    program.push(end(libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32));
    program
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: u32 = 0xC000_003E;

    /// What the kernel would do, by the three instructions that the filter has.
    fn verdict(architecture: u32, number: u32) -> u32 {
        let program = program(OURS);
        let (mut at, mut accumulator) = (0, 0);
        loop {
            let instruction = program[at];
            at += 1;
            match instruction.code {
                0x20 if instruction.k == 0 => accumulator = number,
                0x20 if instruction.k == 4 => accumulator = architecture,
                0x15 if accumulator == instruction.k => at += usize::from(instruction.jt),
                0x15 => at += usize::from(instruction.jf),
                0x06 => return instruction.k,
                _ => panic!("{instruction:?}"),
            }
        }
    }

    #[test]
    fn calls_that_write_are_notified_and_no_others() {
        for number in 0..1000_u32 {
            let call = c_long::from(number);
            let expected = if call == libc::SYS_io_uring_setup {
                libc::SECCOMP_RET_ERRNO | 38
            } else if CALLS.contains(&call) {
                libc::SECCOMP_RET_USER_NOTIF
            } else {
                libc::SECCOMP_RET_ALLOW
            };
            assert_eq!(verdict(OURS, number), expected, "{number}");
            assert_eq!(verdict(0x4000_0003, number), libc::SECCOMP_RET_ALLOW, "i386 {number}");
            let x32 = number | 0x4000_0000;
            assert_eq!(verdict(OURS, x32), libc::SECCOMP_RET_ALLOW, "x32 {number}");
        }
        let distinct: std::collections::BTreeSet<c_long> = CALLS.into_iter().collect();
        assert_eq!(distinct.len(), CALLS.len());
        assert!(program(OURS).len() <= 20);
    }
}
