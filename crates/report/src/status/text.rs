//! The text view of a status, from the machine down to the notes.

use std::time::Duration;

use floodwall_model::message::first_of;
use floodwall_model::printable::printable;
use floodwall_model::status::{
    Device, DrainSource, Leaf, LimitKnob, Machine, MountedOn, Queue, Status, Waiter, Writer,
    Writers,
};
use floodwall_model::units::human_duration;
use floodwall_model::{Bytes, Rate, Reading};

use super::findings::findings;
use super::notes::Notes;
use super::style::Style;
use super::table::{Column, paragraph, table};
use super::who::{Disks, waits, writes};

/// A process that waits for all dirty data (fsync of a large file, sync, a full journal) waits
/// longer than users notice.
const SLOW_DRAIN_S: f64 = 1.0;
/// … and longer than most programs' timeouts leave room for.
const VERY_SLOW_DRAIN_S: f64 = 10.0;
/// Where the machine's figures begin.
const LABEL_WIDTH: usize = 11;
/// Before the lines of a part.
const INDENT: &str = "  ";
/// Longer device names (servers' paths) are wrapped.
const DEVICE_WIDTH: usize = 14;

/// Renders all sections.
pub(super) fn render(status: &Status, style: Style) -> String {
    let mut notes = Notes::default();
    let mut lines = machine(&status.machine, &mut notes, style);
    lines.push(String::new());
    lines.extend(who(&status.waiters, &status.writers, status.window_s, &mut notes, style));
    lines.push(String::new());
    if status.devices.is_empty() {
        lines.push("no mounted filesystem has a backing device of its own here".into());
    } else {
        lines.extend(devices(&status.devices, style));
        lines.push(String::new());
        lines.extend(backlog(&status.devices, &mut notes, style));
        lines.push(String::new());
        lines.extend(settings(&status.devices, &mut notes, style));
    }
    lines.extend(elsewhere(status, style));
    lines.push(String::new());
    lines.extend(findings(&status.findings, style));
    let told = noted(&notes, &lines, style);
    lines.extend(told);
    if !status.root_would_add.is_empty() {
        lines.push(String::new());
        let text = status.root_would_add.join("; ");
        lines.extend(paragraph("root would add:", 16, &text, style.prose()));
    }
    lines.push(String::new());
    lines.join("\n")
}

/// The reasons of unknown figures of a page, after an empty line. A column that was left out
/// needs none.
fn noted(notes: &Notes, page: &[String], style: Style) -> Vec<String> {
    let is_shown = |n: usize| page.iter().any(|line| line.contains(&format!("?[{n}]")));
    let lines = notes
        .numbered()
        .filter(|(n, _)| is_shown(*n))
        .flat_map(|(n, why)| paragraph(&format!("[{n}]"), 5, why, style.prose()));
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() { lines } else { std::iter::once(String::new()).chain(lines).collect() }
}

fn size(bytes: &u64) -> String {
    Bytes(*bytes).to_string()
}

/// In the units of the rates beside it.
fn decimal(bytes: &u64) -> String {
    Bytes(*bytes).decimal()
}

fn rate(bytes_per_s: &f64) -> String {
    Rate(*bytes_per_s).to_string()
}

fn seconds(seconds: &f64) -> String {
    // More than a year is no longer a figure that anyone could use, and the type ends somewhere.
    Duration::try_from_secs_f64(*seconds)
        .ok()
        .filter(|d| d.as_secs() < 365 * 86_400)
        .map_or_else(|| "> 1 year".into(), human_duration)
}

