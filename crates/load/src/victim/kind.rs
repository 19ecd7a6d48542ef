//! What follows from a victim's kind.

use floodwall_model::scenario::{Access, SyncMethod, VictimKind};
use floodwall_stats::recorder::Op;

/// What the page cache does for its reads, if it reads.
pub(super) fn access(kind: &VictimKind) -> Option<Access> {
    match kind {
        VictimKind::Read { access }
        | VictimKind::Scan { access }
        | VictimKind::Mixed { access, .. } => Some(*access),
        VictimKind::Commit { .. }
        | VictimKind::Wal { .. }
        | VictimKind::Journal { .. }
        | VictimKind::Command { .. } => None,
    }
}

/// How the victim makes its writes stable, if it writes.
pub(super) fn sync_method(kind: &VictimKind) -> Option<SyncMethod> {
    match kind {
        VictimKind::Commit { sync, .. }
        | VictimKind::Wal { sync, .. }
        | VictimKind::Journal { sync }
        | VictimKind::Mixed { sync, .. } => Some(*sync),
        VictimKind::Read { .. } | VictimKind::Scan { .. } | VictimKind::Command { .. } => None,
    }
}

/// Share of reads among its operations, in percent.
pub(super) fn read_percent(kind: &VictimKind) -> u32 {
    match kind {
        VictimKind::Read { .. } | VictimKind::Scan { .. } => 100,
        VictimKind::Mixed { read_percent, .. } => *read_percent,
        VictimKind::Commit { .. }
        | VictimKind::Wal { .. }
        | VictimKind::Journal { .. }
        | VictimKind::Command { .. } => 0,
    }
}

/// The histograms that it needs.
pub(super) fn kinds_of(kind: &VictimKind) -> &'static [Op] {
    match kind {
        VictimKind::Read { .. } | VictimKind::Scan { .. } => &[Op::Read],
        VictimKind::Mixed { .. } => &Op::ALL,
        _ if sync_method(kind).is_some_and(SyncMethod::is_open_flag) => &[Op::Commit, Op::Write],
        _ => &[Op::Commit, Op::Write, Op::Sync],
    }
}
