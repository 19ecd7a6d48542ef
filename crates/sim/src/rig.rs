//! The simulator as a [`Rig`]: a machine is built for each round, and its phases run one after the
//! other as on a real host.
//!
//! ```text
//! SimOptions (device, kernel, RAM, filesystem) + Setting ─▶ Machine
//!   ─▶ for each phase: discard the floods' backlog → drain → settle → run
//! ```
//!
//! The same options, scenario, setting and round give the same trial, bit for bit, on any machine.

use floodwall_device::{DeviceSpec, Nanos};
use floodwall_model::rig::Step;
use floodwall_model::scenario::{FloodKind, unsettled_rate};
use floodwall_model::trial::{BurstTotals, OpLatencies, Warmup};
use floodwall_model::{
    Bytes, Phase, PhaseKind, Rig, RigError, Scenario, Setting, Trial, Watch, setting,
};

use crate::block::{LoopDriver, QueueParams, RequestPool, Striped, Stripes};
use crate::driver::Driver;
use crate::elevator::{Elevator, NoElevator, QueueFacts};
use crate::error::SimError;
use crate::explain::{Explained, Explainer};
use crate::fs::{FsKind, NFS_SLOTS, NFS_WSIZE};
use crate::groups;
use crate::kernel::Generation;
use crate::limits::{BdiContext, BdiLimits, DirtyKnobs, PAGE_SIZE};
use crate::machine::{Machine, MachineParams, memory_of};
use crate::phase::{self, PhaseRun};
use crate::settings::{self, Priorities, QUEUE_DEPTH, Queue};
use crate::setup::{self, Loads};
use crate::throttle;
use crate::workload::{Program, seeded};

/// The least RAM that a machine takes.
const LEAST_RAM: Bytes = Bytes::mib(64);
/// How long a backlog may take to drain between phases.
const DRAIN: Nanos = Nanos::from_secs(3_600);
/// How long a device is idle until it counts as such.
const IDLE: Nanos = Nanos::from_millis(200);
/// Bytes on a member before the next one's turn, where the device does not say (md's default).
const DEFAULT_CHUNK: u64 = 512 << 10;
/// Why an NFS client has no limits of groups (`SB_I_CGROUPWB`).
const NO_CGROUP_WRITEBACK: &str =
    "NFS has no writeback by control group; take another filesystem or leave it out";
/// What a flood without a size gets at least.
const SMALLEST_FLOOD: u64 = 1 << 30;

/// A machine to simulate.
#[derive(Clone, Debug)]
pub struct SimOptions {
    /// The device.
    pub device: DeviceSpec,
    /// How much of it is used; `None`: all.
    pub capacity: Option<Bytes>,
    /// The kernel.
    pub generation: Generation,
    /// RAM.
    pub ram: Bytes,
    /// CPUs.
    pub cpus: u32,
    /// The CPU's part of the work, in percent of its cost on the lab's machine: 200 is a machine
    /// half as fast.
    pub cpu_percent: u32,
    /// Timer ticks per second; `None`: as kernels of the generation were mostly built.
    pub hz: Option<u32>,
    /// The filesystem.
    pub fs: FsKind,
    /// Commands that the device takes at once; `None`: as many as its driver gives it, at most
    /// 128.
    pub queue_depth: Option<u32>,
    /// Whether the device is one of the lab's: behind the loop driver and a FUSE file, not behind
    /// a hardware driver.
    pub lab: bool,
    /// Whether the kernel's bfq has group support (`CONFIG_BFQ_GROUP_IOSCHED`), and with it shares
    /// of the request slots by priority.
    pub bfq_groups: bool,
    /// Queues and elevators, one for each member of a software RAID (a mirrored pair counts as
    /// one). With 1 the device has one queue, like a RAID card or the lab's loop device.
    pub member_queues: u32,
    /// Makes offsets repeatable.
    pub seed: u64,
    /// Keep an account of where every operation's time went.
    pub explain: bool,
}

