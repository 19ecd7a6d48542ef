//! One knob of the catalogue: whose it is, its unit, its range, and what a write of it resets.

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
    /// One word of several; those that may be written. A `-` in them stands for a space too.
    Word(&'static [&'static str]),
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
            Self::Elevator | Self::Word(_) => "choice",
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

/// Defaults of an entry's fields; each part of the table states the values that its entries share.
pub(super) const BLANK: Knob = Knob {
    name: "",
    scope: Scope::Global,
    unit: Unit::Count,
    min: 0,
    max: 0,
    default: "",
    needs: "",
    adjusts: None,
    resets: &[],
    does: "",
    quirks: &[],
    source: "",
};
