//! Every knob, typed: one static table that the code, docs/knobs.md and `floodwall explain` share.
//!
//! ```text
//! table/*  →  KNOBS  →  find (by name, nearest names)
//!                    →  parse, plan (unit, range, what a write resets)
//!                    →  markdown (docs/knobs.md)
//! ```
//!
//! A *knob* is a name that people use (`vm.dirty_bytes`, `bdi.max_bytes`). A
//! [cell](crate::cell::Cell) is a value in the kernel: `vm.dirty_bytes` and `vm.dirty_ratio` are
//! two names of one cell.

mod markdown;
mod table;

pub use markdown::{markdown, page};

/// The owner of a knob's state, which decides the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The machine: /proc/sys/vm.
    Global,
    /// A whole disk's request queue: /sys/block/NAME/queue.
    Queue,
    /// A tunable of the elevator in use: /sys/block/NAME/queue/iosched. The elevators that have it.
    Elevator(&'static [&'static str]),
    /// A backing device's writeback limits: /sys/class/bdi/MAJ:MIN.
    Bdi,
    /// A SCSI disk below its queue (SATA, SAS, UAS, virtio-scsi): /sys/block/NAME/device.
    Scsi,
    /// A cgroup v2 directory; the file has a line for each device.
    Cgroup,
    /// A cgroup v2 directory; the file has one value.
    CgroupValue,
    /// The threads of a process, or of all processes in a control group.
    Threads,
    /// The threads that commit the journals of the ext4 filesystems on a disk.
    Journal,
    /// The root cgroup alone; the file has a line for each device.
    RootCgroup,
}

/// The unit of a value, and how people may write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes. People must give a unit; a bare number is refused.
    Bytes,
    /// Bytes, or `max` for no limit.
    BytesOrMax,
    /// KiB: the file's name ends in `_kb`. Bare, or with a unit.
    Kibibytes,
    /// Percent, whole numbers.
    Percent,
    /// Millionths.
    PartsPerMillion,
    /// Hundredths of a second. Bare, or a duration with its unit.
    Centiseconds,
    /// Milliseconds. Bare, or a duration with its unit.
    Milliseconds,
    /// Microseconds. Bare, or a duration with its unit.
    Microseconds,
    /// Nanoseconds. Bare, or a duration with its unit.
    Nanoseconds,
    /// A plain number.
    Count,
    /// 0 or 1; `off` and `on` are understood.
    Flag,
    /// The name of an elevator.
    Elevator,
    /// An I/O priority: `none`, `be/0` to `be/7`, `rt/0` to `rt/7` or `idle`.
    IoPriority,
    /// `key=value` pairs for one device; the keys.
    Keys(&'static [&'static str]),
}

impl Unit {
    /// For tables and messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::BytesOrMax => "bytes or max",
            Self::Kibibytes => "KiB",
            Self::Percent => "percent",
            Self::PartsPerMillion => "parts per million",
            Self::Centiseconds => "centiseconds",
            Self::Milliseconds => "milliseconds",
            Self::Microseconds => "microseconds",
            Self::Nanoseconds => "nanoseconds",
            Self::Count => "count",
            Self::Flag => "flag",
            Self::Elevator => "choice",
            Self::IoPriority => "I/O priority",
            Self::Keys(_) => "keys",
        }
    }
}

/// Another knob that the kernel changes when this one is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reset {
    /// Its name; `iosched.*` stands for every tunable of the elevator.
    pub knob: &'static str,
    /// Whether a plan that does not name it puts it back at once. Otherwise the kernel's new value
    /// stands until the plan is undone.
    pub keep: bool,
}

/// One knob.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knob {
    /// As in settings and results: a sysctl's name, or the file's with `iosched.` or `bdi.` before
    /// it.
    pub name: &'static str,
    /// The owner of its state.
    pub scope: Scope,
    /// The unit of its value.
    pub unit: Unit,
    /// Smallest value accepted here, in the file's unit.
    pub min: i64,
    /// Largest value accepted here, in the file's unit.
    pub max: i64,
    /// The kernel's value at boot, for people.
    pub default: &'static str,
    /// Its requirements, for people. The program looks for the file instead.
    pub needs: &'static str,
    /// Why the kernel may keep another value than the one written without an error; `None` where
    /// it keeps it exactly.
    pub adjusts: Option<&'static str>,
    /// The other knobs that the kernel changes when this one is written.
    pub resets: &'static [Reset],
    /// Its effect, in a sentence.
    pub does: &'static str,
    /// Facts to know before changing it.
    pub quirks: &'static [&'static str],
    /// Kernel file and function that this entry describes.
    pub source: &'static str,
}

