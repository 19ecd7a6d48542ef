//! The host's sensors and knobs, as a [`Plant`].
//!
//! ```text
//! wait ─▶ probe's rings drained            between two looks; closed tracepoints opened in time
//! observe ─▶ probe's snapshot, dirty pages ─▶ by unit
//! knobs ─▶ as the files read               fresh for used devices, remembered for idle ones
//! write ─▶ lane of the device              in force when this returns, or `changing` until it is
//! ```

mod back;
mod change;
mod devices;
mod observe;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use floodwall_host::SysRoot;
use floodwall_host::memory::DIRTY_KNOBS;
use floodwall_knobs::{Device, KernelFiles, Who};
use floodwall_model::plant::{KnobWrite, Knobs, Observation, Plant, PlantError};
use floodwall_model::setting::{is_passing, is_priority};
use floodwall_model::{DeviceId, Reading, Setting};
use floodwall_probe::{Blind, Probe, SourceKind};

use crate::attention::{Attention, glances};
use crate::cells::read_knobs;
use crate::error::HostPlantError;
use crate::groups::Groups;
use crate::levels::{Flood, Level, MachineLevel, Turn};
use crate::options::Options;
use crate::owner::Owner;
use crate::paced::Paced;
use crate::priorities::{Priorities, SavedCell, Sources};
use crate::units::{Units, Which, read_units};
use crate::writer::Writer;

/// How long an opening plant waits for another process that changes settings.
const PATIENCE: Duration = Duration::from_secs(2);

/// The kernel's counters of dirty data for each backing device.
const DEBUGFS: &str = "/sys/kernel/debug/bdi";

/// A unit's state from one look to the next.
#[derive(Debug, Default)]
struct Known {
    name: String,
    level: Option<Level>,
    /// Whether its level was asked for. Without debugfs it has no level.
    asked: bool,
    /// Its knobs as they were last read, with later writes.
    knobs: Option<Setting>,
    /// Whether it was written to since its knobs were read.
    stale: bool,
    /// Whether it was active between the last two looks.
    active: bool,
    /// Whether its cells were handed over to be saved.
    saved: bool,
    /// Its devices, each with the identity of its disk.
    devices: Vec<Device>,
}

/// The machine that this process runs on. See the [crate].
pub struct HostPlant {
    root: SysRoot,
    files: KernelFiles,
    probe: Probe,
    /// The flooded device, where debugfs does not tell the dirty pages of each device.
    flood: Option<Flood>,
    blind: Vec<Blind>,
    which: Which,
    exclude: Vec<String>,
    /// Their numbers, as far as they are there.
    excluded: BTreeSet<DeviceId>,
    units: Units,
    known: BTreeMap<DeviceId, Known>,
    groups: Groups,
    priorities: Priorities,
    paced: Paced,
    /// `None` in a dry run: nothing is written.
    writer: Option<Writer>,
    mounts: Option<File>,
    /// When devices and mounts were read, by the probe's clock.
    refreshed: Duration,
    mounts_changed: bool,
    turn: Turn,
    buffer: Vec<u8>,
    /// Changes that were put back when the plant was opened, until they are asked for.
    recovered: Vec<String>,
    /// Devices of the last observation, and new ones that were not asked for yet.
    present: BTreeSet<DeviceId>,
    arrived: BTreeSet<DeviceId>,
    /// Used devices that are not steered.
    ignored: BTreeSet<DeviceId>,
    /// Units that have just gone. If another disk has the number, one look leaves it out, so that
    /// a controller forgets the old disk.
    just_gone: BTreeSet<DeviceId>,
    lost_events: u64,
    attention: Attention,
    is_closed: bool,
}

