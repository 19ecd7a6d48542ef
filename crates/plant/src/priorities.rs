//! I/O priorities of the processes that commit on a unit, and of its ext4 journals' threads.
//!
//! ```text
//! /proc/PID/stat ─▶ no kernel thread, not this process ─▶ known while it commits
//! queue/scheduler is bfq, /proc/kallsyms has its group support ─▶ priorities count here
//! ioprio_get(2) of each thread ─▶ pid:PID.ioprio, journal.ioprio as the unit's knobs
//! ```
//!
//! The knobs are there only where priorities count, and as long as a written value is held. A
//! process that commits on several units has a knob on each, until it is raised for one of them. A
//! process that has ended needs nothing back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use floodwall_host::{SysRoot, queue, task};
use floodwall_knobs::catalogue::{Knob, find};
use floodwall_knobs::cell::Cell;
use floodwall_knobs::{Device, Files, Process, Target};
use floodwall_model::proc_stat::KERNEL_THREAD;
use floodwall_model::setting::{JOURNAL_PRIORITY, PROCESS};
use floodwall_model::{DeviceId, Reading, Setting};

use crate::owner::{Owner, owner, process_name};
use crate::units::Unit;

/// The priority of a process's threads.
const PRIORITY: &str = "ioprio";
/// The elevator in which priorities put commits before a flood, if it has group support.
const ELEVATOR: &str = "bfq";
/// A process that commits no more is forgotten after this. It is longer than the law raises one.
const FORGET: Duration = Duration::from_secs(120);
/// Processes are looked for again after this: a number may be another process's.
const REREAD: Duration = Duration::from_secs(1);

/// A process that commits.
struct Committer {
    /// Where it commits, and when it was last seen to.
    units: BTreeMap<DeviceId, Duration>,
    /// The unit for which its priority was written, while that is in use. A process has one
    /// priority for all units, and the journal keeps one value of it.
    holder: Option<DeviceId>,
    /// `None`: a kernel thread, or one that ended before it was read.
    process: Option<Process>,
    read: Duration,
    saved: bool,
}

impl Committer {
    /// Whether its priority is a knob of a unit.
    fn is_of(&self, unit: DeviceId) -> bool {
        self.holder.map_or(self.units.contains_key(&unit), |holder| holder == unit)
    }
}

/// The priorities of all units.
pub(crate) struct Priorities {
    /// This process, which is never raised.
    own: u32,
    committers: BTreeMap<u32, Committer>,
    /// Whether the kernel's bfq has group support; read once bfq is in force.
    bfq_groups: Option<bool>,
}

/// A cell to be saved ahead of writes.
pub(crate) type SavedCell = (&'static Knob, Target);

/// Where a unit's priorities are read.
pub(crate) struct Sources<'a> {
    pub(crate) root: &'a SysRoot,
    pub(crate) unit: &'a Unit,
    pub(crate) files: &'a dyn Files,
    pub(crate) in_use: &'a BTreeSet<Owner>,
    /// The value that is being written.
    pub(crate) pending: &'a dyn Fn(&Owner) -> Option<String>,
}

impl Priorities {
    pub(crate) fn new() -> Self {
        Self { own: std::process::id(), committers: BTreeMap::new(), bfq_groups: None }
    }

    /// A process has committed on a unit.
    pub(crate) fn commits(&mut self, root: &SysRoot, pid: u32, unit: DeviceId, at: Duration) {
        let own = self.own;
        let known = self.committers.entry(pid).or_insert_with(|| {
            let process = process(root, pid).filter(|_| pid != own);
            Committer { units: BTreeMap::new(), holder: None, process, read: at, saved: false }
        });
        known.units.insert(unit, at);
    }

    /// A priority was written for a unit, which has it until it is back.
    pub(crate) fn hold(&mut self, name: &str, unit: DeviceId) {
        if let Some(known) = self.committer(name) {
            known.holder = Some(unit);
        }
    }

    /// Forgets processes that have ended, and those that commit no more. Returns the owners in use
    /// whose process has ended.
    pub(crate) fn look(
        &mut self,
        root: &SysRoot,
        at: Duration,
        in_use: &BTreeSet<Owner>,
    ) -> Vec<Owner> {
        let mut ended = Vec::new();
        self.committers.retain(|pid, known| {
            let is_held = known.process.is_some_and(|process| in_use.contains(&owner_of(process)));
            known.holder.take_if(|_| !is_held);
            let is_seen = known.units.values().any(|seen| *seen == at);
            let is_looked_for = known.process.is_some() && (is_held || is_seen);
            if is_looked_for && at.saturating_sub(known.read) >= REREAD {
                known.read = at;
                if process(root, *pid) != known.process {
                    ended.extend(known.process.map(owner_of).filter(|_| is_held));
                    return false;
                }
            }
            known.units.retain(|_, seen| at.saturating_sub(*seen) < FORGET);
            is_held || !known.units.is_empty()
        });
        ended
    }

