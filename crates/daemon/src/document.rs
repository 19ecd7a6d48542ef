//! A running guard's reports: the documents of its socket and of `--json`. Every number's name ends
//! in its unit; unknown values are absent.

use floodwall_model::message::first_of;
use serde::{Deserialize, Serialize};

/// The schema of [`Status`].
pub const SCHEMA: &str = "floodwall/guard/1";

/// A guard as it stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Which document this is.
    pub schema: String,
    /// Version of the program that runs.
    pub version: String,
    /// The worker's process number.
    pub pid: u32,
    /// The process that watches over it.
    pub parent_pid: u32,
    /// Seconds since the guard was started.
    pub uptime_s: f64,
    /// How often its worker has been started again since.
    pub restarts: u32,
    /// The configuration that was read.
    pub config: Option<String>,
    /// It writes nothing.
    pub dry_run: bool,
    /// The administrator's goal, if he gave one.
    pub p99_us: Option<f64>,
    /// `protect` or `balance`; empty in a document of an older guard.
    #[serde(default)]
    pub mode: String,
    /// There while it is paused.
    pub paused: Option<Paused>,
    /// Where it looks: `bpf`, `perf`, or `sim` on a simulated machine.
    pub source: String,
    /// Measurements that it lacks, and why.
    pub blind: Vec<String>,
    /// Devices that it does not steer, and why.
    pub left_out: Vec<LeftOut>,
    /// Devices that it steers.
    pub devices: Vec<Device>,
    /// Knobs that could not be written or that another program has written.
    pub left_alone: Vec<LeftAlone>,
    /// Counts since this worker's start.
    pub counts: Counts,
}

/// Until when, and what remains to be done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Paused {
    /// Until it resumes by itself; absent: not by itself.
    pub left_s: Option<f64>,
    /// Knobs that are not yet as the administrator has them: `sda.nr_requests 8 (yours: 64)`.
    /// Empty: everything is put back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<String>,
}

/// A device that is not steered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Its name, or what it is.
    pub name: String,
    /// Why it is not steered.
    pub why: String,
}

/// A knob that is no longer the guard's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LeftAlone {
    /// Its device's name, or nothing for the machine's.
    pub device: Option<String>,
    /// Its own name, if it is known.
    pub knob: Option<String>,
    /// Why it was left alone.
    pub why: String,
}

/// Counts since the start of this worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counts {
    /// Changes of state and level.
    pub decisions: u64,
    /// Writes to kernel files, or in a dry run those that would have been made.
    pub knob_writes: u64,
    /// Events that the probe had no room for.
    pub lost_events: u64,
    /// How long its looks took.
    pub ticks: Ticks,
}

/// Upper bounds of the first buckets of [`Ticks`], in seconds; the last bucket has none.
pub(crate) const TICK_BUCKETS_S: [f64; 8] = [0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.03, 0.1, 1.0];

/// How long looking, deciding and writing took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Ticks {
    /// How many there were.
    pub count: u64,
    /// All together.
    pub sum_s: f64,
    /// The longest one.
    pub longest_s: f64,
    /// How many took at most `TICK_BUCKETS_S`, each counted in the first that it fits.
    pub buckets: [u64; TICK_BUCKETS_S.len() + 1],
}

impl Ticks {
    /// Counts one more.
    pub fn add(&mut self, seconds: f64) {
        self.count += 1;
        self.sum_s += seconds;
        self.longest_s = self.longest_s.max(seconds);
        let bucket =
            TICK_BUCKETS_S.iter().position(|most| seconds <= *most).unwrap_or(TICK_BUCKETS_S.len());
        self.buckets[bucket] += 1;
    }
}

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// Its name, such as `sda`.
    pub name: String,
    /// Its number, such as `8:0`.
    pub id: String,
    /// `free`, `watch`, `pace`, `protect`, `probe` or `recover`.
    pub state: String,
    /// For how long it has been that.
    pub since_s: f64,
    /// How far the queue is shortened (halvings of requests and of their size); 0: as the
    /// administrator has it.
    pub queue_level: u32,
    /// How far the dirty limit is lowered; 0: as the administrator has it.
    pub limit_level: u32,
    /// How far the levers are pulled, in words; absent if they are not.
    pub levers: Option<String>,
    /// How long the victims may wait.
    pub goal_us: f64,
    /// The administrator said so.
    pub goal_is_given: bool,
    /// Nothing that the guard can do meets it, for a while now.
    pub goal_unmet: bool,
    /// The victims' wait as a share of the goal.
    pub pressure: Option<f64>,
    /// The victims' wait while nothing floods.
    pub base_us: Option<f64>,
    /// How fast the device drains.
    pub drain_bytes_per_s: Option<f64>,
    /// Dirty and under writeback; absent while the guard is paused and measures nothing.
    pub backlog_bytes: Option<u64>,
    /// How long the device takes for the writes in its queue.
    pub queue_delay_us: Option<f64>,
    /// Victims of the last seconds.
    pub victims: Vec<String>,
    /// Floods of the last seconds.
    pub floods: Vec<String>,
    /// Those of the floods that pace themselves; none once victims have missed their goal for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paced: Vec<String>,
    /// Bytes a second that the device wrote in the last second or two, without the victims' own;
    /// absent without a flood.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flood_bytes_per_s: Option<f64>,
    /// Why the flood is not paced; absent if it is, and without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpaced: Option<String>,
    /// Knobs that are not as the administrator has them.
    pub held: Vec<HeldKnob>,
    /// Processes, and ext4's journal, that are put before the flood by I/O priority.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub raised: Vec<String>,
    /// Its learnt values with their age: `drains 121 MB/s, learnt 3 days ago`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub known: Option<String>,
    /// Changes of its state and level.
    pub decisions: u64,
    /// Writes to its kernel files.
    pub knob_writes: u64,
    /// The last decision.
    pub last: Option<Entry>,
}