fn machine(machine: &Machine, notes: &mut Notes, style: Style) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = |label: &str, text: String| {
        lines.extend(paragraph(label, LABEL_WIDTH, &text, style.prose()));
    };
    line(
        "machine",
        format!(
            "Linux {}, up {}, {} of RAM, cgroup {}",
            notes.cell(&machine.kernel, Clone::clone),
            notes.cell(&machine.uptime_s, uptime),
            notes.cell(&machine.ram_bytes, size),
            notes.cell(&machine.cgroup, Clone::clone),
        ),
    );
    line(
        "now",
        format!(
            "{} dirty, {} under writeback",
            notes.cell(&machine.dirty_bytes, size),
            notes.cell(&machine.writeback_bytes, size)
        ),
    );
    let hard = limit(
        &machine.hard_limit_bytes,
        &machine.hard_limit_from,
        "dirty_bytes",
        "dirty_ratio",
        notes,
    );
    let background = limit(
        &machine.background_limit_bytes,
        &machine.background_limit_from,
        "dirty_background_bytes",
        "dirty_background_ratio",
        notes,
    );
    line(
        "limits",
        format!("hard {hard}: writers stop; background {background}: the flusher starts"),
    );
    let millis = |ms: &u64| human_duration(Duration::from_millis(*ms));
    let every = notes.cell(&machine.dirty_writeback_ms, |ms| {
        if *ms == 0 {
            "but never looked for".into()
        } else {
            format!("looked for every {}", millis(ms))
        }
    });
    line(
        "age",
        format!(
            "dirty data is due after {}, {every}",
            notes.cell(&machine.dirty_expire_ms, millis)
        ),
    );
    let percent = |p: &f64| format!("{} %", crate::numbers::percent(p / 100.0));
    line(
        "pressure",
        format!(
            "in the last 10 s some task waited for I/O {} of the time, every task {}",
            notes.cell(&machine.psi_io_some_avg10_percent, percent),
            notes.cell(&machine.psi_io_full_avg10_percent, percent)
        ),
    );
    lines
}

fn uptime(s: &f64) -> String {
    let hours = *s / 3600.0;
    if hours >= 48.0 { format!("{:.0} days", hours / 24.0) } else { seconds(s) }
}

fn limit(
    bytes: &Reading<u64>,
    from: &Reading<LimitKnob>,
    bytes_name: &str,
    ratio_name: &str,
    notes: &mut Notes,
) -> String {
    let from = notes.cell(from, |knob| match knob {
        LimitKnob::Bytes(n) => format!("vm.{bytes_name} = {}", Bytes(*n)),
        LimitKnob::RatioPercent(p) => format!("vm.{ratio_name} = {p} %"),
    });
    format!("{} ({from})", notes.cell(bytes, size))
}

/// The kind of each device and its mounts.
fn devices(devices: &[Device], style: Style) -> Vec<String> {
    let indent =
        devices.iter().map(|d| d.name.chars().count()).max().unwrap_or(0).min(DEVICE_WIDTH) + 4;
    let mut lines = vec!["devices".to_owned()];
    for device in devices {
        let mut what = vec![device.kind.clone()];
        what.extend(device.model.value().cloned());
        what.extend(device.size_bytes.value().map(size));
        let mounts: Vec<String> = device.mounts.iter().map(mount).collect();
        let mut text = format!("{}: {}", what.join(", "), mounts.join(", "));
        if device.path != device.name {
            text.push_str(&format!("; {}", device.path));
        }
        for note in &device.notes {
            text.push_str(&format!("; not followed further: {note}"));
        }
        let label = format!("  {}", printable(&device.name));
        if label.chars().count() + 2 > indent {
            lines.push(label);
            lines.extend(paragraph("", indent, &text, style.prose()));
        } else {
            lines.extend(paragraph(&label, indent, &text, style.prose()));
        }
    }
    lines
}

fn mount(mount: &MountedOn) -> String {
    let through = mount.through.as_ref().map(|t| format!(" on {t}")).unwrap_or_default();
    let read_only = if mount.read_only { " read-only" } else { "" };
    format!("{} ({}{through}{read_only})", mount.mountpoint, mount.filesystem)
}

