//! How low the dirty limits can be before a userspace server and the machine wait for each other.
//!
//! ```text
//! clients' pages under writeback ─▶ server ─▶ write() to a file ─▶ balance_dirty_pages:
//!            │                                            waits while dirty ≥ hard limit
//!            └──────────── end when the server answers ◀──────────────┘
//! ```
//!
//! Such a server goes on in two cases. Either the total falls below the hard limit, or the pages of
//! its target device fall below the error of that device's counters (since Linux 3.3). See
//! `balance_dirty_pages` and `wb_stat_error` in mm/page-writeback.c. The flusher brings the latter
//! about as long as more than the background limit is dirty and not yet under writeback
//! (`wb_over_bg_thresh`). It rests at the background limit. So the server is stuck if the pages
//! that wait for it, which count as under writeback, are at least *hard − background*. Three things
//! can wait for it:
//!
//! - The served queue: `nr_requests` × `max_sectors_kb` for each hardware queue.
//! - Pages that the flusher has marked and the queue has not taken yet. They are at most a chunk
//!   (fs/fs-writeback.c `writeback_chunk_size`). It is an eighth of the hard limit and
//!   [`CHUNK_BYTES`].
//! - A FUSE filesystem's share of the hard limit: 1 %, and strict (fs/fuse/inode.c
//!   `fuse_bdi_init`).

use floodwall_model::Reading;
use floodwall_model::printable::printable;
use floodwall_model::status::{Served, Server};

/// fs/fs-writeback.c `MIN_WRITEBACK_PAGES`: 4 MiB whatever the page size.
const CHUNK_BYTES: u64 = 4 << 20;
/// fs/fs-writeback.c `writeback_chunk_size`: a chunk is at most the hard limit / `DIRTY_SCOPE`.
const DIRTY_SCOPE: f64 = 8.0;
/// The background limit's share of the hard one in the advice.
const BACKGROUND: f64 = 0.25;
const MIB: f64 = (1 << 20) as f64;
/// A FUSE filesystem's default share of the hard limit (fs/fuse/inode.c).
const FUSE_SHARE: f64 = 0.01;

/// The limits of a FUSE filesystem's backing device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FuseLimits {
    /// Whether its limit is strict.
    pub strict: bool,
    /// Its share of the hard limit, 0 to 1.
    pub share: f64,
}

/// A FUSE filesystem's limits now. Kernels before 6.2 do not show that they are strict, and offer
/// no way to change it.
#[must_use]
pub fn fuse_limits(served: &Served) -> FuseLimits {
    FuseLimits {
        strict: served.strict_limit != Reading::Value(false),
        share: served.max_ratio_percent.value().map_or(FUSE_SHARE, |percent| percent / 100.0),
    }
}

/// The data that can wait for servers that a dirty limit may stop.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Exposure {
    /// What the served queues hold, in bytes.
    pub queue_bytes: u64,
    /// The served filesystems' share of the hard limit, 0 to 1.
    pub share: f64,
    /// The part without a bound, and why.
    pub boundless: Option<String>,
}

impl Exposure {
    /// The exposure of all servers that may hang; `None` without such a server. `limits` are those
    /// of a FUSE filesystem.
    pub fn of(servers: &[Server], limits: impl Fn(&Served) -> FuseLimits) -> Option<Self> {
        let mut serves: Vec<&Served> = Vec::new();
        for served in
            servers.iter().filter(|server| server.may_hang()).flat_map(|server| &server.serves)
        {
            // Several processes may serve one device.
            if serves.iter().all(|other| other.name != served.name) {
                serves.push(served);
            }
        }
        let mut exposure = (!serves.is_empty()).then(Self::default)?;
        for served in serves {
            match &served.queue_bytes {
                Reading::Value(bytes) => {
                    exposure.queue_bytes = exposure.queue_bytes.saturating_add(*bytes)
                }
                Reading::Unreadable(why) => exposure.boundless = Some(why.clone()),
                Reading::Absent(_) => {
                    let limits = limits(served);
                    exposure.share += limits.share;
                    if !limits.strict {
                        let name = printable(&served.name);
                        exposure.boundless = Some(format!("{name} has no strict limit"));
                    }
                }
            }
        }
        Some(exposure)
    }

