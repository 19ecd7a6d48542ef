//! Frames as CSV (RFC 4180): a row for each process and disk, and for each disk that no process
//! used. A value that is not known is empty; zero was seen. Names are safe for a terminal.

use std::io::{self, Write};

use floodwall_model::frame::{Disk, Frame, GuardedDisk, Process};
use floodwall_model::printable::printable;
use jiff::Timestamp;
use serde::Serialize;

/// A column: its name, which ends in its unit, and its value.
type Column = (&'static str, fn(Row<'_>) -> Option<String>);

/// What a row is about.
#[derive(Clone, Copy)]
struct Row<'a> {
    frame: &'a Frame,
    disk: Option<&'a Disk>,
    process: Option<&'a Process>,
}

/// Readers know columns by their place: a new one is the last.
const COLUMNS: [Column; 34] = [
    ("at_utc", |row| moment(row.frame.at_unix_ms)),
    ("at_unix_ms", |row| number(row.frame.at_unix_ms)),
    ("window_ms", |row| number(row.frame.window_ms)),
    ("dirty_bytes", |row| row.frame.machine.dirty_bytes.and_then(number)),
    ("waited_percent", |row| row.frame.machine.waited_percent.map(|share| share.to_string())),
    ("disk", |row| name(row.disk.map(|disk| &disk.name).or_else(|| row.process?.disk.as_ref()))),
    ("verdict", |row| word(&row.disk?.verdict)),
    ("backlog_bytes", |row| row.disk?.backlog_bytes.and_then(number)),
    ("drain_bytes_per_s", |row| row.disk?.drain_bytes_per_s.and_then(number)),
    ("drain_ms", |row| row.disk?.drain_ms.and_then(number)),
    ("read_bytes_per_s", |row| row.disk?.read_bytes_per_s.and_then(number)),
    ("written_bytes_per_s", |row| row.disk?.written_bytes_per_s.and_then(number)),
    ("busy_percent", |row| row.disk?.busy_percent.map(|share| share.to_string())),
    ("in_flight_count", |row| row.disk?.in_flight.and_then(number)),
    ("guard_state", |row| name(guarded(row).map(|disk| &disk.state))),
    ("pid", |row| Some(row.process?.pid.to_string())),
    ("process", |row| name(row.process.map(|process| &process.name))),
    ("unit", |row| name(row.process?.workload.unit.as_ref())),
    ("container", |row| name(row.process?.workload.container.as_ref())),
    ("pod", |row| name(row.process?.workload.pod.as_ref())),
    ("is_victim", |row| Some(row.process?.is_victim.to_string())),
    ("is_flood", |row| Some(row.process?.is_flood.to_string())),
    ("calls", |row| {
        let calls: Vec<&str> = row.process?.waits.iter().map(|waits| &*waits.call).collect();
        name(Some(&calls.join(" ")))
    }),
    ("waits_count", |row| number(row.process?.waits.iter().map(|waits| waits.count).sum())),
    ("waited_us", |row| number(row.process?.waited_us())),
    ("slowest_us", |row| number(row.process?.slowest_us())),
    ("waiting_count", |row| number(row.process?.waiting)),
    ("oldest_us", |row| number(row.process?.oldest_us)),
    ("dirtied_bytes", |row| row.process?.dirtied_bytes.and_then(number)),
    ("throttled_ms", |row| number(row.process?.throttled_ms)),
    ("backlog_percent", |row| row.process?.backlog_percent.map(|share| share.to_string())),
    ("machine", |row| name(Some(&row.frame.machine.name))),
    ("source", |row| name(Some(&row.frame.source))),
    ("oldest_call", |row| name(row.process?.oldest_call.as_ref())),
];

/// The names of the columns.
///
/// # Errors
/// If `out` can't be written.
pub(super) fn header(out: &mut dyn Write) -> io::Result<()> {
    line(COLUMNS.iter().map(|(name, _)| Some((*name).to_owned())), out)
}

/// The rows of a frame.
///
/// # Errors
/// If `out` can't be written.
pub(super) fn rows(frame: &Frame, out: &mut dyn Write) -> io::Result<()> {
    for process in &frame.processes {
        let disk = frame.disks.iter().find(|disk| process.disk.as_ref() == Some(&disk.name));
        row(Row { frame, disk, process: Some(process) }, out)?;
    }
    for disk in &frame.disks {
        if !frame.processes.iter().any(|process| process.disk.as_ref() == Some(&disk.name)) {
            row(Row { frame, disk: Some(disk), process: None }, out)?;
        }
    }
    Ok(())
}

fn row(row: Row<'_>, out: &mut dyn Write) -> io::Result<()> {
    line(COLUMNS.iter().map(|(_, value)| value(row)), out)
}

fn line(cells: impl Iterator<Item = Option<String>>, out: &mut dyn Write) -> io::Result<()> {
    for (at, cell) in cells.enumerate() {
        let comma = if at == 0 { "" } else { "," };
        let cell = cell.unwrap_or_default();
        if cell.contains([',', '"']) {
            write!(out, "{comma}\"{}\"", cell.replace('"', "\"\""))?;
        } else {
            write!(out, "{comma}{cell}")?;
        }
    }
    writeln!(out)
}

fn guarded(row: Row<'_>) -> Option<&GuardedDisk> {
    let name = &row.disk?.name;
    row.frame.guard.as_ref()?.disks.iter().find(|disk| disk.name == *name)
}

fn moment(unix_ms: u64) -> Option<String> {
    let moment = Timestamp::from_millisecond(i64::try_from(unix_ms).ok()?).ok()?;
    Some(format!("{moment:.3}"))
}

fn number(value: u64) -> Option<String> {
    Some(value.to_string())
}

/// A name that a process, a user or a device chose.
fn name(name: Option<&String>) -> Option<String> {
    name.map(|name| printable(name).into_owned())
}

/// A word as it is in JSON.
fn word(value: &impl Serialize) -> Option<String> {
    serde_json::to_value(value).ok()?.as_str().map(str::to_owned)
}
