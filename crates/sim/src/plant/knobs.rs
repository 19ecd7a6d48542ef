//! A plant's knobs: read as their files read, written with the kernel's own checks and side
//! effects.
//!
//! | knob | what a write does besides |
//! |---|---|
//! | `vm.dirty_*` | of each pair the other half becomes 0; a hard limit is in force at once (6.x) |
//! | `scheduler` | freezes the queue; the new elevator's `nr_requests`, `iosched.*`; bfq: wbt off |
//! | `nr_requests`, `max_sectors_kb`, `wbt_lat_usec` | freeze the queue (6.x) |
//! | `GROUP:io.max`, `GROUP:memory.high` | nothing: a disk's first `io.max` freezes no queue here |
//! | `pid:N.ioprio`, `journal.ioprio` | nothing; there only under bfq (see [`super::priorities`]) |
//! | `bdi.max_bytes`, `bdi.min_bytes` | kept as a share of the hard limit of this moment |

use floodwall_device::Nanos;
use floodwall_model::plant::{KnobWrite, Knobs, PlantError};
use floodwall_model::setting::is_priority;
use floodwall_model::{DeviceId, Setting};

use super::priorities;
use super::state::SimPlant;
use crate::block::{Change, Striped};
use crate::elevator::ElevatorKind;
use crate::error::SimError;
use crate::fs::FsKind;
use crate::groups;
use crate::kernel::Generation;
use crate::limits::{self, BDI_KNOBS, BdiContext, BdiLimits, DirtyKnobs, KnobError, Limit};
use crate::settings::{self, Queue};

/// The least that `nr_requests` can be; less is taken as this (`BLKDEV_MIN_RQ`).
const LEAST_REQUESTS: u32 = 4;

/// Whether a knob belongs to a device's queue.
pub(super) fn of_queue(knob: &str) -> bool {
    !knob.starts_with("vm.") && !knob.starts_with("bdi.")
}

/// `max_sectors_kb` of a setting, or the kernel's default.
pub(super) fn max_sectors_kb(setting: &Setting, generation: Generation) -> u32 {
    let given = setting.get("max_sectors_kb").and_then(|text| text.trim().parse().ok());
    given.unwrap_or(generation.max_sectors_kb())
}

fn context(plant: &SimPlant, device: usize) -> BdiContext {
    let holder = &plant.machines[plant.holder];
    let others = plant.devices.iter().enumerate().filter(|(i, _)| *i != device);
    BdiContext {
        generation: plant.generation,
        thresholds: holder.throttle.thresholds(&holder.memory),
        dirtyable: holder.memory.dirtyable(plant.generation),
        other_min_ppm: others.map(|(_, d)| u64::from(d.limits.min_ppm)).sum(),
    }
}

/// A device's limits as a setting says.
pub(super) fn bdi_limits(
    plant: &SimPlant,
    device: usize,
    setting: &Setting,
) -> Result<BdiLimits, KnobError> {
    BdiLimits::from_setting(setting, &context(plant, device))
}

/// Everything as its file reads.
pub(super) fn read(plant: &SimPlant) -> Knobs {
    let generation = plant.generation;
    let mut knobs = Knobs::default();
    settings::dirty_in_force(&plant.machines[0].knobs, generation, &mut knobs.machine);
    let thresholds = context(plant, 0).thresholds;
    for (device, machine) in plant.devices.iter().zip(&plant.machines) {
        let setting = knobs.devices.entry(device.id).or_default();
        let mut put = |knob: &str, value: String| setting.0.insert(knob.to_owned(), value);
        put("read_ahead_kb", (machine.read_ahead_pages * 4).to_string());
        if !matches!(device.options.fs, FsKind::Nfs { .. }) {
            let elevator = machine.block.elevator();
            put("scheduler", elevator.name().to_owned());
            for (name, value) in elevator.tunables() {
                put(&format!("iosched.{name}"), value);
            }
            let members = device.options.member_queues.max(1);
            put("nr_requests", (machine.block.slots() / members).to_string());
            put("max_sectors_kb", device.max_sectors_kb.to_string());
            if let Some(us) = machine.block.wbt_latency_us() {
                put("wbt_lat_usec", us.to_string());
            }
        }
        for (knob, value) in groups::read(&machine.groups) {
            put(&knob, value);
        }
        priorities::read(device, machine, setting);
        let mut put = |knob: &str, value: String| setting.0.insert(knob.to_owned(), value);
        let limits = &device.limits;
        for (knob, value) in [
            ("bdi.min_ratio", u64::from(limits.min_ppm / 10_000)),
            ("bdi.max_ratio", u64::from(limits.max_ppm / 10_000)),
            ("bdi.min_ratio_fine", u64::from(limits.min_ppm)),
            ("bdi.max_ratio_fine", u64::from(limits.max_ppm)),
            ("bdi.min_bytes", limits.min_bytes(thresholds)),
            ("bdi.max_bytes", limits.max_bytes(thresholds)),
            ("bdi.strict_limit", u64::from(limits.strict)),
        ] {
            if limits::has(BDI_KNOBS, generation, knob) {
                put(knob, value.to_string());
            }
        }
    }
    knobs
}

