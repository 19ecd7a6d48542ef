//! The host's sensors and knobs, as a [`Plant`].
//!
//! ```text
//! wait ─▶ probe's rings drained            between two looks; closed tracepoints opened in time
//! observe ─▶ probe's snapshot, dirty pages ─▶ by unit
//! knobs ─▶ as the files read               fresh for used devices, remembered for idle ones
//! write ─▶ lane of the device              in force when this returns, or `changing` until it is
//! ```

mod back;
mod devices;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use floodwall_host::memory::DIRTY_KNOBS;
use floodwall_host::{SysRoot, bdi};
use floodwall_knobs::catalogue::{Knob, Scope, find};
use floodwall_knobs::value::{Form, check};
use floodwall_knobs::{Change, Device, KernelFiles, Target, Who};
use floodwall_model::plant::{
    Actor, DeviceObservation, KnobWrite, Knobs, Observation, Plant, PlantError,
};
use floodwall_model::setting::{is_passing, is_priority};
use floodwall_model::trial::DeviceSample;
use floodwall_model::{DeviceId, Reading, Setting};
use floodwall_probe::{Blind, Probe, Snapshot, SourceKind};

use crate::attention::{Attention, Look, glances, sees_all};
use crate::cells::{ahead, read_knobs};
use crate::error::HostPlantError;
use crate::groups::{Dirtied, Groups};
use crate::levels::{Flood, Level, Machine, Turn, counters_of, flooded, put_down};
use crate::options::Options;
use crate::owner::{Owner, process_name};
use crate::priorities::{Priorities, SavedCell, Sources};
use crate::told::Event;
use crate::units::{Units, Which, devices_of, read_units};
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
            let why = "debugfs is not mounted (mount -t debugfs none /sys/kernel/debug): the \
                       device that is flooded is taken to have what floods dirtied there";
            blind.push(Blind { what: "dirty pages by device".to_owned(), why: why.to_owned() });
        }
        let mut plant = Self {
            groups: Groups::new(&root),
            priorities: Priorities::new(),
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
                let machine = Machine::read(&self.root, &mut self.buffer);
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

    /// An observation from the probe's snapshot and the figures of dirty pages.
    fn see(&mut self, snapshot: &Snapshot) -> Result<Observation, PlantError> {
        let machine = Machine::read(&self.root, &mut self.buffer);
        let sees_waits =
            self.probe.source() != SourceKind::Proc && snapshot.attached >= snapshot.window / 2;
        let mut actors: HashMap<usize, Vec<Actor>> = HashMap::new();
        let mut elsewhere = 0;
        let mut dirtied = Dirtied::default();
        // The journal of this process waits for a disk as well: that is no victim to protect.
        let own = (!self.probe.has_own_numbers()).then(std::process::id);
        let others = snapshot.processes.iter().filter(|process| Some(process.pid) != own);
        for process in others.filter(|process| !process.is_flusher()) {
            let unit = process.device.and_then(|device| Some((device, self.units.of(device)?)));
            let Some((device, index)) = unit else {
                elsewhere += process.actors().map(|actor| flooded(&actor)).sum::<u64>();
                continue;
            };
            let is_known = !self.probe.has_own_numbers();
            let group =
                is_known.then(|| self.groups.of(&self.root, process.pid, snapshot.at)).flatten();
            if let (Some(group), Some(unit)) = (&group, self.units.units.get(index)) {
                dirtied.add(group, unit.id, device, process.dirtied_bytes.unwrap_or(0));
            }
            let name = is_known.then(|| process_name(process.pid));
            if let Some(unit) = self.units.units.get(index).filter(|_| is_known)
                && process.calls.keys().any(|call| call.commits())
            {
                self.priorities.commits(&self.root, process.pid, unit.id, snapshot.at);
            }
            let its = process.actors();
            let its =
                its.map(|actor| Actor { group: group.clone(), process: name.clone(), ..actor });
            let is_known = |actor: &Actor| sees_waits || !self.attention.is_committer(actor);
            let its = its.filter(is_known);
            actors.entry(index).or_default().extend(its);
        }
        let in_use = self.in_use();
        self.groups.look(&self.root, snapshot.at, dirtied, &in_use);
        let ended = self.priorities.look(&self.root, snapshot.at, &in_use);
        if let Some(writer) = &self.writer {
            writer.put_back_limits(&ended);
        }
        let counters: HashMap<DeviceId, DeviceSample> = snapshot
            .devices
            .iter()
            .map(|device| (device.id, device.counters.unwrap_or_default()))
            .collect();
        let its_turn = self.turn.next(self.units.units.len());
        let just_gone = std::mem::take(&mut self.just_gone);
        let mut devices = Vec::new();
        let mut come = Vec::new();
        for (index, unit) in self.units.units.iter().enumerate() {
            // Without counters the device is unused since the machine was booted.
            let used =
                unit.queues.is_empty() || unit.members.iter().any(|id| counters.contains_key(id));
            if !used || just_gone.contains(&unit.id) {
                continue;
            }
            let known = self.known.entry(unit.id).or_insert_with(|| {
                come.push(Event::Came { id: unit.id, name: unit.name.clone() });
                Known {
                    name: unit.name.clone(),
                    devices: devices_of(unit).cloned().collect(),
                    ..Known::default()
                }
            });
            let actors = actors.remove(&index).unwrap_or_default();
            let mut sample = counters_of(unit, &counters);
            let before = known.level;
            known.active = !actors.is_empty()
                || sample.write_ops > 0
                || sample.in_flight > 0
                || before.is_some_and(|level| !level.is_clean());
            if known.active
                || !std::mem::replace(&mut known.asked, true)
                || its_turn(index)
                || unit.queues.is_empty()
            {
                known.level =
                    Level::read(&self.root, unit.limits.iter().map(|device| &device.number));
                let leaves_out = |device: &Device| !bdi::counts_groups(&self.root, &device.number);
                if unit.limits.iter().any(leaves_out) {
                    let groups = self.groups.backlog(&self.root, unit.id);
                    known.level = known.level.map(|level| level.with_groups(groups));
                }
            }
            if unit.queues.is_empty()
                && let (Some(before), Some(now)) = (before, known.level)
            {
                // There are no requests to count: the bytes written back stand for them.
                sample.written_bytes = now.written.saturating_sub(before.written);
                sample.in_flight = u64::from(now.writeback > 0);
            }
            devices.push(DeviceObservation {
                id: unit.id,
                kind: unit.kind,
                counters: sample,
                dirty_bytes: known.level.map(|level| level.dirty),
                writeback_bytes: known.level.map(|level| level.writeback),
                changing: self.writer.as_ref().is_some_and(|writer| writer.is_changing(unit.id)),
                actors,
            });
            if known.active
                && !std::mem::replace(&mut known.saved, true)
                && let Some(writer) = &self.writer
            {
                // Saved at its first activity, and not when the first write is due.
                writer.save(unit.id, ahead(unit));
            }
        }
        if !come.is_empty() {
            self.find_excluded();
        }
        come.into_iter().for_each(|event| self.tell(event));
        put_down(&machine, &mut devices, elsewhere, &mut self.flood);
        let is_needed = self.attention.next(&Look {
            at: snapshot.at,
            window: snapshot.window,
            sees_waits,
            devices: &devices,
            dirty: machine.backlog(),
            steers: self
                .writer
                .as_ref()
                .is_some_and(|writer| !writer.units_held().is_empty() || !in_use.is_empty()),
        });
        if is_needed {
            self.probe.resume().map_err(lost)?;
        } else {
            self.probe.pause();
        }
        Ok(Observation {
            at: snapshot.at,
            dirty_bytes: machine.dirty,
            writeback_bytes: machine.writeback,
            hard_limit_bytes: machine.hard_limit,
            background_limit_bytes: machine.background_limit,
            missed_waits: !sees_waits || !sees_all(snapshot.attached, snapshot.window),
            devices,
        })
    }

    /// The changes of all cells that one write concerns.
    fn changes(&self, write: &KnobWrite) -> Result<Vec<Change>, PlantError> {
        let refused = |why: String| PlantError::Refused { write: write.clone(), why };
        if is_priority(&write.knob) {
            let id =
                write.device.ok_or_else(|| refused("say on which device it commits".to_owned()))?;
            let unit = self.units.get(id).ok_or(PlantError::NoDevice(id))?;
            let targets = self.priorities.targets(unit, &write.knob, &self.files);
            let change = |(knob, target): (&'static Knob, Target)| {
                let value =
                    check(knob, &write.value, Form::Kernel).map_err(|e| refused(e.to_string()))?;
                Ok(Change { knob, target, value })
            };
            let changes: Vec<Change> =
                targets.into_iter().map(change).collect::<Result<_, PlantError>>()?;
            let gone =
                || refused("nothing of this name commits on this device any more".to_owned());
            return if changes.is_empty() { Err(gone()) } else { Ok(changes) };
        }
        if let Some((group, _)) = write.knob.rsplit_once(':') {
            let limit = write.device.and_then(|unit| self.groups.limit(unit, &write.knob));
            let gone = || refused(format!("{group} does not write to this device any more"));
            let (knob, target) = limit.ok_or_else(gone)?;
            let value =
                check(knob, &write.value, Form::Kernel).map_err(|e| refused(e.to_string()))?;
            return Ok(vec![Change { knob, target, value }]);
        }
        let knob = find(&write.knob).ok_or_else(|| refused("there is no such knob".to_owned()))?;
        let value = check(knob, &write.value, Form::Kernel).map_err(|e| refused(e.to_string()))?;
        let targets: Vec<Target> = match (write.device, knob.scope) {
            (None, Scope::Global) => vec![Target::Machine],
            (None, _) => return Err(refused("it is a device's knob; say which device".to_owned())),
            (Some(id), Scope::Queue | Scope::Elevator(_) | Scope::Scsi) => {
                let unit = self.units.get(id).ok_or(PlantError::NoDevice(id))?;
                unit.queues.iter().cloned().map(Target::Device).collect()
            }
            (Some(id), Scope::Bdi) => {
                let unit = self.units.get(id).ok_or(PlantError::NoDevice(id))?;
                unit.limits.iter().cloned().map(Target::Device).collect()
            }
            (Some(_), _) => return Err(refused("it is not a device's knob".to_owned())),
        };
        if targets.is_empty() {
            return Err(refused("the device does not have it".to_owned()));
        }
        Ok(targets
            .into_iter()
            .map(|target| Change { knob, target, value: value.clone() })
            .collect())
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
