//! What a plant's sensors say: counters and levels of the machines, and their loads as processes.

use floodwall_device::spec::Medium;
use floodwall_device::{DeviceSpec, Nanos};
use floodwall_model::plant::{Actor, DeviceKind, DeviceObservation, Observation};
use floodwall_model::setting::{FLOOD, VICTIM};

use super::{Device, SimPlant, priorities};
use crate::machine::Machine;
use crate::page_cache::PAGE_SHIFT;
use crate::sample::device_since;
use crate::setup::Placed;

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
        devices.push(device(d, machine, bursts));
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
) -> DeviceObservation {
    let counters = machine.block.counters(machine.now);
    let before = std::mem::replace(&mut device.before, counters);
    // Whole milliseconds of the clock, so that many short steps add up to one long one.
    let ms = |now: Nanos, then: Nanos| now.0 / 1_000_000 - then.0 / 1_000_000;
    let counters = device_since(machine, &before, &counters, ms);
    let group = |name: &str| (!machine.groups.is_empty()).then(|| name.to_owned());
    let (of_victims, of_floods) = (group(VICTIM), group(FLOOD));
    let victims = device.loads.victims.iter();
    let victims = victims.map(|p| Actor { group: of_victims.clone(), ..victim(p, machine) });
    let victims: Vec<Actor> = victims.collect();
    let mut floods: Vec<Actor> = Vec::new();
    for placed in &device.loads.floods {
        floods.push(Actor { group: of_floods.clone(), ..flood(&placed.name, placed.load, machine) });
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

fn victim(placed: &Placed, machine: &mut Machine) -> Actor {
    let now = machine.now;
    let load = &mut machine.loads[placed.load];
    let (latencies, block) = (load.meter.take().latencies, load.block);
    let busy = || machine.tasks.iter().filter(|t| t.load == placed.load && t.busy);
    Actor {
        who: placed.name.clone(),
        group: None,
        process: Some(priorities::process(placed.load)),
        dirtied_bytes: latencies.commit.count() * block,
        commits: latencies.commit,
        reads: latencies.read,
        waiting: busy().count() as u32,
        oldest: busy().map(|t| now.since(t.op.since)).max().unwrap_or_default().into(),
    }
}

fn flood(who: &str, load: usize, machine: &mut Machine) -> Actor {
    let dirtied_bytes = machine.loads[load].meter.take().bytes;
    let process = Some(priorities::process(load));
    Actor { who: who.to_owned(), process, dirtied_bytes, ..Actor::default() }
}
