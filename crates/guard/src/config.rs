//! The guard's goal, and the constants of its law with their reasons.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use floodwall_model::plant::DeviceKind;
use serde::{Deserialize, Serialize};

/// The administrator's choices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The goal for the victims' 99th percentile. `None`: [`BASE_MULTIPLE`] times their latency
    /// without a flood.
    pub goal: Option<Duration>,
    /// Which of two levels is the better one.
    pub mode: Mode,
}

/// Which of two levels of the levers is the better one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The one at which victims keep their goal. Of two such levels, the one that leaves the flood
    /// more.
    #[default]
    Protect,
    /// The one with the larger product of the victims' speed and the flood's speed, by which `tune`
    /// races settings.
    Balance,
}

impl Mode {
    /// Both modes.
    pub const ALL: [Self; 2] = [Self::Protect, Self::Balance];

    /// Its name in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Protect => "protect",
            Self::Balance => "balance",
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|mode| mode.name() == text);
        named.ok_or_else(|| format!("mode = {text} is none; write protect or balance"))
    }
}

/// The quantile of so many operations that is compared with the goal. The goal is the
/// administrator's 99th percentile where he has set one and [`P99_OPERATIONS`] have ended.
#[must_use]
pub fn rank(goal_is_given: bool, operations: u64) -> f64 {
    if goal_is_given && operations >= P99_OPERATIONS { 0.99 } else { 0.9 }
}

/// A p99 of fewer operations is their maximum.
pub const P99_OPERATIONS: u64 = 100;

/// Without a goal of the administrator's, victims may wait so many times their median without a
/// flood. Below two, a device's own spread would count as harm: the p99 of a disk alone is twice
/// its median, that of an array three times. Far above, a victim is slower than by any fair share.
pub const BASE_MULTIPLE: f64 = 4.0;
/// The goal is never below this: queue lengths can't steer less than a few ticks of the kernel's
/// timer.
pub const LEAST_GOAL: Duration = Duration::from_millis(2);
/// The same where the goal follows from the victims' base: the shortest queue of a fast drive
/// drains in a tenth of this.
pub const LEAST_OWN_GOAL: Duration = Duration::from_millis(1);
/// The goal while a victim's base latency is not known: the time of a disk for a handful of random
/// accesses.
pub const UNKNOWN_GOAL: Duration = Duration::from_millis(50);

/// Stands for a device's drain rate until that is known, in bytes a second: three of four devices
/// of its kind drain at least as much. `league prior` measures them, on devices drawn at random
/// (docs/guard.md, "An unknown device").
#[must_use]
pub fn prior(kind: DeviceKind) -> f64 {
    match kind {
        DeviceKind::Rotating => 100e6,
        DeviceKind::SolidState | DeviceKind::Nvme => 140e6,
        DeviceKind::Removable => 8e6,
        // A slow disk.
        DeviceKind::Unknown => 32e6,
    }
}

/// The drain rate is the largest sample of so much backlogged time. That is long enough for a RAID
/// cache's bursts and a file's gaps, and short enough to notice a slower device within 5 s.
pub const DRAIN_WINDOW: Duration = Duration::from_secs(4);
/// The most that a device can drain is the largest sample of so much backlogged time under the
/// administrator's settings.
pub const MOST_DRAIN_WINDOW: Duration = Duration::from_secs(60);
/// A sample of the most that a device can drain is the mean of so much backlogged time. In less, a
/// burst into the device's own cache counts as if it could last.
pub const STRETCH: Duration = Duration::from_secs(2);
/// The base latency is the median of the samples of so much time.
pub const BASE_WINDOW: Duration = Duration::from_secs(10);
/// Latencies are judged over this time, or over as much more as [`P99_OPERATIONS`] take …
pub const LATENCY_WINDOW: Duration = Duration::from_secs(1);
/// … up to this. Victims that commit twice a second are judged, too.
pub const MOST_LATENCY_WINDOW: Duration = Duration::from_secs(8);
/// Fewer operations than this say nothing of a percentile.
pub const LEAST_OPERATIONS: u64 = 5;
/// A tick longer than this was a suspend or a stopped process: its rates mean nothing.
pub const LONGEST_TICK: Duration = Duration::from_secs(5);

