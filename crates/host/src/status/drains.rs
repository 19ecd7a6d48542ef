//! Drain rates of earlier looks, for windows in which a device is not backlogged.
//!
//! ```text
//! seen ─▶ kept: a mean that follows in 10 s ─▶ seen earlier ─┐
//! the kernel's estimate ─▶ its largest ──────────────────────┴▶ where nothing is seen now
//! ```
//!
//! The kernel's estimate falls while small commits alone run: the flusher's time counts, and there
//! is little to write (mm/page-writeback.c `wb_update_write_bandwidth`). That tells nothing of how
//! fast the device drains.

use std::collections::BTreeMap;

use floodwall_model::status::{DrainSource, Status};
use floodwall_model::{DeviceId, Reading};

use crate::drain::at_rate;

/// Time constant of the mean of rates, in seconds with a backlog: in a single window a disk may have
/// sought more than it wrote.
const MEAN_S: f64 = 10.0;

/// Rates by device.
#[derive(Clone, Debug, Default)]
pub(super) struct Drains(BTreeMap<DeviceId, Known>);

#[derive(Clone, Copy, Debug)]
struct Known {
    bytes_per_s: f64,
    from: DrainSource,
}

impl Drains {
    /// Keeps the rates of a look, and fills in those that it has not seen.
    pub(super) fn look(&mut self, status: &mut Status) {
        let Status { devices, machine, window_s, .. } = status;
        self.0.retain(|id, _| devices.iter().any(|device| device.id == *id));
        for device in devices {
            let now = device.drain.rate_bytes_per_s.value().copied().filter(|rate| *rate > 0.0);
            let known = self.0.get(&device.id).copied();
            let (from, seen) = (device.drain.from, DrainSource::Seen);
            match (now, known) {
                (Some(now), Some(Known { bytes_per_s, from: was })) if from == seen => {
                    let part = if was == seen { (*window_s / MEAN_S).min(1.0) } else { 1.0 };
                    let bytes_per_s = bytes_per_s + part * (now - bytes_per_s);
                    self.0.insert(device.id, Known { bytes_per_s, from });
                }
                // Backlogged, and nothing was written: it is stuck.
                (None, _) if from == seen => {}
                (now, Some(known)) if known.from == seen || now < Some(known.bytes_per_s) => {
                    let rate = Reading::Value(known.bytes_per_s);
                    let from =
                        if known.from == seen { DrainSource::SeenEarlier } else { known.from };
                    let (dirty, writeback) = (&device.dirty_bytes, &device.writeback_bytes);
                    device.drain = at_rate(rate, from, dirty, writeback, machine);
                }
                (Some(bytes_per_s), _) => {
                    self.0.insert(device.id, Known { bytes_per_s, from });
                }
                (None, _) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use floodwall_model::status::Status;

    use super::*;
    use crate::findings::testing::Machine;

    /// A look at one device that leaves 300 bytes of backlog.
    fn look(rate: Option<f64>, from: DrainSource) -> Status {
        let mut status = Machine::healthy().status;
        status.window_s = 1.0;
        status.devices.truncate(1);
        let device = &mut status.devices[0];
        device.dirty_bytes = Reading::Value(200);
        device.writeback_bytes = Reading::Value(100);
        let absent = || Reading::Absent("idle".to_owned());
        let rate = rate.map_or_else(absent, Reading::Value);
        let (dirty, writeback) = (&device.dirty_bytes, &device.writeback_bytes);
        device.drain = at_rate(rate, from, dirty, writeback, &status.machine);
        status
    }

    /// The rate of each look, where it comes from, and the seconds of its backlog.
    fn told(looks: &[(Option<f64>, DrainSource)]) -> Vec<(Option<f64>, DrainSource, Option<f64>)> {
        let mut drains = Drains::default();
        let each = looks.iter().map(|(rate, from)| {
            let mut status = look(*rate, *from);
            drains.look(&mut status);
            let drain = &status.devices[0].drain;
            (drain.rate_bytes_per_s.value().copied(), drain.from, drain.now_s.value().copied())
        });
        each.collect()
    }

    #[test]
    fn what_was_seen_is_kept_whatever_the_kernel_guesses() {
        use DrainSource::{KernelEstimate, Seen, SeenEarlier, Unknown};
        let looks = [
            (Some(5.0), KernelEstimate),
            (Some(100.0), Seen),
            (Some(900.0), KernelEstimate),
            (Some(1.0), KernelEstimate),
            (None, Unknown),
            (Some(200.0), Seen),
            (None, Unknown),
        ];
        let at = |rate: f64, from| (Some(rate), from, Some(300.0 / rate));
        let kept = at(100.0, SeenEarlier);
        let told = told(&looks);
        assert_eq!(told[..2], [at(5.0, KernelEstimate), at(100.0, Seen)]);
        assert_eq!(told[2..5], [kept; 3]);
        assert_eq!(told[5..], [at(200.0, Seen), at(110.0, SeenEarlier)], "a tenth of ten seconds");
    }

    #[test]
    fn an_estimate_does_not_fall_and_a_stuck_device_is_told_as_it_is() {
        use DrainSource::{KernelEstimate, Seen};
        let looks = [
            (Some(50.0), KernelEstimate),
            (Some(1.0), KernelEstimate),
            (Some(60.0), KernelEstimate),
            (Some(0.0), Seen),
        ];
        let rates: Vec<_> = told(&looks).iter().map(|(rate, ..)| *rate).collect();
        assert_eq!(rates, [Some(50.0), Some(50.0), Some(60.0), Some(0.0)]);
    }

    #[test]
    fn a_device_that_has_gone_is_forgotten() {
        let mut drains = Drains::default();
        drains.look(&mut look(Some(100.0), DrainSource::Seen));
        let mut none = look(None, DrainSource::Unknown);
        none.devices.clear();
        drains.look(&mut none);
        let mut again = look(None, DrainSource::Unknown);
        drains.look(&mut again);
        assert_eq!(again.devices[0].drain.from, DrainSource::Unknown);
    }
}
