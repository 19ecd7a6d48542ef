//! A cell: what the kernel keeps behind one or two files, with how to read it exactly and how to bring it back exactly.
//!
//! ```text
//! knob + target → Cell → read → State {path, value}
//!                      → way(from, to) → the writes that really get there
//! ```
//!
//! | cell | read as | trap that `way` takes care of |
//! |---|---|---|
//! | `vm.dirty_bytes` / `_ratio` | whichever is not zero | ratio 0 is "no change" in byte mode; the first ratio after byte mode is worked out from the old bytes |
//! | `bdi.max_ratio` / `_fine` / `max_bytes` | the finest file | `max_bytes` drifts and rounds |
//! | `scheduler` | the name in brackets | – |
//! | `wbt_lat_usec` | the number; EINVAL is "absent" | the value it already holds does not switch it on again |
//! | `io.*` | this device's line | keys that are not named keep their values |
//! | `device.queue_depth` | the number | the kernel lowers it while the device is full: a lower one is still ours |
//! | `ioprio` | the common priority, then threads that differ | threads that somebody else has set keep theirs |

use std::collections::BTreeMap;
use std::fmt;

use floodwall_model::Reading;
use floodwall_model::printable::printable;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::catalogue::{Knob, Scope, Unit};
use crate::files::{Files, missing, read_line};
use crate::priority::{self, Priorities, Priority};
use crate::target::Target;

/// What a cell holds, as the write that brings it there.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// The file.
    pub path: String,
    /// What to write to it.
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
}

impl Cell {
    /// The cell of a knob. Which file is the finer one is found by looking.
    #[must_use]
    pub fn of(knob: &Knob, target: &Target, files: &dyn Files) -> Self {
        Self::with_finest(knob, target, |fine| files.read(fine).is_ok())
    }

