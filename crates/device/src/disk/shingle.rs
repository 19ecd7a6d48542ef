//! Drive-managed shingled recording: a media cache at the outer edge and bands that can only be
//! rewritten whole.
//!
//! The model follows Aghayev and Desnoyers, "Skylight: a window on shingled disk operation" (FAST
//! 2015), who measured Seagate's first 5 and 8 TB drives. They found bands of 15 to 40 MiB, and a
//! persistent cache of about 25 GB at the outer diameter. The cache is written as a log with a
//! bounded map. Cleaning moves band by band after 1.1 s without a command, or at once when log or
//! map is full.
//!
//! - A write at a band's first byte goes home directly. So does one that goes on where that ended.
//! - Any other write is appended to the log (one map entry each). A full log or map
//!   makes the write wait: the band with most in it is cleaned first.
//! - Cleaning a band costs `2 × (positioning + band / rate)`.
//!
//! Reads of data still in the log are priced as if it were at home (an approximation: the log is at
//! the outer edge).

use std::collections::BTreeMap;

use crate::time::Nanos;

/// What a shingled drive adds to a disk.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ShingleParams {
    /// Bytes of a band.
    pub band: u64,
    /// Bytes of the media cache.
    pub media_cache: u64,
    /// Entries of the map of the media cache.
    pub map_entries: u64,
    /// Time without commands after which cleaning begins.
    pub idle: Nanos,
}

/// Where a write goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    Home,
    /// This offset in the log.
    MediaCache(u64),
    /// No room: this band must be cleaned before.
    CleanFirst(u64),
}

#[derive(Default)]
struct Held {
    bytes: u64,
    entries: u64,
}

/// Media cache and bands.
pub(super) struct Shingle {
    p: ShingleParams,
    /// Bands with something in the media cache.
    held: BTreeMap<u64, Held>,
    bytes: u64,
    entries: u64,
    log: u64,
    /// Band being written in sequence and its next byte.
    stream: Option<u64>,
    last_command: Nanos,
}

impl Shingle {
    pub(super) fn new(p: ShingleParams) -> Self {
        Self {
            p,
            held: BTreeMap::new(),
            bytes: 0,
            entries: 0,
            log: 0,
            stream: None,
            last_command: Nanos::ZERO,
        }
    }

    pub(super) fn route(&mut self, offset: u64, len: u64) -> Route {
        let streams = self.stream == Some(offset) || offset.is_multiple_of(self.p.band);
        if streams {
            self.stream = Some(offset + len);
            return Route::Home;
        }
        if self.bytes + len > self.p.media_cache || self.entries >= self.p.map_entries {
            let fullest =
                self.held.iter().max_by_key(|(_, h)| (h.entries, h.bytes)).map(|(b, _)| *b);
            if let Some(band) = fullest {
                return Route::CleanFirst(band);
            }
        }
        Route::MediaCache(self.append(offset, len))
    }

    /// Puts a write into the log; returns where.
    pub(super) fn append(&mut self, offset: u64, len: u64) -> u64 {
        let held = self.held.entry(offset / self.p.band).or_default();
        held.bytes += len;
        held.entries += 1;
        self.bytes += len;
        self.entries += 1;
        let at = self.log;
        self.log = if self.log + len >= self.p.media_cache { 0 } else { self.log + len };
        at
    }

    /// A band's data goes home; returns the band's first byte and length.
    pub(super) fn clean(&mut self, band: u64) -> (u64, u64) {
        if let Some(held) = self.held.remove(&band) {
            self.bytes -= held.bytes;
            self.entries -= held.entries;
        }
        (band * self.p.band, self.p.band)
    }

    /// When cleaning would begin if no command came.
    pub(super) fn cleans_at(&self) -> Option<Nanos> {
        (!self.held.is_empty()).then_some(self.last_command + self.p.idle)
    }

    /// The band to clean at `now`, if the drive has been idle for long enough.
    pub(super) fn idle_band(&self, now: Nanos) -> Option<u64> {
        self.cleans_at().filter(|at| *at <= now)?;
        self.held.first_key_value().map(|(b, _)| *b)
    }

    /// A command was served: the drive is not idle.
    pub(super) fn touched(&mut self, now: Nanos) {
        self.last_command = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BAND: u64 = 30 << 20;

    fn drive(entries: u64) -> Shingle {
        Shingle::new(ShingleParams {
            band: BAND,
            media_cache: 1 << 30,
            map_entries: entries,
            idle: Nanos::from_millis(1_100),
        })
    }

    #[test]
    fn a_stream_from_the_start_of_a_band_goes_home() {
        let mut s = drive(100);
        assert_eq!(s.route(BAND, 1 << 20), Route::Home);
        assert_eq!(s.route(BAND + (1 << 20), 1 << 20), Route::Home);
        assert_eq!(s.route(BAND + (9 << 20), 4096), Route::MediaCache(0));
    }

    #[test]
    fn a_full_map_makes_a_write_wait_for_the_fullest_band() {
        let mut s = drive(3);
        for offset in [BAND + 4096, 3 * BAND + 4096, 3 * BAND + 12_288] {
            assert!(matches!(s.route(offset, 4096), Route::MediaCache(_)));
        }
        assert_eq!(s.route(5 * BAND + 4096, 4096), Route::CleanFirst(3));
        assert_eq!(s.clean(3), (3 * BAND, BAND));
        assert!(matches!(s.route(5 * BAND + 4096, 4096), Route::MediaCache(_)));
    }

    #[test]
    fn cleaning_waits_for_idleness() {
        let mut s = drive(3);
        s.route(4096, 4096);
        s.touched(Nanos::from_secs(1));
        assert_eq!(s.idle_band(Nanos::from_millis(2_000)), None);
        assert_eq!(s.cleans_at(), Some(Nanos::from_millis(2_100)));
        assert_eq!(s.idle_band(Nanos::from_millis(2_100)), Some(0));
    }
}
