//! This host as a [`Runner`]: one directory on one device.
//!
//! ```text
//! open (checks, device lock, scratch directory) → prepare (files) → run × rounds
//!                                                                 → close (everything gone)
//!
//! run (round.rs):  for each phase, in an order that rotates with the round:
//!                    discard the floods' backlog → drain → settle → phase::run
//! ```
//!
//! Rotating the order keeps the after-effects of a phase (a full device cache, a warm one) from
//! always hitting the same successor.

mod drain_rate;
mod prepared;
mod round;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use floodwall_host::locate::{self, LocateError, Location};
use floodwall_host::mounts::charges_writeback;
use floodwall_host::{HostFacts, Sampler, SysRoot, memory, settings_in_force};
use floodwall_load::Dir;
use floodwall_model::runner::{Second, Step};
use floodwall_model::setting::VICTIMS_PRIORITY;
use floodwall_model::status::Missing;
use floodwall_model::{Bytes, Runner, RunnerError, Scenario, Setting, Trial, Watch};

pub use drain_rate::{Bounds, DrainRate};
use prepared::Prepared;

use crate::command_probe::CommandCounts;
use crate::device_lock::{self, DeviceLock};
use crate::error::BenchError;
use crate::groups::Groups;
use crate::options::{Options, SAME_GROUP};
use crate::scratch::{Scratch, ScratchError};
use crate::space::{self, Room};
use crate::tool::Tool;

/// This host, one directory of it.
#[derive(Debug)]
pub struct HostRunner {
    root: SysRoot,
    location: Location,
    facts: HostFacts,
    sampler: Sampler,
    setting: Setting,
    missing: Vec<Missing>,
    /// Open since before the first write: the kernel reports writeback errors through its
    /// descriptor.
    scratch: Scratch,
    _lock: DeviceLock,
    options: Options,
    prepared: Option<Prepared>,
    /// The groups of victims and floods, or why they could not be made.
    groups: Result<Groups, String>,
    /// Operations seen of victims that are commands.
    command_counts: CommandCounts,
    /// Runs in place of the scenario's victims.
    tool: Option<Box<dyn Tool>>,
    first_operation: Option<Duration>,
}

impl HostRunner {
    /// Checks the directory, takes its device and makes a scratch directory.
    ///
    /// # Errors
    /// [`BenchError`]: everything that can be known before the first byte is written.
    pub fn open(root: SysRoot, dir: &Path, options: Options) -> Result<Self, BenchError> {
        let mut location = locate::locate(&root, dir)?;
        let dir = location.directory.clone();
        if location.read_only {
            return Err(BenchError::ReadOnly {
                dir,
                mountpoint: location.mount.mountpoint.clone(),
            });
        }
        if let (Some(reason), false) = (location.without_writeback, options.force) {
            let filesystem = location.mount.fs_type.clone();
            return Err(BenchError::NoWriteback { dir, filesystem, reason: reason.to_owned() });
        }
        let lock = DeviceLock::take(&device_lock::shared_devices(&root, &location))?;
        location.notes.extend(lock.notes().iter().cloned());
        let bdi = location.bdi.value().map(String::as_str);
        let in_force = settings_in_force(&root, location.queue_device, bdi);
        let sampler = Sampler::new(root.clone(), location.queue_devices.iter().copied());
        let facts = HostFacts::read(&root, &location);
        let parent = Dir::open_resolved(&dir)
            .map_err(|e| ScratchError::Make { dir: dir.clone(), source: e.into() })?;
        let scratch = Scratch::make(&parent)?;
        let groups = match (&*options.flood_command, options.same_group) {
            ([], _) => Err("floods are threads of this process".to_owned()),
            (_, true) => Err(SAME_GROUP.to_owned()),
            _ => Groups::make(&root),
        };
        let filesystem = &location.mount.fs_type;
        if groups.is_ok() && !charges_writeback(filesystem) {
            location.notes.push(format!(
                "{filesystem} does not charge writeback to control groups: limits of the floods' \
                 group don't hold what it writes through the page cache"
            ));
        }
        Ok(Self {
            groups,
            root,
            location,
            facts,
            sampler,
            setting: in_force.setting,
            missing: in_force.missing,
            scratch,
            _lock: lock,
            options,
            prepared: None,
            command_counts: CommandCounts::default(),
            tool: None,
            first_operation: None,
        })
    }

    /// Has a tool run in place of the scenario's victims from now on. A phase that it takes part in
    /// is as long as its run.
    pub fn set_tool(&mut self, tool: Box<dyn Tool>) {
        self.tool = Some(tool);
    }

    /// Where the directory is: filesystem, device, the disks beneath.
    #[must_use]
    pub fn location(&self) -> &Location {
        &self.location
    }

    /// The knob values in force.
    #[must_use]
    pub fn setting(&self) -> &Setting {
        &self.setting
    }

    /// Reads the knob values in force again: another program has changed them since the runner was
    /// opened.
    pub fn reread_setting(&mut self) {
        let bdi = self.location.bdi.value().map(String::as_str);
        let in_force = settings_in_force(&self.root, self.location.queue_device, bdi);
        (self.setting, self.missing) = (in_force.setting, in_force.missing);
    }

    /// The machine's facts in a result.
    #[must_use]
    pub fn facts(&self) -> &HostFacts {
        &self.facts
    }

