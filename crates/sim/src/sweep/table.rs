//! The table: what its columns are called and hold, and the row of a cell.
//!
//! Columns and their kinds follow from the sweep alone, not from what its cells gave, so that the
//! parts of a sweep have the same columns.

use super::axes::KnobAxis;
use super::figures::{Figures, NAMES};
use super::file::DEFAULT;
use super::plan::{Sweep, Which};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Whole numbers.
    Integer,
    /// Numbers.
    Real,
    /// Texts.
    Text,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name, ending in its unit where it has one.
    pub name: String,
    /// The type of its values.
    pub kind: ColumnKind,
}

/// A field of a row; where there is nothing, there is no value.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A whole number.
    Integer(i64),
    /// A number.
    Real(f64),
    /// A text.
    Text(String),
}

/// Columns before the knobs'.
const MACHINE: [(&str, ColumnKind); 14] = [
    ("cell", ColumnKind::Integer),
    ("key", ColumnKind::Text),
    ("device", ColumnKind::Text),
    ("scenario", ColumnKind::Text),
    ("kernel", ColumnKind::Text),
    ("ram_bytes", ColumnKind::Integer),
    ("fs", ColumnKind::Text),
    ("cpus", ColumnKind::Integer),
    ("hz", ColumnKind::Integer),
    ("queue_depth", ColumnKind::Integer),
    ("member_queues", ColumnKind::Integer),
    ("capacity_bytes", ColumnKind::Integer),
    ("seed", ColumnKind::Integer),
    ("setting", ColumnKind::Text),
];
/// The figures that take a default run, before the others.
const KEPT: [&str; 2] = ["flood_kept", "burst_kept"];

impl Sweep {
    /// The columns of its table: every axis, every figure, why a cell can't be (`error`), what else
    /// there is to know (`note`).
    #[must_use]
    pub fn columns(&self) -> Vec<Column> {
        let column = |name: &str, kind| Column { name: name.to_owned(), kind };
        let mut columns: Vec<Column> =
            MACHINE.iter().map(|(name, kind)| column(name, *kind)).collect();
        if self.has_names() {
            columns.push(column("setting_name", ColumnKind::Text));
        }
        columns.extend(self.axes().knobs.iter().map(|axis| column(&axis.knob, kind_of(axis))));
        let [first, rest @ ..] = NAMES;
        let figures = [first].into_iter().chain(KEPT).chain(rest);
        columns.extend(figures.map(|name| column(name, ColumnKind::Real)));
        columns.extend(["error", "note"].map(|name| column(name, ColumnKind::Text)));
        columns
    }

    /// A cell's row, a field for each of [`Sweep::columns`]. `default` is its group's default run,
    /// if there was one.
    #[must_use]
    pub fn row(
        &self,
        cell: u64,
        figures: &Figures,
        default: Option<&Figures>,
    ) -> Vec<Option<Value>> {
        let integer = |n: u64| Some(Value::Integer(i64::try_from(n).unwrap_or(i64::MAX)));
        let text = |text: &str| Some(Value::Text(text.to_owned()));
        let place = self.place_of(cell);
        let o = &place.options;
        let setting = self.setting(Which::Cell(cell));
        let mut row = vec![
            integer(cell),
            text(&self.key(Which::Cell(cell)).to_string()),
            text(place.device),
            text(&place.scenario.label),
            text(place.kernel),
            integer(o.ram.0),
            text(&o.fs.to_string()),
            integer(o.cpus.into()),
            o.hz.and_then(|hz| integer(hz.into())),
            o.queue_depth.and_then(|depth| integer(depth.into())),
            integer(o.member_queues.into()),
            o.capacity.and_then(|capacity| integer(capacity.0)),
            integer(o.seed),
            text(&if setting.is_empty() { DEFAULT.to_owned() } else { setting.to_string() }),
        ];
        let (named, values) = self.choices(cell);
        if self.has_names() {
            row.push(text(&named.label));
        }
        for (axis, value) in self.axes().knobs.iter().zip(values) {
            row.push(match (kind_of(axis), value) {
                (_, None) => None,
                (ColumnKind::Integer, Some(value)) => value.parse().ok().map(Value::Integer),
                (_, Some(value)) => text(value),
            });
        }
        let share = |of: &str, to: &str| {
            let to = default.and_then(|d| d.get(to)).filter(|to| *to > 0.0)?;
            Some(figures.get(of)? / to)
        };
        let [first, rest @ ..] = figures.values;
        let kept = [
            share("flood_beside_bytes_per_s", "flood_alone_bytes_per_s"),
            share("burst_bytes_per_s", "burst_bytes_per_s"),
        ];
        let numbers = [first].into_iter().chain(kept).chain(rest);
        row.extend(numbers.map(|n| n.map(Value::Real)));
        row.push(figures.error.as_deref().and_then(text));
        let why = default.filter(|_| figures.error.is_none()).and_then(|d| d.error.as_deref());
        let why = why.map(|why| format!("the default setting could not be run: {why}"));
        let notes: Vec<String> = figures.note.iter().cloned().chain(why).collect();
        row.push((!notes.is_empty()).then(|| Value::Text(notes.join("; "))));
        row
    }

