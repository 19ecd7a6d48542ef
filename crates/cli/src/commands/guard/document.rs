//! What a running guard tells about itself: the documents of its socket and of `--json`. Every
//! number's name ends in its unit; what is not known is absent.

use serde::{Deserialize, Serialize};

/// The schema of [`Status`].
pub(super) const SCHEMA: &str = "floodwall/guard/1";

/// A guard as it stands.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Status {
    /// Which document this is.
    pub(super) schema: String,
    /// Version of the program that runs.
    pub(super) version: String,
    /// The worker's process number.
    pub(super) pid: u32,
    /// The process that watches over it.
    pub(super) parent_pid: u32,
    /// Seconds since the guard was started, and how often its worker has been started again since.
    pub(super) uptime_s: f64,
    pub(super) restarts: u32,
    /// The configuration that was read.
    pub(super) config: Option<String>,
    pub(super) dry_run: bool,
    /// The administrator's goal, if he gave one.
    pub(super) p99_us: Option<f64>,
    /// There while it is paused.
    pub(super) paused: Option<Paused>,
    /// Where it looks: `bpf`, `perf`, or `sim` on a simulated machine.
    pub(super) source: String,
    /// What it can't see, and why.
    pub(super) blind: Vec<String>,
    /// Devices that it does not steer, and why.
    pub(super) left_out: Vec<LeftOut>,
    pub(super) devices: Vec<Device>,
    /// Knobs that could not be written or that somebody else has written.
    pub(super) left_alone: Vec<LeftAlone>,
    pub(super) counts: Counts,
}

/// Until when, and what is left to do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Paused {
    /// Until it resumes by itself; absent: not by itself.
    pub(super) left_s: Option<f64>,
    /// Knobs that are not yet as the administrator has them: `sda.nr_requests 8 (yours: 64)`.
    /// Empty: everything is put back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) held: Vec<String>,
}

/// A device that is not steered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct LeftOut {
    pub(super) name: String,
    pub(super) why: String,
}

/// A knob that is no longer the guard's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct LeftAlone {
    /// Its device's name, or nothing for the machine's.
    pub(super) device: Option<String>,
    pub(super) knob: Option<String>,
    pub(super) why: String,
}

/// What happened since the start of this worker.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Counts {
    pub(super) decisions: u64,
    pub(super) knob_writes: u64,
    /// Events that the probe had no room for.
    pub(super) lost_events: u64,
    pub(super) ticks: Ticks,
}

/// Upper bounds of the first buckets of [`Ticks`], in seconds; the last bucket has none.
pub(super) const TICK_BUCKETS_S: [f64; 8] = [0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.03, 0.1, 1.0];

/// How long looking, deciding and writing took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Ticks {
    pub(super) count: u64,
    pub(super) sum_s: f64,
    pub(super) longest_s: f64,
    /// How many took at most [`TICK_BUCKETS_S`], each counted in the first that it fits.
    pub(super) buckets: [u64; TICK_BUCKETS_S.len() + 1],
}

impl Ticks {
    pub(super) fn add(&mut self, seconds: f64) {
        self.count += 1;
        self.sum_s += seconds;
        self.longest_s = self.longest_s.max(seconds);
        let bucket = TICK_BUCKETS_S.iter().position(|most| seconds <= *most).unwrap_or(TICK_BUCKETS_S.len());
        self.buckets[bucket] += 1;
    }
}

/// One device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Device {
    /// Its name, such as `sda`, and its number.
    pub(super) name: String,
    pub(super) id: String,
    /// `free`, `watch`, `pace`, `protect`, `probe` or `recover`, and for how long.
    pub(super) state: String,
    pub(super) since_s: f64,
    /// How far the queue is shortened (halvings of requests and of their size) and the limit
    /// lowered; 0: as the administrator has them.
    pub(super) queue_level: u32,
    pub(super) limit_level: u32,
    /// How far the levers are pulled, in words; absent if they are not.
    pub(super) levers: Option<String>,
    /// What the victims may wait for, and whether the administrator said so.
    pub(super) goal_us: f64,
    pub(super) goal_is_given: bool,
    /// Nothing that the guard can do meets it, for a while now.
    pub(super) goal_unmet: bool,
    /// What they wait for as a share of the goal.
    pub(super) pressure: Option<f64>,
    /// What they wait for while nothing floods.
    pub(super) base_us: Option<f64>,
    pub(super) drain_bytes_per_s: Option<f64>,
    pub(super) backlog_bytes: u64,
    /// How long the device takes for the writes in its queue.
    pub(super) queue_delay_us: Option<f64>,
    /// Who waits and who floods, within the last seconds.
    pub(super) victims: Vec<String>,
    pub(super) floods: Vec<String>,
    /// Knobs that are not as the administrator has them.
    pub(super) held: Vec<HeldKnob>,
    pub(super) decisions: u64,
    pub(super) knob_writes: u64,
    /// The last decision.
    pub(super) last: Option<Entry>,
}

/// A knob of the guard's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct HeldKnob {
    pub(super) knob: String,
    pub(super) value: String,
    /// What it gets back.
    pub(super) own: Option<String>,
}

/// Something that happened.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// When, by the wall clock.
    pub(super) at_unix_s: f64,
    /// The device that it was about; none: the guard itself.
    pub(super) device: Option<String>,
    pub(super) from: Option<String>,
    pub(super) to: Option<String>,
    /// How far the levers are pulled then, in words; absent if they are not.
    pub(super) levers: Option<String>,
    /// `nr_requests 64 → 8`.
    pub(super) writes: Vec<String>,
    /// In a dry run nothing was written.
    pub(super) pretended: bool,
    pub(super) why: String,
}

impl Entry {
    /// As one line without its time.
    pub(super) fn line(&self) -> String {
        let mut line = String::new();
        if let Some(device) = &self.device {
            line.push_str(device);
            line.push_str(": ");
        }
        if let (Some(from), Some(to)) = (&self.from, &self.to) {
            line.push_str(&if from == to { to.clone() } else { format!("{from} → {to}") });
            if let Some(levers) = &self.levers {
                line.push_str(&format!(" ({levers})"));
            }
            line.push_str("; ");
        }
        if !self.writes.is_empty() {
            line.push_str(if self.pretended { "would write " } else { "wrote " });
            line.push_str(&self.writes.join(", "));
            line.push_str("; ");
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
            why: "victims wait 3.1 × the goal of 20.0ms".into(),
            ..Entry::default()
        };
        assert_eq!(
            entry.line(),
            "sda: watch → protect (bfq, 4 requests); wrote nr_requests 64 → 4, max_sectors_kb 1280 → 128; \
             victims wait 3.1 × the goal of 20.0ms"
        );
        entry.pretended = true;
        entry.from = entry.to.clone();
        assert!(entry.line().starts_with("sda: protect (bfq, 4 requests); would write nr_requests"));
        assert_eq!(Entry { why: "paused".into(), ..Entry::default() }.line(), "paused");
    }
}