impl SimOptions {
    /// A machine as the lab's: 24 GiB, 2 CPUs, kernel 6.18, xfs.
    #[must_use]
    pub fn new(device: DeviceSpec) -> Self {
        Self {
            device,
            capacity: None,
            generation: Generation::K6,
            ram: Bytes::gib(24),
            cpus: 2,
            cpu_percent: 100,
            hz: None,
            fs: FsKind::Xfs,
            queue_depth: None,
            lab: false,
            bfq_groups: true,
            member_queues: 1,
            seed: 1,
            explain: false,
        }
    }

    pub(crate) fn facts(&self) -> QueueFacts {
        let mut facts = QueueFacts::new(self.generation);
        facts.cpus = self.cpus.max(1);
        facts.rotational = self.device.rotational();
        let driver = self.driver();
        facts.rotated_at_first = driver.rotational_at_first(facts.rotational);
        facts.default_elevator = driver.default_elevator(self.generation);
        facts.bfq_groups = self.bfq_groups;
        facts.hz = self.hz.unwrap_or(facts.hz);
        facts
    }

    fn driver(&self) -> Driver {
        Driver::of(&self.device, self.lab, self.cpus)
    }

    /// Commands that the device is given at once where a setting can change that
    /// (`device.queue_depth`); `None` where none can, or without such a device.
    #[must_use]
    pub fn device_depth(&self) -> Option<u32> {
        let profile = self.device.build(self.capacity().0, self.seed).ok()?.profile();
        let changes = self.driver().queue_depth_changes() && !matches!(self.fs, FsKind::Nfs { .. });
        changes.then(|| self.depth(profile.queue_depth))
    }

    /// Commands that the device is given at once, if it can use `usable`.
    fn depth(&self, usable: u32) -> u32 {
        self.queue_depth.unwrap_or(self.driver().depth(usable)).max(1)
    }

    /// Bytes on a member of an array before the next one's turn.
    pub(crate) fn chunk(&self) -> u64 {
        self.device.array.as_ref().map_or(DEFAULT_CHUNK, |a| a.params.chunk)
    }

    /// Bytes of the device that are used.
    #[must_use]
    pub fn capacity(&self) -> Bytes {
        self.capacity.unwrap_or_else(|| self.device.capacity())
    }
}

/// A phase's operations, each with where its time went.
#[derive(Clone, Debug)]
pub struct ExplainedPhase {
    /// Which round.
    pub round: u32,
    /// Which phase.
    pub kind: PhaseKind,
    /// In the order in which they ended.
    pub operations: Vec<Explained>,
}

/// A simulated machine on which scenarios run: deterministic, in virtual time.
#[derive(Debug)]
pub struct SimRig {
    options: SimOptions,
    explained: Vec<ExplainedPhase>,
}

impl SimRig {
    /// A rig. Faults of its options are reported when it runs, or by [`SimRig::check`].
    #[must_use]
    pub fn new(options: SimOptions) -> Self {
        Self { options, explained: Vec::new() }
    }

    /// The options.
    #[must_use]
    pub fn options(&self) -> &SimOptions {
        &self.options
    }

    /// Checks a scenario and a setting, and returns the setting that will be in force: every knob
    /// as it would read back.
    ///
    /// # Errors
    /// [`SimError`]: everything that [`Rig::run`] would refuse.
    pub fn check(&self, scenario: &Scenario, setting: &Setting) -> Result<Setting, SimError> {
        setup::check(scenario)?;
        if let Some(problem) = scenario.timing.problem() {
            return Err(SimError::Timing { scenario: scenario.name.clone(), problem });
        }
        let (machine, in_force) = self.build(setting, 0)?;
        self.fit_to(scenario, &machine)?;
        Ok(in_force)
    }