/// The waiting bytes, and their drain time.
fn backlog(devices: &[Device], notes: &mut Notes, style: Style) -> Vec<String> {
    let columns = [
        Column::words("", 2),
        Column::words("DEVICE", DEVICE_WIDTH),
        Column::figures("DIRTY", 9),
        Column::figures("WRITEBACK", 9).rank(2),
        Column::figures("WRITES", 9).rank(3),
        Column::figures("DRAINS AT", 10),
        Column::figures("DRAINED IN", 10),
        Column::figures("HARD LIMIT IN", 10).rank(1),
        Column::figures("BACKGROUND IN", 10).rank(4),
    ];
    let mut estimated = false;
    let rows: Vec<Vec<String>> = devices
        .iter()
        .map(|d| {
            let guess = d.drain.from == DrainSource::KernelEstimate;
            estimated |= guess;
            vec![
                mark(d).to_owned(),
                d.name.clone(),
                notes.cell(&d.dirty_bytes, decimal),
                notes.cell(&d.writeback_bytes, decimal),
                notes.cell(&d.written_bytes_per_s, rate),
                notes.cell(&d.drain.rate_bytes_per_s, |r| {
                    format!("{}{}", if guess { "~" } else { "" }, rate(r))
                }),
                notes.cell(&d.drain.now_s, seconds),
                notes.cell(&d.drain.hard_limit_s, seconds),
                notes.cell(&d.drain.background_limit_s, seconds),
            ]
        })
        .collect();
    let mut lines: Vec<String> =
        table(&columns, &rows, style.width).into_iter().map(|line| coloured(line, style)).collect();
    if devices.iter().any(|d| !mark(d).is_empty()) {
        let legend = format!(
            "! takes over {SLOW_DRAIN_S} s to drain, !! over {VERY_SLOW_DRAIN_S} s or does not \
             drain at all: an fsync may take as long"
        );
        lines.extend(paragraph("", 2, &legend, style.prose()));
    }
    if estimated {
        lines.push("  ~ the kernel's estimate, may be old".to_owned());
    }
    lines
}

fn mark(device: &Device) -> &'static str {
    let stuck = device.drain.from == DrainSource::Seen
        && device.drain.rate_bytes_per_s == Reading::Value(0.0);
    match device.drain.now_s.value() {
        _ if stuck => "!!",
        Some(s) if *s >= VERY_SLOW_DRAIN_S => "!!",
        Some(s) if *s >= SLOW_DRAIN_S => "!",
        _ => "",
    }
}

/// Only the mark has a colour: it leads its line.
fn coloured(line: String, style: Style) -> String {
    let colour = |mark: &str, code: u8| {
        line.strip_prefix(mark).map(|rest| format!("\u{1b}[{code}m{mark}\u{1b}[0m{rest}"))
    };
    if !style.color {
        return line;
    }
    colour("!!", 31).or_else(|| colour("!", 33)).unwrap_or_else(|| line.clone())
}

/// The settings in force, of each device and below it of those that drain for it.
fn settings(devices: &[Device], notes: &mut Notes, style: Style) -> Vec<String> {
    let columns = [
        Column::words("", 2),
        Column::words("DEVICE", DEVICE_WIDTH),
        Column::words("SCHEDULER", 11),
        Column::figures("REQUESTS", 8),
        Column::figures("LARGEST", 8),
        Column::figures("WBT", 8),
        Column::words("CACHE", 13).rank(1),
        Column::figures("SHARE NOW", 8).rank(2),
        Column::figures("SHARE MAX", 6).rank(3),
        Column::words("STRICT", 6).rank(4),
    ];
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut shown: Vec<&str> = Vec::new();
    for device in devices {
        let limits = &device.limits;
        let mut row = vec![String::new(), device.name.clone()];
        row.extend(queue_cells(&device.queue, notes));
        row.push(notes.cell(&device.device_limit_bytes, size));
        row.push(notes.cell(&limits.max_ratio_percent, |p| format!("{p} %")));
        row.push(notes.cell(&limits.strict_limit, |on| if *on { "yes" } else { "no" }.into()));
        rows.push(row);
        shown.push(&device.name);
    }
    // A disk below several devices is shown once, and not again where it is a device itself.
    let leaves: Vec<&Leaf> = devices.iter().flat_map(|d| &d.leaves).collect();
    for leaf in leaves {
        if shown.contains(&leaf.name.as_str()) {
            continue;
        }
        shown.push(&leaf.name);
        let mut row = vec![String::new(), leaf.name.clone()];
        row.extend(queue_cells(&leaf.queue, notes));
        row.extend(std::iter::repeat_n("-".to_owned(), 3));
        rows.push(row);
    }
    table(&columns, &rows, style.width)
}

