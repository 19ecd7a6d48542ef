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

use std::fmt;

use floodwall_host::queue::chosen;
use floodwall_model::Reading;
use floodwall_model::printable::printable;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::catalogue::files::{CGROUPS, Files, missing, read_line};
use crate::catalogue::line::Line;
use crate::catalogue::priority::{self, Priorities, Priority};
use crate::catalogue::systemd::{self, Limit, Origin};
use crate::catalogue::target::Target;
use crate::catalogue::{Knob, Scope, Unit};

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

    /// The state in force.
    pub fn read(&self, files: &dyn Files) -> Reading<State> {
        let state = |path: &str, value: String| State { path: path.to_owned(), value };
        match self {
            Self::Pair { bytes, ratio, .. } => match read_line(files, bytes) {
                Reading::Value(value) if value != "0" => Reading::Value(state(bytes, value)),
                // In 2.6.24 there was only the ratio.
                Reading::Value(_) | Reading::Absent(_) => {
                    read_line(files, ratio).map(|value| state(ratio, value))
                }
                Reading::Unreadable(why) => Reading::Unreadable(why),
            },
            Self::Plain(path) | Self::Ceiling(path) => {
                read_line(files, path).map(|value| state(path, value))
            }
            Self::Priorities(path) => match files.read(path) {
                Ok(text) => Reading::Value(state(path, text.trim().to_owned())),
                Err(Errno::NOENT) => Reading::Absent("no such thread runs".to_owned()),
                Err(Errno::TOOBIG) => Reading::Unreadable(
                    "its threads' priorities differ too much to be saved".to_owned(),
                ),
                Err(error) => missing(path, error),
            },
            Self::Choice(path) => read_line(files, path).and_then(|text| match chosen(&text) {
                Some(name) => Reading::Value(state(path, name.to_owned())),
                None => Reading::Unreadable(format!("{path}: no choice is in brackets")),
            }),
            Self::Wbt(path) => match files.read(path) {
                Ok(text) => Reading::Value(state(path, text.trim().to_owned())),
                Err(Errno::INVAL) => Reading::Absent(format!(
                    "{path}: writeback throttling is not set up for this queue"
                )),
                Err(error) => missing(path, error),
            },
            Self::Keyed { path, key, unset } => read_keyed(files, path, key, unset),
            Self::Property { group, limit } => read_property(files, group, limit),
        }
    }

    /// The state that a file's text shows; for a value and for lines alone.
    fn state_in(&self, text: &str) -> State {
        match self {
            Self::Keyed { path, key, unset } => line_of(path, text, key, unset),
            Self::Plain(path) => State { path: path.clone(), value: text.trim().to_owned() },
            _ => State { path: String::new(), value: String::new() },
        }
    }

    /// The writes that lead from one state to another. Empty if they are the same.
    #[must_use]
    pub fn way(&self, from: Option<&State>, to: &State) -> Vec<State> {
        // A thread whose priority differs from the common one still has to be set.
        let is_there = |from: &State| match self {
            Self::Priorities(_) => from == to,
            _ => self.same(from, to),
        };
        if from.is_some_and(is_there) {
            return Vec::new();
        }
        let by = |value: String| State { path: to.path.clone(), value };
        match (self, from) {
            (Self::Pair { bytes, ratio, hard: true }, Some(from))
                if from.path == *bytes && to.path == *ratio =>
            {
                let detour =
                    to.value.parse::<u64>().map_or(1, |n| if n >= 100 { n - 1 } else { n + 1 });
                vec![by(detour.to_string()), to.clone()]
            }
            // systemd writes the kernel's file when the value is set, not when the drop-in goes.
            (Self::Property { .. }, _) => match Limit::parse(&to.path) {
                Some(limit) if limit.origin == Origin::UnitFiles => {
                    let value = State { path: limit.at(Origin::RunTime), ..to.clone() };
                    vec![value, to.clone()]
                }
                _ => vec![to.clone()],
            },
            (Self::Wbt(_), Some(from)) if from.value == "0" => match to.value.parse::<i64>() {
                Ok(us) if us > 0 => vec![by((us + 1).to_string()), to.clone()],
                _ => vec![to.clone()],
            },
            _ => vec![to.clone()],
        }
    }

    /// Whether two states are one: the same file and value. Two lines are one if they say the same
    /// of every key that both have. Two priorities are one if their common priority is the same:
    /// threads come and go.
    #[must_use]
    pub fn same(&self, a: &State, b: &State) -> bool {
        match self {
            Self::Priorities(_) => {
                a.path == b.path
                    && matches!((priorities(a), priorities(b)), (Some(a), Some(b)) if a.common == b.common)
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
                        && matches!((number(written), number(found)), (Some(w), Some(f)) if is_cut(w, f)))
            }
            _ => self.same(written, found),
        }
    }

    /// Whether a value that is found is where a write was to lead. A device's limit of a unit has
    /// its value back while its drop-in stays for another device of the unit.
    pub(crate) fn reaches(&self, found: &State, wanted: &State, files: &dyn Files) -> bool {
        if self.same(found, wanted) {
            return true;
        }
        match self {
            Self::Property { limit, .. } if is_of(Origin::UnitFiles, wanted) => match &**limit {
                Self::Keyed { key, .. } => {
                    limit.same_value(found, wanted)
                        && systemd::has_another_device(files, &found.path, key)
                }
                _ => false,
            },
            _ => false,
        }
    }

    /// The value left when the kernel's file and systemd disagree, as after a `systemctl revert` or
    /// a kill between two writes. It is the kernel's value. Where the kernel has no such file, it
    /// is the value that systemd has set at run time. `None` for every other cell.
    pub(crate) fn rest(&self, files: &dyn Files) -> Option<State> {
        let Self::Property { group, limit } = self else { return None };
        let (Self::Plain(path) | Self::Keyed { path, .. }) = &**limit else { return None };
        let (_, file) = path.rsplit_once('/')?;
        let path = Origin::RunTime.path(group, file);
        let view = files.read(&path).ok()?;
        let value = match (limit.read(files), systemd::split(&view)) {
            (Reading::Value(holds), _) => holds.value,
            (Reading::Absent(_), (Origin::RunTime, lines)) => limit.state_in(lines).value,
            _ => return None,
        };
        Some(State { path, value })
    }

    /// A device's limit in a drop-in that a change has made, read without the kernel's file. The
    /// drop-in outlives the device and would limit the next device of that name. `Some(None)` if
    /// systemd knows the drop-in but not the device. `None` if there is no such drop-in, or if it
    /// names another device.
    pub(crate) fn left_behind(&self, old: &State, files: &dyn Files) -> Option<Option<State>> {
        let Self::Property { group, limit } = self else { return None };
        let Self::Keyed { path, key, unset } = &**limit else { return None };
        let (_, file) = path.rsplit_once('/')?;
        let path = Origin::RunTime.path(group, file);
        let view = files.read(&path).ok()?;
        let (origin, lines) = systemd::split(&view);
        if origin != Origin::RunTime
            || !is_of(Origin::UnitFiles, old)
            || systemd::has_another_device(files, &path, key)
        {
            return None;
        }
        let is_there = lines.lines().any(|line| Line::parse(line).key == *key);
        Some(is_there.then(|| line_of(&path, lines, key, unset)))
    }

    /// Whether some threads still have a priority that `is_ours`, although the common one is not.
    #[must_use]
    pub fn has_ours(&self, now: &State, is_ours: impl Fn(&State) -> bool) -> bool {
        match (self, priorities(now)) {
            (Self::Priorities(path), Some(now)) => {
                now.has(|priority| is_ours(&one_priority(path, *priority)))
            }
            _ => false,
        }
    }

    /// The state that leads from `now` back to `old`; `is_ours` tells which states are ours.
    #[must_use]
    pub fn back(&self, old: &State, now: &State, is_ours: impl Fn(&State) -> bool) -> State {
        let (Self::Priorities(path), Some(was), Some(is)) =
            (self, priorities(old), priorities(now))
        else {
            return old.clone();
        };
        let back = was.back(&is, |priority| is_ours(&one_priority(path, *priority)));
        State { path: path.clone(), value: back.to_string() }
    }

    /// The state that a knob's checked value asks for. `current` fills in the keys that are not
    /// named.
    #[must_use]
    pub fn wanted(
        &self,
        knob: &Knob,
        target: &Target,
        value: &str,
        current: Option<&State>,
    ) -> State {
        let path = target.path(knob);
        match self {
            Self::Property { group, limit } => {
                let wanted = limit.wanted(knob, target, value, current);
                match current {
                    // The unit's own files may say it already.
                    Some(current) if limit.same_value(current, &wanted) => current.clone(),
                    _ => State { path: Origin::RunTime.path(group, knob.file_name()), ..wanted },
                }
            }
            Self::Keyed { path, key, .. } => {
                let mut line = Line::parse(&format!("{key} {value}"));
                // Naming a parameter means "mine", as in the kernel's own parser
                // (block/blk-iocost.c ioc_qos_write).
                let parameters = line.pairs().any(|(key, _)| !matches!(key, "enable" | "ctrl"));
                let has_ctrl = matches!(knob.unit, Unit::Keys(keys) if keys.contains(&"ctrl"));
                if has_ctrl && parameters && line.value("ctrl").is_none() {
                    line.set("ctrl", "user");
                }
                let full = match current {
                    Some(current) => Line::parse(&current.value).with(&line),
                    None => line,
                };
                State { path: path.clone(), value: full.settled().to_string() }
            }
            Self::Plain(fine) if *fine != path => {
                // The coarser name of one cell: percent to millionths, milliseconds to
                // microseconds.
                let factor: u64 = if knob.unit == Unit::Percent { 10_000 } else { 1_000 };
                let fine_value = value.parse::<u64>().map_or(0, |n| n.saturating_mul(factor));
                State { path: fine.clone(), value: fine_value.to_string() }
            }
            _ => State { path, value: value.to_owned() },
        }
    }
}

