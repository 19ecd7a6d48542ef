//! What the CPU's part costs: constants, because it only matters against fast devices. Every
//! process has a CPU to itself.

use floodwall_device::Nanos;

/// One system call of a buffered write: entry, file lock, times, exit. About a microsecond on the
/// machines of 2007 to 2025.
pub(crate) const SYSCALL: Nanos = Nanos(1_000);

/// One page into the page cache. A copy runs at 4 GB/s (memory copies run at 2 to 5 GB/s a core);
/// allocation, insertion and accounting take 0.7 µs. Together 2.4 GB/s in large blocks; the lab's
/// machine took bursts at 2.1 to 2.6 GB/s.
pub(crate) const PAGE: Nanos = Nanos(1_700);

/// One page copied out of the page cache.
pub(crate) const PAGE_READ: Nanos = Nanos(1_000);

/// To sleep and be woken again: scheduler, interrupt, wake-up.
pub(crate) const WAKE: Nanos = Nanos(4_000);

/// To build and submit one bio, and half a microsecond's share of what each of its pages costs in
/// chunks of sixteen.
pub(crate) const BIO: Nanos = Nanos(1_000);

/// One page on its way from dirty to under writeback (`clear_page_dirty_for_io`, tags, accounting).
pub(crate) const WRITEBACK_PAGE: Nanos = Nanos(100);

/// Creating and closing a small file, in memory: some ten microseconds on any journalling
/// filesystem.
pub(crate) const CREATE: Nanos = Nanos(10_000);

/// `pages` pages at this cost each.
pub(crate) const fn pages(each: Nanos, pages: u64) -> Nanos {
    Nanos(each.0 * pages)
}
