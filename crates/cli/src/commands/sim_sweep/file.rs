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
//! Axes are walked as a tree with positions instead of being deserialised, because every value's
//! error has to name its line.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use floodwall_device::DeviceSpec;
use floodwall_model::units::parse_duration;
use floodwall_model::{Bytes, Scenario, Setting, toml_text};
use floodwall_sim::kernel::Generation;
use floodwall_sim::{FsKind, SimOptions};
use serde::de::{Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer};
use serde_json::Value as Json;
use toml::de::{DeTable, DeValue, ValueDeserializer};
use toml::{Spanned, Value as Toml};

use super::plan::{Axis, Cell, Sample, Sweep, Value};
use crate::commands::bench::named_scenario;
use crate::commands::sim::{device_of, knob_name, knob_value};
use crate::output;

/// What a setting or an optional number is called where it is left alone.
pub(super) const DEFAULT: &str = "default";
/// The scenario of a file that names none.
const SCENARIO: &str = "copy-vs-database";
/// Sizes between the ends of a range are whole pages.
const PAGE: u64 = 4096;
/// More values than this on one axis are a mistake in a range.
const MOST_VALUES: usize = 10_000;
/// The axes of a machine in the order of cells' numbers: key, column, and the value of a file that
/// has none.
const MACHINE: [(&str, &str, &str); 11] = [
    ("device", "device", ""),
    ("scenario", "scenario", SCENARIO),
    ("kernel", "kernel", "6.18"),
    ("ram", "ram_bytes", "24GiB"),
    ("fs", "fs", "xfs"),
    ("cpus", "cpus", "2"),
    ("hz", "hz", DEFAULT),
    ("queue_depth", "queue_depth", DEFAULT),
    ("member_queues", "member_queues", "1"),
    ("capacity", "capacity_bytes", DEFAULT),
    ("seed", "seed", "1"),
];

/// Everything of a file but its axes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head {
    name: Option<String>,
    #[serde(rename = "description")]
    _description: Option<String>,
    baseline: Option<bool>,
    #[serde(rename = "machine")]
    _machine: Option<IgnoredAny>,
    #[serde(rename = "knobs")]
    _knobs: Option<IgnoredAny>,
    #[serde(rename = "setting")]
    _settings: Option<IgnoredAny>,
    #[serde(default)]
    timing: Timing,
    sample: Option<Sample>,
}

/// What the sweep says of every scenario's timing.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Timing {
    rounds: Option<u32>,
    #[serde(deserialize_with = "duration")]
    measure: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    warmup_max: Option<Duration>,
    #[serde(deserialize_with = "duration")]
    settle: Option<Duration>,
}

impl Timing {
    fn apply(&self, mut scenario: Scenario) -> Result<Scenario, String> {
        let timing = &mut scenario.timing;
        timing.rounds = self.rounds.unwrap_or(timing.rounds);
        timing.measure = self.measure.unwrap_or(timing.measure);
        timing.warmup_max = self.warmup_max.unwrap_or(timing.warmup_max);
        timing.settle = self.settle.unwrap_or(timing.settle);
        timing.problem().map_or(Ok(scenario), Err)
    }
}

fn duration<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Duration>, D::Error> {
    let text = text_of(Toml::deserialize(value)?).map_err(D::Error::custom)?;
    parse_duration(&text).map(Some).map_err(D::Error::custom)
}

/// Values from one end to the other, both among them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Steps {
    from: Toml,
    to: Toml,
    steps: usize,
    #[serde(default)]
    scale: Scale,
}

#[derive(Default, Deserialize, PartialEq)]
#[serde(rename_all = "lowercase")]
enum Scale {
    /// By equal factors.
    #[default]
    Log,
    Linear,
}

/// Reads a sweep's file; paths in it are relative to `directory`.
///
/// # Errors
/// The line, its fault, and the nearest known name for a misspelt one.
pub(super) fn parse(text: &str, directory: &Path) -> Result<Sweep, String> {
    let reader = Reader { text, directory };
    let head: Head = toml::from_str(text).map_err(|e| reader.located(&e))?;
    let root = DeTable::parse(text).map_err(|e| reader.located(&e))?;
    let root = root.get_ref();
    let base = Cell {
        options: SimOptions::new(DeviceSpec::preset("null").map_err(|e| e.to_string())?),
        scenario: reader.scenario(SCENARIO)?,
        setting: Setting::default(),
    };
    // An impossible timing is a fault of its table, not of each scenario.
    if let (Err(message), Some(timing)) =
        (head.timing.apply(base.scenario.clone()), root.get("timing"))
    {
        return Err(reader.at(&timing.span(), message));
    }
    let machines = reader.machines(root, &head.timing)?;
    let knobs = reader.knobs(root)?;
    let mut settings = reader.settings(root, &knobs)?;
    settings.extend(knobs);
    let name = head.name.unwrap_or_else(|| "sweep".to_owned());
    Sweep::new(name, base, machines, settings, head.baseline.unwrap_or(true), head.sample)
}