/// Bytes dirty and under writeback from which a device counts as backlogged, and as flooded. Two of
/// the kernel's flusher chunks (4 MiB each).
pub const BACKLOG: u64 = 8 << 20;
/// Bytes under writeback from which the flusher is at work: more than the victims' own commits.
pub const FLUSHING: u64 = 1 << 20;
/// The same behind a short queue: four requests of 32 KiB, the shortest.
pub const SHORT_FLUSHING: u64 = 128 << 10;
/// Bytes per second from which a writer counts as a flood.
pub const FLOOD_RATE: f64 = 4e6;
/// An actor that dirties at least this much per commit is a flood, although it waits for the
/// commits. Twice the largest folio (x86-64: 2 MiB): a commit of one page counts as if the whole
/// folio had been dirtied (mm/page-writeback.c `folio_account_dirtied`).
pub const FLOOD_COMMIT: u64 = 4 << 20;
/// A backlog that takes so many times the goal to drain is a threat, even while the queue is empty
/// because the flusher has not begun.
pub const THREAT: f64 = 10.0;
/// A victim or a flood counts as present for so long after it was seen. So a victim that commits
/// once a second stays present.
pub const PRESENCE: Duration = Duration::from_secs(3);

/// A control group is known to hold a victim for so long after the victim's last commit. Without a
/// flood a plant on a host looks at commits for one second in eight, and one such second may pass
/// without a commit.
pub const VICTIMS_GROUP: Duration = Duration::from_secs(20);

/// Floods that pace themselves are spared until victims have missed their goal for so long. One
/// late operation counts for [`MOST_LATENCY_WINDOW`] at most, and does not end that.
pub const SPARED: Duration = Duration::from_secs(10);

/// Above this share of the goal a victim is harmed.
pub const HARMED: f64 = 1.0;
/// How long after a step its effect is not measured: operations that end earlier have waited behind
/// older requests.
pub const SETTLE: Duration = Duration::from_millis(500);
/// The same after a change to bfq, which at first gives queues that are new to it more than their
/// share (`bfq_wr_max_time`).
pub const SETTLE_BFQ: Duration = Duration::from_secs(4);

/// So many slots of a level have to be known before another is compared with it …
pub const REST_SLOTS: usize = 2;
/// … and this much time passes from one try to the next while a first round lasts.
pub const REST: Duration = Duration::from_secs(1);
/// Time from the begin of an encounter to the first try: before that, the flood fills the page
/// cache.
pub const FIRST_REST: Duration = Duration::from_secs(3);
/// A level that is tried is watched until so many operations have ended …
pub const ENOUGH_OPERATIONS: f64 = 20.0;
/// … but no longer than so many seconds.
pub const MOST_S: f64 = 8.0;
/// A step that is not in force after so long is taken back if …
pub const NOT_IN_FORCE: Duration = Duration::from_secs(2);
/// … an operation has waited for longer than this meanwhile, and ten times longer than usual.
pub const STUCK: Duration = Duration::from_secs(1);
/// So many dead seconds end a try.
pub const DEAD_S: f64 = 1.0;
/// Each of the levels with which an unknown device is met is watched for so many seconds …
pub const OPENING_S: f64 = 4.0;
/// … and a single step for so many.
pub const TRY_S: f64 = 4.0;
/// A score (a logarithm) above this ends the search among the first levels: the product of both
/// shares is above 0.16, as of two fifths each.
pub const GOOD: f64 = -1.8;
/// A step is kept if its score (a logarithm) is higher by more than this, and by more than chance.
pub const BETTER: f64 = 0.08;
/// A step is taken back early if the victims' factor (a logarithm) is lower by more than this after
/// [`HOPELESS_SLOTS`].
pub const CLEARLY_WORSE: f64 = 1.0;
/// The same after a single slot.
pub const UNBEARABLE: f64 = 2.0;
/// See [`CLEARLY_WORSE`].
pub const HOPELESS_SLOTS: usize = 2;
/// The base of the wait after a round that has found nothing. That round multiplies it by
/// [`PATIENCE_GROWTH`], and so does each further try that finds nothing …
pub const PATIENCE: Duration = Duration::from_secs(4);
/// See [`PATIENCE`].
pub const PATIENCE_GROWTH: u32 = 3;
/// … up to this: conditions change without a sign.
pub const MOST_PATIENCE: Duration = Duration::from_secs(3600);
/// So many last slots are compared with earlier ones to see that conditions have changed …
pub const LAST_SLOTS: usize = 6;
/// … by more than this factor.
pub const CHANGED: f64 = 2.5;
/// The largest factor by which a device is believed to have become slower or faster.
pub const MOST_SLOWER: f64 = 100.0;
/// An encounter begins at the level where the last one of its kind ended, if that was not longer
/// ago. First tries cost the victims a few seconds, and the guard notices a device that has changed
/// meanwhile.
pub const FORGET: Duration = Duration::from_secs(24 * 3600);
/// A limit is not tried if the backlog takes longer than this to drain at [`RAMP`] of the drain
/// rate.
pub const LIMIT_TRIAL: Duration = Duration::from_secs(15);
/// Time from one step back to the next once no victim needs protection.
pub const RECOVER_STEP: Duration = Duration::from_millis(500);

