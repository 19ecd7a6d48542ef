//! A scenario on a machine: its files laid out, its victims and floods as tasks.
//!
//! Files are as a real run finds them after it has written them in full, synced them and dropped
//! them from the cache. Writing them is not modelled.

use floodwall_device::Nanos;
use floodwall_model::scenario::{
    Access, Flood, FloodKind as ModelFlood, Scenario, SyncMethod, Victim, VictimKind,
};
use floodwall_model::setting;

use crate::error::SimError;
use crate::machine::Machine;
use crate::page_cache::InodeId;
use crate::workload::{
    Chooser, FloodKind, FloodProgram, Limit, Program, Tickets, VictimProgram, Way, seeded,
};

/// Keeps the loads' streams of random numbers apart.
const FLOODS_FROM: u64 = 1_000;

/// A scenario's loads on a machine, by their indexes there.
#[derive(Debug, Default)]
pub(crate) struct PlacedLoads {
    pub(crate) victims: Vec<Placed>,
    pub(crate) floods: Vec<Placed>,
}

/// One load.
#[derive(Debug)]
pub(crate) struct Placed {
    pub(crate) name: String,
    pub(crate) load: usize,
    /// What a runner throws away after a phase: files that the flood itself has made.
    pub(crate) discarded: Vec<InodeId>,
    /// Share of reads among its operations, in percent; for what an open loop did not serve.
    pub(crate) read_percent: u32,
}

/// Refuses what the model can't run, and says which part and why.
pub(crate) fn check(scenario: &Scenario) -> Result<(), SimError> {
    let refuse = |part: String, why: &str| Err(SimError::Scenario { part, why: why.into() });
    for victim in &scenario.victims {
        let part = || format!("victim '{}'", victim.name);
        if matches!(victim.kind, VictimKind::Journal { .. }) {
            return refuse(part(), "a rollback journal is not modelled; use commit or wal");
        }
        if matches!(victim.kind, VictimKind::Command { .. }) {
            return refuse(
                part(),
                "a command can't run in virtual time; describe it by a kind such as commit or read",
            );
        }
    }
    for flood in &scenario.floods {
        let part = || format!("flood '{}'", flood.name);
        if matches!(flood.kind, ModelFlood::Command { .. }) {
            return refuse(
                part(),
                "a command can't run in virtual time; describe it by a kind such as seq or files",
            );
        }
        if !flood.mode.is_buffered() {
            return refuse(
                part(),
                &format!("mode = {} is not modelled; leave it out", flood.mode.name()),
            );
        }
    }
    Ok(())
}

impl PlacedLoads {
    /// Lays out a scenario whose sizes are settled.
    pub(crate) fn place(
        machine: &mut Machine,
        scenario: &Scenario,
        seed: u64,
    ) -> Result<Self, SimError> {
        let mut loads = Self::default();
        for (i, victim) in scenario.victims.iter().enumerate() {
            loads.victims.push(place_victim(machine, victim, seed.wrapping_add(i as u64))?);
        }
        for (i, flood) in scenario.floods.iter().enumerate() {
            loads.floods.push(place_flood(
                machine,
                flood,
                seed.wrapping_add(FLOODS_FROM + i as u64),
            )?);
        }
        Ok(loads)
    }
}