/// Writes one knob.
pub(super) fn write(plant: &mut SimPlant, write: &KnobWrite) -> Result<(), PlantError> {
    let refused = |why: String| PlantError::Refused { write: write.clone(), why };
    let only: Setting = [(write.knob.clone(), write.value.clone())].into_iter().collect();
    let Some(id) = write.device else {
        if !write.knob.starts_with("vm.") {
            return Err(refused("it is a device's knob; say which device".into()));
        }
        return write_dirty(plant, write, &only).map_err(|e| refused(e.to_string()));
    };
    let i = index(plant, id)?;
    if write.knob.starts_with("vm.") {
        return Err(refused("it is the machine's knob, not a device's".into()));
    }
    if write.knob.starts_with("bdi.") {
        return write_bdi(plant, i, write, &only).map_err(|e| refused(e.to_string()));
    }
    if is_priority(&write.knob) {
        return priorities::write(&plant.devices[i], &mut plant.machines[i], write);
    }
    write_queue(plant, i, write, &only).map_err(|e| refused(e.to_string()))
}

fn index(plant: &SimPlant, id: DeviceId) -> Result<usize, PlantError> {
    plant.devices.iter().position(|d| d.id == id).ok_or(PlantError::NoDevice(id))
}

/// A ratio that reads 0 because its bytes are in force, written as 0 again, changes nothing
/// (`dirty_ratio_handler`); the background's does.
fn write_dirty(plant: &mut SimPlant, write: &KnobWrite, only: &Setting) -> Result<(), SimError> {
    settings::check_names(only, plant.generation)?;
    let given = DirtyKnobs::from_setting(plant.generation, only)?;
    let mut knobs = plant.machines[0].knobs;
    match write.knob.as_str() {
        "vm.dirty_ratio"
            if given.dirty == Limit::Ratio(0) && matches!(knobs.dirty, Limit::Bytes(_)) => {}
        "vm.dirty_ratio" | "vm.dirty_bytes" => knobs.dirty = given.dirty,
        "vm.dirty_background_ratio" | "vm.dirty_background_bytes" => {
            knobs.background = given.background
        }
        "vm.dirty_writeback_centisecs" => knobs.writeback_centisecs = given.writeback_centisecs,
        _ => knobs.expire_centisecs = given.expire_centisecs,
    }
    let holder = plant.holder;
    plant.with(holder, |m| m.throttle.set_knobs(knobs, &m.memory));
    for machine in &mut plant.machines {
        machine.knobs = knobs;
    }
    Ok(())
}

