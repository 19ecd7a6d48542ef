//! Drain rates over many looks.
//!
//! ```text
//! seen in windows ─▶ their mean ─┬▶ in place of a window's own rate
//!                                └▶ where nothing is seen now: seen earlier
//! the kernel's estimate, its largest ─▶ where nothing was ever seen
//! ```
//!
//! The kernel counts pages as written in bursts: a window of a second may show a fifth of the rate,
//! and the next one twice as much. The kernel's estimate falls while small commits alone run: the
//! flusher's time counts, and there is little to write (mm/page-writeback.c
//! `wb_update_write_bandwidth`). That tells nothing of how fast the device drains.

use std::collections::BTreeMap;

use floodwall_model::status::{DrainSource, Status};
use floodwall_model::{DeviceId, Reading};

use crate::drain::at_rate;

/// Time constant of the mean, in seconds with a backlog.
const MEAN_S: f64 = 10.0;

/// Rates by device.
#[derive(Clone, Debug, Default)]
pub(super) struct Drains(BTreeMap<DeviceId, Known>);

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    /// Bytes that it wrote while it was backlogged, and the seconds of that time. Both fade alike.
    written_bytes: f64,
    seconds: f64,
    /// The kernel's largest estimate, in bytes a second.
    estimate: Option<f64>,
}

impl Known {
    fn seen(&mut self, bytes_per_s: f64, window_s: f64) {
        let fading = (-window_s / MEAN_S).exp();
        self.written_bytes = self.written_bytes * fading + bytes_per_s * window_s;
        self.seconds = self.seconds * fading + window_s;
    }

    /// The mean of what was seen, in bytes a second.
    fn mean(self) -> Option<f64> {
        let mean = self.written_bytes / self.seconds;
        (mean > 0.0).then_some(mean)
    }
}

impl Drains {
    /// Keeps the rates of a look. Puts means in the place of those that it has seen, and of those
    /// that it has not.
    pub(super) fn look(&mut self, status: &mut Status) {
        let Status { devices, machine, window_s, .. } = status;
        self.0.retain(|id, _| devices.iter().any(|device| device.id == *id));
        for device in devices {
            let known = self.0.entry(device.id).or_default();
            let now = device.drain.rate_bytes_per_s.value().copied();
            let is_seen = device.drain.from == DrainSource::Seen;
            let (rate, from) = match now {
                Some(now) if is_seen => {
                    known.seen(now, *window_s);
                    // Backlogged, and nothing was written: it is stuck.
                    (known.mean().filter(|_| now > 0.0), DrainSource::Seen)
                }
                now => {
                    known.estimate = known.estimate.into_iter().chain(now).reduce(f64::max);
                    match known.mean() {
                        Some(mean) => (Some(mean), DrainSource::SeenEarlier),
                        None => (known.estimate, DrainSource::KernelEstimate),
                    }
                }
            };
            if let Some(rate) = rate {
                let (dirty, writeback) = (&device.dirty_bytes, &device.writeback_bytes);
                device.drain = at_rate(Reading::Value(rate), from, dirty, writeback, machine);
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
        ];
        let at = |rate: f64, from| (Some(rate), from, Some(300.0 / rate));
        let kept = at(100.0, SeenEarlier);
        let told = told(&looks);
        assert_eq!(told[..2], [at(5.0, KernelEstimate), at(100.0, Seen)]);
        assert_eq!(told[2..], [kept; 3]);
    }

    #[test]
    fn a_rate_is_the_mean_of_windows_and_follows_in_ten_seconds() {
        // As the kernel counted a disk that wrote 120 MB/s.
        let looks = [132.0, 24.9, 226.0, 117.0].map(|rate| (Some(rate), DrainSource::Seen));
        let rates: Vec<f64> = told(&looks).iter().filter_map(|(rate, ..)| *rate).collect();
        assert_eq!(rates[0], 132.0);
        assert!((125.0..135.0).contains(&rates[2]), "{rates:?}");
        assert!((122.0..130.0).contains(&rates[3]), "{rates:?}");
        let mut looks = vec![(Some(100.0), DrainSource::Seen); 30];
        looks.extend([(Some(200.0), DrainSource::Seen); 10]);
        let last = told(&looks).last().and_then(|(rate, ..)| *rate).unwrap();
        // 1 − 1/e of the way, of a past that is as long.
        assert!((163.0..170.0).contains(&last), "{last}");
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
