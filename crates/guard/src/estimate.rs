//! Estimates of a device: its drain rate, its victims' latency now and without a flood, and which
//! victims and floods are present.
//!
//! ```text
//! counters ── backlogged through the whole tick? ── yes ─▶ drain rate: largest of 4 s of such time
//! actors ──┬─ dirties much, waits little ─────────────────▶ flood
//!          └─ waits ─▶ victim ─▶ judged latencies ─▶ pressure = p90 / goal
//!                        └── no flood, no backlog? ── yes ─▶ base: median of 10 s of medians
//! ```
//!
//! The base is not the smallest median, unlike a network's base delay. A controller's empty cache
//! answers ten times faster than the controller can sustain, and no setting gives that back.

use std::collections::VecDeque;
use std::time::Duration;

use floodwall_model::LatencyCounts;
use floodwall_model::plant::{Actor, DeviceObservation};

use crate::config::{
    BACKLOG, BASE_MULTIPLE, BASE_WINDOW, Config, DRAIN_WINDOW, FLUSHING, LATENCY_WINDOW,
    LEAST_GOAL, LEAST_OPERATIONS, LEAST_OWN_GOAL, LONGEST_TICK, MOST_DRAIN_WINDOW,
    MOST_LATENCY_WINDOW, MOST_SLOWER, P99_OPERATIONS, PRESENCE, SHORT_FLUSHING, STRETCH,
    UNKNOWN_GOAL, prior, rank,
};
use crate::filter::{Typical, Windowed};
use crate::groups::{Groups, Unpaced};
use crate::look::{Now, Pulled};
use crate::memory::Memory;
use crate::trust::{OwnPace, Trust};
use crate::who::{Who, is_flood, is_victim};

/// The largest number of readers' request slots counts for so long.
const READERS_WINDOW: Duration = Duration::from_secs(5);

/// Estimates from one device's sensors.
#[derive(Clone, Debug)]
pub(crate) struct Estimator {
    drain: Windowed,
    /// The same over a longer window, of longer samples: what the device can do.
    most_drain: Windowed,
    /// The present stretch of backlogged time, look by look: how long, and bytes written.
    stretch: VecDeque<(Duration, u64)>,
    /// Whether any sample was taken while the device was the bottleneck.
    saw_device: bool,
    /// Whether a stretch has lasted for [`STRETCH`].
    has_stretch: bool,
    base: Typical,
    /// Mean latency without a flood, which a victim's rate follows.
    wait: Typical,
    slower: Slower,
    /// The smallest recent median. It stands for the base if victims were never seen without a
    /// flood.
    crowded: Windowed,
    recent: VecDeque<(Duration, LatencyCounts)>,
    readers: Windowed,
    who: Who,
    committer_seen: Option<Duration>,
    flood_seen: Option<Duration>,
    was_backlogged: bool,
    groups: Groups,
    trust: Trust,
    /// Victims were seen without a flood.
    seen_alone: bool,
    memory: Memory,
}

/// How much slower the device has become since the victims' base was measured.
#[derive(Clone, Debug)]
struct Slower {
    times: f64,
    /// The victims' median beside the flood, had the device not become slower.
    alike: Option<f64>,
    /// Their medians since then.
    since: Typical,
}

impl Default for Slower {
    fn default() -> Self {
        Self { times: 1.0, alike: None, since: Typical::new(BASE_WINDOW) }
    }
}

impl Slower {
    /// The victims' median in one look beside the flood. Once they wait for less than when the
    /// device became slower, it is faster again. A longer wait tells nothing: the queue may be
    /// longer.
    fn look(&mut self, tick: Duration, median: f64) {
        self.since.add(tick, median);
        if let (Some(alike), Some(typical)) = (self.alike, self.since.get()) {
            self.times = self.times.min((typical / alike).max(1.0));
        }
    }
}

