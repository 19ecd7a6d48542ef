//! What a call writes, and to which descriptor, by its registers.

use std::fs::File;
use std::os::unix::fs::FileExt;

use floodwall_host::open_files::{RegularFile, regular_file};
use libc::{c_long, seccomp_data};

/// Bytes of one call, at most (`MAX_RW_COUNT`, include/linux/fs.h).
const MOST: u64 = 0x7fff_f000;
/// Vectors of one call, at most (`UIO_MAXIOV`).
const MOST_VECTORS: u64 = 1024;
/// Bytes of a page.
const PAGE: u64 = 4096;
/// Bytes of a pipe, unless its owner has changed that (pipe(7)).
const PIPE: u64 = 64 << 10;

/// A call that writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Call {
    /// The descriptor that it writes to.
    pub(super) fd: i32,
    pub(super) size: Size,
}

/// How much a call writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Size {
    /// So many bytes.
    Bytes(u64),
    /// Those of vectors in the memory of the process.
    Vectors { address: u64, count: u64, offset: Option<u64> },
    /// As many as another descriptor has, and no more than this.
    Copy { most: u64, from: i32 },
}

impl Call {
    /// None for a call that the filter does not notify of.
    pub(super) fn of(data: &seccomp_data) -> Option<Self> {
        let [a, b, c, d, e, _] = data.args;
        // The kernel takes the lower half of a register as the descriptor.
        let fd = |register: u64| register as u32 as i32;
        let vectors = |offset| Size::Vectors { address: b, count: c.min(MOST_VECTORS), offset };
        let (fd, size) = match c_long::from(data.nr) {
            libc::SYS_write => (fd(a), Size::Bytes(c.min(MOST))),
            libc::SYS_pwrite64 => (fd(a), Size::Bytes(pages(d, c.min(MOST)))),
            libc::SYS_writev => (fd(a), vectors(None)),
            libc::SYS_pwritev => (fd(a), vectors(Some(d))),
            // At -1 it writes as writev(2) does.
            libc::SYS_pwritev2 => (fd(a), vectors(Some(d).filter(|offset| *offset != u64::MAX))),
            libc::SYS_sendfile => (fd(a), Size::Copy { most: d.min(MOST), from: fd(b) }),
            libc::SYS_copy_file_range => (fd(c), Size::Copy { most: e.min(MOST), from: fd(a) }),
            libc::SYS_splice => (fd(c), Size::Copy { most: e.min(MOST), from: fd(a) }),
            _ => return None,
        };
        Some(Self { fd, size })
    }
}

impl Size {
    /// The bytes that the call of a thread may dirty.
    pub(super) fn bytes(&self, thread: u32) -> u64 {
        match *self {
            Self::Bytes(bytes) => bytes,
            Self::Vectors { address, count, offset } => {
                let bytes = sum(&vectors(thread, address, count)).min(MOST);
                offset.map_or(bytes, |offset| pages(offset, bytes))
            }
            Self::Copy { most, from } => {
                most.min(regular(thread, from).map_or(PIPE, |file| file.size))
            }
        }
    }

    /// Whether a signal ends the call early. The kernel copies page by page then.
    pub(super) fn is_copy(&self) -> bool {
        matches!(self, Self::Copy { .. })
    }
}

/// Bytes of all pages of a range. A database writes single pages, and parts of them.
fn pages(offset: u64, bytes: u64) -> u64 {
    if bytes == 0 {
        return 0;
    }
    let end = offset.saturating_add(bytes).div_ceil(PAGE);
    end.saturating_sub(offset / PAGE).saturating_mul(PAGE)
}

/// The vectors of a call, as the memory of its thread has them; none if that can't be read. The
/// kernel then can't read them as well, or this process may not.
fn vectors(thread: u32, address: u64, count: u64) -> Vec<u8> {
    let mut bytes = vec![0; count as usize * size_of::<libc::iovec>()];
    let read = File::open(format!("/proc/{thread}/mem"))
        .and_then(|memory| memory.read_exact_at(&mut bytes, address));
    read.map_or_else(|_| Vec::new(), |()| bytes)
}

