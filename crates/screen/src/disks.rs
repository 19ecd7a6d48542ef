//! The fields of the table of disks: their columns, their texts and their order.
//!
//! ```text
//! disk, its guard, its timeline ─▶ DiskField ─▶ a cell | the order of two disks
//! ```

use std::cmp::{Ordering, Reverse};

use floodwall_model::diagnosis::Verdict;
use floodwall_model::frame::{Disk, Guard, GuardedDisk};
use floodwall_model::printable::printable;
use floodwall_model::status::DrainSource;
use ratatui::style::Style;

use crate::figures::{bytes, micros, millis, rate, share};
use crate::history::{History, Past};
use crate::table::{Cell, Column, Kind};
use crate::theme::Look;

/// A bar of the drain time is full at this at least, so that a quiet disk has small bars.
const FULL_MS: u64 = 1000;
/// A bar of bytes a second is full at this at least.
const FULL_BYTES_PER_S: u64 = 1_000_000;

/// A field of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskField {
    /// The mark of a stall or a flood. It orders the worst first.
    Mark,
    /// The kernel's name.
    Name,
    /// Drain rate.
    Drains,
    /// Dirty and under writeback.
    Backlog,
    /// How long the backlog takes.
    DrainTime,
    /// Requests under way.
    Queue,
    /// The slowest wait for it.
    Slowest,
    /// The victims' wait as a share of the guard's goal.
    Pressure,
    /// The guard's state.
    Guard,
    /// Share of the window in which a request was under way.
    Busy,
    /// Bytes written, a second.
    Writes,
    /// Bytes read, a second.
    Reads,
    /// Where it is mounted.
    Mounts,
    /// Two minutes of its drain time, or of its writes where that is not known.
    Timeline,
}

/// All fields in their order.
pub(crate) const DISK_FIELDS: [DiskField; 14] = [
    DiskField::Mark,
    DiskField::Name,
    DiskField::Drains,
    DiskField::Backlog,
    DiskField::DrainTime,
    DiskField::Queue,
    DiskField::Slowest,
    DiskField::Pressure,
    DiskField::Guard,
    DiskField::Busy,
    DiskField::Writes,
    DiskField::Reads,
    DiskField::Mounts,
    DiskField::Timeline,
];

/// A disk with what else is known of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DiskRow<'a> {
    /// The disk.
    pub(crate) disk: &'a Disk,
    /// What the guard does to it; absent if none steers it.
    pub(crate) guarded: Option<&'a GuardedDisk>,
    /// The slowest wait for it, in microseconds.
    pub(crate) slowest_us: Option<u64>,
}

/// What the bars of all disks show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// Drain times.
    DrainTime,
    /// Bytes written: where no backlog is known, as without root.
    Writes,
}

impl Line {
    /// Its value in a frame.
    pub(crate) fn of(self, past: &Past, disk: &str, near: &mut usize) -> Option<u64> {
        let (disk, _) = past.disk(disk, near)?;
        match self {
            Self::DrainTime => disk.drain_ms,
            Self::Writes => disk.written_bytes_per_s,
        }
    }

    /// The value of a full bar.
    pub(crate) fn full(self, values: &[Option<u64>]) -> u64 {
        let most = values.iter().flatten().copied().max().unwrap_or(0);
        most.max(match self {
            Self::DrainTime => FULL_MS,
            Self::Writes => FULL_BYTES_PER_S,
        })
    }
}

impl DiskField {
    /// Its column.
    pub(crate) fn column(self) -> Column {
        let (kind, least, most, rank) = match self {
            Self::Mark => (Kind::Words, 2, 2, 0),
            Self::Name => (Kind::Words, 11, 16, 0),
            Self::Drains => (Kind::Figures, 10, 12, 0),
            Self::Backlog => (Kind::Figures, 9, 12, 0),
            Self::DrainTime => (Kind::Figures, 11, 12, 0),
            Self::Queue => (Kind::Figures, 6, 7, 3),
            Self::Slowest => (Kind::Figures, 9, 11, 5),
            Self::Pressure => (Kind::Figures, 9, 11, 4),
            Self::Guard => (Kind::Words, 8, 12, 2),
            Self::Busy => (Kind::Figures, 7, 8, 7),
            Self::Writes => (Kind::Figures, 10, 11, 6),
            Self::Reads => (Kind::Figures, 10, 11, 9),
            Self::Mounts => (Kind::Words, 12, 40, 8),
            Self::Timeline => (Kind::Bars, 12, 120, 1),
        };
        Column { kind, least, most, rank }
    }

