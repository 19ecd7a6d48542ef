//! One phase of a trial, in real or in virtual time: wait until the loads are steady, measure
//! second by second, stop.
//!
//! ```text
//! start loads ─▶ warm-up: sample every 250 ms ─ steady or time up ─▶ measure every second ─▶ stop
//!                           and the floods past the device's cache                               │
//!                                          operations still in flight count with their latency ◀─┘
//! ```
//!
//! `bench` runs it over this host, `sim` over a simulated machine, each as a [`LoadedHost`]. So the
//! figures of both mean the same.

mod measured;
mod setup;
mod warmup;

use std::time::Duration;

use floodwall_model::runner::{Second, Step};
use floodwall_model::trial::HostSample;
use floodwall_model::{Phase, Watch};

use measured::Measured;
use setup::seconds;
pub use setup::{LoadedHost, Loads, Plan, Sample};
use warmup::warm_up;

/// Below this much dirty and under writeback there is no backlog, and the device's rate is not its
/// drain rate.
const BACKLOG_BYTES: u64 = 16 << 20;

/// Runs a phase whose loads have been started. One that breaks midway comes back with
/// [`Phase::cut_short`].
pub fn run(plan: &Plan<'_>, mut host: impl LoadedHost, watch: &mut dyn Watch) -> Phase {
    let (warmup, cut) = warm_up(plan, &mut host, watch);
    host.warmed_up();
    let mut measured = Measured::new(plan, host.now());
    let cut = cut.or_else(|| measure(plan, &mut host, &mut measured, watch));
    let (ended, failure) = host.stop();
    measured.into_phase(plan.kind, warmup, ended, cut.or(failure))
}

/// Measures second by second. Returns why it ended early, if it did.
fn measure(
    plan: &Plan<'_>,
    host: &mut impl LoadedHost,
    measured: &mut Measured,
    watch: &mut dyn Watch,
) -> Option<String> {
    let expected_s = plan.timing.measure.as_secs_f64();
    watch.step(Step { what: "measuring", phase: Some(plan.kind), round: plan.round, expected_s });
    // Operations since the last warm-up sample belong to neither part.
    let _ = host.sample();
    let begin = host.now();
    measured.begin(begin);
    for end in interval_ends(plan.timing.measure) {
        host.wait_until(begin + end);
        let sample = host.sample();
        let interval = measured.add(sample, host.now());
        watch.second(&Second {
            elapsed_s: seconds(host.now()),
            done: None,
            drain_bytes_per_s: drain_rate(&interval.host, interval.seconds),
            interval: Some(&interval),
        });
        let broken = host.broken(watch);
        if broken.is_some() {
            return broken;
        }
    }
    None
}

/// When each interval ends, counted from the begin of the measured part: every second, and at the
/// very end.
fn interval_ends(measure: Duration) -> impl Iterator<Item = Duration> {
    let whole = (1..=measure.as_secs()).map(Duration::from_secs);
    whole.chain((measure.subsec_nanos() > 0).then_some(measure))
}

/// The device's write rate, where the backlog makes it a drain rate.
#[must_use]
pub fn drain_rate(host: &HostSample, seconds: f64) -> Option<f64> {
    let backlog = host.dirty_bytes? + host.writeback_bytes?;
    (backlog >= BACKLOG_BYTES && seconds > 0.0)
        .then_some(host.device?.written_bytes as f64 / seconds)
}

#[cfg(test)]
mod tests {
    use floodwall_model::trial::{DeviceSample, LoadTotals, OpLatencies};
    use floodwall_model::{Bytes, LatencyCounts, PhaseKind, Timing};

    use super::*;
    use crate::recorder::Delta;

    /// A victim whose rate grows by so many operations a second each second, until it breaks.
    struct Growing {
        now: Duration,
        sampled: Duration,
        growth: u64,
        breaks_at: Duration,
    }

    impl LoadedHost for Growing {
        fn now(&self) -> Duration {
            self.now
        }

        fn wait_until(&mut self, moment: Duration) {
            self.now = moment;
        }

        fn sample(&mut self) -> Sample {
            let ms = (self.now - self.sampled).as_millis() as u64;
            self.sampled = self.now;
            let ops = ms * (1_000 + self.growth * self.now.as_millis() as u64 / 1_000) / 1_000;
            let victims = vec![Delta { ops, bytes: ops, latencies: commits(ops) }];
            Sample { loads: Loads { victims, ..Loads::default() }, ..Sample::default() }
        }

