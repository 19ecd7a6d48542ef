//! What the counters of one backing device tell.

use floodwall_model::Reading;
use floodwall_model::status::{Drain, Machine};

use super::observation::Window;
use crate::bdi::BdiStats;
use crate::drain::drain;
use crate::layout::Row;

/// What the counters of a row tell.
pub(super) struct Counted {
    pub(super) stats: BdiStats,
    /// Whether dirty and writeback are the machine's.
    pub(super) is_sole: bool,
    /// Bytes a second.
    pub(super) written: Reading<f64>,
    pub(super) drain: Drain,
}

pub(super) fn counted(row: &Row, window: &Window<'_>, machine: &Machine) -> Counted {
    let (stats, is_sole) = window.after.stats_or_sole(row);
    let written = window.written_bytes_per_s(row);
    let earlier = window.before.stats_or_sole(row).0;
    let drain = drain(&earlier, &stats, written.value().copied(), window.seconds, machine);
    Counted { stats, is_sole, written, drain }
}
