//! What a host's counters would say: once a second, beside the loads' own figures.

use floodwall_device::Nanos;
use floodwall_model::trial::{DeviceSample, HostSample};

use crate::block::Counters;
use crate::machine::Machine;
use crate::page_cache::PAGE_SHIFT;

/// Remembers the device's counters from one sample to the next.
pub(crate) struct Sampler {
    before: Counters,
}

impl Sampler {
    pub(crate) fn new(machine: &Machine) -> Self {
        Self { before: machine.block.counters(machine.now) }
    }

    /// Levels now, and counters since the last call. Pressure is not modelled.
    pub(crate) fn sample(&mut self, machine: &Machine) -> HostSample {
        let now = machine.block.counters(machine.now);
        let before = std::mem::replace(&mut self.before, now);
        let limits = machine.throttle.thresholds(&machine.memory);
        let bytes = |pages: u64| Some(pages << PAGE_SHIFT);
        let ms = |now: Nanos, then: Nanos| now.since(then).0 / 1_000_000;
        HostSample {
            dirty_bytes: bytes(machine.cache.dirty),
            writeback_bytes: bytes(machine.cache.writeback),
            dirty_threshold_bytes: bytes(limits.dirty),
            background_threshold_bytes: bytes(limits.background),
            psi_io_some_us: None,
            psi_io_full_us: None,
            steal_ms: Some(0),
            device: Some(device_since(machine, &before, &now, ms)),
        }
    }
}

/// What the device did between two readings of its counters; `ms` gives the milliseconds at the
/// later time since the earlier.
pub(crate) fn device_since(
    machine: &Machine,
    before: &Counters,
    now: &Counters,
    ms: impl Fn(Nanos, Nanos) -> u64,
) -> DeviceSample {
    DeviceSample {
        read_ops: now.reads - before.reads,
        read_bytes: now.read_bytes - before.read_bytes,
        write_ops: now.writes - before.writes,
        written_bytes: now.write_bytes - before.write_bytes,
        flush_ops: machine.generation.counts_flushes().then_some(now.flushes - before.flushes),
        busy_ms: ms(now.busy, before.busy),
        weighted_ms: ms(now.weighted, before.weighted),
        in_flight: u64::from(machine.block.outstanding()),
    }
}
