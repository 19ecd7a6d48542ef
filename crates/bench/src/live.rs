//! The live display of a warm-up.

use std::time::{Duration, Instant};

use floodwall_model::runner::Second;
use floodwall_model::{Interval, Watch};
use floodwall_stats::phase::{Sample, drain_rate};

/// Puts warm-up ticks together to seconds, or more where ticks were late.
pub(crate) struct LiveSecond {
    origin: Instant,
    interval: Interval,
}

impl LiveSecond {
    pub(crate) fn new(origin: Instant) -> Self {
        Self { origin, interval: Interval::default() }
    }

    pub(crate) fn add(&mut self, sample: &Sample, tick: Duration, watch: &mut dyn Watch) {
        let i = &mut self.interval;
        i.seconds += tick.as_secs_f64();
        let ops = i.victim_ops.first().copied().unwrap_or(0);
        i.victim_ops =
            vec![ops.saturating_add(u32::try_from(sample.victim_ops()).unwrap_or(u32::MAX))];
        i.latencies.merge(&sample.latencies());
        i.flood_bytes += sample.flood_bytes();
        i.host = sample.host.clone();
        if i.seconds >= 0.999 {
            watch.second(&Second {
                elapsed_s: self.origin.elapsed().as_secs_f64(),
                done: None,
                drain_bytes_per_s: drain_rate(&sample.host, tick.as_secs_f64()),
                interval: Some(&self.interval),
            });
            self.interval = Interval::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use floodwall_load::Delta;
    use floodwall_stats::phase::Loads;

    use super::*;

    #[test]
    fn the_live_line_shows_the_time_that_passed() {
        #[derive(Default)]
        struct Shown(Vec<(f64, u32)>);
        impl Watch for Shown {
            fn second(&mut self, second: &Second<'_>) {
                self.0.extend(second.interval.map(|i| (i.seconds, i.victim_ops.iter().sum())));
            }
        }
        let mut shown = Shown::default();
        let mut live = LiveSecond::new(Instant::now());
        for late in [1, 1, 1, 1, 10, 2] {
            let victims = vec![Delta { ops: 25 * u64::from(late), ..Delta::default() }];
            let loads = Loads { victims, ..Loads::default() };
            let tick = Duration::from_millis(250) * late;
            live.add(&Sample { loads, ..Sample::default() }, tick, &mut shown);
        }
        assert_eq!(shown.0, [(1.0, 100), (2.5, 250)], "half a second is not shown yet");
    }
}
