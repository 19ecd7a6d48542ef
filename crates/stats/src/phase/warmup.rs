//! The warm-up of a phase: until its loads are steady, and the floods past the device's cache.

use std::time::Duration;

use floodwall_model::runner::Step;
use floodwall_model::trial::{HostSample, Warmup};
use floodwall_model::{Bytes, Watch};

use super::setup::{LoadedHost, Plan, Sample, seconds};
use crate::steady;

/// Sampling period.
const TICK: Duration = Duration::from_millis(250);
/// Samples that the stationarity test looks at: two seconds.
const STEADY_WINDOW: usize = 8;
/// The latency of the first operations includes page faults and cold caches: never measure them.
const LEAST: Duration = Duration::from_secs(1);
/// A page cache that is still filling may stretch a warm-up to this many times its normal limit.
/// Before the kernel throttles it, a flood runs at the speed of memory, not of the device.
const FILLING_PATIENCE: u32 = 4;
/// The page cache is filling if the backlog grew by more than this share of the hard limit within a
/// second.
const FILLING_SHARE: f64 = 0.01;

/// Waits until the loads are steady. Returns why the phase must end, if it must.
pub(super) fn warm_up(
    plan: &Plan<'_>,
    host: &mut impl LoadedHost,
    watch: &mut dyn Watch,
) -> (Warmup, Option<String>) {
    let expected_s = plan.timing.warmup_max.as_secs_f64();
    watch.step(Step { what: "warming up", phase: Some(plan.kind), round: plan.round, expected_s });
    let begin = host.now();
    let mut last = begin;
    let mut rates = Rates::default();
    let mut filling = Filling::default();
    let (mut flooded, mut drained) = (0u64, None::<u64>);
    loop {
        // From the last sample on, not from the begin: ticks that were missed are not made up for
        // by shorter ones.
        host.wait_until(last + TICK);
        let sample = host.sample();
        let now = host.now();
        let (tick, elapsed) = (now - last, now - begin);
        last = now;
        rates.add(&sample, tick);
        filling.add(elapsed, &sample.host);
        flooded += sample.flood_bytes();
        if let Some(device) = sample.host.device {
            drained = Some(drained.unwrap_or(0) + device.written_bytes);
        }
        host.show_warmup(&sample, tick, watch);

        let done = |steady: Option<bool>, verdict: String| Warmup {
            seconds: seconds(elapsed),
            steady,
            verdict,
            flood_bytes: flooded,
        };
        if let Some(cause) = host.broken(watch) {
            return (done(None, "cut short".into()), Some(cause));
        }
        let filling = if plan.kind.has_flood() { filling.reason() } else { None };
        let patience = if filling.is_some() { FILLING_PATIENCE } else { 1 };
        let written = drained.unwrap_or(flooded);
        let verdict = filling.map_or_else(|| judge(plan, &rates, written, elapsed), Err);
        match verdict {
            Ok(verdict) if elapsed >= LEAST => return (done(Some(true), verdict), None),
            Err(why) if elapsed >= plan.timing.warmup_max * patience => {
                let verdict = format!("not steady after {:.0} s: {why}", seconds(elapsed));
                return (done(Some(false), verdict), None);
            }
            _ => {}
        }
    }
}

/// How fast the loads ran in each tick: ticks differ in length, for example when a device hangs or
/// the machine stands still.
#[derive(Default)]
struct Rates {
    /// Victim operations a second.
    ops: Vec<f64>,
    /// Flood bytes a second.
    bytes: Vec<f64>,
}

impl Rates {
    fn add(&mut self, sample: &Sample, tick: Duration) {
        let per_second = |amount: u64| amount as f64 / seconds(tick).max(1e-9);
        self.ops.push(per_second(sample.victim_ops()));
        self.bytes.push(per_second(sample.flood_bytes()));
    }
}

/// Watches the backlog rise towards the limit at which the kernel throttles writers.
#[derive(Default)]
struct Filling {
    /// The time since the warm-up began, and the bytes dirty or under writeback then; `None` if
    /// they can't be read. One entry a tick.
    backlog: Vec<(Duration, Option<u64>)>,
    hard_limit: Option<u64>,
}

impl Filling {
    fn add(&mut self, at: Duration, host: &HostSample) {
        let backlog =
            host.dirty_bytes.zip(host.writeback_bytes).map(|(dirty, writeback)| dirty + writeback);
        self.backlog.push((at, backlog));
        self.hard_limit = host.dirty_threshold_bytes;
    }