fn place_victim(machine: &mut Machine, victim: &Victim, seed: u64) -> Result<Placed, SimError> {
    let block = victim.block.0.max(1);
    let share = victim.size.0 / u64::from(victim.files.max(1));
    let slots = (share / block).max(1);
    let (way, sync, direct, access, written) = match &victim.kind {
        VictimKind::Commit { sync, direct } => {
            (Way::Random { read_percent: 0 }, *sync, *direct, Access::Direct, true)
        }
        VictimKind::Wal { sync, preallocated } => {
            (Way::Append { file: 0 }, *sync, false, Access::Direct, *preallocated)
        }
        VictimKind::Read { access } => {
            (Way::Random { read_percent: 100 }, SyncMethod::Fsync, false, *access, true)
        }
        VictimKind::Scan { access } => {
            (Way::Sequential { next: 0, begin: 0, end: 0 }, SyncMethod::Fsync, false, *access, true)
        }
        VictimKind::Mixed { sync, access, read_percent } => (
            Way::Random { read_percent: u64::from(*read_percent) },
            *sync,
            *access == Access::Direct,
            *access,
            true,
        ),
        VictimKind::Journal { .. } | VictimKind::Command { .. } => {
            return Err(SimError::Scenario {
                part: format!("victim '{}'", victim.name),
                why: format!("is a {}", victim.kind.name()),
            });
        }
    };
    let directory = machine.fs.new_directory();
    let through_cache = access != Access::Direct;
    let files: Vec<InodeId> = (0..victim.files)
        .map(|_| machine.create_file(directory, slots * block, written, through_cache))
        .collect();
    let load = machine.add_load(machine.group_called(setting::VICTIM), block, files.clone());
    machine.loads[load].tickets = victim.rate.map(Tickets::new);
    machine.loads[load].cuts_logs =
        matches!(victim.kind, VictimKind::Wal { preallocated: false, .. });
    machine.loads[load].fits_in_memory =
        victim.size.0 / 4096 < machine.memory.dirtyable(machine.generation) / 10 * 9;
    let total = slots * u64::from(victim.files);
    // An io_uring thread keeps `depth` operations going, as so many threads would.
    let threads = u64::from(victim.threads) * u64::from(victim.depth.max(1));
    for thread in 0..threads {
        let region = |n: u64| (u128::from(total) * u128::from(n) / u128::from(threads)) as u64;
        let way = match way {
            Way::Sequential { .. } => {
                let begin = region(thread).min(total - 1);
                Way::Sequential { next: begin, begin, end: region(thread + 1).max(begin + 1) }
            }
            Way::Append { .. } => Way::Append { file: (thread % u64::from(victim.files)) as usize },
            other => other,
        };
        let program = VictimProgram {
            sync,
            direct,
            access,
            chooser: Chooser { way, slots, files: u64::from(victim.files) },
        };
        let task = machine.add_task(load, Program::Victim(program), files[0], seeded(seed, thread));
        machine.block.set_priority(machine.tasks[task as usize].process, machine.victims);
    }
    let read_percent = match victim.kind {
        VictimKind::Read { .. } | VictimKind::Scan { .. } => 100,
        VictimKind::Mixed { read_percent, .. } => read_percent,
        _ => 0,
    };
    Ok(Placed { name: victim.name.clone(), load, discarded: Vec::new(), read_percent })
}

fn place_flood(machine: &mut Machine, flood: &Flood, seed: u64) -> Result<Placed, SimError> {
    let share = flood.size.map_or(0, |s| s.0) / u64::from(flood.streams.max(1));
    let whole = |space: u64, unit: u64| space - space % unit.max(1);
    let block = flood.block.0.max(1);
    let directory = machine.fs.new_directory();
    let load = machine.add_load(machine.group_called(setting::FLOOD), block, Vec::new());
    machine.loads[load].limit = flood.rate.map(|r| Limit::new(r.0));
    let mut discarded = Vec::new();
    for stream in 0..flood.streams {
        let (kind, space, block, written) = match &flood.kind {
            ModelFlood::Seq => (FloodKind::Sequential, whole(share, block), block, false),
            ModelFlood::Random => (FloodKind::Random, whole(share, block), block, true),
            ModelFlood::Mmap => (FloodKind::Mapped, whole(share, block), block, true),
            ModelFlood::Files { file } => {
                let footprint = file.0.max(1).next_multiple_of(4096);
                (
                    FloodKind::Files { bytes: file.0.max(1) },
                    whole(share, footprint),
                    block.min(file.0.max(1)),
                    false,
                )
            }
            ModelFlood::Copy => {
                let space = whole(share / 2, block);
                let source = machine.create_file(directory, space, true, true);
                (FloodKind::Copy { source }, space, block, false)
            }
            ModelFlood::Command { .. } => {
                return Err(SimError::Scenario {
                    part: format!("flood '{}'", flood.name),
                    why: "is a command".into(),
                });
            }
        };
        if space == 0 {
            let why = format!("its space is smaller than a block of {}", flood.block);
            return Err(SimError::Scenario { part: format!("flood '{}'", flood.name), why });
        }
        let file = machine.create_file(directory, space, written, false);
        if !written {
            discarded.push(file);
        }
        let program = FloodProgram { kind, block, space, cursor: 0, partial: 0 };
        machine.add_task(load, Program::Flood(program), file, seeded(seed, u64::from(stream)));
    }
    Ok(Placed { name: flood.name.clone(), load, discarded, read_percent: 0 })
}

impl Machine {
    /// Throws away what a flood has made, so that the next phase begins with a clean page cache at
    /// once; its streams begin again.
    pub(crate) fn discard(&mut self, placed: &Placed) {
        for file in &placed.discarded {
            self.cache.truncate(*file);
        }
        for task in self.tasks.iter_mut().filter(|t| t.load == placed.load) {
            if let Program::Flood(flood) = &mut task.program {
                (flood.cursor, flood.partial) = (0, 0);
            }
        }
    }

    /// Runs until nothing is dirty, the device included, but at most for so long. Says whether it
    /// came to that.
    pub(crate) fn drain(&mut self, at_most: Nanos) -> bool {
        let end = self.now + at_most;
        let load = self.add_load(0, 1, Vec::new());
        self.add_task(load, Program::SyncAll { inode: 0 }, InodeId(0), seeded(0, 0));
        self.start_load(load);
        self.run_while(end, |m| !m.load_stopped(load) || m.block.outstanding() > 0)
    }
}
