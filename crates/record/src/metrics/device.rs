//! One device's figures: of the newest frame, and sums over all of them.

use std::collections::BTreeMap;

use floodwall_model::frame::{Disk, Process};
use floodwall_model::stall::Stall;

use super::counts::{Counts, Use};
use super::label;
use super::places::Places;

/// Sums never fall. They stop at their type's end.
#[derive(Clone, Debug, Default)]
pub(super) struct Device {
    /// Absent if it is not in the newest frame.
    pub(super) disk: Option<Disk>,
    /// Processes of the newest frame.
    pub(super) victims: u64,
    pub(super) floods: u64,
    /// The guard's state for it; absent without a guard.
    pub(super) guard: Option<String>,
    /// `None` until it has been known.
    pub(super) read_bytes: Option<u64>,
    pub(super) written_bytes: Option<u64>,
    pub(super) stalls: u64,
    pub(super) stalled_ms: u64,
    pub(super) is_stalled: bool,
    pub(super) workloads: Places,
    /// When it was last in a frame or a stall, by the time that all frames took.
    pub(super) used_ms: u64,
}

impl Device {
    pub(super) fn new(workloads: usize) -> Self {
        Self { workloads: Places::new(workloads), ..Self::default() }
    }

    /// A disk's part of a frame.
    pub(super) fn disk(&mut self, disk: &Disk, window_ms: u64) {
        let bytes = |rate: u64| {
            u64::try_from(u128::from(rate) * u128::from(window_ms) / 1000).unwrap_or(u64::MAX)
        };
        let rates = [
            (&mut self.read_bytes, disk.read_bytes_per_s),
            (&mut self.written_bytes, disk.written_bytes_per_s),
        ];
        for (sum, rate) in rates {
            if let Some(rate) = rate {
                *sum = Some(sum.unwrap_or(0).saturating_add(bytes(rate)));
            }
        }
        self.disk = Some(disk.clone());
    }

    /// Processes of a frame that used it.
    pub(super) fn processes<'a>(
        &mut self,
        at_ms: u64,
        window_ms: u64,
        processes: impl Iterator<Item = &'a Process>,
        label_chars: usize,
    ) {
        (self.victims, self.floods) = (0, 0);
        let mut uses: BTreeMap<String, Use> = BTreeMap::new();
        for process in processes {
            self.victims += u64::from(process.is_victim);
            self.floods += u64::from(process.is_flood);
            let label =
                label::of_process(process.pid, &process.workload, &process.name, label_chars);
            uses.entry(label).or_default().add_process(process);
        }
        self.workloads.frame(at_ms, window_ms, uses);
    }

    /// A stall that is over.
    pub(super) fn stall(&mut self, at_ms: u64, stall: &Stall, label_chars: usize) {
        self.is_stalled = false;
        self.stalls = self.stalls.saturating_add(1);
        self.stalled_ms = self.stalled_ms.saturating_add(stall.lasted_ms());
        for victim in &stall.victims {
            let label = label::of_process(victim.pid, &victim.workload, &victim.name, label_chars);
            let counts = Counts { stalled_us: victim.waited_us, ..Counts::default() };
            self.workloads.stall(label, at_ms, &counts);
        }
        for flood in &stall.floods {
            let label = label::of_process(flood.pid, &flood.workload, &flood.name, label_chars);
            let counts = Counts { flooded_bytes: flood.dirtied_bytes, ..Counts::default() };
            self.workloads.stall(label, at_ms, &counts);
        }
    }
}
