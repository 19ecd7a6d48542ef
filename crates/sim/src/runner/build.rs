//! A machine built under a setting, and every knob of it as it would read back.

use floodwall_model::{Bytes, Setting};

use super::SimRunner;
use crate::block::{LoopDriver, QueueParams, RequestPool, Striped, Stripes};
use crate::elevator::{Elevator, NoElevator};
use crate::eras::parts;
use crate::error::SimError;
use crate::fs::{FsKind, NFS_SLOTS, NFS_WSIZE};
use crate::groups;
use crate::limits::{BdiContext, BdiLimits, DirtyKnobs, PAGE_SIZE};
use crate::machine::{Machine, MachineParams, memory_of};
use crate::options::SimOptions;
use crate::settings::{self, Priorities, QUEUE_DEPTH, Queue};
use crate::throttle;

/// The least RAM that a machine takes.
const LEAST_RAM: Bytes = Bytes::mib(64);
/// Why an NFS client has no limits of groups (`SB_I_CGROUPWB`).
const NO_CGROUP_WRITEBACK: &str =
    "NFS has no writeback by control group; take another filesystem or leave it out";

impl SimRunner {
    /// Builds the machine under a setting.
    pub(crate) fn build(
        &self,
        setting: &Setting,
        seed: u64,
    ) -> Result<(Machine, Setting), SimError> {
        let o = &self.options;
        let generation = o.generation;
        let is_nfs = matches!(o.fs, FsKind::Nfs { .. });
        check(o)?;
        settings::check_names(setting, generation)?;
        if let (true, Some(knob)) = (is_nfs, settings::queue_knob(setting)) {
            return Err(SimError::NoQueue { knob });
        }
        let groups = groups::from_setting(setting)?;
        if let (true, Some(knob)) = (is_nfs, groups::first_knob(setting)) {
            return Err(SimError::NoGroup { knob: knob.into(), why: NO_CGROUP_WRITEBACK });
        }
        let knobs = DirtyKnobs::from_setting(generation, setting)?;
        let memory = memory_of(o.ram.0 / PAGE_SIZE);
        let facts = o.facts();
        let machine =
            throttle::Machine { hz: facts.hz, cpus: facts.cpus, possible_cpus: facts.cpus };
        let throttle = parts::throttle(generation, machine, knobs, &memory);
        let thresholds = throttle.thresholds(&memory);
        let dirtyable = memory.dirtyable(generation);
        if thresholds.dirty > dirtyable {
            return Err(SimError::Memory {
                ram: o.ram,
                limit: Bytes(thresholds.dirty * PAGE_SIZE),
            });
        }
        let context = BdiContext { generation, thresholds, dirtyable, other_min_ppm: 0 };
        let bdi = BdiLimits::from_setting(setting, &context)?;
        let mut device = o.device.build(o.capacity().0, o.seed ^ seed)?;
        if o.lab {
            device = Box::new(LoopDriver::new(device));
        }
        let profile = device.profile();
        let depth = o.depth(profile.queue_depth);
        let members = o.member_queues.max(1);
        let given = settings::commands(setting, o.driver(), depth)?;
        let priorities = Priorities::new(setting, generation, o.fs)?;
        let mut queue = Queue::new(setting, &facts, depth, given, profile.volatile_cache, members)?;
        let elevator = queue.elevators.first().map_or("", |elevator| elevator.name());
        settings::check_groups(setting, elevator, facts.bfq_groups)?;
        let mut in_force = Setting::default();
        if !is_nfs {
            queue.in_force(&mut in_force);
        }
        if setting.get(QUEUE_DEPTH).is_some() {
            in_force.0.insert(QUEUE_DEPTH.to_owned(), given.to_string());
        }
        priorities.in_force(setting, &mut in_force);
        settings::dirty_in_force(&knobs, generation, &mut in_force);
        for (knob, value) in setting.0.iter().filter(|(knob, _)| knob.starts_with("bdi.")) {
            in_force.0.insert(knob.clone(), value.clone());
        }
        groups::in_force(&groups, setting, &mut in_force);
        // RPCs know neither elevator nor wbt.
        let elevator: Box<dyn Elevator> = if is_nfs {
            Box::new(NoElevator::new(facts.cpus))
        } else {
            Striped::one(std::mem::take(&mut queue.elevators), o.chunk(), given)
        };
        let params = if is_nfs { rpcs(o) } else { queue_params(o, &mut queue, depth, given) };
        let machine = Machine::new(MachineParams {
            generation,
            hz: facts.hz,
            cpus: facts.cpus,
            ram_pages: o.ram.0 / PAGE_SIZE,
            knobs,
            bdi,
            device,
            elevator,
            throttle,
            queue: params,
            fs: o.fs,
            read_ahead_pages: u64::from(queue.read_ahead_kb) / 4,
            software_raid: members > 1,
            cpu_percent: o.cpu_percent.max(1),
            groups,
            priorities,
        });
        Ok((machine, in_force))
    }
}

/// Refuses a machine that there was not or that can't work.
fn check(o: &SimOptions) -> Result<(), SimError> {
    let generation = o.generation;
    if !o.fs.existed_in(generation) {
        let mut others = vec![FsKind::Ext3, FsKind::Ext4, FsKind::Btrfs];
        others.retain(|fs| fs.existed_in(generation));
        let other = others.iter().map(FsKind::to_string).collect::<Vec<_>>().join(", ");
        return Err(SimError::Filesystem { generation, fs: o.fs, other });
    }
    if o.ram < LEAST_RAM {
        return Err(SimError::TooLittleRam { ram: o.ram, least: LEAST_RAM });
    }
    Ok(())
}

/// The queue in front of a device.
fn queue_params(o: &SimOptions, queue: &mut Queue, depth: u32, given: u32) -> QueueParams {
    let (driver, members, chunk) = (o.driver(), o.member_queues.max(1), o.chunk());
    let most = u64::from(queue.max_sectors_kb) << 10;
    QueueParams {
        generation: o.generation,
        depth: depth * members,
        given: given * members,
        // A request of md's goes to one member.
        max_bytes: if members > 1 { most.min(chunk) } else { most },
        pool: RequestPool::new(o.generation.is_multiqueue(), queue.nr_requests),
        wbt: queue.wbt.take(),
        stripes: Stripes { members, chunk },
        fua: driver.fua(),
        flush_alone: driver.flush_alone(),
    }
}

/// The RPCs of an NFS client in a queue's place.
fn rpcs(o: &SimOptions) -> QueueParams {
    QueueParams {
        generation: o.generation,
        depth: NFS_SLOTS,
        given: NFS_SLOTS,
        max_bytes: NFS_WSIZE,
        pool: RequestPool::new(true, NFS_SLOTS),
        wbt: None,
        stripes: Stripes::ONE,
        fua: o.driver().fua(),
        flush_alone: o.driver().flush_alone(),
    }
}
