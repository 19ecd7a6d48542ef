//! A plant: whatever a controller steers, the host or the simulator.
//!
//! ```text
//! knobs() ─────▶ what every knob says now            once, and when a device appears
//! observe() ───▶ Observation: what happened since the last look ─┐
//!                                                                ├─ a controller, once a tick
//! write(knob) ◀─ one knob's new value ◀──────────────────────────┘
//! read_passing() ▶ limits and priorities alone       while any is written
//! ```
//!
//! The trait has no clock. Between two looks its caller waits (the host) or lets virtual time pass
//! (the simulator), and [`Observation::at`] says how much. What a sensor can't see is `None`, which
//! is not zero. Sizes are bytes, latencies nanoseconds.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::latency::LatencyCounts;
use crate::reading::Reading;
use crate::setting::Setting;
use crate::trial::DeviceSample;
use crate::units::DeviceId;

/// Something with sensors and knobs.
pub trait Plant {
    /// Every knob that can be written, as it reads now.
    ///
    /// # Errors
    /// [`PlantError`] if they can't be read at all; a knob that is absent is left out.
    fn knobs(&mut self) -> Result<Knobs, PlantError>;

    /// Some limits and priorities of one device ([`is_passing`](crate::setting::is_passing)) as
    /// they read now, in the order in which they are asked for. Nothing else is read.
    ///
    /// # Errors
    /// As [`Self::knobs`].
    fn read_passing(
        &mut self,
        device: DeviceId,
        asked: &[String],
    ) -> Result<Vec<Reading<String>>, PlantError> {
        Ok(self.knobs()?.read(device, asked))
    }

    /// What happened since the last call, and how things stand.
    ///
    /// # Errors
    /// [`PlantError`] if the sensors are lost. What a plant can't see of all this is `None`.
    fn observe(&mut self) -> Result<Observation, PlantError>;

    /// Writes one knob, like a write to its file. The kernel's checks apply, and so do its side
    /// effects: a byte limit zeroes its ratio, a new elevator resets `nr_requests`.
    ///
    /// A change that needs the queue to run dry first is under way when this returns
    /// ([`DeviceObservation::changing`]), and in force when that is over.
    ///
    /// # Errors
    /// [`PlantError`]: refused, or [`PlantError::Lost`] for now; nothing has changed.
    fn write(&mut self, write: &KnobWrite) -> Result<(), PlantError>;

    /// Writes to a device's knobs that failed after [`Self::write`] had returned, since the last
    /// call: the value before is in force, as far as the kernel lets it.
    fn failures(&mut self, device: DeviceId) -> Vec<(KnobWrite, PlantError)> {
        let _ = device;
        Vec::new()
    }
}

/// Values of all knobs, by the names that a [`Setting`] uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Knobs {
    /// Those of the machine: `vm.dirty_*`.
    pub machine: Setting,
    /// Those of each device: `scheduler`, `nr_requests`, `max_sectors_kb`, `wbt_lat_usec`, `bdi.*`
    /// …
    ///
    /// Knobs that come and go with something that uses the device have its name before a colon:
    /// `GROUP:io.max` and `GROUP:memory.high` of a control group, `pid:4711.ioprio` of a process.
    /// Priorities, that of a process and `journal.ioprio`, are there only while the device's
    /// elevator puts commits before a flood by priority, or while they hold a written value.
    pub devices: BTreeMap<DeviceId, Setting>,
}

impl Knobs {
    /// Some knobs of a device, in the order in which they are asked for.
    #[must_use]
    pub fn read(&self, device: DeviceId, asked: &[String]) -> Vec<Reading<String>> {
        let its = self.devices.get(&device);
        let value = |knob: &String| its.and_then(|its| its.get(knob)).map(str::to_owned);
        let absent = || Reading::Absent("the device has no such knob".to_owned());
        asked.iter().map(|knob| value(knob).map_or_else(absent, Reading::Value)).collect()
    }
}

/// One knob's new value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnobWrite {
    /// The device that owns the knob; `None`: the machine.
    pub device: Option<DeviceId>,
    /// Its name, as in a [`Setting`].
    pub knob: String,
    /// The value, as the kernel's file takes it.
    pub value: String,
}

impl std::fmt::Display for KnobWrite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(device) = self.device {
            write!(f, "{device} ")?;
        }
        write!(f, "{}={}", self.knob, self.value)
    }
}