fn write_bdi(
    plant: &mut SimPlant,
    i: usize,
    write: &KnobWrite,
    only: &Setting,
) -> Result<(), SimError> {
    let context = context(plant, i);
    let before = plant.devices[i].limits;
    // A bound that is not written stays; the order of the two is checked against the values in
    // force.
    let (is_min, is_max) = (write.knob.starts_with("bdi.min_"), write.knob.starts_with("bdi.max_"));
    let wide = BdiContext { other_min_ppm: 0, ..context };
    let given = BdiLimits::from_setting(only, &wide)?;
    let limits = BdiLimits {
        min_ppm: if is_min { given.min_ppm } else { before.min_ppm },
        max_ppm: if is_max { given.max_ppm } else { before.max_ppm },
        strict: if write.knob == "bdi.strict_limit" { given.strict } else { before.strict },
    };
    if limits.min_ppm > limits.max_ppm {
        return Err(KnobError::MinAboveMax { min: limits.min_ppm, max: limits.max_ppm }.into());
    }
    let sum = context.other_min_ppm + u64::from(limits.min_ppm);
    if limits.min_ppm > 0 && sum >= crate::limits::PPM {
        return Err(KnobError::MinSum { sum }.into());
    }
    plant.devices[i].limits = limits;
    let (holder, bdi) = (plant.holder, plant.devices[i].bdi);
    plant.with(holder, |m| m.throttle.set_bdi(bdi, limits));
    Ok(())
}

fn write_queue(
    plant: &mut SimPlant,
    i: usize,
    write: &KnobWrite,
    only: &Setting,
) -> Result<(), SimError> {
    settings::check_names(only, plant.generation)?;
    if groups::first_knob(only).is_some() {
        let (group, limits) = groups::changed(&plant.machines[i].groups, &write.knob, only)?;
        plant.with(i, |m| m.limit_group(group, limits));
        return Ok(());
    }
    let device = &plant.devices[i];
    if let (FsKind::Nfs { .. }, Some(knob)) = (device.options.fs, settings::queue_knob(only)) {
        return Err(SimError::NoQueue { knob });
    }
    if matches!(write.knob.as_str(), "device.queue_depth" | "victim.ioprio") {
        return Err(SimError::Fixed { knob: write.knob.clone() });
    }
    let members = device.options.member_queues.max(1);
    let block = &plant.machines[i].block;
    let value = write.value.trim();
    if let Some(tunable) = write.knob.strip_prefix("iosched.") {
        let set = plant.machines[i].block.set_tunable(tunable, value);
        return set.map_err(|e| SimError::Elevator(e.to_string()));
    }
    let mut setting = device.setting.clone();
    let mut value = value.to_owned();
    match write.knob.as_str() {
        "scheduler" => {
            let kind = |name: &str| name.parse::<ElevatorKind>().ok();
            if kind(block.elevator().name()) == kind(&value) && !block.is_changing() {
                return Ok(());
            }
            settings::check_groups(&setting, &value, device.facts.bfq_groups)?;
            setting.0.retain(|knob, _| knob != "nr_requests" && !knob.starts_with("iosched."));
        }
        "nr_requests" => {
            // The elevator that is there decides how many there may be; one that waits for the
            // queue to run dry was written before.
            setting.0.insert("scheduler".into(), block.coming_elevator().name().into());
            if let Ok(n) = value.parse::<u32>() {
                value = n.max(LEAST_REQUESTS).to_string();
            }
        }
        _ => {}
    }
    setting.0.insert(write.knob.clone(), value.clone());
    let mut queue =
        Queue::new(&setting, &device.facts, device.depth, device.given, block.volatile(), members)?;
    let mut change = Change::default();
    match write.knob.as_str() {
        "scheduler" => {
            let chunk = device.options.chunk();
            let yields = value == "bfq";
            let slots = queue.nr_requests * members;
            let elevators = std::mem::take(&mut queue.elevators);
            change.elevator = Some((Striped::one(elevators, chunk, device.given), slots, yields));
        }
        "nr_requests" => change.nr_requests = Some(queue.nr_requests * members),
        "max_sectors_kb" => {
            let most = u64::from(queue.max_sectors_kb) << 10;
            change.max_bytes =
                Some(if members > 1 { most.min(device.options.chunk()) } else { most });
        }
        "wbt_lat_usec" => {
            change.wbt_us = Some(value.parse::<i64>().ok().and_then(|us| u64::try_from(us).ok()))
        }
        _ => {
            plant.machines[i].read_ahead_pages = u64::from(queue.read_ahead_kb) / 4;
            plant.devices[i].setting = setting;
            return Ok(());
        }
    }
    plant.devices[i].setting = setting;
    plant.devices[i].max_sectors_kb = queue.max_sectors_kb;
    let now: Nanos = plant.now;
    plant.with(i, |m| m.block.change(now, change));
    Ok(())
}