/// The state of a device as the law sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Drain rate in bytes a second; `None` before the device was ever backlogged.
    pub drain_bytes_per_s: Option<f64>,
    /// Stands for it until it is known ([`crate::config::prior`]).
    pub prior_bytes_per_s: f64,
    /// The largest drain rate of the last minute of backlogged time under the administrator's
    /// settings. A short queue lets less through than the device can drain: its samples count only
    /// if they are larger. It follows a device that becomes slower.
    pub most_drain_bytes_per_s: Option<f64>,
    /// Whether the device may drain more than that: it has drained only as much as a paced flood
    /// wrote.
    pub drain_is_least: bool,
    /// Whether the drain rate or the pace of an earlier start still counts.
    pub is_learnt: bool,
    /// Median latency of the victims without a flood.
    pub base: Option<Duration>,
    /// Mean latency of the victims without a flood, as it was measured. [`Estimate::base`] is a
    /// median, and follows a device that becomes slower.
    pub wait_alone: Option<Duration>,
    /// The goal: how long victims may wait.
    pub goal: Duration,
    /// Whether the administrator has set the goal.
    pub goal_is_given: bool,
    /// Latency of the victims as a share of the goal; `None` if too few operations have ended and
    /// none is late.
    pub pressure: Option<f64>,
    /// Operations from which the pressure comes.
    pub operations: u64,
    /// Latencies of the victims' operations that ended since the previous look.
    pub ended: LatencyCounts,
    /// Time that operations were under way since the previous look, summed, as estimated from the
    /// waits at this look. Operations that never end count too.
    pub under_way: Duration,
    /// Age of the oldest operation under way.
    pub oldest: Duration,
    /// Bytes that the device wrote since the previous look, without those that victims dirtied.
    pub flooded_bytes: u64,
    /// Whether victims are present.
    pub victims: bool,
    /// Whether any of them commits.
    pub commits: bool,
    /// Whether floods or their backlog are present.
    pub floods: bool,
    /// Request slots that readers among the victims take.
    pub readers: u32,
    /// Bytes dirty and under writeback.
    pub backlog_bytes: u64,
    /// Whether the kernel writes a backlog out.
    pub drains: bool,
    /// Time that the device takes for the writes in its queue; `None` if its drain rate is not
    /// known.
    pub queue_delay: Option<Duration>,
    /// Time since the previous look; zero if it is too long to be believed.
    pub tick: Duration,
    /// Why the floods are in no control group that could be paced.
    pub unpaced: Option<Unpaced>,
    /// Whether the floods pace themselves.
    pub own_pace: OwnPace,
}

impl Estimate {
    /// Whether victims and floods are present that the guard may have to protect and to hold back.
    pub(crate) fn is_encounter(&self) -> bool {
        self.victims && self.floods && self.own_pace != OwnPace::Spared
    }

    /// The drain rate, or its prior until it is known, in bytes a second.
    pub(crate) fn drain_or_prior(&self) -> f64 {
        self.drain_bytes_per_s.unwrap_or(self.prior_bytes_per_s)
    }

    /// The most that the device can drain, or the drain rate's prior until that is known, in bytes
    /// a second.
    pub(crate) fn most_drain_or_prior(&self) -> f64 {
        self.most_drain_bytes_per_s.unwrap_or(self.prior_bytes_per_s)
    }

    /// The most that the device can drain, in bytes a second. `None` before it was backlogged, and
    /// while it has drained only as much as a paced flood wrote.
    pub(crate) fn known_most_drain(&self) -> Option<f64> {
        self.most_drain_bytes_per_s.filter(|_| !self.drain_is_least)
    }
}

impl Estimator {
    pub(crate) fn new() -> Self {
        Self {
            drain: Windowed::largest(DRAIN_WINDOW),
            most_drain: Windowed::largest(MOST_DRAIN_WINDOW),
            stretch: VecDeque::new(),
            has_stretch: false,
            saw_device: false,
            wait: Typical::new(BASE_WINDOW),
            slower: Slower::default(),
            base: Typical::new(BASE_WINDOW),
            crowded: Windowed::smallest(BASE_WINDOW),
            recent: VecDeque::new(),
            readers: Windowed::largest(READERS_WINDOW),
            who: Who::default(),
            committer_seen: None,
            flood_seen: None,
            was_backlogged: false,
            groups: Groups::default(),
            trust: Trust::default(),
            seen_alone: false,
            memory: Memory::default(),
        }
    }

