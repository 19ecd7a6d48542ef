//! How a cell's state is read, so exactly that it can be brought back.

use floodwall_host::queue::chosen;
use floodwall_model::Reading;
use floodwall_model::printable::printable;
use rustix::io::Errno;

use super::{Cell, State, is_of};
use crate::catalogue::files::{CGROUPS, Files, missing, read_line};
use crate::catalogue::line::Line;
use crate::catalogue::systemd::{self, Origin};

impl Cell {
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
    matches!((number(says), number(holds)), (Ok(says), Ok(holds))
        if says - says % files.page_bytes().max(1) == holds)
}

/// Whether a group may have the files of a controller: `io` for `io.max`.
fn has_controller(files: &dyn Files, directory: &str, file: &str) -> bool {
    let controller = file.split('.').next().unwrap_or_default();
    let all = files.read(&format!("{directory}/cgroup.controllers")).unwrap_or_default();
    all.split_whitespace().any(|name| name == controller)
}
