//! A setting as a machine takes it: the knobs of its kernel, their defaults, the values then in
//! force.
//!
//! Defaults of the queue in 2.6.18 and 2.6.32: 128 requests of at most 512 KiB (`BLKDEV_MAX_RQ`,
//! `BLK_DEF_MAX_SECTORS`). In 6.18: twice the device's depth, between 4 and 256, or the depth
//! itself without an elevator, and 4 MiB. Read-ahead is 128 KiB everywhere.

use floodwall_model::priority::NotAPriority;
use floodwall_model::setting::{JOURNAL_PRIORITY, VICTIMS_PRIORITY};
use floodwall_model::{Priority, Setting};

use crate::driver::Driver;
use crate::elevator::{Elevator, ElevatorKind};
use crate::eras::parts::{self, QueueFacts};
use crate::error::SimError;
use crate::fs::FsKind;
use crate::groups;
use crate::kernel::Generation;
use crate::limits::{self, DIRTY_KNOBS, DirtyKnobs, Limit};
use crate::wbt::Wbt;

/// A queue's knobs, with the first generation that had each.
const QUEUE_KNOBS: &[(&str, Generation)] = &[
    ("scheduler", Generation::K2_6_18),
    ("nr_requests", Generation::K2_6_18),
    ("max_sectors_kb", Generation::K2_6_18),
    ("read_ahead_kb", Generation::K2_6_18),
    ("wbt_lat_usec", Generation::K6),
    (QUEUE_DEPTH, Generation::K2_6_18),
];

/// Commands that a SCSI or SATA device is given at once.
pub(crate) const QUEUE_DEPTH: &str = "device.queue_depth";
/// The elevator that shares a device out among control groups first.
const BFQ: &str = "bfq";
/// What that thread has unless told otherwise (`DEFAULT_JOURNAL_IOPRIO`, fs/ext4/super.c).
const JOURNAL_DEFAULT: Priority = Priority::BestEffort(3);
/// A kernel shows which thread commits a journal since 4.20 (`journal_task`).
const PRIORITIES: &[(&str, Generation)] =
    &[(VICTIMS_PRIORITY, Generation::K2_6_18), (JOURNAL_PRIORITY, Generation::K6)];

/// I/O priorities, settled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Priorities {
    pub(crate) victims: Priority,
    pub(crate) journal: Priority,
}

impl Priorities {
    /// As a setting says, on this filesystem.
    pub(crate) fn new(
        setting: &Setting,
        generation: Generation,
        fs: FsKind,
    ) -> Result<Self, SimError> {
        let read = |knob: &str| match setting.get(knob).map(|text| (text, text.trim().parse())) {
            None => Ok(None),
            Some((_, Ok(priority))) => Ok(Some(priority)),
            Some((text, Err(takes @ NotAPriority))) => Err(value(knob, text, takes.to_string())),
        };
        let has_thread = fs == FsKind::Ext4 && generation.shows_journal_thread();
        let journal = match read(JOURNAL_PRIORITY)? {
            Some(_) if !has_thread => {
                let needs = "ext4, which commits its journal in a thread of its own";
                return Err(SimError::NoSubject { knob: JOURNAL_PRIORITY, needs });
            }
            given => given.or(has_thread.then_some(JOURNAL_DEFAULT)),
        };
        Ok(Self {
            victims: read(VICTIMS_PRIORITY)?.unwrap_or_default(),
            journal: journal.unwrap_or_default(),
        })
    }

    /// What reading those that a setting names back would show.
    pub(crate) fn in_force(&self, setting: &Setting, in_force: &mut Setting) {
        for (knob, priority) in [(VICTIMS_PRIORITY, self.victims), (JOURNAL_PRIORITY, self.journal)]
        {
            if setting.get(knob).is_some() {
                in_force.0.insert(knob.to_owned(), priority.to_string());
            }
        }
    }
}

/// Refuses a priority that bfq would weigh against all processes, where the kernel's weighs it
/// within a control group alone (block/bfq-cgroup.c `bfq_init_entity`): the elevator here has no
/// groups. `bfq_groups`: the kernel's bfq has them.
pub(crate) fn check_groups(
    setting: &Setting,
    elevator: &str,
    bfq_groups: bool,
) -> Result<(), SimError> {
    let Some(group) = groups::first_knob(setting).filter(|_| bfq_groups && elevator == BFQ) else {
        return Ok(());
    };
    let is_set = |knob: &&str| setting.get(knob).is_some_and(|text| text.trim() != "none");
    match [VICTIMS_PRIORITY, JOURNAL_PRIORITY].into_iter().find(is_set) {
        Some(knob) => Err(SimError::PriorityInGroups { knob, group: group.into() }),
        None => Ok(()),
    }
}

