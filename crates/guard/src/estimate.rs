//! Estimates of a device: its drain rate, its victims' latency now and without a flood, and which
//! victims and floods are present.
//!
//! ```text
//! counters ── backlogged through the whole tick? ── yes ─▶ drain rate: largest of 4 s of such time
//! actors ──┬─ dirties much, waits little ─────────────────▶ flood
//!          └─ waits ─▶ victim ─▶ latencies of the last second ─▶ pressure = p90 / goal
//!                        └── no flood, no backlog? ── yes ─▶ base: median of 10 s of medians
//! ```
//!
//! The base is not the smallest median, unlike a network's base delay. A controller's empty cache
//! answers ten times faster than the controller can sustain, and no setting gives that back.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use floodwall_model::LatencyCounts;
use floodwall_model::plant::{Actor, DeviceObservation, Observation};

use crate::config::{
    BACKLOG, BASE_MULTIPLE, BASE_WINDOW, Config, DRAIN_WINDOW, FLOOD_COMMIT, FLOOD_RATE, FLUSHING,
    LATENCY_WINDOW, LEAST_GOAL, LEAST_OPERATIONS, LEAST_OWN_GOAL, LONGEST_TICK, MOST_DRAIN_WINDOW,
    MOST_SLOWER, PRESENCE, STRETCH, UNKNOWN_GOAL, rank,
};
use crate::filter::{Typical, Windowed};
use crate::learnt::Memory;

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
    /// How many times slower the device has become since these were measured.
    slower: f64,
    /// The smallest recent median. It stands for the base if victims were never seen without a
    /// flood.
    crowded: Windowed,
    recent: VecDeque<(Duration, LatencyCounts)>,
    readers: Windowed,
    victim_seen: Option<Duration>,
    committer_seen: Option<Duration>,
    flood_seen: Option<Duration>,
    was_backlogged: bool,
    /// Control groups in which victims were seen, and when.
    victims_groups: BTreeMap<String, Duration>,
    /// The one control group of the floods that were seen last, if it holds no victim.
    floods_group: Option<String>,
    /// Victims were seen without a flood.
    seen_alone: bool,
    memory: Memory,
}

/// The levers during a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pulled {
    Nothing,
    /// Pulled in some other way, or not in force yet.
    Somehow,
    /// The flood's control group holds it to a rate.
    Paced,
    /// The queue is as short as it gets. Latencies then serve as the base if victims were never
    /// seen alone.
    Shortest,
}