    /// Forgets the processes of a unit that has gone. Returns the owners of its priorities.
    pub(crate) fn unit_gone(&mut self, unit: DeviceId, devices: &[Device]) -> Vec<Owner> {
        let mut left: Vec<Owner> =
            journals(devices).map(|(knob, target)| owner(knob, &target)).collect();
        self.committers.retain(|_, known| {
            if known.is_of(unit) {
                left.extend(known.process.map(owner_of));
            }
            known.units.remove(&unit);
            known.holder.is_some_and(|holder| holder != unit) || !known.units.is_empty()
        });
        left
    }

    /// The unit for which a process's priority is held.
    pub(crate) fn unit(&self, pid: u32) -> Option<DeviceId> {
        self.committers.get(&pid)?.holder
    }

    /// Whether priorities count under the elevator that a unit's knobs show.
    fn counts(&mut self, root: &SysRoot, knobs: &Setting) -> bool {
        // Reading all symbols takes a fifth of a second, once.
        knobs.get("scheduler") == Some(ELEVATOR)
            && *self
                .bfq_groups
                .get_or_insert_with(|| queue::read_bfq_groups(root).into_value() == Some(true))
    }

    /// Adds the priorities of a unit's processes and journals to its knobs. Returns the cells that
    /// were not returned before, to be saved together.
    pub(crate) fn read_knobs(&mut self, from: &Sources<'_>, knobs: &mut Setting) -> Vec<SavedCell> {
        let its = self.committers.iter().filter(|(_, known)| known.is_of(from.unit.id));
        let names: Vec<String> =
            its.map(|(pid, _)| format!("{}.{PRIORITY}", process_name(*pid))).collect();
        let mut fresh = Vec::new();
        for name in names.into_iter().chain([JOURNAL_PRIORITY.to_owned()]) {
            if let Reading::Value(value) = self.read_knob(from, &name, knobs, &mut fresh) {
                knobs.0.insert(name, value);
            }
        }
        fresh
    }

    /// One of the same priorities. `knobs`: those of the unit's queues. Adds its cell to `fresh` if
    /// it was not added before.
    pub(crate) fn read_knob(
        &mut self,
        from: &Sources<'_>,
        name: &str,
        knobs: &Setting,
        fresh: &mut Vec<SavedCell>,
    ) -> Reading<String> {
        let counts = self.counts(from.root, knobs);
        let read = |(knob, target): &SavedCell| {
            let owner = owner(knob, target);
            if !counts && !from.in_use.contains(&owner) {
                return Reading::Absent("the elevator does not honour it".to_owned());
            }
            let state = Cell::of(knob, target, from.files).read(from.files);
            state.map(|state| (from.pending)(&owner).unwrap_or(state.value))
        };
        let cells = self.cells(from.unit, name);
        // Of several journals the first stands for all: they differ only if somebody has set one.
        let mut readings = cells.iter().map(|cell| (cell, read(cell)));
        let Some((cell, reading)) =
            readings.find(|(_, reading)| !matches!(reading, Reading::Absent(_)))
        else {
            return Reading::Absent("nothing of this name commits on this device".to_owned());
        };
        if let (Reading::Value(_), Some(known)) = (&reading, self.committer(name))
            && !std::mem::replace(&mut known.saved, true)
        {
            fresh.push(cell.clone());
        }
        reading
    }

    /// The knobs and targets of a name that [`Self::read_knobs`] gave; none if the unit has no such
    /// process or journal.
    pub(crate) fn targets(&self, unit: &Unit, name: &str, files: &dyn Files) -> Vec<SavedCell> {
        let is_there = |(knob, target): &SavedCell| {
            name != JOURNAL_PRIORITY || Cell::of(knob, target, files).read(files).value().is_some()
        };
        self.cells(unit, name).into_iter().filter(is_there).collect()
    }

    /// The same, whether they are there or not.
    fn cells(&self, unit: &Unit, name: &str) -> Vec<SavedCell> {
        if name == JOURNAL_PRIORITY {
            return journals(&unit.limits).collect();
        }
        let known = pid_of(name).and_then(|pid| self.committers.get(&pid));
        let known = known.filter(|known| known.is_of(unit.id));
        known.and_then(|known| priority_of(known.process?)).into_iter().collect()
    }

