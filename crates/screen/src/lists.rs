//! The rows of tables: which disks and processes are listed, and in which order.
//!
//! ```text
//! frame ─▶ the chosen disk alone ─▶ filter ─▶ order ─▶ rows
//! ```

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use floodwall_model::frame::{Disk, Frame, GuardedDisk, Process};

use crate::disks::{DiskField, DiskRow, Line};
use crate::fields::Field;

/// How a process is known from frame to frame: its number and its disk.
pub(crate) type ProcessKey = (u32, Option<String>);

/// The key of a process.
pub(crate) fn key_of(process: &Process) -> ProcessKey {
    (process.pid, process.disk.clone())
}

/// Whether a process has a key.
pub(crate) fn is_of(process: &Process, key: &ProcessKey) -> bool {
    process.pid == key.0 && process.disk == key.1
}

/// A part of names that rows must have: of the process, of its unit, pod or container, or of the
/// disk. Capital letters do not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// As the user typed it.
    pub(crate) text: String,
}

impl Filter {
    fn lower(&self) -> Option<String> {
        (!self.text.is_empty()).then(|| self.text.to_lowercase())
    }
}

/// The part of a frame that is listed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scope<'a> {
    /// One disk alone.
    pub(crate) device: Option<&'a str>,
    /// The filter.
    pub(crate) filter: &'a Filter,
}

impl Scope<'_> {
    /// The processes of a frame that `is_listed` takes, in the order of a field.
    pub(crate) fn processes(
        self,
        frame: &Frame,
        is_listed: impl Fn(&Process) -> bool,
        order: Field,
    ) -> Vec<&Process> {
        let filter = self.filter.lower();
        let of_device =
            |process: &&Process| self.device.is_none() || process.disk.as_deref() == self.device;
        let passes = |process: &&Process| {
            filter.as_deref().is_none_or(|filter| process_has(process, filter))
        };
        let listed = frame.processes.iter().filter(|process| is_listed(process));
        let mut rows: Vec<&Process> = listed.filter(of_device).filter(passes).collect();
        order.sort(frame, &mut rows);
        rows
    }

    /// The disks of a frame in the order of a field. A filter also passes disks that a process
    /// uses which it passes.
    pub(crate) fn disks<'f>(
        self,
        frame: &'f Frame,
        slowest_us: impl Fn(usize) -> Option<u64>,
        order: DiskField,
        line: Line,
    ) -> Vec<DiskRow<'f>> {
        let filter = self.filter.lower();
        let used: Option<HashSet<&str>> = filter.as_deref().map(|filter| {
            let passing = frame.processes.iter().filter(|process| process_has(process, filter));
            passing.filter_map(|process| process.disk.as_deref()).collect()
        });
        let guarded: HashMap<&str, &GuardedDisk> = frame
            .guard
            .iter()
            .flat_map(|guard| &guard.disks)
            .map(|one| (one.name.as_str(), one))
            .collect();
        let passes = |disk: &Disk| {
            self.device.is_none_or(|device| device == disk.name)
                && filter.as_deref().is_none_or(|filter| {
                    has(&disk.name, filter)
                        || used.as_ref().is_some_and(|used| used.contains(disk.name.as_str()))
                })
        };
        let mut rows: Vec<DiskRow<'f>> = frame
            .disks
            .iter()
            .enumerate()
            .filter(|(_, disk)| passes(disk))
            .map(|(at, disk)| DiskRow {
                disk,
                guarded: guarded.get(disk.name.as_str()).copied(),
                slowest_us: slowest_us(at),
            })
            .collect();
        rows.sort_by(|a, b| order.order(*a, *b, line));
        rows
    }
}

/// Whether a name of a process has a part, written in small letters.
fn process_has(process: &Process, part: &str) -> bool {
    has(&process.name, part)
        || process.workload.label().is_some_and(|label| has(&label, part))
        || process.workload.unit.as_deref().is_some_and(|unit| has(unit, part))
        || process.disk.as_deref().is_some_and(|disk| has(disk, part))
}

fn has(name: &str, part: &str) -> bool {
    let lower: Cow<'_, str> = match name.bytes().any(|b| b.is_ascii_uppercase() || !b.is_ascii()) {
        true => name.to_lowercase().into(),
        false => name.into(),
    };
    lower.contains(part)
}

#[cfg(test)]
mod tests {
    use floodwall_model::workload::Workload;

    use super::*;

    fn process(pid: u32, name: &str, unit: &str, disk: &str) -> Process {
        let workload = Workload { unit: Some(unit.into()), ..Workload::default() };
        let disk = Some(disk.into());
        Process { pid, name: name.into(), workload, disk, ..Process::default() }
    }

    fn frame() -> Frame {
        let disk = |name: &str| Disk { name: name.into(), ..Disk::default() };
        Frame {
            disks: vec![disk("sda"), disk("sdb")],
            processes: vec![
                process(1, "postgres", "postgresql@15-main.service", "sda"),
                process(2, "Cp", "session-3.scope", "sdb"),
                process(3, "ÄPP", "app.service", "sdb"),
            ],
            ..Frame::default()
        }
    }

    fn listed(device: Option<&str>, text: &str) -> (Vec<u32>, Vec<String>) {
        let (frame, filter) = (frame(), Filter { text: text.into() });
        let scope = Scope { device, filter: &filter };
        let processes = scope.processes(&frame, |_| true, Field::Mark);
        let disks = scope.disks(&frame, |_| None, DiskField::Name, Line::DrainTime);
        (
            processes.iter().map(|process| process.pid).collect(),
            disks.iter().map(|row| row.disk.name.clone()).collect(),
        )
    }

    #[test]
    fn a_filter_is_a_part_of_any_name_and_keeps_the_disks_of_what_it_passes() {
        let all = |pids: &[u32], disks: &[&str]| {
            (pids.to_vec(), disks.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
        };
        assert_eq!(listed(None, ""), all(&[1, 2, 3], &["sda", "sdb"]));
        assert_eq!(listed(None, "CP"), all(&[2], &["sdb"]));
        assert_eq!(listed(None, "äpp"), all(&[3], &["sdb"]));
        assert_eq!(listed(None, "15-MAIN"), all(&[1], &["sda"]));
        assert_eq!(listed(None, "sdb"), all(&[2, 3], &["sdb"]));
        assert_eq!(listed(None, ".*"), all(&[], &[]), "no pattern");
        assert_eq!(listed(Some("sda"), ""), all(&[1], &["sda"]));
    }
}
