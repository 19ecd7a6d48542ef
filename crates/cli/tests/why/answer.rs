//! An answer of `floodwall why`, and the truth that it must tell.

use std::process::{Command, Output};

use floodwall_testing::process::{everything, json, output, text};
use floodwall_testing::{ensure, equal};
use serde_json::Value;

use crate::bed::{FLOODWALL, Lab, Moment, Unit};

/// How much larger or smaller a figure may be than the independent one: both are of a time in which
/// they change, and not of the same seconds.
const FACTOR: f64 = 2.0;

/// A process that a test started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known<'a> {
    pub(crate) pid: u32,
    /// As the kernel calls it.
    pub(crate) name: &'a str,
    pub(crate) unit: Option<&'a Unit>,
}

/// What `why --json` answered about the whole machine.
pub(crate) struct Answer {
    document: Value,
    before: Moment,
    after: Moment,
}

impl Answer {
    /// Asks. Its status and verdict must be those of the worst disk, whichever that is: other
    /// processes of this machine use other disks.
    pub(crate) fn now(lab: &Lab) -> Result<Self, String> {
        let before = lab.now()?;
        let output = output(Command::new(FLOODWALL).args(["why", "--json"]))?;
        let after = lab.now()?;
        let document = json(&output)?;
        let verdicts = document["disks"].as_array().ok_or("no disks")?.iter();
        let worst = verdicts.map(|disk| severity(&disk["verdict"])).max().unwrap_or(0);
        let is_so = severity(&document["verdict"]) == worst
            && output.status.code() == Some(i32::from(worst == 2));
        ensure(is_so, || everything(&output))?;
        Ok(Self { document, before, after })
    }

    /// The answer about a disk on which something is wrong.
    pub(crate) fn disk(&self, lab: &Lab) -> Option<&Value> {
        self.document["disks"].as_array()?.iter().find(|disk| disk["name"] == lab.name.as_str())
    }

    /// The disk's verdict and mount point, its only flood, and how long it takes to drain.
    pub(crate) fn names(&self, lab: &Lab, verdict: &str, flood: Known<'_>) -> Result<(), String> {
        let disk = self.disk(lab).ok_or_else(|| self.told())?;
        let is_so = disk["verdict"] == verdict && disk["mounts"] == Value::from(vec![lab.mount()]);
        ensure(is_so, || self.told())?;
        let floods = disk["floods"].as_array().map(Vec::as_slice);
        let Some([named]) = floods else { return Err(self.told()) };
        ensure(is(named, flood), || format!("{flood:?}: {}", self.told()))?;
        self.drains(disk)
    }

    /// The backlog is what the kernel counts, and the time is what the disk takes for it.
    fn drains(&self, disk: &Value) -> Result<(), String> {
        let number = |path: &str| disk.pointer(path).and_then(Value::as_f64);
        let told = || format!("{:?} to {:?}: {disk}", self.before, self.after);
        let backlog = number("/backlog_bytes").ok_or_else(told)?;
        let seconds = number("/drain/now_s").ok_or_else(told)?;
        let counted = [self.before, self.after].map(|moment| moment.backlog_bytes as f64);
        let rate = self.before.rate_until(&self.after);
        let is_near = |told: f64, truth: [f64; 2]| {
            told <= FACTOR * truth[0].max(truth[1]) && told >= truth[0].min(truth[1]) / FACTOR
        };
        let is_so = disk["is_backlogged"] == true
            && is_near(backlog, counted)
            && is_near(seconds, counted.map(|bytes| bytes / rate));
        ensure(is_so, || format!("{} MB/s, {}", rate / 1e6, told()))
    }

    /// Every victim of the disk is known; there is one.
    pub(crate) fn victims(
        &self,
        lab: &Lab,
        is_known: impl Fn(&Value) -> bool,
    ) -> Result<(), String> {
        let disk = self.disk(lab).ok_or_else(|| self.told())?;
        let victims = disk["victims"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_so = !victims.is_empty()
            && victims.iter().all(|victim| victim["waits_for"] == "commits" && is_known(victim));
        ensure(is_so, || self.told())
    }

    /// No process waits long for a disk, or floods it.
    pub(crate) fn leaves_out(&self, lab: &Lab) -> Result<(), String> {
        ensure(self.disk(lab).is_none(), || self.told())
    }

    pub(crate) fn told(&self) -> String {
        format!("{:#}", self.document)
    }
}

/// A verdict's rank.
fn severity(verdict: &Value) -> u8 {
    ["quiet", "flooding", "stalling"]
        .iter()
        .position(|name| verdict == name)
        .map_or(9, |at| at as u8)
}

/// Whether a process is named with its number and unit.
pub(crate) fn is(named: &Value, known: Known<'_>) -> bool {
    let unit = known.unit.map_or(Value::Null, |unit| Value::from(unit.name.as_str()));
    named["pid"] == known.pid && named["name"] == known.name && named["unit"] == unit
}

/// The paragraph that `floodwall` alone tells, in one line. If it is about another disk of this
/// machine, which is worse off, the one about this disk.
pub(crate) fn paragraph(lab: &Lab, status: i32) -> Result<String, String> {
    let alone = output(&mut Command::new(FLOODWALL))?;
    let is_of_it = first(&text(&alone.stdout)).contains(&format!(" on {} (", lab.name));
    if is_of_it { told(&alone, status) } else { about(lab, status) }
}

/// The paragraph about one disk.
pub(crate) fn about(lab: &Lab, status: i32) -> Result<String, String> {
    told(&output(Command::new(FLOODWALL).args(["why", &lab.mount()]))?, status)
}

fn told(output: &Output, status: i32) -> Result<String, String> {
    equal(output.status.code(), Some(status))
        .map_err(|e| format!("{e}: {}", everything(output)))?;
    Ok(first(&text(&output.stdout)))
}

/// The first paragraph of a text, in one line.
fn first(text: &str) -> String {
    text.split("\n\n").next().unwrap_or_default().replace('\n', " ")
}

/// Fails unless a paragraph has all parts, in this order.
pub(crate) fn says(paragraph: &str, parts: &[&str]) -> Result<(), String> {
    let mut rest = paragraph;
    for part in parts {
        let (_, after) = rest.split_once(part).ok_or_else(|| format!("{part:?}: {paragraph}"))?;
        rest = after;
    }
    Ok(())
}