/// What a plant could not do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlantError {
    /// There is no such device, or no longer.
    #[error("device {0} is not there")]
    NoDevice(DeviceId),
    /// A knob was not written.
    #[error("can't set {write}: {why}")]
    Refused {
        /// The write that was tried.
        write: KnobWrite,
        /// Why, and what to do about it.
        why: String,
    },
    /// Sensors or knobs can't be read, or the journal without which nothing is written can't be
    /// used: nothing is wrong with a knob that was to be written.
    #[error("can't read {what}: {why}")]
    Lost {
        /// Which.
        what: String,
        /// Why.
        why: String,
    },
}

/// What happened between two looks, and how things stand at the second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observation {
    /// When the look was, since the plant was first looked at or earlier; never goes back.
    pub at: Duration,
    /// Dirty page cache of all devices.
    pub dirty_bytes: Option<u64>,
    /// Page cache under writeback of all devices.
    pub writeback_bytes: Option<u64>,
    /// The hard limit in force (`nr_dirty_threshold`).
    pub hard_limit_bytes: Option<u64>,
    /// The background limit in force (`nr_dirty_background_threshold`).
    pub background_limit_bytes: Option<u64>,
    /// Whether operations may have begun and ended unseen since the last look. A process that
    /// makes stable what it dirties looks like a flood then.
    pub missed_waits: bool,
    /// Every device that can be steered, in the order of their numbers.
    pub devices: Vec<DeviceObservation>,
}

/// What a device is, as far as the kernel tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeviceKind {
    /// It can't be told, or several of different kinds are one device.
    #[default]
    Unknown,
    /// A disk, or an array that says that it turns (`queue/rotational`).
    Rotating,
    /// Any other device that does not turn.
    SolidState,
    /// An NVMe drive, or a cloud volume that looks like one.
    Nvme,
    /// A USB stick or an SD card.
    Removable,
}

/// One device's part of an [`Observation`].
#[derive(Clone, Debug, PartialEq)]
pub struct DeviceObservation {
    /// Which.
    pub id: DeviceId,
    /// Its kind, as far as the kernel tells.
    pub kind: DeviceKind,
    /// Its counters since the last look, and the present content of its queue.
    pub counters: DeviceSample,
    /// Dirty page cache that belongs to it (`bdi` statistics: `BdiReclaimable`).
    pub dirty_bytes: Option<u64>,
    /// Page cache under writeback to it (`BdiWriteback`).
    pub writeback_bytes: Option<u64>,
    /// A write to one of its knobs waits for the queue to run dry.
    pub changing: bool,
    /// Its users since the last look, and those that wait for it now, in a fixed order.
    pub actors: Vec<Actor>,
}

/// A process (or a unit of them) as its device knows it. The controller decides
/// which is a victim and which a flood.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Actor {
    /// Its name: command and process, or unit.
    pub who: String,
    /// Its control group, as a knob's name has it before the colon
    /// (`system.slice/backup.service:io.max`); `None` if it is not known.
    pub group: Option<String>,
    /// Its process, as the knob of its threads' priority has it before the dot
    /// (`pid:4711.ioprio`); `None` if that can't be set.
    pub process: Option<String>,
    /// Calls that make data stable (fsync and its kin, synchronous writes) and that returned since
    /// the last look.
    pub commits: LatencyCounts,
    /// Reads that the device answered since the last look, and that a process waited for.
    pub reads: LatencyCounts,
    /// Such operations under way now.
    pub waiting: u32,
    /// How long the longest of them has been under way.
    pub oldest: Duration,
    /// Bytes of page cache that it dirtied since the last look.
    pub dirtied_bytes: u64,
    /// The process that has told that this is a flood that paces itself: its own, or one that it
    /// descends from.
    pub paced_by: Option<Claimant>,
}

/// A process that has told that it floods and paces itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claimant {
    /// Its number.
    pub pid: u32,
    /// When it started, in clock ticks since boot: numbers are used again.
    pub start_ticks: u64,
}

impl Actor {
    /// Operations that ended since the last look and that a process waited for.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.commits.count() + self.reads.count()
    }

    /// Whether it has told that it paces itself.
    #[must_use]
    pub fn paces_itself(&self) -> bool {
        self.paced_by.is_some()
    }
}
