//! The kernel generations that the simulator knows, and what each of them had.

use std::fmt;

/// A generation of the write path. Kernels between two of them behave like the earlier one, except where a module says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Generation {
    /// Writers write out dirty pages themselves, `pdflush` beside them, limits are ratios of all RAM.
    K2_6_18,
    /// One flusher a device, limits shared by completions, writers still do I/O.
    K2_6_32,
    /// IO-less throttling: writers only sleep (3.2 to 4.9).
    K3_2,
    /// blk-mq, wbt, per-device limits, strict limits, cgroup domains.
    K6,
}

impl fmt::Display for Generation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::K2_6_18 => "2.6.18",
            Self::K2_6_32 => "2.6.32",
            Self::K3_2 => "3.2",
            Self::K6 => "6.18",
        })
    }
}
