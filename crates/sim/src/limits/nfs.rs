//! The NFS client's own limit on pages under writeback, beside the dirty limits (fs/nfs/write.c).
//!
//! Pages count from the WRITE until the server has answered it. Above the limit the client stops
//! sending until a quarter of it has been answered.

use super::PAGE_SIZE;

/// Largest default, in KiB (`nfs_init_writepagecache`).
const MAX_DEFAULT_KIB: u64 = 256 * 1024;

/// What `fs.nfs.nfs_congestion_kb` is by default on a machine of so many pages of RAM: 16 × √pages,
/// in KiB, at most 256 MiB.
#[must_use]
pub const fn default_congestion_kib(ram_pages: u64) -> u64 {
    let kib = 16 * ram_pages.isqrt() * (PAGE_SIZE / 1024);
    if kib > MAX_DEFAULT_KIB { MAX_DEFAULT_KIB } else { kib }
}

/// Whether a client may send, as its pages under writeback come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Congestion {
    on_above: u64,
    off_below: u64,
    congested: bool,
}

impl Congestion {
    /// With the limit in KiB, as the sysctl has it.
    #[must_use]
    pub const fn new(congestion_kib: u64) -> Self {
        let on_above = congestion_kib / (PAGE_SIZE / 1024);
        Self { on_above, off_below: on_above - on_above / 4, congested: false }
    }

    /// Pages have gone under writeback, and there are so many now (`nfs_set_page_writeback`).
    pub const fn sent(&mut self, in_writeback: u64) {
        if in_writeback > self.on_above {
            self.congested = true;
        }
    }

    /// Pages have left writeback, and there are so many now (`nfs_end_page_writeback`). Returns
    /// whether the waiting processes go on.
    pub const fn answered(&mut self, in_writeback: u64) -> bool {
        let over = self.congested && in_writeback < self.off_below;
        if over {
            self.congested = false;
        }
        over
    }

    /// Whether a flusher has to wait before it sends more (`nfs_writepages` for `WB_SYNC_NONE`);
    /// fsync does not.
    #[must_use]
    pub const fn congested(&self) -> bool {
        self.congested
    }

    /// How many pages more may go under writeback before it is congested.
    #[must_use]
    pub const fn room(&self, in_writeback: u64) -> u64 {
        if self.congested { 0 } else { (self.on_above + 1).saturating_sub(in_writeback) }
    }
}

/// The client's state beside the page cache.
#[derive(Debug)]
pub(crate) struct NfsClient {
    pub(crate) congestion: Congestion,
    /// Pages of WRITEs that are not answered.
    pub(crate) on_their_way: u64,
}

impl NfsClient {
    pub(crate) fn new(ram_pages: u64) -> Self {
        Self { congestion: Congestion::new(default_congestion_kib(ram_pages)), on_their_way: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_grows_with_the_root_of_memory() {
        // As the comment in fs/nfs/write.c has it: 64 MB of RAM give 8192 kB, 1 GB 32768 kB, 16 GB
        // 131072 kB; and 256 MB at most.
        for (mib, kib) in [
            (64, 8_192),
            (128, 11_584),
            (256, 16_384),
            (512, 23_168),
            (1_024, 32_768),
            (16_384, 131_072),
        ] {
            assert_eq!(default_congestion_kib(mib * 256), kib, "{mib} MiB");
        }
        assert_eq!(default_congestion_kib(1 << 30), 262_144);
    }

    #[test]
    fn congestion_ends_a_quarter_below_where_it_begins() {
        let mut client = Congestion::new(400); // 100 pages; off below 75
        client.sent(100);
        assert!(!client.congested());
        assert_eq!(client.room(100), 1);
        client.sent(101);
        assert!(client.congested());
        assert_eq!(client.room(101), 0);
        assert!(!client.answered(75));
        assert!(client.answered(74));
        assert!(!client.congested());
        assert!(!client.answered(73), "nobody waits any more");
    }
}