/// The state of a device as the law sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Drain rate in bytes a second; `None` before the device was ever backlogged.
    pub drain_bytes_per_s: Option<f64>,
    /// The largest drain rate of the last minute of backlogged time, whatever the levers were. A
    /// short queue lets less through than the device can drain.
    pub most_drain_bytes_per_s: Option<f64>,
    /// Whether the device may drain more than that: it has drained only as much as a paced flood
    /// wrote.
    pub drain_is_least: bool,
    /// Whether values of an earlier start still count.
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
    /// Time that the device takes for the writes in its queue; `None` if its drain rate is not
    /// known.
    pub queue_delay: Option<Duration>,
    /// Time since the previous look; zero if it is too long to be believed.
    pub tick: Duration,
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
            slower: 1.0,
            base: Typical::new(BASE_WINDOW),
            crowded: Windowed::smallest(BASE_WINDOW),
            recent: VecDeque::new(),
            readers: Windowed::largest(READERS_WINDOW),
            victim_seen: None,
            committer_seen: None,
            flood_seen: None,
            was_backlogged: false,
            victims_groups: BTreeMap::new(),
            floods_group: None,
            seen_alone: false,
            memory: Memory::default(),
        }
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    pub(crate) fn memory_mut(&mut self) -> &mut Memory {
        &mut self.memory
    }

    /// Scales the estimates of a device that has become so many times slower (below 1: faster).
    pub(crate) fn becomes_slower(&mut self, times: f64) {
        self.slower = (self.slower * times).clamp(1.0 / MOST_SLOWER, MOST_SLOWER);
    }

    /// Forgets the recent latencies, which belong to another level.
    pub(crate) fn begin_anew(&mut self) {
        self.recent.clear();
    }

    /// `tick`: time since the last observation. `pulled`: the levers meanwhile. `committing`: control
    /// groups of [`committing_groups`].
    pub(crate) fn update(
        &mut self,
        config: &Config,
        at: Duration,
        tick: Duration,
        seen: &DeviceObservation,
        pulled: Pulled,
        committing: &BTreeSet<String>,
    ) -> Estimate {
        let believed = tick > Duration::ZERO && tick <= LONGEST_TICK;
        let backlog_bytes = seen.dirty_bytes.unwrap_or(0) + seen.writeback_bytes.unwrap_or(0);
        // A tick that began or ended without a backlog tells how much was written, not how fast the
        // device could be. A backlogged tick without writes tells that the device was stuck.
        // Victims' own writes do not tell it either, while the flusher has not begun.
        let is_flushing = match pulled {
            Pulled::Nothing | Pulled::Paced => seen.writeback_bytes.is_none_or(|bytes| bytes >= FLUSHING),
            Pulled::Somehow | Pulled::Shortest => true,
        };
        let backlogged = backlog_bytes >= BACKLOG && seen.counters.in_flight > 0 && is_flushing;
        let is_through = believed && backlogged && self.was_backlogged;
        self.memory.tick(tick, is_through, pulled, seen.counters.written_bytes);
        if is_through {
            let rate = seen.counters.written_bytes as f64 / tick.as_secs_f64();
            // A paced flood's rate says only that the device drains that much.
            let is_device = pulled != Pulled::Paced;
            if is_device || self.drain.get() < Some(rate) {
                self.saw_device |= is_device;
                self.drain.add(tick, rate);
                self.add_most_drain(tick, seen.counters.written_bytes);
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
        if floods || backlog_bytes >= BACKLOG {
            self.flood_seen = Some(at);
        }
        if victims().next().is_some() {
            self.victim_seen = Some(at);
        }
        if victims().any(|actor| !actor.commits.is_empty()) {
            self.committer_seen = Some(at);
        }
        self.tell_groups(at, tick, &seen.actors, committing);
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
                    self.slower = 1.0;
                }
                self.base.add(tick, median);
                self.wait.add(tick, mean);
                if !flooded {
                    self.memory.waited_alone(at, [self.base.get(), self.wait.get()]);
                }
            }
            self.seen_alone |= !flooded;
            self.crowded.add(tick, median);
        }
        self.recent.push_back((at, latencies.clone()));
        while self.recent.front().is_some_and(|(then, _)| *then + LATENCY_WINDOW <= at) {
            self.recent.pop_front();
        }

        let knows_base = self.seen_alone && self.base.get().is_some();
        self.memory.goal_is_known(config.goal.is_some() || knows_base);
        let drain = self.memory.drain(self.drain.get());
        let [first_base, first_wait] = self.memory.alone();
        let least = |own: Option<f64>, first: Option<f64>| Some(own?.min(first.unwrap_or(f64::INFINITY)));
        let base = least(self.base.get(), first_base).map(|ns| ns * self.slower);
        let goal = self.goal(config, base);
        let (pressure, operations) = self.pressure(config, goal, oldest);
        let queued =
            seen.counters.in_flight as f64 * mean(seen.counters.written_bytes, seen.counters.write_ops);
        Estimate {
            drain_bytes_per_s: drain,
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
            victims: present(self.victim_seen),
            commits: present(self.committer_seen),
            floods: flooded,
            readers: self.readers.get().unwrap_or(0.0) as u32,
            backlog_bytes,
            queue_delay: drain.map(|rate| Duration::from_secs_f64((queued / rate.max(1.0)).min(1e6))),
            tick: if believed { tick } else { Duration::ZERO },
        }
    }

    /// A stretch of backlogged time shorter than [`STRETCH`] may be a burst into the device's own
    /// cache. It counts only until a longer one is known.
    fn add_most_drain(&mut self, tick: Duration, written: u64) {
        self.stretch.push_back((tick, written));
        let mut lasted: Duration = self.stretch.iter().map(|(tick, _)| *tick).sum();
        while let Some((first, _)) = self.stretch.front().filter(|(first, _)| lasted >= STRETCH + *first) {
            lasted -= *first;
            self.stretch.pop_front();
        }
        let is_long = lasted >= STRETCH;
        if is_long && !std::mem::replace(&mut self.has_stretch, true) {
            self.most_drain = Windowed::largest(MOST_DRAIN_WINDOW);
        }
        if is_long == self.has_stretch {
            let bytes: u64 = self.stretch.iter().map(|(_, bytes)| bytes).sum();
            self.most_drain.add(tick, bytes as f64 / lasted.as_secs_f64());
        }
    }

    /// The control group that holds all floods and no victim, if one does.
    pub(crate) fn floods_group(&self) -> Option<&str> {
        self.floods_group.as_deref()
    }

    /// A flood's own program reads, too: a process that only reads keeps no group from being paced.
    fn tell_groups(&mut self, at: Duration, tick: Duration, actors: &[Actor], committing: &BTreeSet<String>) {
        self.victims_groups.extend(committing.iter().map(|group| (group.clone(), at)));
        // A commit that is stuck does not end.
        for waiting in actors.iter().filter(|actor| actor.waiting > 0) {
            if let Some(seen) = waiting.group.as_ref().and_then(|group| self.victims_groups.get_mut(group)) {
                *seen = at;
            }
        }
        self.victims_groups.retain(|_, seen| at - *seen < PRESENCE);
        if self.flood_seen.is_none_or(|seen| at - seen >= PRESENCE) {
            self.floods_group = None;
        }
        let mut floods = actors.iter().filter(|actor| is_flood(actor, tick)).map(|flood| &flood.group);
        if let Some(first) = floods.next() {
            self.floods_group = first.clone().filter(|_| floods.all(|group| group == first));
        }
        let is_in = |group: &String, flood: &str| {
            let below = group.strip_prefix(flood);
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || flood.is_empty())
        };
        // A limit of a group holds the groups below it, too.
        if self.floods_group.as_ref().is_some_and(|flood| self.victims_groups.keys().any(|g| is_in(g, flood)))
        {
            self.floods_group = None;
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
            (None, Some(best)) => nanoseconds(best * BASE_MULTIPLE).clamp(LEAST_OWN_GOAL, UNKNOWN_GOAL),
            (None, None) => UNKNOWN_GOAL,
        }
    }

    /// Compares the latencies of the last second with the goal. An operation under way counts once
    /// its age is above [`BASE_MULTIPLE`] times the goal.
    fn pressure(&self, config: &Config, goal: Duration, oldest: Duration) -> (Option<f64>, u64) {
        let mut all = LatencyCounts::default();
        self.recent.iter().for_each(|(_, counts)| all.merge(counts));
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

/// Whether an actor floods: it dirtied much within a tick, and made little of that stable.
#[must_use]
pub fn is_flood(actor: &Actor, tick: Duration) -> bool {
    let much = actor.dirtied_bytes as f64 >= FLOOD_RATE * tick.as_secs_f64();
    much && actor.dirtied_bytes >= FLOOD_COMMIT * actor.commits.count()
}

/// The control groups in which a process has committed, on whatever device: `memory.high` holds a
/// group back on all of them.
pub(crate) fn committing_groups(seen: &Observation, tick: Duration) -> BTreeSet<String> {
    let actors = seen.devices.iter().flat_map(|device| &device.actors);
    let committing = actors.filter(|actor| is_victim(actor, tick) && actor.commits.count() > 0);
    committing.filter_map(|actor| actor.group.clone()).collect()
}

/// Whether an actor is a victim: it waits, or has waited within a tick, and does not flood.
#[must_use]
pub fn is_victim(actor: &Actor, tick: Duration) -> bool {
    !is_flood(actor, tick) && (actor.waiting > 0 || actor.operations() > 0)
}

fn nanoseconds(ns: f64) -> Duration {
    Duration::from_secs_f64((ns / 1e9).clamp(0.0, 1e6))
}

fn mean(bytes: u64, operations: u64) -> f64 {
    if operations == 0 { 0.0 } else { bytes as f64 / operations as f64 }
}

#[cfg(test)]
mod tests {
    use floodwall_model::DeviceId;
    use floodwall_model::trial::DeviceSample;

    use super::*;

    const TICK: Duration = Duration::from_millis(250);

    struct Bench {
        estimator: Estimator,
        at: Duration,
    }

    impl Bench {
        fn new() -> Self {
            Self { estimator: Estimator::new(), at: Duration::ZERO }
        }

        /// One tick: bytes written by the device, its backlog in MiB, actors.
        fn tick(&mut self, written: u64, backlog_mib: u64, actors: Vec<Actor>) -> Estimate {
            self.at += TICK;
            let counters = DeviceSample {
                written_bytes: written,
                write_ops: written >> 20,
                in_flight: u64::from(backlog_mib > 0),
                ..DeviceSample::default()
            };
            let seen = DeviceObservation {
                id: DeviceId { major: 8, minor: 0 },
                counters,
                dirty_bytes: Some(backlog_mib << 20),
                writeback_bytes: None,
                changing: false,
                actors,
            };
            let observed = Observation { devices: vec![seen.clone()], ..Observation::default() };
            let committing = committing_groups(&observed, TICK);
            self.estimator.update(&Config::default(), self.at, TICK, &seen, Pulled::Nothing, &committing)
        }
    }

    fn victim(ms: u64, operations: usize) -> Actor {
        let commits = LatencyCounts::from_values(vec![ms * 1_000_000; operations]);
        Actor { who: "db".into(), dirtied_bytes: 4096 * operations as u64, commits, ..Actor::default() }
    }

    fn flood() -> Actor {
        Actor { who: "cp".into(), dirtied_bytes: 100 << 20, ..Actor::default() }
    }

    #[test]
    fn only_a_backlogged_device_tells_its_drain_rate() {
        let mut bench = Bench::new();
        for _ in 0..10 {
            assert_eq!(bench.tick(1 << 20, 1, vec![]).drain_bytes_per_s, None);
        }
        // The tick in which the backlog began does not count.
        assert_eq!(bench.tick(5 << 20, 100, vec![flood()]).drain_bytes_per_s, None);
        assert_eq!(bench.tick(25 << 20, 100, vec![flood()]).drain_bytes_per_s, Some(100.0 * 1048576.0));
        // Still known after idle time.
        for _ in 0..100 {
            bench.tick(0, 0, vec![]);
        }
        assert_eq!(bench.tick(0, 0, vec![]).drain_bytes_per_s, Some(100.0 * 1048576.0));
        // Ten times slower: believed after the window.
        let mut ticks = 0;
        while bench.tick(2_500_000, 100, vec![flood()]).drain_bytes_per_s != Some(10_000_000.0) {
            ticks += 1;
            assert!(ticks < 20, "{ticks} ticks");
        }
    }

    #[test]
    fn a_burst_into_the_devices_cache_is_not_what_the_device_can_do() {
        let mut bench = Bench::new();
        bench.tick(0, 100, vec![flood()]);
        // 400 MB/s for half a second, then 100 MB/s.
        bench.tick(100 << 20, 100, vec![flood()]);
        let first = bench.tick(100 << 20, 100, vec![flood()]).most_drain_bytes_per_s.unwrap();
        assert_eq!(first, 400.0 * 1048576.0, "the best that is known");
        for _ in 0..8 {
            bench.tick(25 << 20, 100, vec![flood()]);
        }
        let later = bench.tick(25 << 20, 100, vec![flood()]).most_drain_bytes_per_s.unwrap();
        assert!((100.0..=180.0).contains(&(later / 1048576.0)), "{later}");
    }

    #[test]
    fn the_base_latency_is_learnt_while_nothing_floods() {
        let mut bench = Bench::new();
        for _ in 0..8 {
            bench.tick(0, 0, vec![victim(5, 20)]);
        }
        let quiet = bench.tick(0, 0, vec![victim(6, 20)]);
        assert_eq!((quiet.victims, quiet.floods), (true, false));
        assert!(quiet.base.unwrap() <= Duration::from_millis(6), "{quiet:?}");
        assert!((quiet.goal.as_secs_f64() - 0.02).abs() < 0.002, "{quiet:?}");
        for _ in 0..200 {
            bench.tick(25 << 20, 500, vec![victim(800, 5), flood()]);
        }
        let flooded = bench.tick(25 << 20, 500, vec![victim(800, 5), flood()]);
        assert_eq!(flooded.base, quiet.base, "a flooded latency is no base");
        assert!(flooded.pressure.unwrap() > 30.0 && flooded.floods && flooded.victims);
    }

    #[test]
    fn floods_can_be_paced_in_a_group_that_no_victim_is_in() {
        let group = |name: &str, actor: Actor| Actor { group: Some(name.to_owned()), ..actor };
        let told = |looks: Vec<Vec<Actor>>| {
            let mut bench = Bench::new();
            for actors in looks {
                bench.tick(0, 100, actors);
            }
            bench.estimator.floods_group().map(str::to_owned)
        };
        let (db, copy) = (|| group("db", victim(5, 4)), || group("copy", flood()));
        assert_eq!(told(vec![vec![db(), copy()]]).as_deref(), Some("copy"));
        // The flood is held back for a look or two.
        assert_eq!(told(vec![vec![db(), copy()], vec![db()]]).as_deref(), Some("copy"));
        assert_eq!(told(vec![vec![db(), copy(), group("other", flood())]]), None);
        assert_eq!(told(vec![vec![db(), flood()]]), None, "its group is not known");
        assert_eq!(told(vec![vec![group("copy/db", victim(5, 4)), copy()]]), None, "below the flood");
        let beside = group("copydb", victim(5, 4));
        assert_eq!(told(vec![vec![beside, copy()]]).as_deref(), Some("copy"));
        // A backup reads what it copies.
        let reads = LatencyCounts::from_values(vec![1_000_000; 9]);
        let reader = group("copy", Actor { reads, ..Actor::default() });
        assert_eq!(told(vec![vec![db(), copy(), reader]]).as_deref(), Some("copy"));
        // Also a victim that has not waited for a moment.
        assert_eq!(told(vec![vec![group("copy", victim(5, 4))], vec![copy()]]), None);
    }

    #[test]
    fn a_group_that_commits_on_another_device_is_not_paced() {
        let group = |name: &str, actor: Actor| Actor { group: Some(name.to_owned()), ..actor };
        let device = |minor: u32, actors: Vec<Actor>| DeviceObservation {
            id: DeviceId { major: 8, minor },
            counters: DeviceSample::default(),
            dirty_bytes: Some(100 << 20),
            writeback_bytes: None,
            changing: false,
            actors,
        };
        let flooded = device(0, vec![group("app", flood()), group("db", victim(5, 4))]);
        let other = device(16, vec![group("app", victim(5, 4))]);
        let told = |devices: Vec<DeviceObservation>| {
            let seen = Observation { devices, ..Observation::default() };
            let mut estimator = Estimator::new();
            let committing = committing_groups(&seen, TICK);
            estimator.update(&Config::default(), TICK, TICK, &flooded, Pulled::Nothing, &committing);
            estimator.floods_group().map(str::to_owned)
        };
        assert_eq!(told(vec![flooded.clone()]).as_deref(), Some("app"));
        assert_eq!(told(vec![flooded.clone(), other]), None);
    }

    #[test]
    fn who_floods_and_who_waits_is_told_by_what_they_do() {
        let mut bench = Bench::new();
        let only_flood = bench.tick(25 << 20, 0, vec![flood()]);
        assert_eq!((only_flood.victims, only_flood.floods), (false, true));
        // An actor that makes 16 MiB stable at a time is a flood.
        let mut bench = Bench::new();
        let loader = Actor { dirtied_bytes: 32 << 20, ..victim(200, 2) };
        assert_eq!((bench.tick(32 << 20, 0, vec![loader]).victims, bench.at), (false, TICK));
        // Both stay present for a while, and then they are gone.
        let mut bench = Bench::new();
        bench.tick(0, 0, vec![victim(5, 1), flood()]);
        let mut ticks = 0;
        while bench.tick(0, 0, vec![]).victims {
            ticks += 1;
        }
        assert_eq!(u128::from(ticks + 1u32) * TICK.as_millis(), PRESENCE.as_millis());
        // An actor that waits for seconds without an end is a victim under pressure.
        let stuck = Actor { waiting: 1, oldest: Duration::from_secs(2), ..Actor::default() };
        let estimate = bench.tick(0, 0, vec![stuck]);
        assert!(estimate.victims && estimate.pressure.unwrap() > 1.0, "{estimate:?}");
    }
}
