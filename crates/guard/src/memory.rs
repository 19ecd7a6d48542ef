//! What the law has measured of a device and would use again at its next start.
//!
//! ```text
//! Guard::learnt ─▶ Learnt, each value with its age ─▶ the caller keeps it
//! Guard::learn  ◀─ Learnt, and the time since it was exported
//!   drain rate   counts for 4 s of backlogged time: the first level and pace follow from it
//!   alone        until victims were seen alone it only makes the goal stricter
//!   level, pace  the next encounter begins there if the last one ended within a day
//!   guess        a drain rate of others counts as an imported one does, and is not kept
//! ```
//!
//! An import may be wrong: the device has become slower, or other victims have come. Only a
//! stricter goal follows from it, until this start has seen victims without a flood. A goal of the
//! administrator's serves as well. The base could not be learnt behind a queue that is too long.
//!
//! The plant's clock begins at boot. So an age is kept beside each value, and a [`Moment`] may lie
//! before the boot.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::config::{DRAIN_WINDOW, Mode, SETTLE, STRETCH};
use crate::look::Pulled;

/// A rate or a latency above this was not measured by the law.
const MOST: f64 = 1e15;
/// A backlogged device that drains less than this share of a pace is slower than the pace's flood.
const SLOWER: f64 = 0.5;

/// Everything that was learnt of a device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Learnt {
    /// Upper bound of what it drains while no lever is pulled.
    pub drain_bytes_per_s: Option<Aged<f64>>,
    /// The victims' latency without a flood.
    pub alone: Option<Aged<Alone>>,
    /// The level at which the last encounter without readers ended.
    pub without_readers: Option<Aged<KnownLevel>>,
    /// The level at which the last encounter with readers ended.
    pub with_readers: Option<Aged<KnownLevel>>,
    /// The rate of the flood that was paced last.
    pub pace: Option<Aged<KnownPace>>,
    /// The drain rate that others found on such a device. It stands in for one that is not known,
    /// and is never exported.
    #[serde(skip)]
    pub guessed_drain_bytes_per_s: Option<f64>,
}

/// A value and its age.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Aged<T> {
    /// The value.
    pub value: T,
    /// Seconds since it was measured.
    pub age_s: f64,
}

/// The victims' latency without a flood.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Alone {
    /// Median.
    pub median_us: f64,
    /// Mean.
    pub mean_us: f64,
}

/// A level of the levers, and the circumstances in which it means the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownLevel {
    /// As [`crate::Level`] is written: `bfq, 8 requests, 128 KiB`.
    pub level: String,
    /// The mode in which it was the best one.
    pub mode: Mode,
    /// The administrator's values of the knobs to which a level is relative.
    pub own: BTreeMap<String, String>,
}

/// The pace of a flood.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct KnownPace {
    /// Its control group.
    pub group: String,
    /// The rate that victims bore.
    pub bytes_per_s: f64,
}

impl Learnt {
    /// Whether nothing was learnt.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Forgets values of more than so many seconds.
    pub fn forget_older(&mut self, than_s: f64) {
        fn forget<T>(value: &mut Option<Aged<T>>, than_s: f64) {
            value.take_if(|value| value.age_s > than_s);
        }
        forget(&mut self.drain_bytes_per_s, than_s);
        forget(&mut self.alone, than_s);
        forget(&mut self.without_readers, than_s);
        forget(&mut self.with_readers, than_s);
        forget(&mut self.pace, than_s);
    }
}

impl<T> Aged<T> {
    pub(crate) fn new(value: T, age: Duration) -> Self {
        Self { value, age_s: age.as_secs_f64() }
    }

    /// When it was measured, if it was exported so long before now. `None` for an impossible age.
    pub(crate) fn moment(&self, now: Duration, since: Duration) -> Option<Moment> {
        let age = Duration::try_from_secs_f64(self.age_s).ok()?.checked_add(since)?;
        Some(Moment { at: now, earlier: age.max(Duration::from_nanos(1)) })
    }
}

/// A moment, by the plant's clock or before it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Moment {
    at: Duration,
    earlier: Duration,
}

impl Moment {
    pub(crate) fn at(now: Duration) -> Self {
        Self { at: now, earlier: Duration::ZERO }
    }

    /// Whether it is of an earlier start.
    pub(crate) fn is_imported(self) -> bool {
        !self.earlier.is_zero()
    }

    pub(crate) fn age(self, now: Duration) -> Duration {
        now.saturating_sub(self.at).saturating_add(self.earlier)
    }
}

pub(crate) fn is_measurable(value: f64) -> bool {
    value > 0.0 && value < MOST
}