fn queue_cells(queue: &Queue, notes: &mut Notes) -> [String; 5] {
    [
        notes.cell(&queue.scheduler, String::clone),
        notes.cell(&queue.nr_requests, u64::to_string),
        notes.cell(&queue.max_sectors_kib, |kib| Bytes(kib.saturating_mul(1024)).to_string()),
        notes.cell(&queue.wbt_lat_us, |us| match us {
            0 => "off".into(),
            us => human_duration(Duration::from_micros(*us)),
        }),
        notes.cell(&queue.write_cache, String::clone),
    ]
}

/// Filesystems without a row, those of one kind on one line.
fn elsewhere(status: &Status, style: Style) -> Vec<String> {
    let mut kinds: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for mount in &status.elsewhere {
        match kinds.iter_mut().find(|(fs, why, _)| *fs == mount.filesystem && *why == mount.why) {
            Some((_, _, points)) => points.push(&mount.mountpoint),
            None => kinds.push((&mount.filesystem, &mount.why, vec![&mount.mountpoint])),
        }
    }
    if kinds.is_empty() {
        return Vec::new();
    }
    let mut lines = vec![String::new(), "not counted for any device above".to_owned()];
    for (filesystem, why, points) in kinds {
        let text = format!("{} ({filesystem}): {why}", first_of(&points, 3));
        lines.extend(paragraph("", 2, &text, style.prose()));
    }
    lines
}

/// The tables of waiters and writers.
fn who(
    waiters: &Reading<Vec<Waiter>>,
    writers: &Writers,
    window_s: f64,
    notes: &mut Notes,
    style: Style,
) -> Vec<String> {
    let unread = match writers.unreadable_processes {
        0 => String::new(),
        1 => " (one process could not be looked at)".to_owned(),
        n => format!(" ({n} processes could not be looked at)"),
    };
    let mut lines = vec![format!("in the last {}{unread}", seconds(&window_s))];
    let why = waiters.why();
    let waiters = waiters.value().map(Vec::as_slice).unwrap_or_default();
    let disks = Disks::of(waiters, &writers.top);
    let room = style.width.saturating_sub(INDENT.len());
    let mut told = match why {
        Some(why) => vec![format!("who waited: {}", notes.unknown(why))],
        None if waiters.is_empty() => vec!["no process waited for a disk".to_owned()],
        None => waits(waiters, &disks, notes, room),
    };
    match &writers.missing {
        Some(why) => told.push(format!("who wrote: {}", notes.unknown(why.clone()))),
        None if writers.top.is_empty() => {
            let who = if unread.is_empty() { "no process" } else { "none of the rest" };
            told.push(format!("{who} dirtied page cache"));
        }
        None => {
            if told.len() > 1 {
                told.push(String::new());
            }
            told.extend(writes(&writers.top, &disks, notes, room));
        }
    }
    lines.extend(told.into_iter().map(|line| format!("{INDENT}{line}").trim_end().to_owned()));
    lines
}

/// The two tables without anything else.
pub(super) fn who_alone(waiters: &[Waiter], writers: &[Writer], style: Style) -> Vec<String> {
    let disks = Disks::of(waiters, writers);
    let mut notes = Notes::default();
    let tables = [
        waits(waiters, &disks, &mut notes, style.width),
        writes(writers, &disks, &mut notes, style.width),
    ];
    let tables = tables.into_iter().filter(|lines| !lines.is_empty());
    let mut lines: Vec<String> =
        tables.flat_map(|lines| std::iter::once(String::new()).chain(lines)).collect();
    let told = noted(&notes, &lines, style);
    lines.extend(told);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_written_is_not_told_of_a_user_called_nobody() {
        let told = |unreadable_processes| {
            let none = Writers { unreadable_processes, ..Writers::default() };
            let waiters = Reading::Value(Vec::new());
            who(&waiters, &none, 1.0, &mut Notes::default(), Style::default()).join("|")
        };
        let nothing =
            "in the last 1.00 s|  no process waited for a disk|  no process dirtied page cache";
        assert_eq!(told(0), nothing);
        assert!(told(9).contains("(9 processes could not be looked at)"), "{}", told(9));
        assert!(told(9).ends_with("none of the rest dirtied page cache"), "{}", told(9));
    }
}
