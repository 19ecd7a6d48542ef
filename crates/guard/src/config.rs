//! What the guard aims at, and the constants of its law with their reasons.

use std::time::Duration;

/// What an administrator may choose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// The 99th percentile that victims are to have; `None`: [`BASE_MULTIPLE`] times the latency
    /// that they have while nothing floods.
    pub goal: Option<Duration>,
}

/// Without a goal of the administrator's, so many times a victim's own median is what it may wait.
/// Below two, a device's own spread would count as harm (the p99 of a disk alone is twice its
/// median, that of an array three times); far above, a victim is slower than by any fair share.
pub const BASE_MULTIPLE: f64 = 4.0;
/// The goal is never below this: less than a few ticks of the kernel's timer can't be steered by
/// queue lengths.
pub const LEAST_GOAL: Duration = Duration::from_millis(2);
/// The goal while nothing is known of a victim's base latency: what a disk needs for a handful of
/// random accesses.
pub const UNKNOWN_GOAL: Duration = Duration::from_millis(50);

/// Backlogged time over which the drain rate is the largest sample: long enough for a RAID cache's
/// bursts and a file's gaps, short enough to believe within 5 s that a device became slower.
pub const DRAIN_WINDOW: Duration = Duration::from_secs(4);
/// Backlogged time over which the largest drain rate is what the device can: long enough to
/// remember it while the queue is short.
pub const MOST_DRAIN_WINDOW: Duration = Duration::from_secs(60);
/// Sampled time over which the base latency is the middle of the samples.
pub const BASE_WINDOW: Duration = Duration::from_secs(10);
/// Latencies are judged over this much; shorter, a disk gives too few.
pub const LATENCY_WINDOW: Duration = Duration::from_secs(1);
/// Fewer operations than this say nothing of a percentile.
pub const LEAST_OPERATIONS: u64 = 5;
/// A tick longer than this was a suspend or a stopped process: its rates mean nothing.
pub const LONGEST_TICK: Duration = Duration::from_secs(5);

/// Dirty and under writeback: from here on a device counts as backlogged, and as flooded. Two of
/// the kernel's flusher chunks (4 MiB each).
pub const BACKLOG: u64 = 8 << 20;
/// Bytes per second from which a writer counts as a flood.
pub const FLOOD_RATE: f64 = 4e6;
/// Who makes as much as this stable at once floods, too, though he waits for it himself. Twice the
/// largest folio (x86-64: 2 MiB): who commits a page of one is counted as if he had dirtied it
/// whole (mm/page-writeback.c `folio_account_dirtied`).
pub const FLOOD_COMMIT: u64 = 4 << 20;
/// A backlog that takes so many times the goal to drain is a threat although the queue is still
/// empty: the flusher has not begun yet.
pub const THREAT: f64 = 10.0;
/// The same while the drain rate is not known.
pub const UNKNOWN_THREAT: u64 = 64 << 20;
/// For so long somebody who was seen counts as present: a victim that commits once a second is one.
pub const PRESENCE: Duration = Duration::from_secs(3);

/// Above this share of the goal a victim is harmed.
pub const HARMED: f64 = 1.0;
/// How long a step is left alone before its effect is measured; what ends before has waited behind
/// what was there before.
pub const SETTLE: Duration = Duration::from_millis(500);
/// The same after bfq has come: it gives queues that are new to it more than their share at first
/// (`bfq_wr_max_time`).
pub const SETTLE_BFQ: Duration = Duration::from_secs(4);