/// A paced flood begins with this share of the drain rate, because a device's cache takes more at
/// first than the device drains.
pub const FIRST_SHARE: f64 = 0.5;
/// A paced flood never has less than this share, so that it ends one day.
pub const LEAST_SHARE: f64 = 0.1;
/// The lowest pace, in bytes a second. A device that completes nothing for a moment has a drain
/// rate of zero, and the kernel refuses a limit of zero (block/blk-throttle.c).
pub const LEAST_PACE: f64 = 1e6;
/// A lever that does not help is judged after so long. A device's cache may be full of earlier
/// writes of the flood.
pub const LEAST_TRIAL: Duration = Duration::from_secs(8);
/// A flood ignores its pace if it writes so many times that. Writes that were under way before it
/// still end.
pub const IGNORED: f64 = 4.0;
/// How often the limits of a paced control group, and raised priorities, are read again.
pub const LIMITS_AGAIN: Duration = Duration::from_secs(1);
/// The gain of a higher rate. TCP BBR's Startup uses 2.9; its sender harms only itself.
pub const PACE_UP: f64 = 1.5;
/// Victims missed their goal at a rate that they had seemed to bear: the flood goes back to this
/// share of it, as in TCP BBR's ProbeBW.
pub const PACE_DOWN: f64 = 0.75;
/// Time from one higher rate to the next: operations are judged over at least [`LATENCY_WINDOW`].
pub const PACE_STEP: Duration = Duration::from_secs(1);
/// The rate rises quickly up to this share of one that harmed victims.
pub const PACE_NEAR: f64 = 0.85;
/// The gain from there on. A rate that is too high by a tenth fills a queue in seconds, not at
/// once.
pub const PACE_NEAR_UP: f64 = 1.1;
/// A higher rate follows only if the device has written this share of the last one. BBR leaves out
/// samples that the application limits for the same reason.
pub const PACE_USED: f64 = 0.8;
/// For so long after the flood was slowed down, victims may still wait for what it wrote before.
pub const PACE_OLD: Duration = Duration::from_secs(3);
/// A higher rate is tried while victims wait for less than this share of their goal.
pub const PACE_ROOM: f64 = 0.64;
/// How long a higher rate is tried before it is kept.
pub const PROBE: Duration = Duration::from_secs(2);
/// Time from a rate that was too high to the next try …
pub const PROBE_WAIT: Duration = Duration::from_secs(8);
/// … which doubles after each try that fails, up to this.
pub const MOST_PROBE_WAIT: Duration = Duration::from_secs(128);
/// `memory.high` of a paced flood, as time to drain it. A fifth of it may be dirty
/// (`vm.dirty_ratio`), so the flood's backlog drains in little more than half a second.
pub const DOMAIN: Duration = Duration::from_secs(3);
/// The least `memory.high`: room for two of the flusher's chunks below the dirty limit, and as much
/// for the program.
pub const LEAST_DOMAIN: u64 = 64 << 20;

/// The length of a queue is chosen for so much of the goal, because waits differ from one second to
/// the next.
pub const ROOM: f64 = 0.8;

/// Other levers than the queue's length are tried from so many times the goal on, because tries
/// cost victims some seconds.
pub const MISSED: f64 = 1.5;
/// A longer queue for a flood below its floor is in vain unless the flood has so many times more.
pub const FLOOR_GAIN: f64 = 1.3;
/// A shorter queue hurts if victims wait so many times longer there than before. Waits of a device
/// with a cache differ by nearly as much from one second to the next.
pub const HURTS: f64 = 2.0;
/// A process that has not committed for so long gets its priority back, and one that has flooded is
/// not raised for as long.
pub const RAISED_FOR: Duration = Duration::from_secs(60);
/// A process is raised once it has been known for so long: one that ends at once is not worth a
/// record in the journal.
pub const RAISE_AFTER: Duration = Duration::from_secs(1);
/// At most so many processes of a device are raised: each is a record in the journal.
pub const MOST_RAISED: usize = 256;

/// A limit begins at so many times the backlog: writers settle at about seven eighths of a limit.
pub const ABOVE_BACKLOG: f64 = 1.1;
/// A limit falls at this share of the drain rate. The flood has the rest until the limit has
/// reached its target.
pub const RAMP: f64 = 0.5;
/// The lowest limit of a device: four flusher chunks. With less a chunk under writeback is above
/// the limit by itself, and writers stop and go.
pub const LEAST_LIMIT: u64 = 16 << 20;
/// The first limit, as time to drain it; every further level is half of it.
pub const FIRST_LIMIT: Duration = Duration::from_millis(500);

/// Taking a knob back is tried again after this, and then each time twice as long after …
pub const RETRY: Duration = Duration::from_secs(1);
/// … so many times.
pub const RETRIES: u32 = 8;
/// A device that was gone for longer counts as a new one.
pub const GONE: Duration = Duration::from_secs(3600);