    fn has_names(&self) -> bool {
        self.axes().settings.iter().any(|setting| !setting.label.is_empty())
    }
}

/// A knob's column holds whole numbers if all of its values are such.
fn kind_of(axis: &KnobAxis) -> ColumnKind {
    let whole = |value: &String| value.parse::<i64>().is_ok();
    if axis.values.iter().flatten().all(whole) { ColumnKind::Integer } else { ColumnKind::Text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sweep::testing::sweep;

    fn table(
        text: &str,
        cell: u64,
        figures: &Figures,
        default: Option<&Figures>,
    ) -> Vec<(String, Option<Value>)> {
        let sweep = sweep(text);
        let row = sweep.row(cell, figures, default);
        let columns = sweep.columns();
        assert_eq!(columns.len(), row.len());
        for (column, value) in columns.iter().zip(&row) {
            let fits = match value {
                None => true,
                Some(Value::Integer(_)) => column.kind == ColumnKind::Integer,
                Some(Value::Real(_)) => column.kind == ColumnKind::Real,
                Some(Value::Text(_)) => column.kind == ColumnKind::Text,
            };
            assert!(fits, "{column:?}: {value:?}");
        }
        columns.into_iter().map(|c| c.name).zip(row).collect()
    }

    fn figures(values: &[(&str, f64)]) -> Figures {
        let mut figures = Figures::default();
        for (name, value) in values {
            figures.values[NAMES.iter().position(|n| n == name).unwrap()] = Some(*value);
        }
        figures
    }

    const FILE: &str = "[machine]\ndevice = \"null\"\nqueue_depth = [\"default\", 8]\n[knobs]\n\
        nr_requests = [\"default\", 8]\n\
                        scheduler = [\"none\"]\n[[setting]]\nname = \"a\"\n\
                        vm.dirty_bytes = \"15MB\"\n";

    #[test]
    fn a_row_has_every_axis_and_every_figure() {
        let measured = figures(&[
            ("victim_kept", 0.5),
            ("flood_beside_bytes_per_s", 30.0),
            ("flood_alone_bytes_per_s", 50.0),
            ("burst_bytes_per_s", 9.0),
        ]);
        let default = figures(&[("flood_alone_bytes_per_s", 60.0), ("burst_bytes_per_s", 10.0)]);
        let row = table(FILE, 3, &measured, Some(&default));
        let at = |name: &str| {
            row.iter().find(|(n, _)| n == name).unwrap_or_else(|| panic!("{name}")).1.clone()
        };
        let text = |t: &str| Some(Value::Text(t.into()));
        assert_eq!(at("cell"), Some(Value::Integer(3)));
        assert_eq!(
            (at("queue_depth"), at("nr_requests")),
            (Some(Value::Integer(8)), Some(Value::Integer(8)))
        );
        assert_eq!(
            (at("device"), at("fs"), at("kernel")),
            (text("null"), text("xfs"), text("6.18"))
        );
        assert_eq!((at("setting_name"), at("scheduler")), (text("a"), text("none")));
        assert_eq!(at("setting"), text("nr_requests=8,scheduler=none,vm.dirty_bytes=15000000"));
        assert_eq!(at("victim_kept"), Some(Value::Real(0.5)));
        assert_eq!(
            (at("flood_kept"), at("burst_kept")),
            (Some(Value::Real(0.5)), Some(Value::Real(0.9)))
        );
        assert_eq!((at("error"), at("note"), at("dead_seconds")), (None, None, None));
        let row = table(FILE, 0, &measured, None);
        assert!(row.iter().any(|(n, v)| n == "queue_depth" && v.is_none()));
        assert!(row.iter().any(|(n, v)| n == "flood_kept" && v.is_none()));
    }

    #[test]
    fn what_could_not_be_says_why() {
        let row = table(
            FILE,
            0,
            &Figures::impossible("no kyber"),
            Some(&Figures::impossible("no default")),
        );
        assert!(row.contains(&("error".into(), Some(Value::Text("no kyber".into())))));
        assert!(row.contains(&("note".into(), None)));
        let row = table(FILE, 0, &Figures::default(), Some(&Figures::impossible("too small")));
        let note = "the default setting could not be run: too small";
        assert!(row.contains(&("note".into(), Some(Value::Text(note.into())))));
    }
}