    /// Links below the directory that could not be followed, and why; devices behind them are left
    /// out. Also other benchmarks that may be running on the device.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.location.notes
    }

    /// Values that could not be read, and why: knobs, counters of the last sample, operations of
    /// commands. Also why victims and floods are in one control group.
    #[must_use]
    pub fn missing(&self) -> Vec<Missing> {
        let groups = self.groups.as_ref().err();
        let groups = groups.map(|why| Missing {
            what: "control groups of victims and floods".into(),
            why: why.clone(),
        });
        self.missing
            .iter()
            .chain(self.sampler.missing())
            .cloned()
            .chain(self.unseen())
            .chain(groups)
            .collect()
    }

    /// The control groups of victims and floods.
    ///
    /// # Errors
    /// The reason why the groups are missing, for people.
    pub fn groups(&self) -> Result<&Groups, &str> {
        self.groups.as_ref().map_err(String::as_str)
    }

    /// Values that can't be measured for victims that are commands, and why. Known from
    /// [`Self::prepare`] on, in more detail after the first phase.
    #[must_use]
    pub fn unseen(&self) -> Vec<Missing> {
        self.command_counts.missing()
    }

    /// The space that a scenario may take.
    ///
    /// # Errors
    /// [`BenchError::Locate`] if the filesystem does not tell.
    pub fn room(&self, cap: Option<Bytes>) -> Result<Room, BenchError> {
        Ok(Room {
            free: free_space(self.scratch.dir())?,
            cap,
            hard_limit: memory::read_thresholds(&self.root).hard_bytes.into_value().map(Bytes),
            ram: memory::read_memory(&self.root).total_bytes.into_value().map(Bytes),
        })
    }

    /// Time from the program's begin to its first write, once that has happened.
    #[must_use]
    pub fn first_operation(&self) -> Option<Duration> {
        self.first_operation
    }

    /// Writes a scenario's files. Its sizes must be settled ([`crate::space::fit`]).
    ///
    /// # Errors
    /// [`BenchError::Timing`], [`BenchError::Load`] or [`BenchError::Interrupted`].
    pub fn prepare(
        &mut self,
        scenario: &Scenario,
        watch: &mut dyn Watch,
    ) -> Result<(), BenchError> {
        self.prepared = None;
        if let Some(problem) = scenario.timing.problem() {
            return Err(BenchError::Timing { scenario: scenario.name.clone(), problem });
        }
        let total = space::prefill_bytes(scenario).0;
        // How fast the device takes it is not known yet; the progress tells.
        watch.step(Step { what: "prefilling", phase: None, round: 0, expected_s: 0.0 });
        let origin = self.options.origin;
        let mut first = self.first_operation;
        let mut done = 0u64;
        let mut last_shown = Instant::now();
        let mut progress = |bytes: u64| {
            first.get_or_insert_with(|| origin.elapsed());
            done += bytes;
            if last_shown.elapsed() >= Duration::from_millis(250) {
                last_shown = Instant::now();
                watch.second(&Second {
                    elapsed_s: origin.elapsed().as_secs_f64(),
                    done: (total > 0).then(|| (done as f64 / total as f64).min(1.0)),
                    interval: None,
                    drain_bytes_per_s: None,
                });
            }
        };
        let prepared = Prepared::write(
            scenario,
            self.scratch.dir(),
            &self.options,
            &self.groups,
            &mut progress,
            self.tool.is_some(),
        )?;
        self.first_operation = first;
        if self.tool.is_none() {
            self.command_counts = CommandCounts::new(scenario, &self.root, &self.location);
        }
        if self.options.stop.load(Ordering::Relaxed) {
            return Err(BenchError::Interrupted);
        }
        self.prepared = Some(prepared);
        Ok(())
    }

    /// Removes everything that the runner made.
    ///
    /// # Errors
    /// [`BenchError::Scratch`] with the path that is left.
    pub fn close(self) -> Result<(), BenchError> {
        drop(self.prepared);
        Ok(self.scratch.remove()?)
    }
}

/// Free space on a directory's filesystem.
fn free_space(dir: &Dir) -> Result<Bytes, LocateError> {
    let fs = rustix::fs::fstatvfs(dir)
        .map_err(|e| LocateError::Directory { path: dir.path().to_owned(), source: e.into() })?;
    Ok(Bytes(fs.f_bavail.saturating_mul(fs.f_frsize)))
}

impl Runner for HostRunner {
    fn run(
        &mut self,
        scenario: &Scenario,
        setting: &Setting,
        round: u32,
        watch: &mut dyn Watch,
    ) -> Result<Trial, RunnerError> {
        let mut trial =
            Trial { setting: self.setting.clone(), round: round.max(1), phases: Vec::new() };
        if let Some(priority) = setting.get(VICTIMS_PRIORITY) {
            trial.setting.0.insert(VICTIMS_PRIORITY.to_owned(), priority.to_owned());
        }
        let result = setting
            .0
            .iter()
            .find(|(knob, value)| trial.setting.get(knob) != Some(value))
            .map_or(Ok(()), |(knob, value)| {
                Err(BenchError::SettingNotInForce(format!("{knob}={value}")))
            })
            .and_then(|()| {
                let taken_over = self.prepared.as_mut().is_some_and(|p| p.take_over(scenario));
                if taken_over { Ok(()) } else { self.prepare(scenario, watch) }
            })
            .and_then(|()| self.run_round(&mut trial, watch));
        match result {
            Ok(()) => Ok(trial),
            Err(e) => Err(RunnerError {
                interrupted: self.options.stop.load(Ordering::Relaxed),
                source: Box::new(e),
                partial: (!trial.phases.is_empty()).then(|| Box::new(trial)),
            }),
        }
    }
}
