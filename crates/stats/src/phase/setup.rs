//! What a phase is given: its plan, and a host with running loads.

use std::time::Duration;

use floodwall_model::trial::{HostSample, LoadTotals, OpLatencies};
use floodwall_model::{PhaseKind, Timing, Watch};

use crate::recorder::Delta;

/// The plan of a phase.
#[derive(Debug)]
pub struct Plan<'a> {
    /// What runs.
    pub kind: PhaseKind,
    /// Which round, counted from 1.
    pub round: u32,
    /// How long it warms up and is measured.
    pub timing: &'a Timing,
    /// The names of the loads that run.
    pub names: Loads<&'a str>,
    /// Intervals kept.
    pub intervals: usize,
    /// Bytes that they may take in memory.
    pub interval_bytes: usize,
}

/// Something of each load that runs, in the scenario's order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loads<T> {
    /// Of the victims.
    pub victims: Vec<T>,
    /// Of the floods.
    pub floods: Vec<T>,
}

impl<T> Loads<T> {
    /// Applies `f` to the item of each load.
    pub fn map<U>(self, mut f: impl FnMut(T) -> U) -> Loads<U> {
        Loads {
            victims: self.victims.into_iter().map(&mut f).collect(),
            floods: self.floods.into_iter().map(f).collect(),
        }
    }

    /// Borrows the item of each load.
    pub fn as_mut(&mut self) -> Loads<&mut T> {
        Loads {
            victims: self.victims.iter_mut().collect(),
            floods: self.floods.iter_mut().collect(),
        }
    }

    /// Of the victims, then of the floods.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.victims.iter().chain(&self.floods)
    }

    /// Of the victims, then of the floods.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.victims.iter_mut().chain(&mut self.floods)
    }
}

/// What the loads did since the last sample, and the host's counters since then.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// The work of each load.
    pub loads: Loads<Delta>,
    /// The host.
    pub host: HostSample,
}

impl Sample {
    /// Operations that victims completed.
    #[must_use]
    pub fn victim_ops(&self) -> u64 {
        self.loads.victims.iter().map(|d| d.ops).sum()
    }

    /// Bytes that floods wrote.
    #[must_use]
    pub fn flood_bytes(&self) -> u64 {
        self.loads.floods.iter().map(|d| d.bytes).sum()
    }

    /// Latencies of all victims.
    #[must_use]
    pub fn latencies(&self) -> OpLatencies {
        let mut all = OpLatencies::default();
        for delta in &self.loads.victims {
            all.merge(&delta.latencies);
        }
        all
    }
}

/// A host with running loads, in real or virtual time.
pub trait LoadedHost: Sized {
    /// The time since the run began.
    fn now(&self) -> Duration;

    /// Lets time pass until this much of it has since the run began. Returns earlier if the phase
    /// [is broken](Self::broken).
    fn wait_until(&mut self, moment: Duration);

    /// What happened since the last sample.
    fn sample(&mut self) -> Sample;

    /// Why the phase can't go on, if it can't.
    fn broken(&self, watch: &dyn Watch) -> Option<String>;

    /// Takes note of a sample of the warm-up and of its length, for a live display.
    fn show_warmup(&mut self, _sample: &Sample, _tick: Duration, _watch: &mut dyn Watch) {}

    /// The warm-up is over.
    fn warmed_up(&mut self) {}

    /// Stops the loads and waits for operations in flight. Returns the totals of each load, whose
    /// latencies are those of the operations in flight, and why a load had ended before, if one
    /// had. Operations that ended since the last sample are not counted in `ops` and `bytes`.
    fn stop(self) -> (Loads<LoadTotals>, Option<String>);
}

/// Seconds. One division, as in `Nanos::as_secs_f64` of the device models: the last digit of a
/// simulated result depends on it.
pub(super) fn seconds(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e9
}
