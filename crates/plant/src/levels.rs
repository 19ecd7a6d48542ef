//! How much is dirty: of the machine (/proc/vmstat) and of each unit (debugfs).
//!
//! A backing device's figures cost some 20 µs, so that of a thousand only those are read that something happened to, and [`IN_TURN`] of the others.

use floodwall_host::{SysRoot, bdi};

/// Units that nothing happened to and that are read all the same, per look: a thousand come round in half a minute.
const IN_TURN: usize = 8;

/// The machine's figures, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Machine {
    pub(crate) dirty: Option<u64>,
    pub(crate) writeback: Option<u64>,
    pub(crate) hard_limit: Option<u64>,
    pub(crate) background_limit: Option<u64>,
}

impl Machine {
    pub(crate) fn read(root: &SysRoot, buffer: &mut Vec<u8>) -> Self {
        let mut levels = Self::default();
        if root.read_into("/proc/vmstat", buffer).is_err() {
            return levels;
        }
        let text = std::str::from_utf8(buffer).unwrap_or_default();
        for line in text.lines() {
            let Some((name, pages)) = line.split_once(' ') else { continue };
            let place = match name {
                "nr_dirty" => &mut levels.dirty,
                "nr_writeback" => &mut levels.writeback,
                "nr_dirty_threshold" => &mut levels.hard_limit,
                "nr_dirty_background_threshold" => &mut levels.background_limit,
                _ => continue,
            };
            *place = pages.trim().parse::<u64>().ok().map(|pages| pages.saturating_mul(root.page_bytes()));
        }
        levels
    }
}

/// A unit's figures, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) dirty: u64,
    pub(crate) writeback: u64,
    /// Written back since the device appeared.
    pub(crate) written: u64,
}

impl Level {
    /// The sum over backing devices; `None` if any can't be read.
    pub(crate) fn read(root: &SysRoot, names: impl Iterator<Item = impl AsRef<str>>) -> Option<Self> {
        let mut sum = Self::default();
        for name in names {
            let stats = bdi::read_stats(root, name.as_ref());
            sum.dirty += stats.dirty_bytes.into_value()?;
            sum.writeback += stats.writeback_bytes.into_value()?;
            sum.written += stats.written_bytes.into_value().unwrap_or(0);
        }
        Some(sum)
    }

    pub(crate) fn is_clean(&self) -> bool {
        self.dirty == 0 && self.writeback == 0
    }
}

/// Which of the quiet units are read this time.
#[derive(Debug, Default)]
pub(crate) struct Turn(usize);

impl Turn {
    pub(crate) fn next(&mut self, units: usize) -> impl Fn(usize) -> bool + use<> {
        let first = self.0;
        self.0 = if units == 0 { 0 } else { (first + IN_TURN) % units };
        move |index| (index + units - first % units.max(1)) % units.max(1) < IN_TURN
    }
}
