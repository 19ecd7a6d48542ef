//! Collects a phase's measured part.

use std::time::Duration;

use floodwall_model::trial::{LoadTotals, OpLatencies, Warmup};
use floodwall_model::{Interval, Phase, PhaseKind};

use super::setup::{Loads, Plan, Sample, seconds};
use crate::interval_store::IntervalStore;

/// The measured part until now.
pub(super) struct Measured {
    begin: Duration,
    last: Duration,
    store: IntervalStore,
    totals: Loads<LoadTotals>,
}

impl Measured {
    pub(super) fn new(plan: &Plan<'_>, now: Duration) -> Self {
        let named = |name: &str| LoadTotals { name: name.to_owned(), ..LoadTotals::default() };
        let store = IntervalStore::new(plan.intervals, plan.interval_bytes);
        Self { begin: now, last: now, store, totals: plan.names.clone().map(named) }
    }

    pub(super) fn begin(&mut self, now: Duration) {
        (self.begin, self.last) = (now, now);
    }

    /// Adds the interval that has just ended and returns it.
    pub(super) fn add(&mut self, sample: Sample, now: Duration) -> Interval {
        let interval = Interval {
            start_s: seconds(self.last - self.begin),
            seconds: seconds(now - self.last),
            victim_ops: vec![u32::try_from(sample.victim_ops()).unwrap_or(u32::MAX)],
            latencies: sample.latencies(),
            victim_bytes: sample.loads.victims.iter().map(|d| d.bytes).sum(),
            flood_bytes: sample.flood_bytes(),
            host: sample.host,
        };
        self.last = now;
        for (total, delta) in self.totals.iter_mut().zip(sample.loads.iter()) {
            total.ops += delta.ops;
            total.bytes += delta.bytes;
            total.latencies.merge(&delta.latencies);
        }
        self.store.push(interval.clone());
        interval
    }

    /// The phase, with what its loads were at their ends.
    pub(super) fn into_phase(
        mut self,
        kind: PhaseKind,
        warmup: Warmup,
        ended: Loads<LoadTotals>,
        cut_short: Option<String>,
    ) -> Phase {
        let mut overrun = OpLatencies::default();
        for (total, ended) in self.totals.iter_mut().zip(ended.iter()) {
            overrun.merge(&ended.latencies);
            total.latencies.merge(&ended.latencies);
            total.unserved_ops = ended.unserved_ops;
            total.command_runs = ended.command_runs;
            total.cpu_us = ended.cpu_us;
            total.ops_with_warmup = ended.ops_with_warmup;
        }
        Phase {
            kind,
            start_s: seconds(self.begin),
            seconds: seconds(self.last - self.begin),
            warmup,
            intervals: self.store.into_intervals(),
            overrun,
            victims: self.totals.victims,
            floods: self.totals.floods,
            burst: None,
            cut_short,
        }
    }
}