/// A knob of the guard's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeldKnob {
    /// Its name, such as `nr_requests`.
    pub knob: String,
    /// Its value now.
    pub value: String,
    /// The value that it gets back.
    pub own: Option<String>,
}

/// The own value of a knob that the administrator's elevator does not have.
const NOT_THERE: &str = "not there";

impl HeldKnob {
    /// Whether its value is another one than its own. During its first write, and just before it is
    /// released, it reads as its own.
    #[must_use]
    pub fn is_changed(&self) -> bool {
        self.own.as_ref() != Some(&self.value)
    }

    /// Whether it goes with the elevator that the guard has chosen.
    #[must_use]
    pub fn is_of_other_elevator(&self) -> bool {
        self.own.as_deref() == Some(NOT_THERE)
    }
}

/// A disk as the guard tells it a flood that paces itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Beside {
    /// Victims of the last seconds.
    pub victims: Vec<String>,
    /// How long they wait, by the percentile of the goal; absent if too few operations have ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_us: Option<f64>,
    /// The median of their waits while nothing floods, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_us: Option<f64>,
    /// How far the levers are pulled, in words; absent if they are not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub levers: Option<String>,
}

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// When, by the wall clock.
    pub at_unix_s: f64,
    /// The device that it was about; none: the guard itself.
    pub device: Option<String>,
    /// The device's state before.
    pub from: Option<String>,
    /// Its state then.
    pub to: Option<String>,
    /// How far the levers are pulled then, in words; absent if they are not.
    pub levers: Option<String>,
    /// `nr_requests 64 → 8`.
    pub writes: Vec<String>,
    /// In a dry run nothing was written.
    pub pretended: bool,
    /// Victims and floods of the device, where the guard begins to protect, or finds that the
    /// floods pace themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub victims: Vec<String>,
    /// See `victims`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub floods: Vec<String>,
    /// The reason, or the event.
    pub why: String,
}

/// Writes that a line shows: a database may have hundreds of processes to be raised.
const MOST_WRITES: usize = 12;
/// Victims that a line shows, and floods.
const MOST_NAMES: usize = 2;

impl Entry {
    /// As one line without its time.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = String::new();
        if let Some(device) = &self.device {
            line.push_str(device);
            line.push_str(": ");
        }
        if let (Some(from), Some(to)) = (&self.from, &self.to) {
            // A dry run is in no state but that of a guard that would write.
            line.push_str(if self.pretended { "dry run: " } else { "" });
            line.push_str(&if from == to { to.clone() } else { format!("{from} → {to}") });
            if let Some(levers) = &self.levers {
                line.push_str(&format!(" ({levers})"));
            }
            line.push_str("; ");
        }
        if !self.writes.is_empty() {
            line.push_str(if self.pretended { "would write " } else { "wrote " });
            line.push_str(&first_of(&self.writes, MOST_WRITES));
            line.push_str("; ");
        }
        for (kind, names) in [("victims", &self.victims), ("floods", &self.floods)] {
            if !names.is_empty() {
                line.push_str(&format!("{kind}: {}; ", first_of(names, MOST_NAMES)));
            }
        }
        line.push_str(&self.why);
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_decision_is_one_line() {
        let mut entry = Entry {
            device: Some("sda".into()),
            from: Some("watch".into()),
            to: Some("protect".into()),
            levers: Some("bfq, 4 requests".into()),
            writes: vec!["nr_requests 64 → 4".into(), "max_sectors_kb 1280 → 128".into()],
            why: "victims wait 3.1 × the goal of 20.0 ms".into(),
            ..Entry::default()
        };
        assert_eq!(
            entry.line(),
            "sda: watch → protect (bfq, 4 requests); wrote nr_requests 64 → 4, max_sectors_kb 1280 \
             → 128; victims wait 3.1 × the goal of 20.0 ms"
        );
        entry.victims = vec!["postgres (41)".into()];
        entry.floods = (0..4).map(|n| format!("cp ({n})")).collect();
        let line = entry.line();
        let who = "; victims: postgres (41); floods: cp (0), cp (1) and 2 more; victims wait";
        assert!(line.contains(who), "{line}");
        (entry.victims, entry.floods) = (Vec::new(), Vec::new());
        entry.pretended = true;
        entry.from = entry.to.clone();
        assert!(
            entry
                .line()
                .starts_with("sda: dry run: protect (bfq, 4 requests); would write nr_requests")
        );
        assert_eq!(Entry { why: "paused".into(), ..Entry::default() }.line(), "paused");
        entry.writes = (0..100).map(|n| format!("priority of db ({n}) none → be/0")).collect();
        let line = entry.line();
        assert!(
            line.contains("db (11) none → be/0 and 88 more; victims") && !line.contains("(12)"),
            "{line}"
        );
    }
}