    fn committer(&mut self, name: &str) -> Option<&mut Committer> {
        self.committers.get_mut(&pid_of(name)?)
    }
}

/// The process of a knob: 4711 of `pid:4711.ioprio`.
fn pid_of(name: &str) -> Option<u32> {
    name.strip_prefix(PROCESS)?.split('.').next()?.parse().ok()
}

/// A process that can be raised; `None` for a kernel thread, or if it has ended.
fn process(root: &SysRoot, pid: u32) -> Option<Process> {
    let flags = task::read_stat(root, pid, &mut Vec::new())?.flags;
    Process::find(root, &pid.to_string()).ok().filter(|_| flags & KERNEL_THREAD == 0)
}

fn priority_of(process: Process) -> Option<SavedCell> {
    Some((find(PRIORITY)?, Target::Process(process)))
}

fn owner_of(process: Process) -> Owner {
    priority_of(process).and_then(|(knob, target)| owner(knob, &target))
}

/// The priorities of the journals on some backing devices, there or not.
fn journals(devices: &[Device]) -> impl Iterator<Item = SavedCell> {
    devices
        .iter()
        .filter_map(|device| Some((find(JOURNAL_PRIORITY)?, Target::Device(device.clone()))))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use floodwall_knobs::KernelFiles;
    use floodwall_model::plant::DeviceKind;
    use floodwall_model::setting::is_priority;

    use super::*;
    use crate::testing::put;

    const SDA: DeviceId = DeviceId { major: 8, minor: 0 };

    fn stat(pid: u32, flags: u64, start: u64) -> String {
        format!("{pid} (db) S 1 1 1 0 -1 {flags} 0 0 0 0 1 2 0 0 20 0 1 0 {start} 99 0")
    }

    /// A machine whose disk has bfq, three processes, and a journal.
    fn machine(group_support: bool) -> (tempfile::TempDir, SysRoot, Unit) {
        let directory = tempfile::tempdir().unwrap();
        let put = |path: &str, line: &str| put(directory.path(), path, line);
        put("proc/7/stat", &stat(7, 0, 70));
        put("proc/7/ioprio", "none");
        put("proc/8/stat", &stat(8, KERNEL_THREAD, 80));
        put("proc/8/ioprio", "none");
        let own = std::process::id();
        put(&format!("proc/{own}/stat"), &stat(own, 0, 90));
        put(&format!("proc/{own}/ioprio"), "none");
        let symbols = if group_support { "0 t bfq_pd_alloc\n0 t bfq_x" } else { "0 t bfq_x" };
        put("proc/kallsyms", symbols);
        put("sys/dev/block/8:0/journal/ioprio", "be/3");
        let root = SysRoot::new(directory.path()).unwrap();
        let device = Device { number: SDA.to_string(), name: "sda".into(), instance: None };
        let unit = Unit {
            id: SDA,
            name: "sda".into(),
            kind: DeviceKind::Unknown,
            members: BTreeSet::from([SDA]),
            queues: vec![device.clone()],
            limits: vec![device],
            mounts: Vec::new(),
        };
        (directory, root, unit)
    }

    fn knobs(
        priorities: &mut Priorities,
        root: &SysRoot,
        unit: &Unit,
        elevator: &str,
        in_use: &BTreeSet<Owner>,
    ) -> Vec<(String, String)> {
        let mut knobs: Setting =
            [("scheduler".to_owned(), elevator.to_owned())].into_iter().collect();
        let files = KernelFiles::new(root).unwrap();
        let from = Sources { root, unit, files: &files, in_use, pending: &|_| None };
        priorities.read_knobs(&from, &mut knobs);
        knobs.0.into_iter().filter(|(knob, _)| is_priority(knob)).collect()
    }

    #[test]
    fn who_commits_can_be_raised_under_bfq_with_group_support_alone() {
        let own = |knob: &str, value: &str| (knob.to_owned(), value.to_owned());
        for (group_support, elevator) in [(true, "bfq"), (false, "bfq"), (true, "mq-deadline")] {
            let (_directory, root, unit) = machine(group_support);
            let mut priorities = Priorities::new();
            for pid in [7, 8, 9, std::process::id()] {
                priorities.commits(&root, pid, SDA, Duration::from_secs(1));
            }
            let seen = knobs(&mut priorities, &root, &unit, elevator, &BTreeSet::new());
            let all = [own("journal.ioprio", "be/3"), own("pid:7.ioprio", "none")];
            let counts = group_support && elevator == "bfq";
            assert_eq!(
                seen,
                if counts { all.to_vec() } else { vec![] },
                "{group_support} {elevator}"
            );
            // A held one stays, so that it can be taken back.
            let in_use = BTreeSet::from([Some("/pid:7/ioprio".to_owned())]);
            let held = knobs(&mut priorities, &root, &unit, elevator, &in_use);
            assert!(held.contains(&own("pid:7.ioprio", "none")), "{held:?}");
            let elsewhere = Unit { id: DeviceId { major: 8, minor: 16 }, limits: vec![], ..unit };
            assert!(knobs(&mut priorities, &root, &elsewhere, "bfq", &BTreeSet::new()).is_empty());
        }
    }

    #[test]
    fn a_process_can_be_raised_wherever_it_commits_for_one_unit_at_a_time() {
        let (_directory, root, sda) = machine(true);
        let sdb = Unit { id: DeviceId { major: 8, minor: 16 }, limits: vec![], ..sda.clone() };
        let files = KernelFiles::new(&root).unwrap();
        let owner = Some("/pid:7/ioprio".to_owned());
        let (free, in_use) = (BTreeSet::new(), BTreeSet::from([owner.clone()]));
        let at = Duration::from_secs;
        let offered = |priorities: &mut Priorities, in_use: &BTreeSet<Owner>| {
            [&sda, &sdb].map(|unit| {
                let all = knobs(priorities, &root, unit, "bfq", in_use);
                let is_offered = all.iter().any(|(knob, _)| knob == "pid:7.ioprio");
                let targets = priorities.targets(unit, "pid:7.ioprio", &files);
                assert_eq!(targets.len(), usize::from(is_offered));
                is_offered
            })
        };
        let mut priorities = Priorities::new();
        priorities.commits(&root, 7, sda.id, at(1));
        assert_eq!(offered(&mut priorities, &free), [true, false]);
        priorities.commits(&root, 7, sdb.id, at(2));
        assert_eq!(offered(&mut priorities, &free), [true, true]);
        priorities.hold("pid:7.ioprio", sda.id);
        priorities.look(&root, at(3), &in_use);
        assert_eq!(offered(&mut priorities, &in_use), [true, false], "it is sda's");
        // It commits on sdb alone, for long, and is still to be taken back for sda.
        priorities.commits(&root, 7, sdb.id, at(200));
        priorities.look(&root, at(200), &in_use);
        assert_eq!(offered(&mut priorities, &in_use), [true, false]);
        priorities.look(&root, at(201), &free);
        assert_eq!(offered(&mut priorities, &free), [false, true], "it is back");
        priorities.commits(&root, 7, sda.id, at(202));
        priorities.hold("pid:7.ioprio", sda.id);
        assert!(!priorities.unit_gone(sdb.id, &[]).contains(&owner), "it is sda's");
        assert!(priorities.unit_gone(sda.id, &[]).contains(&owner));
    }

    #[test]
    fn a_process_that_has_ended_is_told_and_forgotten() {
        let (directory, root, unit) = machine(true);
        let mut priorities = Priorities::new();
        let at = Duration::from_secs;
        priorities.commits(&root, 7, SDA, at(1));
        priorities.hold("pid:7.ioprio", SDA);
        let in_use = BTreeSet::from([Some("/pid:7/ioprio".to_owned())]);
        assert!(priorities.look(&root, at(300), &in_use).is_empty(), "it is held");
        let files = KernelFiles::new(&root).unwrap();
        assert_eq!(priorities.targets(&unit, "pid:7.ioprio", &files).len(), 1);
        assert_eq!(priorities.targets(&unit, "journal.ioprio", &files).len(), 1);
        // Its number is another process's.
        put(directory.path(), "proc/7/stat", &stat(7, 0, 71));
        assert_eq!(priorities.look(&root, at(302), &in_use), [Some("/pid:7/ioprio".to_owned())]);
        assert!(priorities.targets(&unit, "pid:7.ioprio", &files).is_empty());
        priorities.commits(&root, 7, SDA, at(303));
        priorities.look(&root, at(500), &BTreeSet::new());
        assert!(priorities.targets(&unit, "pid:7.ioprio", &files).is_empty(), "it commits no more");
        fs::remove_dir_all(directory.path().join("proc/7")).unwrap();
        priorities.commits(&root, 7, SDA, at(501));
        assert!(priorities.targets(&unit, "pid:7.ioprio", &files).is_empty());
        let left = priorities.unit_gone(SDA, &unit.limits);
        assert_eq!(left, [Some("/8:0/journal.ioprio".to_owned())]);
    }
}