    /// The control groups of victims and floods.
    pub(crate) fn groups(&self) -> &Groups {
        &self.groups
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(crate) fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// Scales the estimates of a device that has become so many times slower (below 1: faster).
    pub(crate) fn becomes_slower(&mut self, times: f64) {
        let before = self.slower.times;
        let times = (before * times).clamp(1.0 / MOST_SLOWER, MOST_SLOWER);
        let wait = self.latencies().nearest_rank_ns(0.5).map(|ns| ns as f64);
        self.slower =
            Slower { times, alike: wait.map(|ns| ns / times), since: Typical::new(BASE_WINDOW) };
        self.most_drain.scale(before / times);
        self.stretch.clear();
    }

    /// Forgets the recent latencies, which belong to another level.
    pub(crate) fn begin_anew(&mut self) {
        self.recent.clear();
    }

    /// Drops latencies that are not judged any more.
    fn forget_latencies(&mut self, at: Duration) {
        let mut count: u64 = self.recent.iter().map(|(_, counts)| counts.count()).sum();
        while let Some((then, oldest)) = self.recent.front() {
            count -= oldest.count();
            let is_needed = count < P99_OPERATIONS && *then + MOST_LATENCY_WINDOW > at;
            if *then + LATENCY_WINDOW > at || is_needed {
                return;
            }
            self.recent.pop_front();
        }
    }

    /// The floods that pace themselves, and are spared for that.
    pub(crate) fn spared(&self) -> impl Iterator<Item = &String> {
        let is_spared = !self.trust.is_lost();
        self.who.paced.keys().filter(move |_| is_spared)
    }

    /// Takes in who is present, and nothing else.
    pub(crate) fn look(&mut self, at: Duration, tick: Duration, actors: &[Actor]) {
        self.who.look(at, tick, actors);
    }

    /// Victims and floods that are present.
    pub(crate) fn who(&self) -> &Who {
        &self.who
    }

    /// `pulled`: the levers since the last observation.
    pub(crate) fn update(
        &mut self,
        config: &Config,
        now: &Now<'_>,
        seen: &DeviceObservation,
        pulled: Pulled,
    ) -> Estimate {
        let (at, tick) = (now.seen.at, now.tick);
        let believed = tick > Duration::ZERO && tick <= LONGEST_TICK;
        let backlog_bytes = seen.dirty_bytes.unwrap_or(0) + seen.writeback_bytes.unwrap_or(0);
        // A tick that began or ended without a backlog tells how much was written, not how fast the
        // device could be. A backlogged tick without writes tells that the device was stuck.
        // Victims' own writes do not tell it either, while the flusher has not begun.
        let is_free = matches!(pulled, Pulled::Nothing | Pulled::Paced);
        let flushing = if is_free { FLUSHING } else { SHORT_FLUSHING };
        let is_flushing = seen.writeback_bytes.is_none_or(|bytes| bytes >= flushing);
        let backlogged =
            backlog_bytes >= BACKLOG && seen.counters.in_flight > 0 && (is_flushing || !is_free);
        // Dirty pages of a database that no process flushes are no flood.
        let drains = backlog_bytes >= BACKLOG && is_flushing;
        let is_through = believed && backlogged && self.was_backlogged;
        self.memory.tick(tick, is_through, pulled, seen.counters.written_bytes);
        if is_through {
            let rate = seen.counters.written_bytes as f64 / tick.as_secs_f64();
            // A paced flood's rate says only that the device drains that much.
            let is_device = pulled != Pulled::Paced;
            if is_device || self.drain.get() < Some(rate) {
                self.saw_device |= is_device;
                self.drain.add(tick, rate);
                self.add_most_drain(tick, seen.counters.written_bytes, pulled == Pulled::Nothing);
                self.memory.drained(at, self.most_drain.get().filter(|_| self.has_stretch));
            } else {
                self.stretch.clear();
            }
        } else {
            self.stretch.clear();
        }
        self.was_backlogged = backlogged;

        let floods = seen.actors.iter().any(|a| is_flood(a, tick));
        let victims = || seen.actors.iter().filter(|a| is_victim(a, tick));
        if floods || drains {
            self.flood_seen = Some(at);
        }
        self.look(at, tick, &seen.actors);
        // The first commit beside a flood may take seconds. A process that has dirtied pages and
        // waits is committing.
        if victims().any(|a| !a.commits.is_empty() || a.waiting > 0 && a.dirtied_bytes > 0) {
            self.committer_seen = Some(at);
        }
        let mut latencies = LatencyCounts::default();
        let (mut oldest, mut readers) = (Duration::ZERO, 0);
        let (mut under_way, mut own_bytes) = (Duration::ZERO, 0);
        for actor in victims() {
            latencies.merge(&actor.commits);
            latencies.merge(&actor.reads);
            oldest = oldest.max(actor.oldest);
            under_way += tick * actor.waiting;
            own_bytes += actor.dirtied_bytes;
            if actor.reads.count() > actor.commits.count() {
                readers += actor.waiting;
            }
        }
        self.readers.add(tick, f64::from(readers));
        let present = |seen: Option<Duration>| seen.is_some_and(|then| at - then < PRESENCE);
        let flooded = present(self.flood_seen);
        if believed && latencies.count() > 0 {
            let median = latencies.nearest_rank_ns(0.5).unwrap_or(0) as f64;
            let mean = latencies.mean_ns().unwrap_or(median);
            if !flooded || pulled == Pulled::Shortest && !self.seen_alone {
                if !flooded && !self.seen_alone {
                    // The first samples without a flood replace those from the shortest queue.
                    (self.base, self.wait) = (Typical::new(BASE_WINDOW), Typical::new(BASE_WINDOW));
                }
                if !flooded {
                    self.slower = Slower::default();
                }
                self.base.add(tick, median);
                self.wait.add(tick, mean);
                if !flooded {
                    self.memory.waited_alone(at, [self.base.get(), self.wait.get()]);
                }
            }
            if flooded {
                self.slower.look(tick, median);
            }
            self.seen_alone |= !flooded;
            self.crowded.add(tick, median);
        }
        self.recent.push_back((at, latencies.clone()));
        self.forget_latencies(at);

        let knows_base = self.seen_alone && self.base.get().is_some();
        self.memory.goal_is_known(config.goal.is_some() || knows_base);
        let drain = self.memory.drain(self.drain.get());
        let [first_base, first_wait] = self.memory.alone();
        let least =
            |own: Option<f64>, first: Option<f64>| Some(own?.min(first.unwrap_or(f64::INFINITY)));
        let base = least(self.base.get(), first_base).map(|ns| ns * self.slower.times);
        let goal = self.goal(config, base);
        let (pressure, operations) = self.pressure(config, goal, oldest);
        self.trust.look(now, &seen.actors, backlog_bytes, drains);
        let own_pace = self.trust.judge(if believed { tick } else { Duration::ZERO }, pressure);
        let is_paced = pulled == Pulled::Paced;
        self.groups.look(now, &seen.actors, self.flood_seen, is_paced, &self.trust);
        let queued = seen.counters.in_flight as f64
            * mean(seen.counters.written_bytes, seen.counters.write_ops);
        Estimate {
            drain_bytes_per_s: drain,
            prior_bytes_per_s: prior(seen.kind),
            most_drain_bytes_per_s: self.memory.drain(self.most_drain.get()),
            drain_is_least: !self.saw_device && !self.memory.has_drain(),
            is_learnt: self.memory.counts(),
            base: base.map(nanoseconds),
            wait_alone: least(self.wait.get(), first_wait).map(nanoseconds),
            goal,
            goal_is_given: config.goal.is_some(),
            pressure,
            operations,
            ended: latencies,
            under_way,
            oldest,
            flooded_bytes: seen.counters.written_bytes.saturating_sub(own_bytes),
            victims: !self.who.victims.is_empty(),
            commits: present(self.committer_seen),
            floods: flooded,
            readers: self.readers.get().unwrap_or(0.0) as u32,
            backlog_bytes,
            drains,
            queue_delay: drain
                .map(|rate| Duration::from_secs_f64((queued / rate.max(1.0)).min(1e6))),
            tick: if believed { tick } else { Duration::ZERO },
            unpaced: self.groups.unpaced(),
            own_pace,
        }
    }

    /// A stretch of backlogged time shorter than [`STRETCH`] may be a burst into the device's own
    /// cache. It counts only until a longer one is known. `is_free`: under the administrator's
    /// settings. No other sample lowers the reference: the guard would change it by what it does.
    fn add_most_drain(&mut self, tick: Duration, written: u64, is_free: bool) {
        self.stretch.push_back((tick, written));
        let mut lasted: Duration = self.stretch.iter().map(|(tick, _)| *tick).sum();
        while let Some((first, _)) =
            self.stretch.front().filter(|(first, _)| lasted >= STRETCH + *first)
        {
            lasted -= *first;
            self.stretch.pop_front();
        }
        let is_long = lasted >= STRETCH;
        if is_long && !std::mem::replace(&mut self.has_stretch, true) {
            self.most_drain = Windowed::largest(MOST_DRAIN_WINDOW);
        }
        if is_long == self.has_stretch {
            let bytes: u64 = self.stretch.iter().map(|(_, bytes)| bytes).sum();
            let rate = bytes as f64 / lasted.as_secs_f64();
            if is_free || self.most_drain.get() < Some(rate) {
                self.most_drain.add(tick, rate);
            }
        }
    }

    fn goal(&self, config: &Config, base: Option<f64>) -> Duration {
        if let Some(goal) = config.goal {
            return goal.max(LEAST_GOAL);
        }
        let crowded = self.crowded.get().into_iter().chain(self.memory.alone()[0]).reduce(f64::min);
        match (base, crowded) {
            (Some(base), _) => nanoseconds(base * BASE_MULTIPLE).max(LEAST_OWN_GOAL),
            // The victims were never seen alone: their smallest median stands for the base.
            (None, Some(best)) => {
                nanoseconds(best * BASE_MULTIPLE).clamp(LEAST_OWN_GOAL, UNKNOWN_GOAL)
            }
            (None, None) => UNKNOWN_GOAL,
        }
    }

    /// The latencies that are judged: see [`LATENCY_WINDOW`].
    fn latencies(&self) -> LatencyCounts {
        let mut all = LatencyCounts::default();
        self.recent.iter().for_each(|(_, counts)| all.merge(counts));
        all
    }

    /// Compares the judged latencies with the goal. An operation under way counts once
    /// its age is above [`BASE_MULTIPLE`] times the goal.
    fn pressure(&self, config: &Config, goal: Duration, oldest: Duration) -> (Option<f64>, u64) {
        let all = self.latencies();
        let share = |time: Duration| time.as_secs_f64() / goal.as_secs_f64();
        let rank = rank(config.goal.is_some(), all.count());
        let ended = all.nearest_rank_ns(rank).filter(|_| all.count() >= LEAST_OPERATIONS);
        let ended = ended.map(|ns| share(Duration::from_nanos(ns)));
        let late = Some(share(oldest) / BASE_MULTIPLE).filter(|late| *late > 1.0);
        let pressure = match (ended, late) {
            (Some(a), Some(b)) => Some(a.max(b)),
            (one, other) => one.or(other),
        };
        (pressure, all.count())
    }
}

fn nanoseconds(ns: f64) -> Duration {
    Duration::from_secs_f64((ns / 1e9).clamp(0.0, 1e6))
}

fn mean(bytes: u64, operations: u64) -> f64 {
    if operations == 0 { 0.0 } else { bytes as f64 / operations as f64 }
}

#[cfg(test)]
mod tests;
