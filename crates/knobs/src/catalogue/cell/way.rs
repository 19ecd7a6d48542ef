//! The states that a cell is brought to: the writes that lead there, a checked value as a state,
//! and the way back.

use super::{Cell, State, is_of, priorities};
use crate::catalogue::files::Files;
use crate::catalogue::line::Line;
use crate::catalogue::priority::Priority;
use crate::catalogue::systemd::{self, Limit, Origin};
use crate::catalogue::target::Target;
use crate::catalogue::{Knob, Unit};

impl Cell {
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
