//! What a load that has ended leaves.

use floodwall_stats::recorder::Delta;

use crate::error::LoadError;

/// The work of a load from the last sample to its end, and the totals known only at the end.
#[derive(Clone, Debug, Default)]
pub struct Finished {
    /// Since the last sample. When the load was asked to stop right after that, these are the
    /// operations that were in flight then. The latencies include an open loop's unserved
    /// operations, with their waiting time so far. It is a lower bound, without which a stall at
    /// the end would be hidden. They are not in `ops`.
    pub last: Delta,
    /// Operations completed from start to end.
    pub total_ops: u64,
    /// Open loop: operations that fell due before the end and never got a turn.
    pub unserved_ops: u64,
    /// CPU time of the threads from start to end, user and kernel, in microseconds; `None` for a
    /// command. The time of the kernel's own io_uring threads is not in it.
    pub cpu_us: Option<u64>,
    /// How often a command ran to its end and was started again; `None` for anything else.
    pub command_runs: Option<u64>,
    /// Why the load ended before it was asked to.
    pub failure: Option<LoadError>,
}
