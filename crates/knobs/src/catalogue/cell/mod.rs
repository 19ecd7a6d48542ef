//! A cell: what the kernel keeps behind one or two files, with how to read it exactly and how to
//! bring it back exactly.
//!
//! ```text
//! knob + target → Cell → read → State {path, value}
//!                      → way(from, to) → the states that really get there, each written in turn
//! ```
//!
//! | cell | read as | trap that `way` takes care of |
//! |---|---|---|
//! | `vm.dirty_bytes` / `_ratio` | whichever is not zero | ratio 0 is "no change" in byte mode |
//! | the same after byte mode | the same | the first ratio is worked out from the old bytes |
//! | `bdi.max_ratio` / `_fine` / `max_bytes` | the finest file | `max_bytes` drifts and rounds |
//! | `scheduler` | the name in brackets | – |
//! | `wbt_lat_usec` | the number; EINVAL is "absent" | the same value does not switch it on again |
//! | `io.*` | this device's line | keys that are not named keep their values |
//! | `device.queue_depth` | the number | lowered by the kernel (device full), it is still ours |
//! | `ioprio` | the common priority, then threads that differ | threads set by others keep theirs |
//! | a unit's limit | systemd's property and its place | the value goes back before its drop-in |

mod read;
mod way;

use std::fmt;

use floodwall_model::printable::printable;
use serde::{Deserialize, Serialize};

use crate::catalogue::files::Files;
use crate::catalogue::line::Line;
use crate::catalogue::priority::{self, Priorities};
use crate::catalogue::systemd::{self, Limit, Origin};
use crate::catalogue::target::Target;
use crate::catalogue::{Knob, Scope, Unit};
pub(crate) use read::has_device_lines;

/// The kernel's pages are no larger on any architecture that it has.
const LARGEST_PAGE_BYTES: u64 = 256 << 10;

/// A cell's value, as the write that sets it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The file.
    pub path: String,
    /// The value to write to it.
    pub value: String,
}

impl fmt::Display for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} > {}", printable(&self.value), printable(&self.path))
    }
}

/// A cell.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Cell {
    /// A limit with two names.
    Pair {
        /// The file in bytes.
        bytes: String,
        /// The file in percent.
        ratio: String,
        /// Whether it is the hard limit, whose ratio has the traps.
        hard: bool,
    },
    /// One value in one file.
    Plain(String),
    /// A choice in brackets.
    Choice(String),
    /// Writeback throttling's target.
    Wbt(String),
    /// A number that the kernel lowers by itself, and raises again up to what was written.
    Ceiling(String),
    /// I/O priorities of threads; the path is no file's.
    Priorities(String),
    /// One device's line.
    Keyed {
        /// The file.
        path: String,
        /// `8:0`, or `default`.
        key: String,
        /// The value that stands for "no line".
        unset: String,
    },
    /// A limit of a control group that systemd sets.
    Property {
        /// The group, below its mount.
        group: String,
        /// The limit in the kernel's file.
        limit: Box<Cell>,
    },
}

impl Cell {
    /// The cell of a knob. Which file is the finer one is found by looking.
    #[must_use]
    pub fn of(knob: &Knob, target: &Target, files: &dyn Files) -> Self {
        Self::with_finest(knob, target, |fine| files.read(fine).is_ok())
    }

    fn with_finest(knob: &Knob, target: &Target, exists: impl Fn(&str) -> bool) -> Self {
        if let Target::Group { path, device, systemd: true } = target
            && systemd::sets(knob.name, device.is_some())
        {
            let by_file =
                Target::Group { path: path.clone(), device: device.clone(), systemd: false };
            let limit = Box::new(Self::with_finest(knob, &by_file, exists));
            return Self::Property { group: path.clone(), limit };
        }
        let path = target.path(knob);
        let sibling = |name: &str| match path.rsplit_once('/') {
            Some((directory, _)) => format!("{directory}/{name}"),
            None => name.to_owned(),
        };
        let finer = |name: &str| {
            let fine = sibling(name);
            if exists(&fine) { Self::Plain(fine) } else { Self::Plain(path.clone()) }
        };
        match knob.name {
            "vm.dirty_bytes" | "vm.dirty_ratio" => Self::Pair {
                bytes: sibling("dirty_bytes"),
                ratio: sibling("dirty_ratio"),
                hard: true,
            },
            "vm.dirty_background_bytes" | "vm.dirty_background_ratio" => Self::Pair {
                bytes: sibling("dirty_background_bytes"),
                ratio: sibling("dirty_background_ratio"),
                hard: false,
            },
            "scheduler" => Self::Choice(path),
            "wbt_lat_usec" => Self::Wbt(path),
            "bdi.max_bytes" => Self::Plain(sibling("max_ratio_fine")),
            "bdi.max_ratio" => finer("max_ratio_fine"),
            "bdi.min_ratio" => finer("min_ratio_fine"),
            // In every blk-mq bfq, so it need not exist yet.
            "iosched.slice_idle" => Self::Plain(sibling("slice_idle_us")),
            "device.queue_depth" => Self::Ceiling(path),
            _ if knob.unit == Unit::IoPriority => Self::Priorities(path),
            _ if matches!(knob.scope, Scope::Cgroup | Scope::RootCgroup) => {
                keyed(knob, target, path)
            }
            _ => Self::Plain(path),
        }
    }