    /// What its column is called.
    pub(crate) fn title(self, line: Line) -> &'static str {
        match self {
            Self::Mark => "",
            Self::Name => "DISK",
            Self::Drains => "DRAINS AT",
            Self::Backlog => "BACKLOG",
            Self::DrainTime => "DRAINED IN",
            Self::Queue => "QUEUE",
            Self::Slowest => "SLOWEST",
            Self::Pressure => "PRESSURE",
            Self::Guard => "GUARD",
            Self::Busy => "BUSY",
            Self::Writes => "WRITES",
            Self::Reads => "READS",
            Self::Mounts => "MOUNTED AT",
            Self::Timeline if line == Line::Writes => "WRITES, 2 min",
            Self::Timeline => "DRAIN, 2 min",
        }
    }

    /// Its cell for a disk, in so many cells.
    pub(crate) fn cell(
        self,
        row: DiskRow<'_>,
        guard: Option<&Guard>,
        history: &History,
        line: Line,
        cells: u16,
        look: Look,
    ) -> Cell<'static> {
        let disk = row.disk;
        let (mark, style) = mark(disk.verdict, look);
        let known = |text: Option<String>| match text {
            Some(text) => look.text(&text).into_owned(),
            None => look.unknown().to_owned(),
        };
        let about = |text: String| match disk.drain_from {
            DrainSource::KernelEstimate => format!("~{text}"),
            _ => text,
        };
        let text = match self {
            Self::Mark => return Cell::Text(mark.into(), style),
            Self::Name => return Cell::Text(printable(&disk.name).into_owned().into(), style),
            Self::Drains => known(disk.drain_bytes_per_s.map(rate).map(about)),
            Self::Backlog => known(disk.backlog_bytes.map(bytes)),
            Self::DrainTime => {
                let is_long = disk.drain_ms.is_some_and(|ms| ms >= FULL_MS);
                let style = if is_long { look.strong() } else { Style::new() };
                let time =
                    disk.drain_ms.map(|ms| if ms == 0 { millis(0) } else { about(millis(ms)) });
                return Cell::Text(known(time).into(), style);
            }
            Self::Queue => known(disk.in_flight.map(|requests| requests.to_string())),
            Self::Slowest => known(row.slowest_us.map(micros)),
            Self::Pressure => {
                known(row.guarded.and_then(|guarded| guarded.pressure_percent).map(share))
            }
            Self::Guard => return state(guard, row.guarded, look),
            Self::Busy => known(disk.busy_percent.map(share)),
            Self::Writes => known(disk.written_bytes_per_s.map(rate)),
            Self::Reads => known(disk.read_bytes_per_s.map(rate)),
            Self::Mounts => printable(&disk.mounts.join(" ")).into_owned(),
            Self::Timeline => {
                let mut near = usize::MAX;
                let values = history.series(cells, |past| line.of(past, &disk.name, &mut near));
                let full = line.full(&values);
                return Cell::Bars(values, full, look.flood_bars());
            }
        };
        Cell::plain(text)
    }

    /// The order of two disks by this field: figures from the largest on, words from A on.
    pub(crate) fn order(self, a: DiskRow<'_>, b: DiskRow<'_>, line: Line) -> Ordering {
        let figure = |of: fn(&Disk) -> Option<u64>| Reverse(of(a.disk)).cmp(&Reverse(of(b.disk)));
        let float =
            |a: Option<f32>, b: Option<f32>| b.unwrap_or(-1.0).total_cmp(&a.unwrap_or(-1.0));
        match self {
            Self::Mark => {
                // Quiet disks stay where they are, in the order of the frame.
                let is_quiet = |row: DiskRow<'_>| row.disk.verdict == Verdict::Quiet;
                let slowest = |row: DiskRow<'_>| row.slowest_us.filter(|_| !is_quiet(row));
                let long = |row: DiskRow<'_>| row.disk.drain_ms.filter(|ms| *ms >= FULL_MS);
                let worst = |row: DiskRow<'_>| (row.disk.verdict, slowest(row), long(row));
                Reverse(worst(a)).cmp(&Reverse(worst(b)))
            }
            Self::Name => a.disk.name.cmp(&b.disk.name),
            Self::Drains => figure(|disk| disk.drain_bytes_per_s),
            Self::Backlog => figure(|disk| disk.backlog_bytes),
            Self::DrainTime => figure(|disk| disk.drain_ms),
            Self::Queue => figure(|disk| disk.in_flight),
            Self::Slowest => Reverse(a.slowest_us).cmp(&Reverse(b.slowest_us)),
            Self::Pressure => {
                let pressure =
                    |row: DiskRow<'_>| row.guarded.and_then(|guarded| guarded.pressure_percent);
                float(pressure(a), pressure(b))
            }
            Self::Guard => {
                let state = |row: DiskRow<'_>| row.guarded.map(|guarded| guarded.state.clone());
                state(a).cmp(&state(b))
            }
            Self::Busy => float(a.disk.busy_percent, b.disk.busy_percent),
            Self::Reads => figure(|disk| disk.read_bytes_per_s),
            Self::Mounts => a.disk.mounts.cmp(&b.disk.mounts),
            Self::Timeline if line == Line::DrainTime => figure(|disk| disk.drain_ms),
            Self::Writes | Self::Timeline => figure(|disk| disk.written_bytes_per_s),
        }
    }
}

/// The mark of a verdict and its style.
fn mark(verdict: Verdict, look: Look) -> (&'static str, Style) {
    match verdict {
        Verdict::Stalling => (look.victim_mark(), look.victim()),
        Verdict::Flooding => (look.flood_mark(), look.flood()),
        Verdict::Unknown => ("?", look.strong()),
        Verdict::Quiet => ("", Style::new()),
    }
}

/// The guard's state for a disk.
fn state(guard: Option<&Guard>, guarded: Option<&GuardedDisk>, look: Look) -> Cell<'static> {
    match (guard, guarded) {
        (Some(guard), Some(_)) if guard.paused_s.is_some() => {
            Cell::Text("paused".into(), look.warning())
        }
        (_, Some(guarded)) => {
            let acts = !matches!(guarded.state.as_str(), "free" | "watch");
            let style = if acts { look.guard() } else { Style::new() };
            Cell::Text(printable(&guarded.state).into_owned().into(), style)
        }
        (_, None) => Cell::plain(look.unknown()),
    }
}