    /// That and how far it is still filling; `None` if it is not, or if that can't be told.
    fn reason(&self) -> Option<String> {
        let (at, now) = *self.backlog.last()?;
        let (earlier, before) =
            *self.backlog.iter().rev().find(|(then, _)| at - *then >= Duration::from_secs(1))?;
        let (now, before) = (now?, before?);
        let growth_per_s = now.saturating_sub(before) as f64 / seconds(at - earlier);
        let limit = self.hard_limit?;
        let growing = growth_per_s > FILLING_SHARE * limit as f64;
        // From halfway between the background and the hard limit on, the kernel throttles
        // (balance_dirty_pages); ratios put that at three quarters of the hard limit.
        (growing && now < limit / 4 * 3)
            .then(|| format!("the page cache is still filling: {} of {}", Bytes(now), Bytes(limit)))
    }
}

/// Whether everything that runs is steady, and the device's own cache no longer hides it.
fn judge(
    plan: &Plan<'_>,
    rates: &Rates,
    written: u64,
    elapsed: Duration,
) -> Result<String, String> {
    let cache = plan.timing.device_cache;
    if plan.kind.has_flood() && written < cache.0 {
        let written = Bytes(written);
        return Err(format!(
            "the floods have put {written} on the device, less than its cache may hold ({cache})"
        ));
    }
    if passes_cache_midway(written, elapsed, plan.timing.measure, cache.0) {
        let written = Bytes(written);
        return Err(format!(
            "the device's cache ({cache}) would fill up while it is measured: {written} so far"
        ));
    }
    let mut reasons = Vec::new();
    for (who, wanted, series) in [
        ("victims", plan.kind.has_victim(), &rates.ops),
        ("floods", plan.kind.has_flood(), &rates.bytes),
    ] {
        if wanted {
            let verdict = steady::judge(series, STEADY_WINDOW);
            let text = format!("{who}: {}", verdict.reason);
            if !verdict.steady {
                return Err(text);
            }
            reasons.push(text);
        }
    }
    Ok(reasons.join("; "))
}

/// Whether writes at this rate would fill the device's cache in the measured part. Before that
/// moment they are steady at the cache's speed, afterwards at the medium's. Writes too slow to fill
/// the cache never reach it.
fn passes_cache_midway(written: u64, elapsed: Duration, measure: Duration, cache: u64) -> bool {
    let rate = written as f64 / seconds(elapsed).max(1e-9);
    written < cache && written as f64 + rate * measure.as_secs_f64() >= cache as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phase::setup::Loads;
    use crate::recorder::Delta;

    fn filling(backlog: impl IntoIterator<Item = u64>) -> Option<String> {
        filling_every(TICK, backlog)
    }

    fn filling_every(tick: Duration, backlog: impl IntoIterator<Item = u64>) -> Option<String> {
        let mut filling = Filling::default();
        for (i, dirty) in (1..).zip(backlog) {
            let host = HostSample {
                dirty_bytes: Some(dirty),
                writeback_bytes: Some(0),
                dirty_threshold_bytes: Some(1_000),
                ..HostSample::default()
            };
            filling.add(tick * i, &host);
        }
        filling.reason()
    }

    #[test]
    fn a_late_tick_is_no_burst() {
        let mut rates = Rates::default();
        for late in [1, 1, 4, 1, 10] {
            let victim = Delta { ops: 25 * u64::from(late), ..Delta::default() };
            let flood = Delta { bytes: 1_000 * u64::from(late), ..Delta::default() };
            let loads = Loads { victims: vec![victim], floods: vec![flood] };
            rates.add(&Sample { loads, ..Sample::default() }, TICK * late);
        }
        assert_eq!(rates.ops, [100.0; 5]);
        assert_eq!(rates.bytes, [4_000.0; 5]);
        // Nor does the page cache fill faster for being looked at less often.
        assert_eq!(filling_every(Duration::from_secs(8), [100, 150, 200]), None);
        assert!(filling_every(Duration::from_secs(8), [100, 200, 300]).is_some());
    }

    #[test]
    fn the_page_cache_fills_until_the_kernel_throttles_or_the_flood_has_gone_round() {
        assert!(filling((0..8).map(|i| i * 50)).is_some());
        assert_eq!(
            filling((0..8).map(|i| 500 + i * 50)),
            None,
            "beyond three quarters of the limit"
        );
        assert_eq!(filling([100, 200, 300, 300, 300, 300, 300]), None, "a small space, gone round");
        assert_eq!(filling([100, 200]), None, "too early to tell");
    }

    #[test]
    fn a_cache_that_would_fill_up_while_it_is_measured_is_passed_first() {
        let s = Duration::from_secs;
        assert!(
            passes_cache_midway(200, s(2), s(4), 512),
            "100 a second: full in the fourth second"
        );
        assert!(!passes_cache_midway(600, s(6), s(4), 512), "full already");
        assert!(!passes_cache_midway(20, s(2), s(4), 512), "never full");
        assert!(!passes_cache_midway(0, s(0), s(4), 512), "nothing written");
    }
}
