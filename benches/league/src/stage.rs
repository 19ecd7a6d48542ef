//! A machine that lives on while loads come and go, under a setting, with the guard or without it;
//! and its figures, second by second.
//!
//! All are measured alike: a fixed setting, the default and the guard run through the same script
//! on the same machine, seen through the same sensors.

use std::collections::BTreeMap;
use std::time::Duration;

use floodwall_guard::{Config, Decision, Guard, State};
use floodwall_model::plant::{KnobWrite, Knobs, Observation, Plant, PlantError};
use floodwall_model::trial::{DeviceSample, HostSample, OpLatencies, Warmup};
use floodwall_model::{DeviceId, Interval, LatencyCounts, Phase, PhaseKind, Setting, Trial};
use floodwall_sim::plant::Happening;
use floodwall_sim::{PlantDevice, SimPlant};

use crate::measure::rounded;

/// The guard looks four times a second.
pub(crate) const TICK: Duration = Duration::from_millis(250);
const TICKS: u32 = 4;

/// What a load did in a second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Done {
    /// Operations that a process waited for.
    pub(crate) ops: u64,
    /// Bytes of page cache dirtied.
    pub(crate) bytes: u64,
}

/// A second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Second {
    pub(crate) loads: BTreeMap<String, Done>,
    pub(crate) latencies: OpLatencies,
    /// Levels at its end; counters of the first device.
    pub(crate) host: HostSample,
    pub(crate) writes: usize,
}

impl Second {
    pub(crate) fn of(&self, load: &str) -> Done {
        self.loads.get(load).copied().unwrap_or_default()
    }
}

/// Keeps what the guard saw: a look ends what the counters counted.
struct Tap {
    plant: SimPlant,
    seen: Observation,
}

impl Plant for Tap {
    fn knobs(&mut self) -> Result<Knobs, PlantError> {
        self.plant.knobs()
    }

    fn observe(&mut self) -> Result<Observation, PlantError> {
        self.seen = self.plant.observe()?;
        Ok(self.seen.clone())
    }

    fn write(&mut self, write: &KnobWrite) -> Result<(), PlantError> {
        self.plant.write(write)
    }
}

/// See the [module](self).
pub(crate) struct Stage {
    tap: Tap,
    guard: Option<Guard>,
    own: Knobs,
    pub(crate) seconds: Vec<Second>,
    /// Whether seconds are kept; without them a run may be as long as it likes.
    pub(crate) keeps_seconds: bool,
    pub(crate) decisions: Vec<Decision>,
    pub(crate) writes: Vec<(Duration, KnobWrite)>,
    pub(crate) left_alone: Vec<String>,
}

impl Stage {
    pub(crate) fn new(
        parts: Vec<PlantDevice>,
        setting: &Setting,
        guarded: bool,
    ) -> anyhow::Result<Self> {
        let mut plant = SimPlant::new(parts, setting)?;
        let own = plant.knobs()?;
        Ok(Self {
            tap: Tap { plant, seen: Observation::default() },
            guard: guarded.then(|| Guard::new(Config::default())),
            own,
            seconds: Vec::new(),
            keeps_seconds: true,
            decisions: Vec::new(),
            writes: Vec::new(),
            left_alone: Vec::new(),
        })
    }

    /// Has a guard with this configuration from now on.
    pub(crate) fn guard_with(&mut self, config: Config) {
        self.guard = Some(Guard::new(config));
    }

    pub(crate) fn first_device(&self) -> Option<DeviceId> {
        self.tap.plant.devices().next()
    }

    pub(crate) fn at(&mut self, second: u64, happening: Happening) -> anyhow::Result<()> {
        Ok(self.tap.plant.schedule(Duration::from_secs(second), happening)?)
    }

    pub(crate) fn start(&mut self, second: u64, load: &str) -> anyhow::Result<()> {
        self.at(second, Happening::Start(load.to_owned()))
    }

