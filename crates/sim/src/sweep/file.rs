//! A sweep's file: TOML in, a checked [`Sweep`] or a message with its line out.
//!
//! ```toml
//! name = "limits-by-device"
//! [machine]                        # a value, a list, or a range; each an axis
//! device = ["hdd-7200", "nvme-datacenter"]
//! kernel = ["2.6.32", "6.18"]
//! ram = { from = "4GiB", to = "64GiB", steps = 5 }
//! [knobs]                          # each knob an axis; "default" leaves it alone
//! vm.dirty_bytes = ["default", "15MB", "256MiB"]
//! scheduler = ["none", "bfq"]
//! ```
//!
//! The text is walked as a tree with positions instead of being deserialised, because every value's
//! error has to name its line.

use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

use floodwall_model::scenario::{self, Scenario};
use floodwall_model::units::parse_duration;
use floodwall_model::{Bytes, Setting, toml_text};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::axes::{Axes, KnobAxis, Named};
use super::library::Library;
use super::plan::{Choice, Sweep};
use crate::fs::FsKind;
use crate::kernel::UnknownKernel;

/// What a setting or an optional number is called where it is left alone.
pub(crate) const DEFAULT: &str = "default";
/// Sizes between the ends of a range are whole pages.
const PAGE: u64 = 4096;
/// More values than this on one axis are a mistake in a range.
const MOST_VALUES: usize = 10_000;

/// Why a text is no sweep.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SweepError {
    /// Something at a line.
    #[error("line {line}: {message}")]
    At {
        /// Counted from 1.
        line: usize,
        /// The fault, and an accepted form.
        message: String,
    },
    /// The grid as a whole.
    #[error("{0}")]
    Grid(String),
}

/// Reads a sweep's file.
///
/// # Errors
/// [`SweepError`]: the line, its fault, and the nearest known name for a misspelt one.
pub fn parse(text: &str, library: &dyn Library) -> Result<Sweep, SweepError> {
    let reader = Reader { text, library };
    let root = DeTable::parse(text).map_err(|e| {
        let (line, message) = toml_text::place_and_message(text, &e);
        SweepError::At { line, message }
    })?;
    reader.sweep(root.get_ref())
}

type Found<T> = Result<T, SweepError>;
type Node<'a, 'i> = &'a Spanned<DeValue<'i>>;

/// A single value, as text, with its place.
struct Item {
    text: String,
    span: Range<usize>,
}

struct Reader<'t> {
    text: &'t str,
    library: &'t dyn Library,
}