/// Commands that a device of this depth is given at once.
pub(crate) fn commands(setting: &Setting, driver: Driver, depth: u32) -> Result<u32, SimError> {
    match number(setting, QUEUE_DEPTH, 1, depth)? {
        Some(_) if !driver.queue_depth_changes() => {
            let needs =
                "a disk behind the SCSI layer (SATA, SAS); NVMe, loop, USB and MMC have none";
            Err(SimError::NoSubject { knob: QUEUE_DEPTH, needs })
        }
        given => Ok(given.unwrap_or(depth)),
    }
}

/// The device's queue, settled.
pub(crate) struct Queue {
    /// One a member queue; at least one.
    pub(crate) elevators: Vec<Box<dyn Elevator>>,
    pub(crate) nr_requests: u32,
    pub(crate) max_sectors_kb: u32,
    pub(crate) read_ahead_kb: u32,
    /// 6.x only.
    pub(crate) wbt: Option<Wbt>,
}

/// Refuses knobs that the kernel did not have or that the model does not look at.
pub(crate) fn check_names(setting: &Setting, generation: Generation) -> Result<(), SimError> {
    for name in setting.0.keys() {
        if name.starts_with("vm.dirty") || name.starts_with("bdi.") || name.starts_with("iosched.")
        {
            // Each checks its own.
            continue;
        }
        let is_group = groups::is_known(name, generation);
        if is_group == Ok(true) {
            continue;
        }
        match QUEUE_KNOBS.iter().chain(PRIORITIES).find(|(knob, _)| knob == name) {
            Some((_, since)) if *since <= generation => {}
            None if is_group == Ok(false) => {
                return Err(SimError::NotModelled { knob: name.clone() });
            }
            _ => {
                let had: Vec<&str> = QUEUE_KNOBS
                    .iter()
                    .filter(|(_, since)| *since <= generation)
                    .map(|(knob, _)| *knob)
                    .collect();
                return Err(SimError::NoKnob {
                    generation,
                    knob: name.clone(),
                    had: had.join(", "),
                });
            }
        }
    }
    Ok(())
}

/// A knob of a block device's queue, if a setting names any.
pub(crate) fn queue_knob(setting: &Setting) -> Option<String> {
    let queue = |name: &&String| {
        QUEUE_KNOBS.iter().any(|(knob, _)| knob == name) || name.starts_with("iosched.")
    };
    setting.0.keys().find(|name| queue(name) && name.as_str() != "read_ahead_kb").cloned()
}

impl Queue {
    /// The defaults of a kernel on a device of this depth, changed by what a setting says. `given`:
    /// commands that the device is given at once, which wbt goes by (`scsi_change_queue_depth`,
    /// `rq_qos_queue_depth_changed`); slots follow the depth.
    pub(crate) fn new(
        setting: &Setting,
        facts: &QueueFacts,
        depth: u32,
        given: u32,
        volatile: bool,
        members: u32,
    ) -> Result<Self, SimError> {
        let generation = facts.generation;
        let kind = match setting.get("scheduler") {
            Some(name) => name
                .trim()
                .parse::<ElevatorKind>()
                .map_err(|e| SimError::Elevator(e.to_string()))?,
            None => facts.default_elevator,
        };
        let make = |nr_requests| -> Result<Box<dyn Elevator>, SimError> {
            let mut elevator =
                parts::build(kind, facts).map_err(|e| SimError::Elevator(e.to_string()))?;
            elevator.depth_updated(nr_requests);
            for (name, value) in &setting.0 {
                if let Some(tunable) = name.strip_prefix("iosched.") {
                    elevator.set(tunable, value).map_err(|e| SimError::Elevator(e.to_string()))?;
                }
            }
            Ok(elevator)
        };
        let new = generation.is_multiqueue();
        let requests = match (new, kind) {
            (true, ElevatorKind::None) => depth,
            (true, _) => (2 * depth.min(128)).max(4),
            (false, _) => 128,
        };
        let most = if new && kind == ElevatorKind::None { depth.max(4) } else { 2048 };
        let nr_requests = number(setting, "nr_requests", 4, most)?.unwrap_or(requests);
        let elevators =
            (0..members.max(1)).map(|_| make(nr_requests)).collect::<Result<Vec<_>, _>>()?;
        let max_sectors_kb =
            number(setting, "max_sectors_kb", 4, 32_767)?.unwrap_or(generation.max_sectors_kb());
        let read_ahead_kb = number(setting, "read_ahead_kb", 0, 1 << 20)?.unwrap_or(128);
        let wbt = if new { Some(wbt(setting, facts, kind, given, volatile)?) } else { None };
        Ok(Self { elevators, nr_requests, max_sectors_kb, read_ahead_kb, wbt })
    }