    pub(crate) fn stop(&mut self, second: u64, load: &str) -> anyhow::Result<()> {
        self.at(second, Happening::Stop(load.to_owned()))
    }

    /// Runs until so many seconds after the begin.
    pub(crate) fn until(&mut self, end: u64) -> anyhow::Result<()> {
        while self.tap.plant.now() < Duration::from_secs(end) {
            let mut second = Second::default();
            let mut device = DeviceSample::default();
            for _ in 0..TICKS {
                self.tick(&mut second, &mut device)?;
            }
            if self.keeps_seconds {
                let (seen, hard) = (&self.tap.seen, self.tap.seen.hard_limit_bytes);
                second.host = HostSample {
                    dirty_bytes: seen.dirty_bytes,
                    writeback_bytes: seen.writeback_bytes,
                    dirty_threshold_bytes: hard,
                    background_threshold_bytes: seen.background_limit_bytes,
                    device: Some(device),
                    ..HostSample::default()
                };
                self.seconds.push(second);
            }
        }
        Ok(())
    }

    fn tick(&mut self, second: &mut Second, device: &mut DeviceSample) -> anyhow::Result<()> {
        self.tap.plant.advance(TICK);
        match &mut self.guard {
            Some(guard) => {
                let report = guard.tick(&mut self.tap)?;
                let now = self.tap.plant.now();
                second.writes += report.writes.len();
                self.decisions.extend(report.decisions);
                self.writes.extend(report.writes.into_iter().map(|w| (now, w)));
                self.left_alone.extend(report.left_alone.iter().map(ToString::to_string));
            }
            None => {
                self.tap.observe()?;
            }
        }
        if !self.keeps_seconds {
            return Ok(());
        }
        let waits = self.tap.plant.take_waits();
        second.latencies.commit.merge(&waits.commit);
        second.latencies.read.merge(&waits.read);
        for (i, seen) in self.tap.seen.devices.iter().enumerate() {
            for actor in &seen.actors {
                let done = second.loads.entry(actor.who.clone()).or_default();
                done.ops += actor.operations();
                done.bytes += actor.dirtied_bytes;
            }
            if i == 0 {
                device.read_ops += seen.counters.read_ops;
                device.read_bytes += seen.counters.read_bytes;
                device.write_ops += seen.counters.write_ops;
                device.written_bytes += seen.counters.written_bytes;
                device.in_flight = seen.counters.in_flight;
            }
        }
        Ok(())
    }

    /// The values of the guard that are in force, as a fixed setting.
    pub(crate) fn level(&self) -> Setting {
        let own = |write: &KnobWrite| match write.device {
            Some(device) => self.own.devices.get(&device)?.get(&write.knob),
            None => self.own.machine.get(&write.knob),
        };
        let mut level = BTreeMap::new();
        for (_, write) in &self.writes {
            if own(write) == Some(write.value.as_str()) {
                level.remove(&write.knob);
            } else {
                level.insert(write.knob.clone(), write.value.clone());
            }
        }
        level.into_iter().collect()
    }

    /// Whether every knob reads as it did at the beginning.
    pub(crate) fn is_as_it_was(&mut self) -> anyhow::Result<bool> {
        Ok(self.tap.knobs()? == self.own)
    }

    /// When a state was first entered at or after a moment, in seconds after it.
    pub(crate) fn entered(&self, state: State, after: u64) -> Option<f64> {
        let after = Duration::from_secs(after);
        let found =
            self.decisions.iter().find(|d| d.at >= after && d.to == state && d.from != state);
        found.map(|d| (d.at - after).as_secs_f64())
    }

    /// The guard's drain rate of the first device.
    pub(crate) fn drain_bytes_per_s(&self) -> Option<f64> {
        self.guard.as_ref()?.status().next()?.estimate.drain_bytes_per_s
    }