/// The sum of the lengths of vectors (`struct iovec`: address, length).
fn sum(vectors: &[u8]) -> u64 {
    let words = vectors.chunks_exact(8).filter_map(|word| word.try_into().ok());
    let lengths = words.map(u64::from_ne_bytes).skip(1).step_by(2);
    lengths.fold(0, u64::saturating_add)
}

/// The file of a descriptor of a thread; none if it is no regular file, or may not be looked at.
pub(super) fn regular(thread: u32, fd: i32) -> Option<RegularFile> {
    regular_file(format!("/proc/{thread}/fd/{fd}"))
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    fn of(number: c_long, args: [u64; 6]) -> Option<Call> {
        Call::of(&seccomp_data { nr: number as i32, arch: 0, instruction_pointer: 0, args })
    }

    #[test]
    fn each_notified_call_has_its_own_registers() {
        const HUGE: u64 = u64::MAX;
        let bytes = |fd, bytes| Some(Call { fd, size: Size::Bytes(bytes) });
        let copy = |fd, most, from| Some(Call { fd, size: Size::Copy { most, from } });
        let vectors = |fd, count, offset| {
            Some(Call { fd, size: Size::Vectors { address: 8, count, offset } })
        };
        assert_eq!(of(libc::SYS_write, [3, 8, 100, 0, 0, 0]), bytes(3, 100));
        assert_eq!(of(libc::SYS_write, [HUGE, 8, HUGE, 0, 0, 0]), bytes(-1, MOST));
        assert_eq!(of(libc::SYS_pwrite64, [3, 8, 2, PAGE - 1, 0, 0]), bytes(3, 2 * PAGE));
        assert_eq!(of(libc::SYS_writev, [3, 8, HUGE, 5, 0, 0]), vectors(3, 1024, None));
        assert_eq!(of(libc::SYS_pwritev, [3, 8, 2, 5, 0, 0]), vectors(3, 2, Some(5)));
        assert_eq!(of(libc::SYS_pwritev2, [3, 8, 2, 5, 0, 0]), vectors(3, 2, Some(5)));
        assert_eq!(of(libc::SYS_pwritev2, [3, 8, 2, HUGE, 0, 0]), vectors(3, 2, None));
        assert_eq!(of(libc::SYS_sendfile, [3, 4, 0, HUGE, 0, 0]), copy(3, MOST, 4));
        assert_eq!(of(libc::SYS_copy_file_range, [4, 0, 3, 0, 9, 0]), copy(3, 9, 4));
        assert_eq!(of(libc::SYS_splice, [4, 0, 3, 0, 9, 0]), copy(3, 9, 4));
        assert_eq!(of(libc::SYS_read, [4, 0, 3, 0, 9, 0]), None);
        for call in super::super::filter::CALLS {
            assert!(of(call, [0; 6]).is_some(), "{call}");
        }
    }

    #[test]
    fn bytes_of_vectors_and_of_copies_are_those_of_memory_and_files() {
        let own = std::process::id();
        let (a, b) = ([1_u8; 700], [2_u8; 5]);
        let io = [std::io::IoSlice::new(&a), std::io::IoSlice::new(&b)];
        let address = io.as_ptr().addr() as u64;
        let size = |address, offset| Size::Vectors { address, count: 2, offset };
        assert_eq!(size(address, None).bytes(own), 705);
        assert_eq!(size(address, Some(PAGE - 700)).bytes(own), 2 * PAGE);
        assert_eq!(size(8, None).bytes(own), 0, "no such memory");
        let file = tempfile::tempfile().unwrap();
        file.set_len(300).unwrap();
        let from = file.as_raw_fd();
        assert_eq!(Size::Copy { most: 1000, from }.bytes(own), 300);
        assert_eq!(Size::Copy { most: 20, from }.bytes(own), 20);
        assert_eq!(Size::Copy { most: MOST, from: -1 }.bytes(own), PIPE);
    }

    #[test]
    fn a_range_dirties_whole_pages() {
        assert_eq!((pages(0, 0), pages(5, 1), pages(PAGE, PAGE)), (0, PAGE, PAGE));
        assert_eq!(pages(PAGE - 1, PAGE + 2), 3 * PAGE);
        assert!(pages(u64::MAX - 1, MOST) < 2 * PAGE);
        assert_eq!(pages(i64::MAX as u64, 0x1000) % PAGE, 0);
    }
}