type Found<T> = Result<T, String>;
type Node<'a, 'i> = &'a Spanned<DeValue<'i>>;

/// A single value, as text, with its place.
struct Item {
    text: String,
    span: Range<usize>,
}

struct Reader<'t> {
    text: &'t str,
    directory: &'t Path,
}

impl Reader<'_> {
    fn at(&self, span: &Range<usize>, message: impl std::fmt::Display) -> String {
        let before = &self.text.as_bytes()[..span.start.min(self.text.len())];
        format!("line {}: {message}", before.iter().filter(|b| **b == b'\n').count() + 1)
    }

    fn located(&self, error: &toml::de::Error) -> String {
        let (line, message) = toml_text::place_and_message(self.text, error);
        format!("line {line}: {message}")
    }

    fn scenario(&self, name: &str) -> Found<Scenario> {
        named_scenario(name, self.directory).map_err(|e| output::message(&e))
    }

    fn machines(&self, root: &DeTable<'_>, timing: &Timing) -> Found<Vec<Axis>> {
        let table = self.table(root, "machine")?;
        let keys = || MACHINE.iter().map(|(key, ..)| *key);
        for key in table.into_iter().flat_map(DeTable::keys) {
            let name = key.get_ref().as_ref();
            if !keys().any(|known| known == name) {
                let hint = toml_text::nearest(name, keys()).map_or_else(
                    || format!("known here: {}", keys().collect::<Vec<_>>().join(", ")),
                    |near| format!("did you mean '{near}'?"),
                );
                return Err(self.at(&key.span(), format!("unknown key '{name}'; {hint}")));
            }
        }
        let axis = |(key, column, otherwise): (&str, &str, &str)| {
            let items = match table.and_then(|table| table.get(key)) {
                Some(node) => self.items(node)?,
                None if otherwise.is_empty() => {
                    let place = root.get("machine").map_or(0..0, |machine| machine.span());
                    let message = "[machine] has no device; write device = \"hdd-7200\" or a list \
                                   of devices";
                    return Err(self.at(&place, message));
                }
                None => vec![Item { text: otherwise.to_owned(), span: 0..0 }],
            };
            self.axis(column, items, |text| self.of_machine(key, text, timing))
        };
        MACHINE.into_iter().map(axis).collect()
    }

    /// A value of a machine's axis.
    fn of_machine(&self, key: &str, text: &str, timing: &Timing) -> Found<Value> {
        Ok(match key {
            "device" => {
                let device = device_of(text, self.directory)?;
                Value::new(text, move |cell| cell.options.device = device.clone())
            }
            "scenario" => {
                let scenario = timing.apply(self.scenario(text)?)?;
                Value::new(text, move |cell| cell.scenario = scenario.clone())
            }
            "kernel" => {
                let kernel: Generation = parsed(text)?;
                Value::new(text, move |cell| cell.options.generation = kernel)
            }
            "ram" => {
                let ram: Bytes = parsed(text)?;
                Value::new(ram.0, move |cell| cell.options.ram = ram)
            }
            "fs" => {
                let fs: FsKind = parsed(text)?;
                Value::new(fs.to_string(), move |cell| cell.options.fs = fs)
            }
            "cpus" => {
                let cpus = count(text)?;
                Value::new(cpus, move |cell| cell.options.cpus = cpus)
            }
            "hz" => {
                let hz = optional(text, count)?;
                Value::new(hz, move |cell| cell.options.hz = hz)
            }
            "queue_depth" => {
                let depth = optional(text, count)?;
                Value::new(depth, move |cell| cell.options.queue_depth = depth)
            }
            "member_queues" => {
                let queues = count(text)?;
                Value::new(queues, move |cell| cell.options.member_queues = queues)
            }
            "capacity" => {
                let capacity: Option<Bytes> = optional(text, parsed)?;
                let shown = capacity.map(|capacity| capacity.0);
                Value::new(shown, move |cell| cell.options.capacity = capacity)
            }
            _ => {
                let whole = |_| format!("'{text}' is not a whole number from 0");
                let seed: u64 = text.parse().map_err(whole)?;
                Value::new(seed, move |cell| cell.options.seed = seed)
            }
        })
    }

    /// An axis of checked values.
    fn axis(
        &self,
        name: &str,
        items: Vec<Item>,
        read: impl Fn(&str) -> Found<Value>,
    ) -> Found<Axis> {
        let mut values: Vec<Value> = Vec::new();
        for Item { text, span } in items {
            let value = read(&text).map_err(|message| self.at(&span, message))?;
            if values.iter().any(|other| other.shown == value.shown) {
                return Err(self.at(&span, format!("'{text}' is there twice; leave one out")));
            }
            values.push(value);
        }
        Ok(Axis { name: name.to_owned(), values })
    }

    fn knobs(&self, root: &DeTable<'_>) -> Found<Vec<Axis>> {
        let mut axes: Vec<Axis> = Vec::new();
        let table = self.table(root, "knobs")?;
        for (name, span, node) in table.map(|table| flat(table, "")).unwrap_or_default() {
            let knob = knob_name(&name).map_err(|message| self.at(&span, message))?;
            if axes.iter().any(|axis| axis.name == knob) {
                return Err(self.at(&span, format!("{knob} is there twice; leave one out")));
            }
            let mut axis = self.axis(&knob, self.items(node)?, |text| {
                if text == DEFAULT {
                    return Ok(Value::new(Json::Null, |_| ()));
                }
                let (knob, value) = (knob.clone(), knob_value(&knob, text)?);
                Ok(Value::new(value.clone(), move |cell| {
                    cell.setting.0.insert(knob.clone(), value.clone());
                }))
            })?;
            // A column holds whole numbers if all of its values are such.
            let whole = |value: &Value| value.shown.as_str().map(str::parse::<i64>);
            if axis.values.iter().filter_map(whole).all(|n| n.is_ok()) {
                for value in &mut axis.values {
                    value.shown = whole(value).and_then(Result::ok).into();
                }
            }
            axes.push(axis);
        }
        // Not in the order of the file: two files that say the same number their cells alike.
        axes.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(axes)
    }

    /// The axis of named settings, if there are any.
    fn settings(&self, root: &DeTable<'_>, knobs: &[Axis]) -> Found<Vec<Axis>> {
        let Some(node) = root.get("setting") else { return Ok(Vec::new()) };
        let form = "settings are tables: write [[setting]], a name, and its knobs";
        let DeValue::Array(tables) = node.get_ref() else {
            return Err(self.at(&node.span(), form));
        };
        let mut values: Vec<Value> = Vec::new();
        for entry in tables.iter() {
            let at_entry = |message: &str| self.at(&entry.span(), message);
            let DeValue::Table(table) = entry.get_ref() else { return Err(at_entry(form)) };
            let name = table.get("name").ok_or_else(|| {
                at_entry("a [[setting]] has no name; write name = \"small-limits\"")
            })?;
            let Item { text: name, span } = self.item(name)?;
            if values.iter().any(|value| value.shown == name.as_str()) {
                return Err(self.at(&span, format!("two settings are called '{name}'")));
            }
            let mut setting = Setting::default();
            for (key, span, node) in flat(table, "").into_iter().filter(|(key, ..)| key != "name") {
                let knob = knob_name(&key).map_err(|message| self.at(&span, message))?;
                if knobs.iter().any(|axis| axis.name == knob) {
                    let message =
                        format!("{knob} is an axis in [knobs] already; leave it out in one place");
                    return Err(self.at(&span, message));
                }
                let Item { text, span } = self.item(node)?;
                if text != DEFAULT {
                    let value = knob_value(&knob, &text);
                    setting.0.insert(knob, value.map_err(|message| self.at(&span, message))?);
                }
            }
            values.push(Value::new(name, move |cell| cell.setting.0.extend(setting.0.clone())));
        }
        if values.is_empty() {
            return Err(self.at(&node.span(), "setting is empty; leave it out"));
        }
        Ok(vec![Axis { name: "setting_name".to_owned(), values }])
    }

    fn table<'a, 'i>(&self, root: &'a DeTable<'i>, key: &str) -> Found<Option<&'a DeTable<'i>>> {
        match root.get(key).map(|node| (node.get_ref(), node.span())) {
            None => Ok(None),
            Some((DeValue::Table(table), _)) => Ok(Some(table)),
            Some((_, span)) => {
                let message = format!("{key} is a table: write [{key}] and its keys below it");
                Err(self.at(&span, message))
            }
        }
    }

    /// A value, a list of values and ranges, or a range.
    fn items(&self, node: Node<'_, '_>) -> Found<Vec<Item>> {
        let of_one = |node: Node<'_, '_>| match node.get_ref() {
            DeValue::Table(_) => self.range(node),
            _ => Ok(vec![self.item(node)?]),
        };
        let items: Vec<Item> = match node.get_ref() {
            DeValue::Array(list) => {
                list.iter().map(of_one).collect::<Found<Vec<_>>>()?.into_iter().flatten().collect()
            }
            _ => of_one(node)?,
        };
        let problem = match items.len() {
            0 => "the list is empty; give a value or leave the key out".to_owned(),
            1..=MOST_VALUES => return Ok(items),
            n => format!("{n} values on one axis; write at most {MOST_VALUES}"),
        };
        Err(self.at(&node.span(), problem))
    }

    /// A single value.
    fn item(&self, node: Node<'_, '_>) -> Found<Item> {
        let span = node.span();
        let value = Toml::deserialize(ValueDeserializer::from(node.clone()));
        let text = text_of(value.map_err(|e| self.located(&e))?);
        Ok(Item { text: text.map_err(|message| self.at(&span, message))?, span })
    }

    /// The values of a range: sizes or whole numbers.
    fn range(&self, node: Node<'_, '_>) -> Found<Vec<Item>> {
        let span = node.span();
        let form = "write { from = \"4MiB\", to = \"4GiB\", steps = 11 }";
        let Steps { from, to, steps, scale } =
            Steps::deserialize(ValueDeserializer::from(node.clone()))
                .map_err(|e| format!("{}; {form}", self.located(&e)))?;
        let end = |value: Toml| {
            let text = text_of(value).map_err(|message| self.at(&span, message))?;
            let size = || text.parse::<Bytes>().map_err(|e| self.at(&span, e));
            text.parse().map_or_else(|_| size().map(|size| (size.0, true)), |n| Ok((n, false)))
        };
        let ((low, sizes), (high, also_sizes)) = (end(from)?, end(to)?);
        let linear = scale == Scale::Linear;
        let problem = if sizes != also_sizes {
            "one end of the range is a size and the other is not; write both with a unit"
        } else if low >= high {
            "the range ends before it begins"
        } else if low == 0 && !linear {
            "no factor leads away from 0; begin at 1 or write scale = \"linear\""
        } else if !(2..=MOST_VALUES).contains(&steps) {
            "a range has 2 to 10000 steps"
        } else {
            ""
        };
        if !problem.is_empty() {
            return Err(self.at(&span, problem));
        }
        let mut values = BTreeSet::from([low, high]);
        let (a, b) = (low as f64, high as f64);
        for i in 1..steps - 1 {
            let share = i as f64 / (steps - 1) as f64;
            let between = if linear { a + (b - a) * share } else { a * (b / a).powf(share) };
            let whole = between.round() as u64;
            let rounded =
                if sizes && whole >= 16 * PAGE { (whole + PAGE / 2) / PAGE * PAGE } else { whole };
            values.insert(rounded.clamp(low, high));
        }
        let text = |n: u64| if sizes { Bytes(n).as_argument() } else { n.to_string() };
        Ok(values.into_iter().map(|n| Item { text: text(n), span: span.clone() }).collect())
    }
}