    /// The cell that a journal speaks of, which it tells by a file: the device may be gone.
    #[must_use]
    pub fn of_saved(knob: &Knob, target: &Target, path: &str) -> Self {
        Self::with_finest(knob, target, |fine| fine == path)
    }

    /// Whether a state could be one of this cell: a journal is not believed further than that.
    #[must_use]
    pub fn admits(&self, state: &State) -> bool {
        let longest = if matches!(self, Self::Priorities(_)) { priority::LONGEST } else { 256 };
        let one_line = !state.value.is_empty()
            && state.value.len() <= longest
            && !state.value.chars().any(char::is_control);
        let here = match self {
            Self::Pair { bytes, ratio, .. } => state.path == *bytes || state.path == *ratio,
            Self::Plain(path) | Self::Ceiling(path) | Self::Choice(path) | Self::Wbt(path) => {
                state.path == *path
            }
            Self::Priorities(path) => {
                state.path == *path && state.value.parse::<Priorities>().is_ok()
            }
            Self::Keyed { path, key, .. } => {
                state.path == *path && Line::parse(&state.value).key == *key
            }
            Self::Property { group, limit } => Limit::parse(&state.path).is_some_and(|at| {
                at.group == group
                    && limit.admits(&State { path: at.kernel_file(), ..state.clone() })
            }),
        };
        one_line && here
    }

    /// Whether two states are one: the same file and value. Two lines are one if they say the same
    /// of every key that both have. Two priorities are one if their common priority is the same:
    /// threads come and go.
    #[must_use]
    pub fn same(&self, a: &State, b: &State) -> bool {
        match self {
            Self::Priorities(_) => {
                a.path == b.path
                    && matches!((priorities(a), priorities(b)), (Some(a), Some(b))
                        if a.common == b.common)
            }
            Self::Keyed { .. } => {
                a.path == b.path && Line::parse(&a.value).same(&Line::parse(&b.value))
            }
            // A limit from the unit's own files is never Floodwall's, so its value does not matter.
            Self::Property { limit, .. } => {
                a.path == b.path && (is_of(Origin::UnitFiles, a) || limit.same_value(a, b))
            }
            _ => a == b,
        }
    }

    /// Whether two states have the same value, wherever it is.
    fn same_value(&self, a: &State, b: &State) -> bool {
        self.same(a, &State { path: a.path.clone(), value: b.value.clone() })
    }

    /// Whether a value found follows from a written one: it is the same, or the kernel has adjusted
    /// it.
    #[must_use]
    pub fn follows(&self, written: &State, found: &State) -> bool {
        let number = |state: &State| state.value.parse::<u64>().ok();
        match self {
            Self::Ceiling(_) => {
                matches!((number(written), number(found)), (Some(w), Some(f)) if f <= w)
            }
            // The kernel cuts a size to whole pages.
            Self::Property { limit, .. } if matches!(**limit, Self::Plain(_)) => {
                let is_cut = |w: u64, f: u64| f <= w && w - f < LARGEST_PAGE_BYTES;
                self.same(written, found)
                    || (written.path == found.path
                        && matches!((number(written), number(found)), (Some(w), Some(f))
                            if is_cut(w, f)))
            }
            _ => self.same(written, found),
        }
    }
}

fn priorities(state: &State) -> Option<Priorities> {
    state.value.parse().ok()
}

fn keyed(knob: &Knob, target: &Target, path: String) -> Cell {
    let key = target.device().map_or_else(|| "default".to_owned(), |device| device.number.clone());
    let unset = match (knob.name, key.as_str()) {
        ("io.max", _) => "rbps=max wbps=max riops=max wiops=max",
        ("io.weight" | "io.bfq.weight", "default") => "100",
        ("io.weight" | "io.bfq.weight", _) => "default",
        ("io.latency", _) => "target=0",
        ("io.cost.qos", _) => "enable=0 ctrl=auto",
        _ => "ctrl=auto",
    };
    Cell::Keyed { path, key, unset: unset.to_owned() }
}

/// Whether a unit's limit is set so.
fn is_of(origin: Origin, state: &State) -> bool {
    Limit::parse(&state.path).is_some_and(|limit| limit.origin == origin)
}