impl HostPlant {
    /// Opens sensors and journal. Changes that a crashed process left are put back first;
    /// [`Self::take_recovered`] lists them.
    ///
    /// # Errors
    /// [`HostPlantError`]; [`HostPlantError::is_missing_requirement`] and
    /// [`HostPlantError::is_wrong_use`] tell its kind.
    pub fn open(options: &Options) -> Result<Self, HostPlantError> {
        let root = SysRoot::live()?;
        let kernel_files = || KernelFiles::new(&root).map_err(HostPlantError::Files);
        let files = kernel_files()?;
        // Before the units are read: a filesystem may be mounted meanwhile.
        let mounts = File::open("/proc/self/mountinfo").ok();
        let units = read_units(&root, &options.devices, &options.mounted)?;
        if units.units.is_empty() {
            let left =
                units.left_out.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
            let none =
                || "/sys/block lists none (in a container, give it the host's /sys)".to_owned();
            return Err(HostPlantError::Nothing(if left.is_empty() { none() } else { left }));
        }
        let probe = Probe::open_sparing(options.source)?;
        let mut recovered = Vec::new();
        let writer = if options.dry_run {
            None
        } else {
            let who = Who { socket: options.socket.clone(), ..Who::this_process(&files) };
            let journal = options.journal.clone();
            let (writer, recovery) =
                Writer::open(kernel_files()?, journal, who, &options.why, PATIENCE)?;
            recovered = crate::Restored { recovery, steering: Vec::new() }.lines();
            Some(writer)
        };
        let mut blind = probe.blind().to_vec();
        if !root.exists(DEBUGFS) {
            let why = "debugfs can't be seen (run as root on the host, on a kernel that has it): \
                       the device that is flooded is taken to have what floods dirtied there";
            blind.push(Blind { what: "dirty pages by device".to_owned(), why: why.to_owned() });
        }
        let mut plant = Self {
            groups: Groups::new(&root),
            priorities: Priorities::new(),
            paced: Paced::default(),
            root,
            files,
            probe,
            flood: None,
            blind,
            which: options.devices.clone(),
            exclude: options.exclude.clone(),
            excluded: BTreeSet::new(),
            units,
            known: BTreeMap::new(),
            writer,
            mounts,
            refreshed: Duration::ZERO,
            mounts_changed: false,
            turn: Turn::default(),
            buffer: Vec::new(),
            recovered,
            present: BTreeSet::new(),
            arrived: BTreeSet::new(),
            ignored: BTreeSet::new(),
            just_gone: BTreeSet::new(),
            lost_events: 0,
            attention: Attention::default(),
            is_closed: false,
        };
        plant.units_changed();
        plant.find_excluded();
        Ok(plant)
    }

    /// Waits, and takes in the probe's events meanwhile. Ends early when `stop` is raised, at the
    /// latest after a tenth of a second, and when a flood may have begun.
    ///
    /// # Errors
    /// [`PlantError::Lost`] if the source is lost.
    pub fn wait(&mut self, time: Duration, stop: &AtomicBool) -> Result<(), PlantError> {
        let mut left = time;
        if self.probe.is_paused() {
            left = glances(time, |glance| {
                self.probe.wait(glance, stop).map_err(lost)?;
                let machine = MachineLevel::read(&self.root, &mut self.buffer);
                let is_sign =
                    !stop.load(Ordering::Relaxed) && self.attention.is_sign(machine.backlog());
                if is_sign {
                    self.probe.resume().map_err(lost)?;
                }
                Ok(is_sign)
            })?;
        }
        self.probe.wait(left, stop).map_err(lost)
    }

    /// Takes a process's word that it floods a device and paces itself. It counts for some seconds.
    /// Returns the device as it is observed; `None` if that is not steered.
    pub fn paces_itself(&mut self, pid: u32, device: DeviceId) -> Option<DeviceId> {
        let unit = self.units.units.get(self.units.of(device)?)?.id;
        self.paced.tell(&self.root, pid, unit);
        Some(unit)
    }

    /// The probe's source.
    #[must_use]
    pub fn source(&self) -> SourceKind {
        self.probe.source()
    }

    /// Things that can't be seen, and why.
    #[must_use]
    pub fn blind(&self) -> &[Blind] {
        &self.blind
    }

    /// Events that the kernel had no room for, since the plant was opened.
    #[must_use]
    pub fn lost_events(&self) -> u64 {
        self.lost_events
    }

    /// Limits of control groups and priorities that are held or about to be.
    fn in_use(&self) -> BTreeSet<Owner> {
        self.writer.as_ref().map(Writer::limits_in_use).unwrap_or_default()
    }

    /// Saves cells ahead of writes, all at once: each save waits for the journal's disk.
    fn save(&self, unit: DeviceId, cells: Vec<SavedCell>) {
        if let (Some(writer), false) = (&self.writer, cells.is_empty()) {
            writer.save(unit, cells);
        }
    }
}

