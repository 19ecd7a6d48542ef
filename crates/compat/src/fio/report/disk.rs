//! Arithmetic of disks' figures.

use super::super::outcome::Disk;

impl Disk {
    /// Percent of the time with a request in flight.
    pub(super) fn busy(&self) -> f64 {
        let percent = 100.0 * self.busy_ms as f64 / self.span_ms as f64;
        if self.span_ms == 0 { 0.0 } else { percent.min(100.0) }
    }

    /// The mean of the disks below, and the percent of the busiest.
    pub(super) fn below(&self, all: &[Disk]) -> Option<(Disk, f64)> {
        let below: Vec<&Disk> = all.iter().filter(|disk| self.below.contains(&disk.name)).collect();
        let mean = |of: fn(&Disk) -> u64| {
            below.iter().map(|disk| of(disk)).sum::<u64>() / below.len().max(1) as u64
        };
        let busy = below.iter().map(|disk| disk.busy()).fold(0.0, f64::max);
        let mean = Disk {
            ios: [mean(|d| d.ios[0]), mean(|d| d.ios[1])],
            merges: [mean(|d| d.merges[0]), mean(|d| d.merges[1])],
            ticks_ms: [mean(|d| d.ticks_ms[0]), mean(|d| d.ticks_ms[1])],
            in_queue_ms: mean(|d| d.in_queue_ms),
            ..Disk::default()
        };
        (!below.is_empty()).then_some((mean, busy))
    }
}