    /// How much can wait under a hard limit, in bytes; infinite if nothing bounds it.
    #[must_use]
    pub fn waiting_bytes(&self, hard: u64) -> f64 {
        if self.boundless.is_some() {
            return f64::INFINITY;
        }
        let chunk =
            if self.queue_bytes > 0 { hard as f64 / DIRTY_SCOPE + CHUNK_BYTES as f64 } else { 0.0 };
        self.queue_bytes as f64 + chunk + self.share * hard as f64
    }

    /// Whether a server can hang under these limits, in bytes.
    #[must_use]
    pub fn can_hang(&self, hard: u64, background: u64) -> bool {
        gap(hard, background) as f64 <= self.waiting_bytes(hard)
    }

    /// The least hard limit, in whole MiB, under which no server can hang if the background limit
    /// is a quarter of it; `None` if no limit suffices.
    #[must_use]
    pub fn least_hard_bytes(&self) -> Option<u64> {
        let rest = 1.0
            - BACKGROUND
            - self.share
            - if self.queue_bytes > 0 { 1.0 / DIRTY_SCOPE } else { 0.0 };
        if self.boundless.is_some() || rest <= 0.0 {
            return None;
        }
        let bytes = (self.queue_bytes + CHUNK_BYTES) as f64 / rest;
        Some(((bytes / MIB).floor() as u64 + 1) << 20)
    }
}

/// What lies between the limits, as the kernel has them: a background limit that is not below the
/// hard one becomes half of it (mm/page-writeback.c `domain_dirty_limits`).
#[must_use]
pub fn gap(hard: u64, background: u64) -> u64 {
    if background >= hard { hard - hard / 2 } else { hard - background }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(bytes: u64) -> Exposure {
        Exposure { queue_bytes: bytes, ..Exposure::default() }
    }

    #[test]
    fn the_limits_that_hung_and_those_that_did_not() {
        // Seen on 6.18: a loop device of 128 requests of 1280 KiB on a FUSE file, its server
        // without the flag.
        let seen = queue(160 << 20);
        for (hard, background, hung) in [
            (15_000_000, 7_500_000, true),
            (64 << 20, 32 << 20, true),
            (512 << 20, 128 << 20, false),
        ] {
            assert_eq!(seen.can_hang(hard, background), hung, "{hard}");
        }
        // 174 MiB were waiting for it under a hard limit of 400 MiB.
        assert!(seen.waiting_bytes(400 << 20) > f64::from(174 << 20));
    }

    #[test]
    fn the_least_limit_is_the_first_that_can_not_hang() {
        for exposure in [queue(160 << 20), queue(1), Exposure { share: 0.02, ..queue(1 << 30) }] {
            let least = exposure.least_hard_bytes().unwrap();
            assert!(!exposure.can_hang(least, least / 4));
            assert!(exposure.can_hang(least - (2 << 20), (least - (2 << 20)) / 4), "{exposure:?}");
        }
        assert_eq!(queue(160 << 20).least_hard_bytes(), Some(263 << 20));
    }

    #[test]
    fn a_background_limit_that_the_kernel_halves_counts_half() {
        assert_eq!((gap(100, 100), gap(100, 200), gap(100, 10)), (50, 50, 90));
    }

    #[test]
    fn a_strict_filesystem_can_not_hold_what_is_between_the_limits() {
        let strict = Exposure { share: 0.01, ..Exposure::default() };
        assert!(!strict.can_hang(8 << 20, 4 << 20));
        assert!(strict.can_hang(1000, 995));
        let boundless = Exposure { boundless: Some("x".into()), ..strict };
        assert!(boundless.can_hang(1 << 40, 0) && boundless.least_hard_bytes().is_none());
    }
}
