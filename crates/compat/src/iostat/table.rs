//! The columns of a device: their titles, widths and figures.

use super::figures::{Interval, ratio};
use super::options::Unit;
use super::sample::Kind;

/// From the order of the extended columns in a table to that in JSON: by figure, not by kind.
const EXTENDED_IN_JSON: [usize; 22] =
    [0, 6, 12, 18, 1, 7, 13, 2, 8, 14, 3, 9, 15, 4, 10, 16, 19, 5, 11, 17, 20, 21];

/// A column of one device.
pub(super) struct Cell {
    pub(super) title: String,
    /// Characters, the blank before it included.
    width: usize,
    value: Value,
}

enum Value {
    Real(f64),
    Whole(u64),
}

impl Cell {
    fn real(title: impl Into<String>, width: usize, value: f64) -> Self {
        Self { title: title.into(), width, value: Value::Real(value) }
    }

    /// The title, to the right.
    pub(super) fn head(&self) -> String {
        format!(" {:>width$}", self.title, width = self.width - 1)
    }

    /// The figure, to the right. A longer one moves the rest of its line.
    pub(super) fn text(&self) -> String {
        format!(" {:>width$}", self.number(), width = self.width - 1)
    }

    /// The figure.
    pub(super) fn number(&self) -> String {
        match self.value {
            Value::Real(value) => format!("{value:.2}"),
            Value::Whole(value) => value.to_string(),
        }
    }

    /// The name in JSON.
    pub(super) fn key(&self) -> &str {
        self.title.trim_start_matches('%')
    }
}

impl Unit {
    fn sectors(self) -> u64 {
        match self {
            Self::Kilobytes => 2,
            Self::Megabytes => 2048,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Kilobytes => "kB",
            Self::Megabytes => "MB",
        }
    }
}

/// The columns in the order of a table.
pub(super) fn cells(interval: &Interval, unit: Unit, extended: bool) -> Vec<Cell> {
    if extended { extended_cells(interval, unit) } else { basic_cells(interval, unit) }
}

/// The columns in the order of JSON.
pub(super) fn json_cells(interval: &Interval, unit: Unit, extended: bool) -> Vec<Cell> {
    let cells = cells(interval, unit, extended);
    if !extended {
        return cells;
    }
    let mut ranked: Vec<_> = cells.into_iter().enumerate().collect();
    let rank = |at: usize| EXTENDED_IN_JSON.iter().position(|other| *other == at);
    ranked.sort_by_key(|(at, _)| rank(*at));
    ranked.into_iter().map(|(_, cell)| cell).collect()
}

fn basic_cells(interval: &Interval, unit: Unit) -> Vec<Cell> {
    let counts = &interval.counts;
    let kinds = [("read", counts.read), ("wrtn", counts.write), ("dscd", counts.discard)];
    let name = unit.name();
    // Flushes are not among them.
    let requests = kinds.iter().map(|(_, kind)| kind.requests).fold(0, u64::saturating_add);
    let mut cells = vec![Cell::real("tps", 9, interval.rate(requests))];
    cells.extend(kinds.map(|(what, kind)| {
        let rate = interval.rate(kind.sectors) / unit.sectors() as f64;
        Cell::real(format!("{name}_{what}/s"), 13, rate)
    }));
    cells.extend(kinds.map(|(what, kind)| Cell {
        title: format!("{name}_{what}"),
        width: 11,
        value: Value::Whole(kind.sectors / unit.sectors()),
    }));
    cells
}

fn extended_cells(interval: &Interval, unit: Unit) -> Vec<Cell> {
    let counts = &interval.counts;
    let mut cells = Vec::with_capacity(EXTENDED_IN_JSON.len());
    for (letter, kind) in [("r", counts.read), ("w", counts.write), ("d", counts.discard)] {
        cells.extend(kind_cells(interval, letter, kind, unit));
    }
    cells.push(Cell::real("f/s", 8, interval.rate(counts.flushes)));
    cells.push(Cell::real("f_await", 8, ratio(counts.flush_ms, counts.flushes)));
    cells.push(Cell::real("aqu-sz", 8, interval.queue()));
    cells.push(Cell::real("%util", 7, interval.utilisation()));
    cells
}

fn kind_cells(interval: &Interval, letter: &str, kind: Kind, unit: Unit) -> [Cell; 6] {
    let bytes = interval.rate(kind.sectors) / unit.sectors() as f64;
    [
        Cell::real(format!("{letter}/s"), 8, interval.rate(kind.requests)),
        Cell::real(format!("{letter}{}/s", unit.name()), 10, bytes),
        Cell::real(format!("{letter}rqm/s"), 9, interval.rate(kind.merged)),
        Cell::real(format!("%{letter}rqm"), 7, kind.merged_percent()),
        Cell::real(format!("{letter}_await"), 8, kind.wait_ms()),
        Cell::real(format!("{letter}areq-sz"), 9, kind.size_kb()),
    ]
}