/// What an estimator knows of a device from before, and what of its estimates is to be kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Memory {
    /// The drain rate to be kept.
    drain: Option<(f64, Moment)>,
    /// Backlogged time in which no lever was pulled, without a gap.
    free: Duration,
    /// The imported drain rate, and the backlogged time for which the import still counts.
    first_drain: Option<f64>,
    left: Duration,
    /// Whether this start knows the victims' goal: else it can't tell that an import is wrong.
    knows_goal: bool,
    /// The present stretch of backlogged time beside a pace: how long, and bytes written.
    paced: (Duration, u64),
    /// The victims' latency alone that is to be kept: median and mean in ns.
    alone: Option<([f64; 2], Moment)>,
    /// The imported one, until victims were seen alone.
    first_alone: Option<[f64; 2]>,
}

impl Memory {
    /// A tick of the estimator. `is_backlogged`: the device was backlogged through it.
    pub(crate) fn tick(
        &mut self,
        tick: Duration,
        is_backlogged: bool,
        pulled: Pulled,
        written: u64,
    ) {
        let is_free = is_backlogged && pulled == Pulled::Nothing;
        self.free = if is_free { self.free + tick } else { Duration::ZERO };
        let is_paced = is_backlogged && pulled == Pulled::Paced;
        let (lasted, bytes) = self.paced;
        self.paced = if is_paced { (lasted + tick, bytes + written) } else { (Duration::ZERO, 0) };
        if is_backlogged {
            self.left = self.left.saturating_sub(tick);
        }
    }

    /// Whether the administrator has set the goal, or victims were seen without a flood.
    pub(crate) fn goal_is_known(&mut self, is_so: bool) {
        self.knows_goal = is_so;
    }

    /// The flood is paced at this rate. The import that led to it is dropped if the device drains
    /// far less.
    pub(crate) fn paced_at(&mut self, bytes_per_s: f64) {
        let (lasted, bytes) = self.paced;
        if lasted >= SETTLE && (bytes as f64) < SLOWER * bytes_per_s * lasted.as_secs_f64() {
            self.left = Duration::ZERO;
        }
    }

    /// The estimator's own drain rate over [`STRETCH`]. It is kept if no lever was pulled. Behind a
    /// short queue or a pace it says only that the device drains at least that much.
    pub(crate) fn drained(&mut self, at: Duration, rate: Option<f64>) {
        let Some(rate) = rate else { return };
        if self.free >= STRETCH || self.drain.is_none_or(|(known, _)| rate > known) {
            self.drain = Some((rate, Moment::at(at)));
        }
    }

    /// The estimator's own median and mean of victims without a flood, once it has them. Those from
    /// behind the shortest queue are not kept: they would be too long for the next start.
    pub(crate) fn waited_alone(&mut self, at: Duration, own: [Option<f64>; 2]) {
        if let [Some(median), Some(mean)] = own {
            (self.alone, self.first_alone) = (Some(([median, mean], Moment::at(at))), None);
        }
    }

    /// A drain rate: the largest of the estimator's own and the imported one, while that counts.
    pub(crate) fn drain(&self, own: Option<f64>) -> Option<f64> {
        let first = self.first_drain.filter(|_| self.counts());
        own.into_iter().chain(first).reduce(f64::max)
    }

    /// Whether an imported drain rate counts.
    pub(crate) fn has_drain(&self) -> bool {
        self.first_drain.is_some() && self.counts()
    }

    /// Whether an import of a drain rate, or of a pace, counts.
    pub(crate) fn counts(&self) -> bool {
        self.knows_goal && !self.left.is_zero()
    }

    /// The imported median and mean of victims alone, in ns.
    pub(crate) fn alone(&self) -> [Option<f64>; 2] {
        [0, 1].map(|i| self.first_alone.map(|first| first[i]))
    }

    pub(crate) fn learn(&mut self, now: Duration, learnt: &Learnt, since: Duration) {
        if let Some(drain) =
            learnt.drain_bytes_per_s.as_ref().filter(|drain| is_measurable(drain.value))
            && let Some(moment) = drain.moment(now, since)
        {
            (self.drain, self.first_drain) = (Some((drain.value, moment)), Some(drain.value));
        } else if self.drain.is_none() {
            let guess = learnt.guessed_drain_bytes_per_s;
            self.first_drain = guess.filter(|rate| is_measurable(*rate));
        }
        self.left = DRAIN_WINDOW;
        let is_measured =
            |alone: &Alone| [alone.median_us, alone.mean_us].into_iter().all(is_measurable);
        if let Some(alone) = learnt.alone.as_ref().filter(|alone| is_measured(&alone.value))
            && let Some(moment) = alone.moment(now, since)
        {
            let ns = [alone.value.median_us, alone.value.mean_us].map(|us| us * 1e3);
            (self.alone, self.first_alone) = (Some((ns, moment)), Some(ns));
        }
    }

    pub(crate) fn export(&self, now: Duration, learnt: &mut Learnt) {
        learnt.drain_bytes_per_s =
            self.drain.map(|(rate, moment)| Aged::new(rate, moment.age(now)));
        learnt.alone = self.alone.map(|([median, mean], moment)| {
            Aged::new(Alone { median_us: median / 1e3, mean_us: mean / 1e3 }, moment.age(now))
        });
    }
}
