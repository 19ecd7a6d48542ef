//! A simulated machine: a database and a copy that come and go, in real time.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use floodwall_device::DeviceSpec;
use floodwall_model::Plant;
use floodwall_model::diagnosis::Verdict;
use floodwall_model::frame::{Disk, Frame, Machine, Process};
use floodwall_model::plant::{Actor, DeviceObservation, Observation};
use floodwall_model::status::{DrainSource, FIRST_GUESS};
use floodwall_sim::{SimPlant, life};

use super::source::{Next, Source};
use crate::commands::frames::{Shares, judge, waited};
use crate::exit::UsageError;

/// A commit that takes longer beside a flood is a stall (as in host's diagnosis).
const LONG: Duration = Duration::from_millis(50);
/// The same without a flood: ten threads that commit wait for each other on a disk that seeks.
const LONG_ALONE: Duration = Duration::from_millis(100);
/// A process that dirties this share of the drain rate is a flood.
const FLOODS: f64 = 0.25;
/// A machine that was stopped (Ctrl-Z) goes on where it was.
const LONGEST_STEP: Duration = Duration::from_secs(2);

/// A simulated machine.
pub(super) struct Simulated {
    plant: SimPlant,
    disk: String,
    interval: Duration,
    last: Instant,
    at: Duration,
    shares: Shares,
    /// The fastest that it was seen to write beside a backlog, in bytes a second.
    drain: Option<f64>,
}

impl Simulated {
    /// A machine with one disk.
    ///
    /// # Errors
    /// There is no such preset.
    pub(super) fn new(preset: &str, interval: Duration) -> anyhow::Result<Self> {
        let spec = DeviceSpec::preset(preset).map_err(|e| UsageError(format!("--sim: {e}")))?;
        Ok(Self {
            plant: life(spec)?,
            disk: preset.to_owned(),
            interval,
            last: Instant::now(),
            at: Duration::ZERO,
            shares: Shares::default(),
            drain: None,
        })
    }

    fn frame(&mut self, seen: &Observation) -> Frame {
        let window = seen.at.saturating_sub(self.at);
        self.at = seen.at;
        let mut disks = Vec::new();
        let mut processes = Vec::new();
        for device in &seen.devices {
            let mut disk = self.disk(seen, device, window);
            let drain = self.drain.unwrap_or(FIRST_GUESS);
            let rows = (1..).zip(&device.actors).map(|(pid, actor)| {
                process(pid, &disk.name, actor, FLOODS * drain * window.as_secs_f64())
            });
            let mut rows: Vec<Process> = rows.collect();
            let is_flooded = rows.iter().any(|process| process.is_flood);
            if is_flooded {
                disk.verdict = Verdict::Flooding;
            }
            let long = if is_flooded || disk.is_backlogged() { LONG } else { LONG_ALONE };
            rows.iter_mut().for_each(|process| process.is_victim = waits(process, long));
            disks.push(disk);
            processes.extend(rows);
        }
        let window_ms = window.as_millis() as u64;
        self.shares.frame(window_ms, &mut disks, &mut processes);
        judge(&mut disks, &processes);
        Frame {
            at_unix_ms: SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_millis() as u64),
            window_ms,
            source: "sim".to_owned(),
            machine: Machine {
                name: "simulated".to_owned(),
                dirty_bytes: seen.dirty_bytes,
                writeback_bytes: seen.writeback_bytes,
                hard_limit_bytes: seen.hard_limit_bytes,
                background_limit_bytes: seen.background_limit_bytes,
                ..Machine::default()
            },
            disks,
            processes,
            ..Frame::default()
        }
    }

    fn disk(&mut self, seen: &Observation, device: &DeviceObservation, window: Duration) -> Disk {
        let seconds = window.as_secs_f64().max(f64::EPSILON);
        let per_s = |bytes: u64| (bytes as f64 / seconds).round() as u64;
        let backlog = device.dirty_bytes.zip(device.writeback_bytes).map(|(a, b)| a + b);
        let written = per_s(device.counters.written_bytes);
        if device.writeback_bytes.is_some_and(|bytes| bytes > 0) && written > 0 {
            self.drain = Some(written as f64);
        }
        let time_ms = |bytes: u64| self.drain.map(|rate| (bytes as f64 / rate * 1e3) as u64);
        Disk {
            name: self.disk.clone(),
            id: device.id.to_string(),
            backlog_bytes: backlog,
            drain_bytes_per_s: self.drain.map(|rate| rate as u64),
            drain_from: if self.drain.is_some() { DrainSource::Seen } else { DrainSource::Unknown },
            drain_ms: backlog.and_then(time_ms),
            hard_limit_ms: seen.hard_limit_bytes.and_then(time_ms),
            read_bytes_per_s: Some(per_s(device.counters.read_bytes)),
            written_bytes_per_s: Some(written),
            in_flight: Some(device.counters.in_flight),
            ..Disk::default()
        }
    }
}

/// What an actor did; it floods if it dirtied more than `much` bytes.
fn process(pid: u32, disk: &str, actor: &Actor, much: f64) -> Process {
    let is_flood = actor.dirtied_bytes as f64 > much.max(1e6);
    Process {
        pid,
        name: actor.who.clone(),
        disk: Some(disk.to_owned()),
        is_flood,
        waiting: u64::from(actor.waiting),
        oldest_us: actor.oldest.as_micros() as u64,
        dirtied_bytes: Some(actor.dirtied_bytes),
        waits: [("fsync", &actor.commits), ("read", &actor.reads)]
            .into_iter()
            .filter(|(_, counts)| !counts.is_empty())
            .map(|(call, counts)| waited(call, counts))
            .collect(),
        ..Process::default()
    }
}

/// Whether a process that does not flood waits so long.
fn waits(process: &Process, long: Duration) -> bool {
    let typical = process.waits.iter().map(|waits| waits.p50_us).max().unwrap_or(0);
    !process.is_flood && typical.max(process.oldest_us) >= long.as_micros() as u64
}

impl Source for Simulated {
    fn next(&mut self) -> Next {
        let passed = self.last.elapsed();
        if passed < self.interval {
            return Next::Nothing;
        }
        self.last = Instant::now();
        self.plant.advance(passed.min(LONGEST_STEP.max(self.interval)));
        match self.plant.observe() {
            Ok(seen) => Next::Frame(Box::new(self.frame(&seen))),
            Err(error) => Next::Lost(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_copy_floods_and_the_database_before_it_does_not() {
        let mut simulated = Simulated::new("hdd-7200", Duration::from_secs(1)).unwrap();
        let mut next = || {
            simulated.plant.advance(Duration::from_secs(1));
            let seen = simulated.plant.observe().unwrap();
            let Frame { disks, processes, .. } = simulated.frame(&seen);
            let floods = processes.into_iter().filter(|process| process.is_flood);
            (disks[0].verdict, floods.map(|process| process.name).collect::<Vec<_>>())
        };
        for _ in 0..10 {
            assert_eq!(next(), (Verdict::Quiet, Vec::new()));
        }
        for _ in 0..10 {
            assert_eq!(next(), (Verdict::Stalling, vec!["copy".to_owned()]));
        }
    }
}
