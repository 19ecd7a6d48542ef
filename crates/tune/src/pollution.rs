//! Whether another program disturbed a trial.
//!
//! ```text
//! between phases   the runner warns: others move data, hold dirty pages, wait for I/O ┐
//! steal            the hypervisor took more than a tenth of a CPU                  ├─▶ why
//! writes, reads    the device moved more than the loads and the backlog explain    ┘
//! why ─▶ repeated once, then marked
//! ```
//!
//! Within a phase pressure (PSI) says nothing, because the victims wait all the time. Between
//! phases no victim runs, and the runner looks at pressure there.

use floodwall_model::runner::{Second, Step};
use floodwall_model::{Phase, Trial, Watch};

/// More than this share of one CPU taken by the hypervisor disturbs a trial.
const STEAL: f64 = 0.1;
/// Bytes that a filesystem's journal and metadata may add: as a share of the data, and for each
/// operation of a victim.
const OVERHEAD: f64 = 0.5;
const OVERHEAD_AN_OPERATION: f64 = 64.0 * 1024.0;
/// Less than this a second is not worth a word, in bytes.
const LEAST_PER_S: f64 = 8e6;

/// Why a trial was disturbed by other programs; `None` if no disturbance is known.
#[must_use]
pub fn pollution(trial: &Trial) -> Option<String> {
    robbed(trial).or_else(|| trial.phases.iter().find_map(foreign))
}

/// Whether the hypervisor took too much time from a trial.
fn robbed(trial: &Trial) -> Option<String> {
    let intervals = || trial.phases.iter().flat_map(|p| &p.intervals);
    let stolen: u64 = intervals().filter_map(|i| i.host.steal_ms).sum();
    let seconds: f64 = intervals().map(|i| i.seconds).sum();
    let share = stolen as f64 / 1e3 / seconds.max(1e-9);
    (share > STEAL).then(|| format!("the hypervisor took {:.0} % of a CPU", share * 100.0))
}

/// Whether the device did more in a phase than our loads asked for.
fn foreign(phase: &Phase) -> Option<String> {
    let (mut written, mut read, mut ours, mut flooded, mut ops) = (0u64, 0u64, 0u64, 0u64, 0u64);
    for interval in &phase.intervals {
        let device = interval.host.device?;
        written += device.written_bytes;
        read += device.read_bytes;
        ours += interval.victim_bytes;
        flooded += interval.flood_bytes;
        ops += interval.victim_ops.iter().map(|n| u64::from(*n)).sum::<u64>();
    }
    // Pages that were dirty before are written during the phase. The first look is a second into
    // it.
    let first = phase.intervals.first()?;
    let backlog = first.host.dirty_bytes.unwrap_or(0) + first.host.writeback_bytes.unwrap_or(0);
    let asked = (ours + flooded) as f64 * (1.0 + OVERHEAD) + ops as f64 * OVERHEAD_AN_OPERATION;
    let seconds = phase.seconds.max(1e-9);
    let beyond = |moved: u64, explained: f64| {
        let excess = (moved as f64 - explained) / seconds;
        (excess > LEAST_PER_S).then_some(excess / 1e6)
    };
    // Bytes of victims are reads or writes, and a copy's flood reads what it writes: each is
    // allowed for both.
    beyond(written, asked + backlog as f64)
        .map(|mb| format!("something else wrote about {mb:.0} MB/s to the device"))
        .or_else(|| {
            beyond(read, asked)
                .map(|mb| format!("something else read about {mb:.0} MB/s from the device"))
        })
}

/// Hears whether a runner warns while it pauses before a phase: then another program uses the
/// device or the page cache.
pub(crate) struct Listener<'a> {
    pub(crate) inner: &'a mut dyn Watch,
    pausing: bool,
    heard: Option<String>,
}

impl<'a> Listener<'a> {
    pub(crate) fn new(inner: &'a mut dyn Watch) -> Self {
        Self { inner, pausing: false, heard: None }
    }

    /// Forgets what an earlier trial was warned of.
    pub(crate) fn begin(&mut self) {
        self.heard = None;
    }

    fn hear(&mut self, message: &str) {
        if self.pausing {
            self.heard = Some(message.to_owned());
        }
    }

    /// Why the trial that has just run is disturbed.
    pub(crate) fn verdict(&mut self, trial: &Trial) -> Option<String> {
        self.heard.take().or_else(|| pollution(trial))
    }
}

impl Watch for Listener<'_> {
    fn step(&mut self, step: Step<'_>) {
        self.pausing = step.phase.is_none() && step.round > 0;
        self.inner.step(step);
    }

    fn second(&mut self, second: &Second<'_>) {
        self.inner.second(second);
    }

    fn warn(&mut self, message: &str) {
        self.hear(message);
        self.inner.warn(message);
    }

    fn warn_once(&mut self, kind: &'static str, message: &str) {
        self.hear(message);
        self.inner.warn_once(kind, message);
    }

    fn stop(&self) -> bool {
        self.inner.stop()
    }
}

#[cfg(test)]
mod tests {
    use floodwall_model::trial::DeviceSample;
    use floodwall_model::{PhaseKind, Runner, Setting};

    use super::*;
    use crate::testing::{SurfaceRunner, Truth, scenario};

    fn trial() -> Trial {
        let mut runner = SurfaceRunner::new(0.05, |_| {
            Ok(Truth { victim: 0.5, dead: 0.0, flood: 0.8, burst: 1.0 })
        });
        runner.run(&scenario(1), &Setting::default(), 1, &mut ()).unwrap()
    }

    fn with(change: impl Fn(&mut DeviceSample)) -> Option<String> {
        let mut trial = trial();
        let both = trial.phases.iter_mut().find(|p| p.kind == PhaseKind::Both).unwrap();
        for interval in &mut both.intervals {
            change(interval.host.device.as_mut().unwrap());
        }
        pollution(&trial)
    }

    #[test]
    fn what_our_loads_and_the_backlog_explain_is_not_held_against_a_trial() {
        assert_eq!(pollution(&trial()), None);
        // A journal that doubles what commits write.
        assert_eq!(with(|d| d.written_bytes += 20_000_000), None);
    }

    #[test]
    fn others_writes_reads_and_a_greedy_hypervisor_are() {
        let said = with(|d| d.written_bytes += 900_000_000).unwrap();
        assert!(said.contains("wrote about"), "{said}");
        let said = with(|d| d.read_bytes += 900_000_000).unwrap();
        assert!(said.contains("read about"), "{said}");
        let mut robbed = trial();
        robbed.phases[2].intervals.iter_mut().for_each(|i| i.host.steal_ms = Some(600));
        assert!(pollution(&robbed).unwrap().contains("hypervisor"));
    }
}