impl Plant for HostPlant {
    fn knobs(&mut self) -> Result<Knobs, PlantError> {
        let mut all = Knobs::default();
        for name in DIRTY_KNOBS {
            if let Some(value) = self.root.read_line(&format!("/proc/sys/vm/{name}")).into_value() {
                all.machine.0.insert(format!("vm.{name}"), value);
            }
        }
        if all.machine.is_empty() {
            let why = "it can't be read; mount /proc".to_owned();
            return Err(PlantError::Lost { what: "/proc/sys/vm".to_owned(), why });
        }
        let (held, changing) = match &self.writer {
            Some(writer) => (writer.units_held(), writer.units_changing()),
            None => Default::default(),
        };
        let in_use = self.in_use();
        for unit in &self.units.units {
            let Some(known) = self.known.get_mut(&unit.id) else { continue };
            // An idle device's knobs are not read again: there may be a thousand devices.
            let may_differ = known.active || known.stale || held.contains(&unit.id);
            // Up to 6.13 a read of a queue's file waits for a write that waits for the queue to run
            // dry (`q->sysfs_lock`).
            let can_be_read = !changing.contains(&unit.id);
            if known.knobs.is_none() || (may_differ && can_be_read) {
                known.knobs = Some(read_knobs(unit, &self.files));
                known.stale = false;
            }
            let mut knobs = known.knobs.clone().unwrap_or_default();
            let pending = &|owner: &Owner| self.writer.as_ref()?.pending(owner);
            let from =
                Sources { root: &self.root, unit, files: &self.files, in_use: &in_use, pending };
            self.groups.read_knobs(unit.id, &self.files, pending, &mut knobs);
            let fresh = self.priorities.read_knobs(&from, &mut knobs);
            self.save(unit.id, fresh);
            all.devices.insert(unit.id, knobs);
        }
        Ok(all)
    }

    fn read_passing(
        &mut self,
        device: DeviceId,
        asked: &[String],
    ) -> Result<Vec<Reading<String>>, PlantError> {
        let Some(unit) = self.units.get(device) else {
            return Ok(vec![
                Reading::Unreadable("the device is not there".to_owned());
                asked.len()
            ]);
        };
        let (in_use, pending) =
            (self.in_use(), &|owner: &Owner| self.writer.as_ref()?.pending(owner));
        let from = Sources { root: &self.root, unit, files: &self.files, in_use: &in_use, pending };
        let knobs =
            self.known.get(&device).and_then(|known| known.knobs.clone()).unwrap_or_default();
        let (mut fresh, mut readings) = (Vec::new(), Vec::new());
        for name in asked {
            readings.push(if is_priority(name) {
                self.priorities.read_knob(&from, name, &knobs, &mut fresh)
            } else {
                self.groups.read_knob(device, name, &self.files, pending)
            });
        }
        self.save(device, fresh);
        Ok(readings)
    }

    fn observe(&mut self) -> Result<Observation, PlantError> {
        let snapshot = self.probe.snapshot().map_err(lost)?;
        if let Some(writer) = &self.writer {
            writer.begin_look();
        }
        self.lost_events += snapshot.lost_events;
        self.refresh(&snapshot);
        let seen = self.see(&snapshot)?;
        Ok(self.steered(seen))
    }

    fn write(&mut self, write: &KnobWrite) -> Result<(), PlantError> {
        let changes = self.changes(write)?;
        let Some(writer) = &self.writer else {
            let why = "a dry run writes nothing".to_owned();
            return Err(PlantError::Refused { write: write.clone(), why });
        };
        writer.write(write.clone(), changes)?;
        write.device.into_iter().for_each(|unit| self.priorities.hold(&write.knob, unit));
        let of_queue = write.device.filter(|_| !is_passing(&write.knob));
        if let Some(known) = of_queue.and_then(|id| self.known.get_mut(&id)) {
            known.stale = true;
            if let Some(knobs) = &mut known.knobs {
                knobs.0.insert(write.knob.clone(), write.value.clone());
            }
        }
        Ok(())
    }

    fn failures(&mut self, device: DeviceId) -> Vec<(KnobWrite, PlantError)> {
        let Some(writer) = &self.writer else { return Vec::new() };
        let failures = writer.take_failures(device);
        if let Some(known) = self.known.get_mut(&device).filter(|_| !failures.is_empty()) {
            known.stale = true;
        }
        failures
    }
}

fn lost(error: floodwall_probe::ProbeError) -> PlantError {
    PlantError::Lost { what: "the probe".to_owned(), why: error.to_string() }
}