/// The keys of a table and of those in it, as dotted names: `vm.dirty_bytes = …` is a table in a
/// table to TOML.
fn flat<'a, 'i>(table: &'a DeTable<'i>, prefix: &str) -> Vec<(String, Range<usize>, Node<'a, 'i>)> {
    let mut all = Vec::new();
    for (key, node) in table {
        let name = format!("{prefix}{}", key.get_ref());
        match node.get_ref() {
            DeValue::Table(inner)
                if !["from", "to", "steps"].iter().any(|key| inner.contains_key(*key)) =>
            {
                all.extend(flat(inner, &format!("{name}.")));
            }
            _ => all.push((name, key.span(), node)),
        }
    }
    all
}

fn text_of(value: Toml) -> Result<String, String> {
    match value {
        Toml::String(text) => Ok(text),
        Toml::Integer(n) => Ok(n.to_string()),
        Toml::Boolean(on) => Ok(u8::from(on).to_string()),
        other => Err(format!("{other} is no single value; write a text or a whole number")),
    }
}

fn parsed<T: FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|e: T::Err| e.to_string())
}

fn count(text: &str) -> Result<u32, String> {
    let positive = text.parse().ok().filter(|n| *n > 0);
    positive.ok_or_else(|| format!("'{text}' is not a whole number from 1"))
}

fn optional<T>(text: &str, read: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    if text == DEFAULT {
        return Ok(None);
    }
    read(text).map(Some).map_err(|e| format!("{e}, or \"{DEFAULT}\""))
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