/// All threads at one priority.
fn one_priority(path: &str, priority: Priority) -> State {
    State { path: path.to_owned(), value: priority.to_string() }
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

/// Whether a file has lines for single devices.
pub(crate) fn has_device_lines(files: &dyn Files, path: &str) -> bool {
    let text = files.read(path).unwrap_or_default();
    text.lines().map(Line::parse).any(|line| line.key.contains(':'))
}

fn read_keyed(files: &dyn Files, path: &str, key: &str, unset: &str) -> Reading<State> {
    match files.read(path) {
        Ok(text) => Reading::Value(line_of(path, &text, key, unset)),
        Err(error) => missing(path, error),
    }
}

/// One device's line of a file.
fn line_of(path: &str, text: &str, key: &str, unset: &str) -> State {
    let line = text.lines().map(Line::parse).find(|line| line.key == key);
    let line = line.unwrap_or_else(|| Line::parse(&format!("{key} {unset}"))).settled();
    State { path: path.to_owned(), value: line.to_string() }
}

/// Whether a unit's limit is set so.
fn is_of(origin: Origin, state: &State) -> bool {
    Limit::parse(&state.path).is_some_and(|limit| limit.origin == origin)
}

/// systemd's value of a limit, if the kernel's file holds the same.
fn read_property(files: &dyn Files, group: &str, limit: &Cell) -> Reading<State> {
    let (Cell::Plain(path) | Cell::Keyed { path, .. }) = limit else {
        return Reading::Unreadable(format!("{group}: not a limit that systemd sets"));
    };
    let (directory, file) = path.rsplit_once('/').unwrap_or_default();
    let view = match files.read(&Origin::RunTime.path(group, file)) {
        Ok(view) => view,
        Err(Errno::SRCH) => {
            return Reading::Absent(format!(
                "systemd does not know {} any more",
                systemd::unit_of(group)
            ));
        }
        Err(error) => return Reading::Unreadable(systemd::ask::in_words(error)),
    };
    let (origin, lines) = systemd::split(&view);
    let says = limit.state_in(lines);
    let state = State { path: origin.path(group, file), value: says.value.clone() };
    match limit.read(files) {
        Reading::Value(holds) if limit.same(&says, &holds) || is_cut(&says, &holds, files) => {
            Reading::Value(state)
        }
        Reading::Value(holds) => Reading::Unreadable(format!(
            "{path} holds {} and systemd's properties of {} say {}: it was written past systemd; \
             write what systemd says to the file first",
            printable(&holds.value),
            systemd::unit_of(group),
            printable(&says.value)
        )),
        // A unit that has stopped keeps its properties for its next start.
        Reading::Absent(_) if files.read(&format!("{directory}/cgroup.controllers")).is_err() => {
            Reading::Value(state)
        }
        // systemd enables a controller when the first property of it is set.
        Reading::Absent(_)
            if limit.same(&says, &limit.state_in("max"))
                && !has_controller(files, directory, file)
                && has_controller(files, CGROUPS, file) =>
        {
            Reading::Value(state)
        }
        other => other,
    }
}

/// Whether the kernel has cut a size to whole pages (mm/page_counter.c `page_counter_memparse`).
fn is_cut(says: &State, holds: &State, files: &dyn Files) -> bool {
    let number = |state: &State| state.value.parse::<u64>();
    matches!((number(says), number(holds)), (Ok(says), Ok(holds)) if says - says % files.page_bytes().max(1) == holds)
}

/// Whether a group may have the files of a controller: `io` for `io.max`.
fn has_controller(files: &dyn Files, directory: &str, file: &str) -> bool {
    let controller = file.split('.').next().unwrap_or_default();
    let all = files.read(&format!("{directory}/cgroup.controllers")).unwrap_or_default();
    all.split_whitespace().any(|name| name == controller)
}