impl Knob {
    /// The file's name in its directory.
    #[must_use]
    pub fn file_name(&self) -> &'static str {
        match self.scope {
            Scope::Cgroup | Scope::CgroupValue | Scope::RootCgroup => self.name,
            Scope::Global
            | Scope::Queue
            | Scope::Elevator(_)
            | Scope::Bdi
            | Scope::Scsi
            | Scope::Threads
            | Scope::Journal => self.name.rsplit('.').next().unwrap_or(self.name),
        }
    }

    /// Whether its file has a line `default` for all devices without another line.
    #[must_use]
    pub fn has_default_line(&self) -> bool {
        self.scope == Scope::Cgroup && self.name.ends_with(".weight")
    }

    /// Whether writing this knob may change another one by itself.
    #[must_use]
    pub fn resets(&self, other: &Knob) -> bool {
        self.resets.iter().any(|reset| reset.covers(other))
    }
}

impl Reset {
    /// Whether it speaks of this knob.
    #[must_use]
    pub fn covers(&self, knob: &Knob) -> bool {
        match self.knob.strip_suffix('*') {
            Some(prefix) => knob.name.starts_with(prefix),
            None => knob.name == self.knob,
        }
    }
}

/// Every knob, in the order of the documentation.
pub fn knobs() -> impl Iterator<Item = &'static Knob> + Clone {
    table::ALL.iter().flat_map(|part| part.iter())
}

/// A knob by its name. `queue/scheduler` and `vm/dirty_bytes` are understood too.
#[must_use]
pub fn find(name: &str) -> Option<&'static Knob> {
    let name = name.strip_prefix("queue/").unwrap_or(name).replace('/', ".");
    knobs().find(|knob| knob.name == name)
}

/// Up to three names that a mistyped one may have meant, best first.
#[must_use]
pub fn nearest(name: &str) -> Vec<&'static str> {
    // Below this a suggestion confuses more than it helps (Jaro-Winkler, 0 to 1).
    const ALIKE: f64 = 0.75;
    let last = name.rsplit(['.', '/']).next().unwrap_or(name);
    let mut scored: Vec<(f64, &'static str)> = knobs()
        .map(|knob| {
            let whole = strsim::jaro_winkler(name, knob.name);
            let part = strsim::jaro_winkler(last, knob.file_name());
            (whole.max(part), knob.name)
        })
        .filter(|(score, _)| *score >= ALIKE)
        .collect();
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.into_iter().take(3).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_every_entry_is_complete() {
        let mut seen = BTreeSet::new();
        for knob in knobs() {
            assert!(seen.insert(knob.name), "{} twice", knob.name);
            assert!(knob.min <= knob.max, "{}", knob.name);
            for text in [knob.default, knob.does, knob.source] {
                assert!(!text.is_empty(), "{} has an empty field", knob.name);
            }
            assert!(knob.does.ends_with('.') && !knob.source.ends_with('.'), "{}", knob.name);
            for reset in knob.resets {
                assert!(
                    knobs().any(|other| reset.covers(other)),
                    "{} resets {}",
                    knob.name,
                    reset.knob
                );
            }
        }
        assert!(seen.len() >= 40, "{}", seen.len());
    }

    #[test]
    fn names_are_found_in_the_spellings_of_the_files() {
        assert_eq!(find("vm.dirty_bytes").map(|k| k.file_name()), Some("dirty_bytes"));
        assert_eq!(find("vm/dirty_bytes").map(|k| k.name), Some("vm.dirty_bytes"));
        assert_eq!(find("queue/scheduler").map(|k| k.name), Some("scheduler"));
        assert_eq!(find("iosched/fifo_batch").map(|k| k.name), Some("iosched.fifo_batch"));
        assert_eq!(find("io.cost.qos").map(|k| k.file_name()), Some("io.cost.qos"));
        assert!(find("vm.swappiness").is_none());
    }

    #[test]
    fn mistyped_names_are_answered_with_the_nearest() {
        assert_eq!(nearest("vm.dirty_byte").first(), Some(&"vm.dirty_bytes"));
        assert_eq!(nearest("schedular").first(), Some(&"scheduler"));
        assert!(nearest("max_bytes").contains(&"bdi.max_bytes"));
        assert!(nearest("zzz").is_empty());
    }

    #[test]
    fn knobs_that_freeze_are_a_queues() {
        for name in floodwall_model::setting::FREEZING {
            assert_eq!(find(name).map(|knob| knob.scope), Some(Scope::Queue), "{name}");
        }
    }

    #[test]
    fn an_elevator_resets_what_depends_on_it() {
        let scheduler = find("scheduler").unwrap();
        for name in ["nr_requests", "wbt_lat_usec", "iosched.fifo_batch"] {
            assert!(scheduler.resets(find(name).unwrap()), "{name}");
        }
        assert!(!scheduler.resets(find("read_ahead_kb").unwrap()));
    }
}