impl Reader<'_> {
    fn at<T>(&self, span: Range<usize>, message: impl Into<String>) -> Found<T> {
        let before = &self.text.as_bytes()[..span.start.min(self.text.len())];
        let line = before.iter().filter(|b| **b == b'\n').count() + 1;
        Err(SweepError::At { line, message: message.into() })
    }

    fn sweep(&self, root: &DeTable<'_>) -> Found<Sweep> {
        self.known(
            root,
            &["name", "description", "baseline", "machine", "knobs", "setting", "timing", "sample"],
        )?;
        let timing = self.timing(root)?;
        let knobs = self.knobs(root)?;
        let settings = self.settings(root, &knobs)?;
        let axes = self.axes(root, &timing, settings, knobs)?;
        let baseline = match root.get("baseline") {
            None => true,
            Some(node) => match node.get_ref() {
                DeValue::Boolean(wanted) => *wanted,
                _ => return self.at(node.span(), "baseline is true or false"),
            },
        };
        let name = match root.get("name") {
            None => "sweep".to_owned(),
            Some(node) => self.item(node)?.text,
        };
        let chosen = self.sample(root)?;
        Sweep::new(name, axes, baseline, chosen).map_err(SweepError::Grid)
    }

    fn axes(
        &self,
        root: &DeTable<'_>,
        timing: &Overrides,
        settings: Vec<Named<Setting>>,
        knobs: Vec<KnobAxis>,
    ) -> Found<Axes> {
        const KEYS: [&str; 11] = [
            "device",
            "scenario",
            "kernel",
            "ram",
            "fs",
            "cpus",
            "hz",
            "queue_depth",
            "member_queues",
            "capacity",
            "seed",
        ];
        let machine = self.table(root, "machine")?;
        if let Some(table) = machine {
            self.known(table, &KEYS)?;
        }
        let node = |key: &str| machine.and_then(|table| table.get(key));
        let Some(device) = node("device") else {
            let place = root.get("machine").map_or(0..0, |m| m.span());
            return self.at(
                place,
                "[machine] has no device; write device = \"hdd-7200\" or a list of devices",
            );
        };
        let number = |text: &str, least: u32| match text.parse::<u32>() {
            Ok(n) if n >= least => Ok(n),
            _ => Err(format!("'{text}' is not a whole number from {least}")),
        };
        let optional = |text: &str, least: u32| match text {
            DEFAULT => Ok(None),
            _ => number(text, least).map(Some).map_err(|e| format!("{e}, or \"{DEFAULT}\"")),
        };
        let bytes = |text: &str| text.parse::<Bytes>().map_err(|e| e.to_string());
        let scenario = |text: &str| {
            let mut found = self.library.scenario(text)?;
            timing.apply(&mut found)?;
            Ok(Named::new(text, found))
        };
        let first = scenario::builtin_names().next().unwrap_or_default();
        Ok(Axes {
            devices: self
                .axis(Some(device), "", |text| Ok(Named::new(text, self.library.device(text)?)))?,
            scenarios: self.axis(node("scenario"), first, scenario)?,
            kernels: self.axis(node("kernel"), "6.18", |text| {
                let kernel = text.parse().map_err(|e: UnknownKernel| e.to_string())?;
                Ok(Named::new(text, kernel))
            })?,
            ram: self.axis(node("ram"), "24GiB", bytes)?,
            filesystems: self.axis(node("fs"), "xfs", |text| {
                text.parse::<FsKind>().map_err(|e| e.to_string())
            })?,
            cpus: self.axis(node("cpus"), "2", |text| number(text, 1))?,
            hz: self.axis(node("hz"), DEFAULT, |text| optional(text, 1))?,
            queue_depths: self.axis(node("queue_depth"), DEFAULT, |text| optional(text, 1))?,
            member_queues: self.axis(node("member_queues"), "1", |text| number(text, 1))?,
            capacities: self.axis(node("capacity"), DEFAULT, |text| match text {
                DEFAULT => Ok(None),
                _ => bytes(text).map(Some),
            })?,
            seeds: self.axis(node("seed"), "1", |text| {
                text.parse::<u64>().map_err(|_| format!("'{text}' is not a whole number from 0"))
            })?,
            settings,
            knobs,
        })
    }

    /// The values of an axis; `otherwise` is the one value of an axis that the file does not have.
    fn axis<T: PartialEq>(
        &self,
        node: Option<Node<'_, '_>>,
        otherwise: &str,
        read: impl Fn(&str) -> Result<T, String>,
    ) -> Found<Vec<T>> {
        let items = match node {
            Some(node) => self.items(node)?,
            None => vec![Item { text: otherwise.to_owned(), span: 0..0 }],
        };
        let mut values: Vec<T> = Vec::new();
        for item in items {
            let value = read(&item.text).or_else(|message| self.at(item.span.clone(), message))?;
            if values.contains(&value) {
                return self
                    .at(item.span, format!("'{}' is there twice; leave one out", item.text));
            }
            values.push(value);
        }
        Ok(values)
    }

    fn knobs(&self, root: &DeTable<'_>) -> Found<Vec<KnobAxis>> {
        let Some(table) = self.table(root, "knobs")? else { return Ok(Vec::new()) };
        let mut axes: Vec<KnobAxis> = Vec::new();
        for (name, span, node) in self.flat(table, "") {
            let knob =
                self.library.knob(&name).or_else(|message| self.at(span.clone(), message))?;
            if axes.iter().any(|axis| axis.knob == knob) {
                return self.at(span, format!("{knob} is there twice; leave one out"));
            }
            let values = self.axis(Some(node), DEFAULT, |text| match text {
                DEFAULT => Ok(None),
                _ => self.library.value(&knob, text).map(Some),
            })?;
            axes.push(KnobAxis { knob, values });
        }
        // Not in the order of the file: two files that say the same number their cells alike.
        axes.sort_by(|a, b| a.knob.cmp(&b.knob));
        Ok(axes)
    }

    fn settings(&self, root: &DeTable<'_>, knobs: &[KnobAxis]) -> Found<Vec<Named<Setting>>> {
        let Some(node) = root.get("setting") else {
            return Ok(vec![Named::new("", Setting::default())]);
        };
        let form = "settings are tables: write [[setting]], a name, and its knobs";
        let DeValue::Array(tables) = node.get_ref() else { return self.at(node.span(), form) };
        let mut settings: Vec<Named<Setting>> = Vec::new();
        for entry in tables.iter() {
            let DeValue::Table(table) = entry.get_ref() else { return self.at(entry.span(), form) };
            let Some(name) = table.get("name") else {
                return self
                    .at(entry.span(), "a [[setting]] has no name; write name = \"small-limits\"");
            };
            let name = self.item(name)?;
            if settings.iter().any(|s| s.label == name.text) {
                return self.at(name.span, format!("two settings are called '{}'", name.text));
            }
            let mut setting = Setting::default();
            for (knob, span, node) in
                self.flat(table, "").into_iter().filter(|(key, ..)| key != "name")
            {
                let knob =
                    self.library.knob(&knob).or_else(|message| self.at(span.clone(), message))?;
                if knobs.iter().any(|axis| axis.knob == knob) {
                    let message =
                        format!("{knob} is an axis in [knobs] already; leave it out in one place");
                    return self.at(span, message);
                }
                let item = self.item(node)?;
                if item.text != DEFAULT {
                    let value = self.library.value(&knob, &item.text);
                    let value = value.or_else(|message| self.at(item.span, message))?;
                    setting.0.insert(knob, value);
                }
            }
            settings.push(Named::new(name.text, setting));
        }
        if settings.is_empty() {
            return self.at(node.span(), "setting is empty; leave it out");
        }
        Ok(settings)
    }

    fn timing(&self, root: &DeTable<'_>) -> Found<Overrides> {
        let mut overrides = Overrides::default();
        let Some(table) = self.table(root, "timing")? else { return Ok(overrides) };
        self.known(table, &["rounds", "measure", "warmup_max", "settle"])?;
        let duration = |key: &str| -> Found<Option<Duration>> {
            let Some(node) = table.get(key) else { return Ok(None) };
            let item = self.item(node)?;
            match parse_duration(&item.text) {
                Ok(duration) => Ok(Some(duration)),
                Err(e) => self.at(item.span, e.to_string()),
            }
        };
        overrides.measure = duration("measure")?;
        overrides.warmup_max = duration("warmup_max")?;
        overrides.settle = duration("settle")?;
        overrides.rounds =
            self.number(table, "rounds")?.map(|(n, _)| u32::try_from(n).unwrap_or(u32::MAX));
        // What no scenario can have is said here, at its line, not once a scenario.
        if let Some(Ok(mut any)) = scenario::builtin_names().next().and_then(scenario::builtin)
            && let Err(message) = overrides.apply(&mut any)
        {
            let key = if message.starts_with("rounds") { "rounds" } else { "measure" };
            return self.at(table.get(key).map_or(0..0, |node| node.span()), message);
        }
        Ok(overrides)
    }

    fn sample(&self, root: &DeTable<'_>) -> Found<Choice> {
        let Some(table) = self.table(root, "sample")? else { return Ok(Choice::All) };
        self.known(table, &["cells", "seed"])?;
        let Some((cells, span)) = self.number(table, "cells")? else {
            let place = root.get("sample").map_or(0..0, |node| node.span());
            return self.at(place, "[sample] has no cells; write cells = 500");
        };
        if cells == 0 {
            return self.at(span, "a sample of 0 cells is nothing; write at least 1");
        }
        let seed = self.number(table, "seed")?.map_or(1, |(n, _)| n);
        Ok(Choice::Sample { cells, seed })
    }

    /// A whole number at a key.
    fn number(&self, table: &DeTable<'_>, key: &str) -> Found<Option<(u64, Range<usize>)>> {
        let Some(node) = table.get(key) else { return Ok(None) };
        let item = self.item(node)?;
        match item.text.parse() {
            Ok(n) => Ok(Some((n, item.span))),
            Err(_) => self.at(item.span, format!("{key} is a whole number, not '{}'", item.text)),
        }
    }

    fn table<'a, 'i>(&self, root: &'a DeTable<'i>, key: &str) -> Found<Option<&'a DeTable<'i>>> {
        match root.get(key) {
            None => Ok(None),
            Some(node) => match node.get_ref() {
                DeValue::Table(table) => Ok(Some(table)),
                _ => self.at(
                    node.span(),
                    format!("{key} is a table: write [{key}] and its keys below it"),
                ),
            },
        }
    }

    /// Refuses keys that are not known, with the nearest that is.
    fn known(&self, table: &DeTable<'_>, known: &[&str]) -> Found<()> {
        for key in table.keys() {
            let name = key.get_ref().as_ref();
            if !known.contains(&name) {
                return self.at(
                    key.span(),
                    match toml_text::nearest(name, known.iter().copied()) {
                        Some(near) => format!("unknown key '{name}'; did you mean '{near}'?"),
                        None => format!("unknown key '{name}'; known here: {}", known.join(", ")),
                    },
                );
            }
        }
        Ok(())
    }

    /// The keys of a table and of those in it, as dotted names: `vm.dirty_bytes = …` is a table in
    /// a table to TOML.
    fn flat<'a, 'i>(
        &self,
        table: &'a DeTable<'i>,
        prefix: &str,
    ) -> Vec<(String, Range<usize>, Node<'a, 'i>)> {
        let mut all = Vec::new();
        for (key, node) in table {
            let name = format!("{prefix}{}", key.get_ref());
            match node.get_ref() {
                DeValue::Table(inner) if !is_range(inner) => {
                    all.extend(self.flat(inner, &format!("{name}.")))
                }
                _ => all.push((name, key.span(), node)),
            }
        }
        all
    }

    /// A value, a list of values and ranges, or a range.
    fn items(&self, node: Node<'_, '_>) -> Found<Vec<Item>> {
        let items = match node.get_ref() {
            DeValue::Array(list) => {
                let mut all = Vec::new();
                for entry in list.iter() {
                    all.extend(match entry.get_ref() {
                        DeValue::Table(range) => self.range(range, entry.span())?,
                        _ => vec![self.item(entry)?],
                    });
                }
                all
            }
            DeValue::Table(range) => self.range(range, node.span())?,
            _ => vec![self.item(node)?],
        };
        match items.len() {
            0 => self.at(node.span(), "the list is empty; give a value or leave the key out"),
            n if n > MOST_VALUES => {
                self.at(node.span(), format!("{n} values on one axis; write at most {MOST_VALUES}"))
            }
            _ => Ok(items),
        }
    }

    /// A single value.
    fn item(&self, node: Node<'_, '_>) -> Found<Item> {
        let text = match node.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Integer(n) => {
                let digits = n.as_str().replace('_', "");
                match i128::from_str_radix(&digits, n.radix()) {
                    Ok(n) => n.to_string(),
                    Err(_) => {
                        return self.at(node.span(), format!("'{digits}' is not a whole number"));
                    }
                }
            }
            DeValue::Boolean(on) => u8::from(*on).to_string(),
            DeValue::Float(n) => {
                let message = format!(
                    "{} is not whole; write a whole number, or a text with a unit",
                    n.as_str()
                );
                return self.at(node.span(), message);
            }
            _ => return self.at(node.span(), "write one value here: a text or a whole number"),
        };
        Ok(Item { text, span: node.span() })
    }

    /// The values of a range, both ends among them: sizes or whole numbers, by equal factors unless
    /// it says `scale = "linear"`.
    fn range(&self, table: &DeTable<'_>, span: Range<usize>) -> Found<Vec<Item>> {
        self.known(table, &["from", "to", "steps", "scale"])?;
        let (Some(from), Some(to)) = (table.get("from"), table.get("to")) else {
            return self.at(
                span,
                "a range has two ends: write { from = \"4MiB\", to = \"4GiB\", steps = 11 }",
            );
        };
        let Some((steps, steps_span)) = self.number(table, "steps")? else {
            return self.at(
                span,
                "a range has no steps; write steps = 11 for eleven values with both ends",
            );
        };
        let linear = match table.get("scale") {
            None => false,
            Some(node) => match self.item(node)?.text.as_str() {
                "linear" => true,
                "log" => false,
                other => {
                    return self.at(
                        node.span(),
                        format!("a range's scale is \"log\" or \"linear\", not '{other}'"),
                    );
                }
            },
        };
        let (from, to) = (self.item(from)?, self.item(to)?);
        let (low, sizes) = self.end(&from)?;
        let (high, also) = self.end(&to)?;
        if sizes != also {
            return self.at(
                to.span,
                "one end of the range is a size and the other is not; write both with a unit",
            );
        }
        if low >= high {
            return self.at(
                span,
                format!("the range ends before it begins: {} to {}", from.text, to.text),
            );
        }
        if low == 0 && !linear {
            return self.at(
                from.span,
                "no factor leads away from 0; begin at 1 or write scale = \"linear\"",
            );
        }
        let last = match usize::try_from(steps) {
            Ok(steps @ 2..=MOST_VALUES) => steps - 1,
            _ => return self.at(steps_span, format!("steps = {steps}: write 2 to {MOST_VALUES}")),
        };
        let mut values = BTreeSet::from([low, high]);
        for i in 1..last {
            let share = i as f64 / last as f64;
            let (a, b) = (low as f64, high as f64);
            let between = if linear { a + (b - a) * share } else { a * (b / a).powf(share) };
            let whole = between.round() as u64;
            let rounded =
                if sizes && whole >= 16 * PAGE { (whole + PAGE / 2) / PAGE * PAGE } else { whole };
            values.insert(rounded.clamp(low, high));
        }
        let text = |n: u64| if sizes { Bytes(n).as_argument() } else { n.to_string() };
        Ok(values.into_iter().map(|n| Item { text: text(n), span: span.clone() }).collect())
    }

    /// An end of a range, and whether it is a size.
    fn end(&self, item: &Item) -> Found<(u64, bool)> {
        if let Ok(n) = item.text.parse::<u64>() {
            return Ok((n, false));
        }
        match item.text.parse::<Bytes>() {
            Ok(bytes) => Ok((bytes.0, true)),
            Err(e) => self.at(item.span.clone(), e.to_string()),
        }
    }
}

fn is_range(table: &DeTable<'_>) -> bool {
    ["from", "to", "steps"].iter().any(|key| table.contains_key(*key))
}

/// What the sweep says of every scenario's timing.
#[derive(Default)]
struct Overrides {
    rounds: Option<u32>,
    measure: Option<Duration>,
    warmup_max: Option<Duration>,
    settle: Option<Duration>,
}

impl Overrides {
    fn apply(&self, scenario: &mut Scenario) -> Result<(), String> {
        let timing = &mut scenario.timing;
        timing.rounds = self.rounds.unwrap_or(timing.rounds);
        timing.measure = self.measure.unwrap_or(timing.measure);
        timing.warmup_max = self.warmup_max.unwrap_or(timing.warmup_max);
        timing.settle = self.settle.unwrap_or(timing.settle);
        timing.problem().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