    fn with_finest(knob: &Knob, target: &Target, exists: impl Fn(&str) -> bool) -> Self {
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
            "vm.dirty_bytes" | "vm.dirty_ratio" => {
                Self::Pair { bytes: sibling("dirty_bytes"), ratio: sibling("dirty_ratio"), hard: true }
            }
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
            _ if matches!(knob.scope, Scope::Cgroup | Scope::RootCgroup) => keyed(knob, target, path),
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
            Self::Priorities(path) => state.path == *path && state.value.parse::<Priorities>().is_ok(),
            Self::Keyed { path, key, .. } => state.path == *path && Line::parse(&state.value).key == *key,
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
            Self::Plain(path) | Self::Ceiling(path) => read_line(files, path).map(|value| state(path, value)),
            Self::Priorities(path) => match files.read(path) {
                Ok(text) => Reading::Value(state(path, text.trim().to_owned())),
                Err(Errno::NOENT) => Reading::Absent("no such thread runs".to_owned()),
                Err(Errno::TOOBIG) => {
                    Reading::Unreadable("its threads' priorities differ too much to be saved".to_owned())
                }
                Err(error) => missing(path, error),
            },
            Self::Choice(path) => read_line(files, path).and_then(|text| match chosen(&text) {
                Some(name) => Reading::Value(state(path, name.to_owned())),
                None => Reading::Unreadable(format!("{path}: no choice is in brackets")),
            }),
            Self::Wbt(path) => match files.read(path) {
                Ok(text) => Reading::Value(state(path, text.trim().to_owned())),
                Err(Errno::INVAL) => {
                    Reading::Absent(format!("{path}: writeback throttling is not set up for this queue"))
                }
                Err(error) => missing(path, error),
            },
            Self::Keyed { path, key, unset } => read_keyed(files, path, key, unset),
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
                let detour = to.value.parse::<u64>().map_or(1, |n| if n >= 100 { n - 1 } else { n + 1 });
                vec![by(detour.to_string()), to.clone()]
            }
            (Self::Wbt(_), Some(from)) if from.value == "0" => match to.value.parse::<i64>() {
                Ok(us) if us > 0 => vec![by((us + 1).to_string()), to.clone()],
                _ => vec![to.clone()],
            },
            _ => vec![to.clone()],
        }
    }

    /// Whether two states are one: the same file and value. Two lines are one if they say the same of every key that both
    /// have. Two priorities are one if their common priority is the same: threads come and go.
    #[must_use]
    pub fn same(&self, a: &State, b: &State) -> bool {
        match self {
            Self::Priorities(_) => {
                a.path == b.path
                    && matches!((priorities(a), priorities(b)), (Some(a), Some(b)) if a.common == b.common)
            }
            Self::Keyed { .. } => a.path == b.path && Line::parse(&a.value).same(&Line::parse(&b.value)),
            _ => a == b,
        }
    }

    /// Whether a value that is found follows from one that was written: it is the same, or what the kernel has made of it.
    #[must_use]
    pub fn follows(&self, written: &State, found: &State) -> bool {
        let number = |state: &State| state.value.parse::<u64>().ok();
        match self {
            Self::Ceiling(_) => matches!((number(written), number(found)), (Some(w), Some(f)) if f <= w),
            _ => self.same(written, found),
        }
    }

    /// Whether threads of a cell whose common priority is not ours still have one that is.
    #[must_use]
    pub fn has_ours(&self, now: &State, is_ours: impl Fn(&State) -> bool) -> bool {
        match (self, priorities(now)) {
            (Self::Priorities(path), Some(now)) => {
                now.has(|priority| is_ours(&one_priority(path, *priority)))
            }
            _ => false,
        }
    }

    /// The state that brings back `old` from what is there now, where `is_ours` tells which states are ours.
    #[must_use]
    pub fn back(&self, old: &State, now: &State, is_ours: impl Fn(&State) -> bool) -> State {
        let (Self::Priorities(path), Some(was), Some(is)) = (self, priorities(old), priorities(now)) else {
            return old.clone();
        };
        let back = was.back(&is, |priority| is_ours(&one_priority(path, *priority)));
        State { path: path.clone(), value: back.to_string() }
    }

    /// The state that a knob's checked value asks for. `current` fills in the keys that are not named.
    #[must_use]
    pub fn wanted(&self, knob: &Knob, target: &Target, value: &str, current: Option<&State>) -> State {
        let path = target.path(knob);
        match self {
            Self::Keyed { path, key, .. } => {
                let mut line = Line::parse(&format!("{key} {value}"));
                // Naming a parameter means "mine", as in the kernel's own parser (block/blk-iocost.c ioc_qos_write).
                let parameters = line.pairs.keys().any(|k| !matches!(k.as_str(), "enable" | "ctrl"));
                let has_ctrl = matches!(knob.unit, Unit::Keys(keys) if keys.contains(&"ctrl"));
                if has_ctrl && parameters && !line.pairs.contains_key("ctrl") {
                    line.pairs.insert("ctrl".into(), "user".into());
                }
                let full = match current {
                    Some(current) => Line::parse(&current.value).with(&line),
                    None => line,
                };
                State { path: path.clone(), value: full.settled().to_string() }
            }
            Self::Plain(fine) if *fine != path => {
                // The coarser name of one cell: percent to millionths, milliseconds to microseconds.
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
    let text = match files.read(path) {
        Ok(text) => text,
        Err(error) => return missing(path, error),
    };
    let line = text.lines().map(Line::parse).find(|line| line.key == key);
    let line = line.unwrap_or_else(|| Line::parse(&format!("{key} {unset}"))).settled();
    Reading::Value(State { path: path.to_owned(), value: line.to_string() })
}

/// The choice in brackets; a single word without them is the choice itself.
pub(crate) fn chosen(text: &str) -> Option<&str> {
    match (text.find('['), text.find(']')) {
        (Some(open), Some(close)) if open < close => Some(&text[open + 1..close]),
        _ => {
            let mut words = text.split_whitespace();
            words.next().filter(|word| words.next().is_none() && !word.contains(['[', ']']))
        }
    }
}

/// The elevators that a queue's `scheduler` file lists.
pub(crate) fn choices(text: &str) -> Vec<String> {
    text.split_whitespace().map(|name| name.trim_matches(['[', ']']).to_owned()).collect()
}

/// `8:0 rbps=max wbps=50000000` or `default 100`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) key: String,
    /// Values without a key, such as a weight.
    plain: Option<String>,
    pairs: BTreeMap<String, String>,
    /// The order in which the keys came.
    order: Vec<String>,
}

impl Line {
    pub(crate) fn parse(text: &str) -> Self {
        let mut words = text.split_whitespace();
        let key = words.next().unwrap_or_default().to_owned();
        let mut line = Self { key, plain: None, pairs: BTreeMap::new(), order: Vec::new() };
        for word in words {
            match word.split_once('=') {
                Some((name, value)) => line.set(name, value),
                None => line.plain = Some(word.to_owned()),
            }
        }
        line
    }

    fn set(&mut self, name: &str, value: &str) {
        if self.pairs.insert(name.to_owned(), value.to_owned()).is_none() {
            self.order.push(name.to_owned());
        }
    }

    /// This line with what another one names.
    pub(crate) fn with(&self, other: &Self) -> Self {
        let mut line = self.clone();
        line.plain = other.plain.clone().or(line.plain);
        for name in other.names() {
            if let Some(value) = other.pairs.get(&name) {
                line.set(&name, value);
            }
        }
        line
    }

    /// Its keys with their values.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The value of a key.
    pub(crate) fn value(&self, key: &str) -> Option<&str> {
        self.pairs.get(key).map(String::as_str)
    }

    fn names(&self) -> Vec<String> {
        let mut names = self.order.clone();
        names.extend(self.pairs.keys().filter(|name| !self.order.contains(name)).cloned());
        names
    }

    /// Under `ctrl=auto` the kernel chooses the parameters: they are not state, and writing one would end `auto`.
    fn settled(mut self) -> Self {
        if self.pairs.get("ctrl").is_some_and(|ctrl| ctrl == "auto") {
            self.pairs.retain(|name, _| matches!(name.as_str(), "enable" | "ctrl"));
            self.order.retain(|name| matches!(name.as_str(), "enable" | "ctrl"));
        }
        self
    }

    fn same(&self, other: &Self) -> bool {
        let alike = |a: &String, b: &String| {
            a == b || matches!((a.parse::<f64>(), b.parse::<f64>()), (Ok(a), Ok(b)) if a == b)
        };
        let within = |few: &Self, many: &Self| {
            few.pairs.iter().all(|(name, a)| many.pairs.get(name).is_some_and(|b| alike(a, b)))
        };
        // The kernel shows every key of a line, also those that were not named when it was written.
        self.key == other.key && self.plain == other.plain && (within(self, other) || within(other, self))
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)?;
        if let Some(plain) = &self.plain {
            write!(f, " {plain}")?;
        }
        for name in self.names() {
            if let Some(value) = self.pairs.get(&name) {
                write!(f, " {name}={value}")?;
            }
        }
        Ok(())
    }
}