    /// A scenario with all its sizes settled, if it fits on the device.
    pub(crate) fn fit_to(
        &self,
        scenario: &Scenario,
        machine: &Machine,
    ) -> Result<Scenario, SimError> {
        let fitted = self.fit(scenario, machine);
        let needed = needed_by(&fitted);
        let capacity = self.options.capacity();
        if needed > capacity {
            return Err(SimError::Space { scenario: scenario.name.clone(), needed, capacity });
        }
        Ok(fitted)
    }

    /// Where the time of each operation went, phase by phase, if [`SimOptions::explain`] asked for
    /// it.
    #[must_use]
    pub fn explained(&self) -> &[ExplainedPhase] {
        &self.explained
    }

    /// Builds the machine under a setting.
    pub(crate) fn build(
        &self,
        setting: &Setting,
        seed: u64,
    ) -> Result<(Machine, Setting), SimError> {
        let o = &self.options;
        let generation = o.generation;
        if !o.fs.existed_in(generation) {
            let other = match generation {
                Generation::K6 => "ext4, btrfs",
                Generation::K3_2 => "ext3, ext4, btrfs",
                Generation::K2_6_32 => "ext3, ext4",
                Generation::K2_6_18 => "ext3",
            };
            return Err(SimError::Filesystem { generation, fs: o.fs, other });
        }
        if o.ram < LEAST_RAM {
            return Err(SimError::TooLittleRam { ram: o.ram, least: LEAST_RAM });
        }
        settings::check_names(setting, generation)?;
        if let (FsKind::Nfs { .. }, Some(knob)) = (o.fs, settings::queue_knob(setting)) {
            return Err(SimError::NoQueue { knob });
        }
        let groups = groups::from_setting(setting)?;
        if let (FsKind::Nfs { .. }, Some(knob)) = (o.fs, groups::first_knob(setting)) {
            return Err(SimError::NoGroup { knob: knob.into(), why: NO_CGROUP_WRITEBACK });
        }
        let knobs = DirtyKnobs::from_setting(generation, setting)?;
        let memory = memory_of(o.ram.0 / PAGE_SIZE);
        let facts = o.facts();
        let machine =
            throttle::Machine { hz: facts.hz, cpus: facts.cpus, possible_cpus: facts.cpus };
        let throttle = throttle::new(generation, machine, knobs, &memory);
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
        let (profile, driver) = (device.profile(), o.driver());
        let depth = o.depth(profile.queue_depth);
        let members = o.member_queues.max(1);
        let given = settings::commands(setting, driver, depth)?;
        let priorities = Priorities::new(setting, generation, o.fs)?;
        let mut queue = Queue::new(setting, &facts, depth, given, profile.volatile_cache, members)?;
        let elevator = queue.elevators.first().map_or("", |elevator| elevator.name());
        settings::check_groups(setting, elevator, facts.bfq_groups)?;
        let mut in_force = Setting::default();
        if !matches!(o.fs, FsKind::Nfs { .. }) {
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
        let nfs = matches!(o.fs, FsKind::Nfs { .. });
        let chunk = o.chunk();
        let elevator: Box<dyn Elevator> = if nfs {
            Box::new(NoElevator::new(facts.cpus))
        } else {
            one_elevator(std::mem::take(&mut queue.elevators), chunk, given)
        };
        let slots = if nfs { NFS_SLOTS } else { queue.nr_requests };
        let most = u64::from(queue.max_sectors_kb) << 10;
        let params = QueueParams {
            generation,
            depth: if nfs { NFS_SLOTS } else { depth * members },
            given: if nfs { NFS_SLOTS } else { given * members },
            // A request of md's goes to one member.
            max_bytes: if nfs {
                NFS_WSIZE
            } else if members > 1 {
                most.min(chunk)
            } else {
                most
            },
            pool: RequestPool::new(if nfs { Generation::K6 } else { generation }, slots),
            wbt: queue.wbt.filter(|_| !nfs),
            stripes: if nfs { Stripes::ONE } else { Stripes { members, chunk } },
            fua: driver.fua(),
            flush_alone: driver.flush_alone(),
        };
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

    /// Settles the sizes that a scenario leaves open, as a real run does. Floods get one and a half
    /// times the hard dirty limit, a burst at most an eighth of RAM. A flood is also twice as large
    /// as the device's caches. A smaller file would be rewritten in a protected cache over and over
    /// and never reach the medium.
    fn fit(&self, scenario: &Scenario, machine: &Machine) -> Scenario {
        let mut fitted = scenario.clone();
        let limit = machine.throttle.thresholds(&machine.memory).dirty * PAGE_SIZE;
        let cached = 2 * machine.block.device_cache_bytes();
        let wanted = (limit + limit / 2).max(cached).next_multiple_of(1 << 20).max(SMALLEST_FLOOD);
        for flood in &mut fitted.floods {
            let copies = if flood.kind == FloodKind::Copy { 2 } else { 1 };
            flood.size.get_or_insert(Bytes(wanted * copies));
        }
        fitted.burst = fitted.burst.map(|b| b.min(Bytes(self.options.ram.0 / 8)));
        fitted
    }

    fn run_round(
        &mut self,
        scenario: &Scenario,
        setting: &Setting,
        trial: &mut Trial,
        watch: &mut dyn Watch,
    ) -> Result<(), SimError> {
        if let Some(why) = unsettled_rate(scenario) {
            return Err(SimError::Scenario { part: format!("scenario '{}'", scenario.name), why });
        }
        trial.setting = self.check(scenario, setting)?;
        let round = trial.round;
        let seed = self.options.seed.wrapping_add(u64::from(round) << 32);
        let (mut machine, _) = self.build(setting, u64::from(round) << 32)?;
        let scenario = self.fit(scenario, &machine);
        let loads = Loads::place(&mut machine, &scenario, seed)?;
        machine.explainer = self.options.explain.then(Explainer::default);
        let kinds = scenario.phase_kinds();
        for i in 0..kinds.len() {
            let kind = kinds[(i + round as usize - 1) % kinds.len()];
            prepare(&mut machine, &loads, &scenario, round, watch);
            let phase = match (kind, scenario.burst) {
                (PhaseKind::Burst, Some(bytes)) => burst(&mut machine, bytes, round, watch),
                _ => phase::run(
                    &PhaseRun { kind, round, loads: &loads, timing: &scenario.timing },
                    &mut machine,
                    watch,
                ),
            };
            if let Some(explainer) = &mut machine.explainer {
                let operations = std::mem::take(&mut explainer.operations);
                self.explained.push(ExplainedPhase { round, kind, operations });
            }
            let cut = phase.cut_short.is_some();
            trial.phases.push(phase);
            if cut {
                return Err(SimError::Interrupted);
            }
        }
        match machine.block.counters(machine.now).errors {
            0 => Ok(()),
            n => Err(SimError::DeviceErrors(n)),
        }
    }
}

/// The elevators of all member queues as one; there must be at least one.
pub(crate) fn one_elevator(
    mut elevators: Vec<Box<dyn Elevator>>,
    chunk: u64,
    depth: u32,
) -> Box<dyn Elevator> {
    match elevators.pop() {
        Some(only) if elevators.is_empty() => only,
        last => {
            elevators.extend(last);
            Box::new(Striped::new(elevators, chunk, depth))
        }
    }
}

/// The known state that every phase starts from: no backlog, and the device left alone for a while.
fn prepare(
    machine: &mut Machine,
    loads: &Loads,
    scenario: &Scenario,
    round: u32,
    watch: &mut dyn Watch,
) {
    loads.floods.iter().for_each(|flood| machine.discard(flood));
    watch.step(Step { what: "draining", phase: None, round, expected_s: 0.5 });
    if !machine.drain(DRAIN) {
        watch.warn(
            "the backlog did not drain within an hour: the phases do not start from an idle device",
        );
    }
    machine.run_until(machine.now + IDLE);
    let settle = scenario.timing.settle;
    watch.step(Step { what: "settling", phase: None, round, expected_s: settle.as_secs_f64() });
    machine.run_until(machine.now + settle.into());
    // What the loads did before they were stopped belongs to no phase.
    for load in &mut machine.loads {
        load.meter.take();
    }
}

/// How fast the kernel accepts a burst.
fn burst(machine: &mut Machine, bytes: Bytes, round: u32, watch: &mut dyn Watch) -> Phase {
    watch.step(Step { what: "measuring", phase: Some(PhaseKind::Burst), round, expected_s: 1.0 });
    let begin = machine.now;
    let directory = machine.fs.new_directory();
    let file = machine.create_file(directory, bytes.0, false, false);
    let load = machine.add_load(machine.group_called(setting::FLOOD), 1 << 20, vec![file]);
    machine.add_task(load, Program::Burst { left: bytes.0 }, file, seeded(0, 0));
    machine.start_load(load);
    machine.run_while(begin + DRAIN, |m| !m.load_stopped(load));
    let seconds = machine.now.since(begin).as_secs_f64();
    machine.cache.truncate(file);
    Phase {
        kind: PhaseKind::Burst,
        start_s: begin.as_secs_f64(),
        seconds,
        warmup: Warmup { verdict: "a burst has no warm-up".into(), ..Warmup::default() },
        intervals: Vec::new(),
        overrun: OpLatencies::default(),
        victims: Vec::new(),
        floods: Vec::new(),
        burst: Some(BurstTotals { bytes: bytes.0, seconds }),
        cut_short: None,
    }
}

/// What a scenario with settled sizes takes on the device.
fn needed_by(scenario: &Scenario) -> Bytes {
    let victims: u64 = scenario.victims.iter().map(|v| v.size.0).sum();
    let floods: u64 = scenario.floods.iter().filter_map(|f| f.size).map(|s| s.0).sum();
    Bytes(victims + floods + scenario.burst.map_or(0, |b| b.0))
}

impl Rig for SimRig {
    fn run(
        &mut self,
        scenario: &Scenario,
        setting: &Setting,
        round: u32,
        watch: &mut dyn Watch,
    ) -> Result<Trial, RigError> {
        let mut trial = Trial { setting: setting.clone(), round: round.max(1), phases: Vec::new() };
        match self.run_round(scenario, setting, &mut trial, watch) {
            Ok(()) => Ok(trial),
            Err(e) => Err(RigError {
                interrupted: matches!(e, SimError::Interrupted),
                source: Box::new(e),
                partial: (!trial.phases.is_empty()).then(|| Box::new(trial)),
            }),
        }
    }

    fn refusal(&self, scenario: &Scenario, setting: &Setting) -> Option<String> {
        self.check(scenario, setting).err().map(|why| why.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use floodwall_device::preset_text;

    /// What a flood gets on the array of 2010 with another protected cache, under a low limit.
    fn flood(cache: &str) -> Bytes {
        let text = preset_text("raid10-bbwc-2010").unwrap();
        let text = text.replace("size = \"512MiB\"", &format!("size = \"{cache}\""));
        let rig = SimRig::new(SimOptions::new(DeviceSpec::parse(&text).unwrap()));
        let scenario = floodwall_model::scenario::builtin("copy-vs-database").unwrap().unwrap();
        let low = [("vm.dirty_bytes".to_owned(), "67108864".to_owned())].into_iter().collect();
        let (machine, _) = rig.build(&low, 0).unwrap();
        rig.fit(&scenario, &machine).floods[0].size.unwrap()
    }

    #[test]
    fn a_flood_is_larger_than_the_cache_that_would_absorb_it() {
        assert_eq!(flood("512MiB"), Bytes::gib(1));
        assert_eq!(flood("2GiB"), Bytes::gib(4));
    }
}