/// So many slots of a level have to be known before another is compared with it …
pub const REST_SLOTS: usize = 2;
/// … and this much time passes from one try to the next while a first round lasts.
pub const REST: Duration = Duration::from_secs(1);
/// An encounter is left alone for so long before the first try: the flood is only just filling the
/// page cache.
pub const FIRST_REST: Duration = Duration::from_secs(3);
/// A level that is tried is watched until so many operations have ended …
pub const ENOUGH_OPERATIONS: f64 = 20.0;
/// … but no longer than so many seconds.
pub const MOST_S: f64 = 8.0;
/// What is not in force after so long is taken back if …
pub const NOT_IN_FORCE: Duration = Duration::from_secs(2);
/// … somebody has waited for longer than this meanwhile, and ten times longer than usual.
pub const STUCK: Duration = Duration::from_secs(1);
/// So many dead seconds end a try.
pub const DEAD_S: f64 = 1.0;
/// Each of the levels with which an unknown device is met is watched for so many seconds …
pub const OPENING_S: f64 = 4.0;
/// … and a single step for so many.
pub const TRY_S: f64 = 4.0;
/// With a score (a logarithm) above this no others are looked for: the product of both shares is
/// above 0.16, as of two fifths each.
pub const GOOD: f64 = -1.8;
/// What is tried is kept if its score (a logarithm) is higher by more than this, and by more than
/// chance.
pub const BETTER: f64 = 0.08;
/// It is taken back before its time if the victims' factor (a logarithm) is lower by this much
/// after so many slots.
pub const CLEARLY_WORSE: f64 = 1.0;
/// The same after a single slot.
pub const UNBEARABLE: f64 = 2.0;
/// See [`CLEARLY_WORSE`].
pub const HOPELESS_SLOTS: usize = 2;
/// How long the next try waits after a round that has found nothing; each further try that finds
/// nothing makes it so many times longer …
pub const PATIENCE: Duration = Duration::from_secs(4);
/// See [`PATIENCE`].
pub const PATIENCE_GROWTH: u32 = 3;
/// … but not longer than this: conditions change without a sign.
pub const MOST_PATIENCE: Duration = Duration::from_secs(3600);
/// Slots that are compared with those before to see that conditions have changed …
pub const LAST_SLOTS: usize = 6;
/// … by more than this factor.
pub const CHANGED: f64 = 2.5;
/// A device is not believed to be slower or faster than it was by more than this.
pub const MOST_SLOWER: f64 = 100.0;
/// An encounter begins where the last one of its kind has ended, if that is not longer ago: what is
/// tried at first costs the victims a few seconds, and a device that has changed meanwhile is
/// noticed.
pub const FORGET: Duration = Duration::from_secs(24 * 3600);
/// A limit whose backlog takes longer to drain is not tried.
pub const LIMIT_TRIAL: Duration = Duration::from_secs(15);
/// Time from one step back to the next once nobody needs protection.
pub const RECOVER_STEP: Duration = Duration::from_millis(500);

/// A paced flood begins with this share of the drain rate: what a device's cache takes at first is
/// more than it drains.
pub const FIRST_SHARE: f64 = 0.5;
/// It never has less than this share, so that it ends one day.
pub const LEAST_SHARE: f64 = 0.1;
/// If victims miss their goal for so long beside this share, the pace alone is not enough: a device's
/// cache may be full of what the flood wrote before.
pub const LEAST_TRIAL: Duration = Duration::from_secs(8);
/// The drain rate of a backlogged device is known after two looks. If it stays unknown for so long,
/// there is no rate to pace by, and the queue is made short.
pub const NO_RATE: Duration = Duration::from_secs(2);
/// So much more is tried, and so much less is given when victims wait beyond their goal: the gains
/// of TCP BBR's ProbeBW.
pub const PACE_UP: f64 = 1.25;
/// See [`PACE_UP`].
pub const PACE_DOWN: f64 = 0.75;
/// How long more is tried before it is kept.
pub const PROBE: Duration = Duration::from_secs(2);
/// How long after a rate that was too much the next is tried …
pub const PROBE_WAIT: Duration = Duration::from_secs(8);
/// … and, twice as long after each try that failed, at most.
pub const MOST_PROBE_WAIT: Duration = Duration::from_secs(128);
/// `memory.high` of a paced flood, as time to drain it. A fifth of it may be dirty
/// (`vm.dirty_ratio`): the flood's backlog drains in little more than half a second.
pub const DOMAIN: Duration = Duration::from_secs(3);
/// The least of it: room for two of the flusher's chunks below its dirty limit, and as much for the
/// program.
pub const LEAST_DOMAIN: u64 = 64 << 20;

/// A limit begins so many times above what is there: writers settle at about seven eighths of a
/// limit.
pub const ABOVE_BACKLOG: f64 = 1.1;
/// A limit comes down at this share of the drain rate; the other half is the flood's until it has
/// arrived.
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
/// A device that is gone for longer is another one when it comes back.
pub const GONE: Duration = Duration::from_secs(3600);
