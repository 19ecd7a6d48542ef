//! Reports as text or as JSON: header, report after report, end.

use floodwall_model::printable;

use super::figures::{Interval, processors};
use super::options::Options;
use super::sample::{Counters, Cpu, Sample};
use super::select::{Partitions, shown};
use super::table::{Cell, cells, json_cells};

/// The figures of [`processors`], as JSON names them.
const PARTS: [&str; 6] = ["user", "nice", "system", "iowait", "steal", "idle"];
/// The name's column.
const NAME: usize = 13;

/// The machine, as uname(2) names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// `db1`.
    pub nodename: String,
    /// `Linux`.
    pub sysname: String,
    /// `6.1.0-13-amd64`.
    pub release: String,
    /// `x86_64`.
    pub machine: String,
}

/// A run of the command: it knows the last sample and how much is printed.
#[derive(Clone, Debug)]
pub struct Report {
    options: Options,
    last: Option<Sample>,
    /// Reports that were printed.
    printed: u32,
}

impl Report {
    /// A run that begins.
    #[must_use]
    pub fn new(options: Options) -> Self {
        Self { options, last: None, printed: 0 }
    }

    /// The first lines: the machine, with the day that its clock shows.
    #[must_use]
    pub fn header(&self, machine: &Machine, sample: &Sample, day: &str) -> String {
        let Machine { nodename, sysname, release, machine } = machine;
        let count = sample.processors;
        if !self.options.json {
            return format!(
                "{sysname} {release} ({node}) \t{day} \t_{machine}_\t({count} CPU)\n\n",
                node = printable::printable(nodename)
            );
        }
        let lines = [
            ("nodename", string(nodename)),
            ("sysname", string(sysname)),
            ("release", string(release)),
            ("machine", string(machine)),
            ("number-of-cpus", count.to_string()),
            ("date", string(day)),
        ];
        let lines = lines.map(|(key, value)| format!("\t\t\t\"{key}\": {value},\n")).concat();
        format!("{{\"sysstat\": {{\n\t\"hosts\": [\n\t\t{{\n{lines}\t\t\t\"statistics\": [\n")
    }

    /// A report: of the time since boot, if it is the first one, else since the last one. `time` is
    /// what the clock shows.
    pub fn next(&mut self, sample: Sample, partitions: &Partitions, time: &str) -> String {
        let is_first = self.last.is_none();
        if is_first && self.options.omit_first && self.options.interval_s.is_some() {
            self.last = Some(sample);
            return "\n".to_owned();
        }
        let before = self.last.take().unwrap_or_default();
        let text = if self.options.json {
            let comma = if self.printed == 0 { "" } else { ",\n" };
            format!("{comma}{}", self.json(&before, &sample, partitions, time))
        } else {
            self.text(&before, &sample, partitions, time)
        };
        self.last = Some(sample);
        self.printed += 1;
        text
    }

    /// Whether all reports that were asked for are printed.
    #[must_use]
    pub fn is_done(&self) -> bool {
        match self.options.interval_s {
            None => self.printed > 0,
            Some(_) => self.options.count.is_some_and(|count| self.printed >= count),
        }
    }

    /// The last lines.
    #[must_use]
    pub fn footer(&self) -> &'static str {
        if self.options.json { "\n\t\t\t]\n\t\t}\n\t]\n}}\n" } else { "" }
    }

    fn text(&self, before: &Sample, now: &Sample, partitions: &Partitions, time: &str) -> String {
        let mut text = String::new();
        if self.options.timestamp {
            text += &format!("{time}\n");
        }
        if self.options.cpu {
            text += "avg-cpu:  %user   %nice %system %iowait  %steal   %idle\n       ";
            for part in processors(&before.cpu, &now.cpu) {
                text += &format!(" {part:>7.2}");
            }
            text += "\n\n";
        }
        if self.options.disk {
            let none = Interval::between(None, &Counters::default(), 1);
            let titles = cells(&none, self.options.unit, self.options.extended);
            text += &line("Device", titles.iter().map(Cell::head));
            for (name, interval) in self.intervals(before, now, partitions) {
                let cells = cells(&interval, self.options.unit, self.options.extended);
                text += &line(&printable::printable(&name), cells.iter().map(Cell::text));
            }
        }
        text + "\n\n"
    }

    fn json(&self, before: &Sample, now: &Sample, partitions: &Partitions, time: &str) -> String {
        let mut parts = Vec::new();
        if self.options.timestamp {
            parts.push(format!("\t\t\t\t\t\"timestamp\": {}", string(time)));
        }
        if self.options.cpu {
            parts.push(format!("\t\t\t\t\t\"avg-cpu\":  {{{}}}", cpu_json(&before.cpu, &now.cpu)));
        }
        if self.options.disk {
            let row = |(name, interval): (String, Interval)| {
                let mut row = format!("\t\t\t\t\t\t{{\"disk_device\": {}", string(&name));
                for cell in json_cells(&interval, self.options.unit, self.options.extended) {
                    row += &format!(", \"{}\": {}", cell.key(), cell.number());
                }
                row + "}"
            };
            let rows: Vec<_> =
                self.intervals(before, now, partitions).into_iter().map(row).collect();
            parts.push(format!("\t\t\t\t\t\"disk\": [\n{}\n\t\t\t\t\t]", rows.join(",\n")));
        }
        format!("\t\t\t\t{{\n{}\n\t\t\t\t}}", parts.join(",\n"))
    }

    /// The work of each device that is shown between two samples.
    fn intervals(
        &self,
        before: &Sample,
        now: &Sample,
        partitions: &Partitions,
    ) -> Vec<(String, Interval)> {
        let cs = now.uptime_cs.saturating_sub(before.uptime_cs);
        let interval = |name: &str, counters: &Counters| {
            (name.to_owned(), Interval::between(before.counters(name), counters, cs))
        };
        let shown = shown(&self.options, now, partitions);
        let intervals = shown.iter().map(|device| interval(&device.name, &device.counters));
        intervals.filter(|(_, i)| !self.options.omit_idle || i.counts.requests() > 0).collect()
    }
}

fn line(name: &str, cells: impl Iterator<Item = String>) -> String {
    format!("{name:<NAME$}{}\n", cells.collect::<String>())
}

fn cpu_json(before: &Cpu, now: &Cpu) -> String {
    let parts = PARTS.iter().zip(processors(before, now));
    parts.map(|(name, part)| format!("\"{name}\": {part:.2}")).collect::<Vec<_>>().join(", ")
}

/// A text as JSON.
fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
