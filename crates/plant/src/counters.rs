//! The counters of a unit.

use std::collections::HashMap;

use floodwall_model::DeviceId;
use floodwall_model::trial::DeviceSample;

use crate::units::Unit;

/// The unit's counters. For an array without counters: those of its disks together.
pub(crate) fn counters_of(unit: &Unit, counters: &HashMap<DeviceId, DeviceSample>) -> DeviceSample {
    if let Some(sample) = counters.get(&unit.id) {
        return *sample;
    }
    let disks = unit.queues.iter().filter_map(|device| device.number.parse().ok());
    let samples = disks.filter_map(|id: DeviceId| counters.get(&id).copied());
    samples.reduce(together).unwrap_or_default()
}

/// Two disks as one. Amounts add. The busy time is that of the busier disk, so that it stays a
/// share of the time.
fn together(a: DeviceSample, b: DeviceSample) -> DeviceSample {
    DeviceSample {
        read_ops: a.read_ops + b.read_ops,
        read_bytes: a.read_bytes + b.read_bytes,
        write_ops: a.write_ops + b.write_ops,
        written_bytes: a.written_bytes + b.written_bytes,
        flush_ops: a.flush_ops.zip(b.flush_ops).map(|(a, b)| a + b),
        busy_ms: a.busy_ms.max(b.busy_ms),
        weighted_ms: a.weighted_ms + b.weighted_ms,
        in_flight: a.in_flight + b.in_flight,
    }
}