    /// What reading every knob back would show.
    pub(crate) fn in_force(&self, setting: &mut Setting) {
        let mut put = |knob: &str, value: String| setting.0.insert(knob.to_owned(), value);
        put("nr_requests", self.nr_requests.to_string());
        put("max_sectors_kb", self.max_sectors_kb.to_string());
        put("read_ahead_kb", self.read_ahead_kb.to_string());
        if let Some(wbt) = &self.wbt {
            put("wbt_lat_usec", wbt.latency_us().to_string());
        }
        let Some(elevator) = self.elevators.first() else { return };
        put("scheduler", elevator.name().to_owned());
        for (name, value) in elevator.tunables() {
            put(&format!("iosched.{name}"), value);
        }
    }
}

fn wbt(
    setting: &Setting,
    facts: &QueueFacts,
    kind: ElevatorKind,
    depth: u32,
    volatile: bool,
) -> Result<Wbt, SimError> {
    let mut wbt = Wbt::new(facts.hz, depth, facts.rotated_at_first, volatile);
    if kind.name() == "bfq" {
        wbt.disable_default();
    }
    if let Some(text) = setting.get("wbt_lat_usec") {
        let us: i64 = text
            .trim()
            .parse()
            .map_err(|_| value("wbt_lat_usec", text, "-1 or microseconds".into()))?;
        let us = if us == -1 {
            None
        } else {
            Some(
                u64::try_from(us)
                    .map_err(|_| value("wbt_lat_usec", text, "-1 or microseconds".into()))?,
            )
        };
        if let Some(us) = us.filter(|us| *us > 0 && *us != wbt.latency_us()) {
            // A setting comes into force by way of another value: the kernel ignores a write of the
            // present target, even while wbt is off under bfq.
            wbt.set_latency_us(Some(us + 1));
        }
        wbt.set_latency_us(us);
    }
    Ok(wbt)
}

/// What reading the writeback knobs back would show: of each pair the half that is not in force
/// reads 0.
pub(crate) fn dirty_in_force(knobs: &DirtyKnobs, generation: Generation, setting: &mut Setting) {
    let mut put = |knob: &str, value: u64| setting.0.insert(knob.to_owned(), value.to_string());
    for (limit, ratio_knob, bytes_knob) in [
        (knobs.dirty, "vm.dirty_ratio", "vm.dirty_bytes"),
        (knobs.background, "vm.dirty_background_ratio", "vm.dirty_background_bytes"),
    ] {
        let (ratio, bytes) = match limit {
            Limit::Ratio(ratio) => (u64::from(ratio), 0),
            Limit::Bytes(bytes) => (0, bytes),
        };
        put(ratio_knob, ratio);
        if limits::has(DIRTY_KNOBS, generation, bytes_knob) {
            put(bytes_knob, bytes);
        }
    }
    put("vm.dirty_writeback_centisecs", u64::from(knobs.writeback_centisecs));
    put("vm.dirty_expire_centisecs", u64::from(knobs.expire_centisecs));
}

fn number(setting: &Setting, knob: &str, least: u32, most: u32) -> Result<Option<u32>, SimError> {
    let Some(text) = setting.get(knob) else { return Ok(None) };
    match text.trim().parse::<u32>() {
        Ok(n) if (least..=most).contains(&n) => Ok(Some(n)),
        _ => Err(value(knob, text, format!("it takes {least} to {most}"))),
    }
}

fn value(knob: &str, value: &str, takes: String) -> SimError {
    SimError::Value { knob: knob.into(), value: value.into(), takes }
}