    /// Of a load, a second between two moments.
    pub(crate) fn rate(&self, load: &str, from: u64, to: u64) -> (f64, f64) {
        let part = &self.seconds[from as usize..to as usize];
        let sum = part
            .iter()
            .map(|s| s.of(load))
            .fold(Done::default(), |a, b| Done { ops: a.ops + b.ops, bytes: a.bytes + b.bytes });
        (sum.ops as f64 / part.len() as f64, sum.bytes as f64 / part.len() as f64)
    }

    /// So many of the operations that ended between two moments took no longer, in microseconds. If
    /// none ended, all of the time: one was waited for.
    pub(crate) fn quantile_us(&self, share: f64, from: u64, to: u64) -> f64 {
        let mut all = LatencyCounts::default();
        for second in &self.seconds[from as usize..to as usize] {
            all.merge(&second.latencies.commit);
            all.merge(&second.latencies.read);
        }
        all.nearest_rank_ns(share).map_or((to - from) as f64 * 1e6, |ns| rounded(ns as f64 / 1e3))
    }

    /// Seconds in which a load got less than a tenth of its rate alone.
    pub(crate) fn dead(&self, load: &str, alone: f64, from: u64, to: u64) -> usize {
        let part = &self.seconds[from as usize..to as usize];
        part.iter()
            .filter(|s| (s.of(load).ops as f64) < floodwall_stats::stalls::DEAD_BELOW * alone)
            .count()
    }

    /// A stretch as a trial's phase of victims and floods together, so that it is judged as any
    /// other.
    pub(crate) fn trial(&self, victim: &str, flood: &str, from: u64, to: u64) -> Trial {
        let part = &self.seconds[from as usize..to as usize];
        let intervals = part.iter().enumerate().map(|(i, s)| Interval {
            start_s: i as f64,
            seconds: 1.0,
            victim_ops: vec![u32::try_from(s.of(victim).ops).unwrap_or(u32::MAX)],
            latencies: s.latencies.clone(),
            victim_bytes: 0,
            flood_bytes: s.of(flood).bytes,
            host: s.host.clone(),
        });
        let phase = Phase {
            kind: PhaseKind::Both,
            start_s: from as f64,
            seconds: (to - from) as f64,
            warmup: Warmup::default(),
            intervals: intervals.collect(),
            overrun: OpLatencies::default(),
            victims: Vec::new(),
            floods: Vec::new(),
            burst: None,
            cut_short: None,
        };
        Trial { setting: Setting::default(), round: 1, phases: vec![phase] }
    }

    /// Bytes a second at which the last burst was accepted; `None` while it is not.
    pub(crate) fn burst_bytes_per_s(&self) -> Option<f64> {
        self.tap.plant.bursts().last()?.totals.map(|b| b.bytes_per_s())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_guard_holds_is_a_fixed_setting() {
        let cell =
            crate::cells::all().into_iter().find(|c| c.name() == "usb-stick_scan_flood-1").unwrap();
        let part = || PlantDevice {
            options: cell.machine(1).unwrap(),
            scenario: cell.scenario().unwrap(),
        };
        let mut stage = Stage::new(vec![part()], &Setting::default(), true).unwrap();
        assert!(stage.level().is_empty());
        let scenario = cell.scenario().unwrap();
        stage.start(0, &scenario.victims[0].name).unwrap();
        stage.start(5, &scenario.floods[0].name).unwrap();
        stage.until(12).unwrap();
        let held = stage.level();
        assert!(!held.is_empty() && held.0.keys().all(|knob| !knob.contains(' ')), "{held}");
        let fixed = Stage::new(vec![part()], &held, false).unwrap();
        let device = fixed.first_device().unwrap();
        let of_device =
            |(knob, value): (&String, &String)| fixed.own.devices[&device].get(knob) == Some(value);
        assert!(
            held.0.iter().all(of_device),
            "{held} is in force: {:?}",
            fixed.own.devices[&device]
        );
        stage.stop(12, &scenario.victims[0].name).unwrap();
        stage.stop(12, &scenario.floods[0].name).unwrap();
        stage.until(60).unwrap();
        assert!(stage.level().is_empty(), "{}", stage.level());
    }
}