        fn broken(&self, _: &dyn Watch) -> Option<String> {
            (self.now >= self.breaks_at).then(|| "broken".to_owned())
        }

        fn stop(self) -> (Loads<LoadTotals>, Option<String>) {
            let in_flight = LoadTotals { latencies: commits(2), ..LoadTotals::default() };
            (Loads { victims: vec![in_flight], ..Loads::default() }, None)
        }
    }

    fn commits(n: u64) -> OpLatencies {
        let commit = LatencyCounts::from_values((0..n).map(|_| 1_000));
        OpLatencies { commit, ..OpLatencies::default() }
    }

    fn measured(growth: u64, breaks_at_ms: u64) -> Phase {
        let (now, breaks_at) = (Duration::from_secs(1), Duration::from_millis(breaks_at_ms));
        let timing = Timing {
            rounds: 1,
            measure: Duration::from_secs(3),
            warmup_max: Duration::from_secs(5),
            settle: Duration::ZERO,
            device_cache: Bytes(0),
        };
        let plan = Plan {
            kind: PhaseKind::Victim,
            round: 1,
            timing: &timing,
            names: Loads { victims: vec!["commit"], ..Loads::default() },
            intervals: 10,
            interval_bytes: usize::MAX,
        };
        run(&plan, Growing { now, sampled: now, growth, breaks_at }, &mut ())
    }

    #[test]
    fn only_what_ends_in_the_measured_part_is_counted_and_what_is_in_flight_has_a_latency() {
        let phase = measured(0, u64::MAX);
        assert_eq!((phase.warmup.steady, phase.warmup.seconds), (Some(true), 2.0));
        assert_eq!((phase.start_s, phase.seconds, phase.cut_short), (3.0, 3.0, None));
        let starts: Vec<f64> = phase.intervals.iter().map(|i| i.start_s).collect();
        assert_eq!(starts, [0.0, 1.0, 2.0]);
        let victim = &phase.victims[0];
        assert_eq!((victim.name.as_str(), victim.ops, victim.bytes), ("commit", 3_000, 3_000));
        assert_eq!((victim.latencies.commit.count(), phase.overrun), (3_002, commits(2)));
    }

    #[test]
    fn a_load_that_never_gets_steady_is_measured_once_time_is_up() {
        let phase = measured(1_000, u64::MAX);
        assert_eq!((phase.warmup.steady, phase.warmup.seconds), (Some(false), 5.0));
        assert!(phase.warmup.verdict.starts_with("not steady after 5 s: victims: still rising"));
        assert_eq!((phase.intervals.len(), phase.cut_short), (3, None));
    }

    #[test]
    fn a_phase_that_breaks_keeps_what_was_measured() {
        let phase = measured(0, 5_000);
        assert_eq!((phase.seconds, phase.intervals.len()), (2.0, 2));
        assert_eq!(phase.cut_short.as_deref(), Some("broken"));
        let phase = measured(0, 2_000);
        assert_eq!((phase.warmup.steady, phase.warmup.verdict.as_str()), (None, "cut short"));
        assert_eq!((phase.seconds, phase.cut_short.as_deref()), (0.0, Some("broken")));
    }

    #[test]
    fn what_was_asked_for_is_measured_to_its_end() {
        let ends = |ms| {
            interval_ends(Duration::from_millis(ms)).map(|d| d.as_millis()).collect::<Vec<_>>()
        };
        assert_eq!(ends(3_000), [1_000, 2_000, 3_000]);
        assert_eq!(ends(1_900), [1_000, 1_900]);
        assert_eq!(ends(400), [400]);
    }

    #[test]
    fn only_a_backlogged_device_shows_its_drain_rate() {
        let device = DeviceSample { written_bytes: 50_000_000, ..DeviceSample::default() };
        let host = |dirty| HostSample {
            dirty_bytes: Some(dirty),
            writeback_bytes: Some(0),
            device: Some(device),
            ..HostSample::default()
        };
        assert_eq!(drain_rate(&host(1 << 30), 0.5), Some(1e8));
        assert_eq!(drain_rate(&host(1 << 20), 0.5), None);
        assert_eq!(drain_rate(&HostSample::default(), 0.5), None);
    }
}
