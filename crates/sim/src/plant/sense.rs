//! What a plant's sensors say: counters and levels of the machines, and their loads as processes.

use floodwall_device::spec::Medium;
use floodwall_device::{DeviceSpec, Nanos};
use floodwall_model::plant::{Actor, DeviceKind, DeviceObservation, Observation};
use floodwall_model::setting::{FLOOD, VICTIM};
use floodwall_model::trial::OpLatencies;

use super::priorities;
use super::state::{Device, SimPlant};
use crate::machine::Machine;
use crate::page_cache::PAGE_SHIFT;
use crate::sample::device_since;
use crate::setup::Placed;
use crate::workload::{Program, State, Task};

/// The link of an SSD that is no NVMe drive is not faster than SATA 3: 6 Gbit/s, 8b10b.
const SATA_RATE: f64 = 600e6;

/// Looks at everything; counts begin anew.
pub(super) fn observe(plant: &mut SimPlant) -> Observation {
    let thresholds = {
        let holder = &plant.machines[plant.holder];
        holder.throttle.thresholds(&holder.memory)
    };
    let pages = |count: fn(&Machine) -> u64, machines: &[Machine]| {
        Some(machines.iter().map(count).sum::<u64>() << PAGE_SHIFT)
    };
    let (dirty_bytes, writeback_bytes) =
        (pages(|m| m.cache.dirty, &plant.machines), pages(|m| m.cache.writeback, &plant.machines));
    let mut devices = Vec::new();
    for (i, (d, machine)) in plant.devices.iter_mut().zip(&mut plant.machines).enumerate() {
        let bursts = plant.bursts.iter().filter(|w| w.machine == i).map(|w| w.load);
        devices.push(device(d, machine, bursts, &mut plant.waits));
    }
    Observation {
        at: plant.now(),
        dirty_bytes,
        writeback_bytes,
        hard_limit_bytes: Some(thresholds.dirty << PAGE_SHIFT),
        background_limit_bytes: Some(thresholds.background << PAGE_SHIFT),
        missed_waits: false,
        devices,
    }
}

fn device(
    device: &mut Device,
    machine: &mut Machine,
    bursts: impl Iterator<Item = usize>,
    waits: &mut OpLatencies,
) -> DeviceObservation {
    let counters = machine.block.counters(machine.now);
    let before = std::mem::replace(&mut device.before, counters);
    // Whole milliseconds of the clock, so that many short steps add up to one long one.
    let ms = |now: Nanos, then: Nanos| now.0 / 1_000_000 - then.0 / 1_000_000;
    let counters = device_since(machine, &before, &counters, ms);
    let group = |name: &str| (!machine.groups.is_empty()).then(|| name.to_owned());
    let (of_victims, of_floods) = (group(VICTIM), group(FLOOD));
    let victims = device.loads.victims.iter();
    let victims = victims.map(|p| Actor { group: of_victims.clone(), ..victim(p, machine, waits) });
    let victims: Vec<Actor> = victims.collect();
    let mut floods: Vec<Actor> = Vec::new();
    for placed in &device.loads.floods {
        floods
            .push(Actor { group: of_floods.clone(), ..flood(&placed.name, placed.load, machine) });
    }
    floods.extend(bursts.map(|load| flood("burst", load, machine)));
    let did = |a: &Actor| a.waiting > 0 || a.dirtied_bytes > 0 || a.operations() > 0;
    DeviceObservation {
        id: device.id,
        kind: kind(&device.options.device),
        counters,
        dirty_bytes: Some(machine.cache.dirty << PAGE_SHIFT),
        writeback_bytes: Some(machine.cache.writeback << PAGE_SHIFT),
        changing: machine.block.is_changing(),
        actors: victims.into_iter().chain(floods).filter(did).collect(),
    }
}

/// As Linux would know it.
fn kind(spec: &DeviceSpec) -> DeviceKind {
    match &spec.medium {
        Medium::Disk(_) => DeviceKind::Rotating,
        Medium::Flash(drive) if drive.link_rate <= SATA_RATE => DeviceKind::SolidState,
        Medium::Flash(_) | Medium::Cloud(_) => DeviceKind::Nvme,
        Medium::CheapFlash(_) => DeviceKind::Removable,
        Medium::Null { .. } => DeviceKind::Unknown,
    }
}

/// A victim as a host's probe sees it: calls that make data stable, and reads. An operation that is
/// due and not begun is no call, nor is a write that reaches the page cache alone. `waits` gets the
/// whole operations.
fn victim(placed: &Placed, machine: &mut Machine, waits: &mut OpLatencies) -> Actor {
    let now = machine.now;
    let load = &mut machine.loads[placed.load];
    let ((done, reads), block) = (load.meter.take_with_read_calls(), load.block);
    let tasks = || machine.tasks.iter().filter(|t| t.load == placed.load);
    let inside = || tasks().filter_map(call_since);
    waits.merge(&done.latencies);
    let OpLatencies { write, sync, .. } = done.latencies;
    let commits = if tasks().any(syncs_in_write) { write } else { sync };
    Actor {
        who: placed.name.clone(),
        group: None,
        process: Some(priorities::process(placed.load)),
        dirtied_bytes: commits.count() * block,
        commits,
        reads,
        waiting: inside().count() as u32,
        oldest: inside().map(|since| now.since(since)).max().unwrap_or_default().into(),
        paced_by: None,
    }
}

/// Whether its writes return when they are stable (`O_SYNC`, `O_DSYNC`).
fn syncs_in_write(task: &Task) -> bool {
    matches!(&task.program, Program::Victim(program) if program.sync.is_open_flag())
}

/// Since when a task is inside a call that a probe times.
fn call_since(task: &Task) -> Option<Nanos> {
    match task.state {
        _ if !task.busy => None,
        _ if task.op.is_read || syncs_in_write(task) => Some(task.op.began),
        State::DirectWrite => Some(task.op.began),
        State::Sync(_) => Some(task.op.written),
        _ => None,
    }
}

fn flood(who: &str, load: usize, machine: &mut Machine) -> Actor {
    let dirtied_bytes = machine.loads[load].meter.take().bytes;
    let process = Some(priorities::process(load));
    Actor { who: who.to_owned(), process, dirtied_bytes, ..Actor::default() }
}
