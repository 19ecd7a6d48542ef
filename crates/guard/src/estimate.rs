//! What is known of a device: how fast it drains, how long its victims wait and would wait by
//! themselves, and who is there.
//!
//! ```text
//! counters ── backlogged through the whole tick? ── yes ─▶ drain rate: largest of 4 s of such time
//! actors ──┬─ dirties much, waits little ─────────────────▶ flood
//!          └─ waits ─▶ victim ─▶ latencies of the last second ─▶ pressure = p90 / goal
//!                        └── no flood and no backlog? ── yes ─▶ base latency: middle of the medians of 10 s of such time
//! ```
//!
//! The base is not the smallest median, as a network's would be: a controller's empty cache answers
//! in a tenth of the time that it can keep up, and no setting gives that back.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use floodwall_model::LatencyCounts;
use floodwall_model::plant::{Actor, DeviceObservation};

use crate::config::{
    BACKLOG, BASE_MULTIPLE, BASE_WINDOW, Config, DRAIN_WINDOW, FLOOD_COMMIT, FLOOD_RATE, HARMED,
    LATENCY_WINDOW, LEAST_GOAL, LEAST_OPERATIONS, LONGEST_TICK, MOST_DRAIN_WINDOW, MOST_SLOWER, PRESENCE,
    UNKNOWN_GOAL,
};
use crate::filter::{Typical, Windowed};

/// Time over which the readers' slots are counted.
const READERS_WINDOW: Duration = Duration::from_secs(5);

/// What the sensors of one device have said so far.
#[derive(Clone, Debug)]
pub(crate) struct Estimator {
    drain: Windowed,
    /// The same of a longer time: what the device can.
    most_drain: Windowed,
    base: Typical,
    /// Mean latency without a flood: what a victim's rate follows.
    wait: Typical,
    /// By so many times the device has become slower since these were learnt.
    slower: f64,
    /// Smallest median since victims and floods met: what stands for the base where none was ever
    /// seen quiet.
    crowded: Windowed,
    recent: VecDeque<(Duration, LatencyCounts)>,
    readers: Windowed,
    victim_seen: Option<Duration>,
    flood_seen: Option<Duration>,
    was_backlogged: bool,
    /// Victims waited beyond their goal at the last look.
    was_harmed: bool,
    /// Control groups in which victims were seen, and when.
    victims_groups: BTreeMap<Option<String>, Duration>,
    /// The one group of the floods that were seen last.
    floods_group: Option<String>,
    /// Victims were seen without a flood.
    seen_alone: bool,
}

/// How the levers are while something is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pulled {
    Nothing,
    /// Or not in force yet.
    Somehow,
    /// The flood is held to a rate by its own group.
    Paced,
    /// The queue is as short as it gets, which has to do for a base where victims were never seen
    /// alone.
    Shortest,
}

/// The state of a device as the law sees it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Estimate {
    /// Bytes a second at which it drains; `None` before it was ever backlogged.
    pub drain_bytes_per_s: Option<f64>,
    /// The most that it was seen to drain lately, whatever the levers: what the device can, and not
    /// what a short queue lets through.
    pub most_drain_bytes_per_s: Option<f64>,
    /// What its victims wait for while nothing floods.
    pub base: Option<Duration>,
    /// The mean of the same, when it was measured; [`Estimate::base`] is a median, and follows a
    /// device that becomes slower.
    pub wait_alone: Option<Duration>,
    /// What they may wait for.
    pub goal: Duration,
    /// Whether the administrator has said so.
    pub goal_is_given: bool,
    /// What they wait for now, as a share of the goal; `None` if nothing can be said.
    pub pressure: Option<f64>,
    /// Operations that this is said of.
    pub operations: u64,
    /// Victims' operations that ended since the look before.
    pub ended: u64,
    /// What those had waited, all together.
    pub waited: Duration,
    /// How long operations were under way since the look before, all together, as far as a look can
    /// tell: those that never end, too.
    pub under_way: Duration,
    /// How long the longest of them has been under way.
    pub oldest: Duration,
    /// Bytes that the device wrote meanwhile and that no victim had asked for.
    pub flooded_bytes: u64,
    /// Victims are there.
    pub victims: bool,
    /// Floods, or what they have left, are there.
    pub floods: bool,
    /// Slots that readers among the victims take.
    pub readers: u32,
    /// Dirty and under writeback.
    pub backlog_bytes: u64,
    /// How long the device takes for what writes have put into its queue; `None` if its drain rate
    /// is not known.
    pub queue_delay: Option<Duration>,
    /// Time since the look before.
    pub tick: Duration,
}

impl Estimator {
    pub(crate) fn new() -> Self {
        Self {
            drain: Windowed::largest(DRAIN_WINDOW),
            most_drain: Windowed::largest(MOST_DRAIN_WINDOW),
            wait: Typical::new(BASE_WINDOW),
            slower: 1.0,
            base: Typical::new(BASE_WINDOW),
            crowded: Windowed::smallest(BASE_WINDOW),
            recent: VecDeque::new(),
            readers: Windowed::largest(READERS_WINDOW),
            victim_seen: None,
            flood_seen: None,
            was_backlogged: false,
            was_harmed: false,
            victims_groups: BTreeMap::new(),
            floods_group: None,
            seen_alone: false,
        }
    }

    /// The device has become so many times slower (below 1: faster): what was learnt counts by that
    /// much.
    pub(crate) fn becomes_slower(&mut self, times: f64) {
        self.slower = (self.slower * times).clamp(1.0 / MOST_SLOWER, MOST_SLOWER);
    }

    /// What was measured until now belongs to another level.
    pub(crate) fn begin_anew(&mut self) {
        self.recent.clear();
    }

    /// `tick`: time since the last observation. `pulled`: nothing, or how the levers are.
    pub(crate) fn update(
        &mut self,
        config: &Config,
        at: Duration,
        tick: Duration,
        seen: &DeviceObservation,
        pulled: Pulled,
    ) -> Estimate {
        let believed = tick > Duration::ZERO && tick <= LONGEST_TICK;
        let backlog_bytes = seen.dirty_bytes.unwrap_or(0) + seen.writeback_bytes.unwrap_or(0);
        let backlogged = backlog_bytes >= BACKLOG && seen.counters.in_flight > 0;
        // A tick that began or ended without a backlog tells how much was written, not how fast it
        // could have been. One in which nothing arrived tells that it was stuck.
        if believed && backlogged && self.was_backlogged {
            let rate = seen.counters.written_bytes as f64 / tick.as_secs_f64();
            // Below its pace a flood says nothing of the device, unless that is the bottleneck.
            let says = pulled != Pulled::Paced || self.was_harmed || self.drain.get() < Some(rate);
            if says {
                self.drain.add(tick, rate);
                self.most_drain.add(tick, rate);
            }
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
        self.tell_groups(at, tick, &seen.actors);
        let mut latencies = LatencyCounts::default();
        let (mut oldest, mut readers) = (Duration::ZERO, 0);
        let (mut waited, mut under_way, mut own_bytes) = (Duration::ZERO, Duration::ZERO, 0);
        for actor in victims() {
            latencies.merge(&actor.commits);
            latencies.merge(&actor.reads);
            oldest = oldest.max(actor.oldest);
            waited += Duration::from_nanos(actor.commits.sum_ns() + actor.reads.sum_ns());
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
            if !flooded || pulled == Pulled::Shortest && !self.seen_alone {
                if !flooded && !self.seen_alone {
                    // What stood for it until now is not needed any more.
                    (self.base, self.wait) = (Typical::new(BASE_WINDOW), Typical::new(BASE_WINDOW));
                }
                if !flooded {
                    self.slower = 1.0;
                }
                self.base.add(tick, median);
                self.wait.add(tick, latencies.mean_ns().unwrap_or(median));
            }
            self.seen_alone |= !flooded;
            self.crowded.add(tick, median);
        }
        let ended = latencies.count();
        self.recent.push_back((at, latencies));
        while self.recent.front().is_some_and(|(then, _)| *then + LATENCY_WINDOW <= at) {
            self.recent.pop_front();
        }

        let drain = self.drain.get();
        let base = self.base.get().map(|ns| ns * self.slower);
        let goal = self.goal(config);
        let (pressure, operations) = self.pressure(config, goal, oldest);
        self.was_harmed = pressure.is_some_and(|pressure| pressure > HARMED);
        let queued =
            seen.counters.in_flight as f64 * mean(seen.counters.written_bytes, seen.counters.write_ops);
        Estimate {
            drain_bytes_per_s: drain,
            most_drain_bytes_per_s: self.most_drain.get(),
            base: base.map(nanoseconds),
            wait_alone: self.wait.get().map(nanoseconds),
            goal,
            goal_is_given: config.goal.is_some(),
            pressure,
            operations,
            ended,
            waited,
            under_way,
            oldest,
            flooded_bytes: seen.counters.written_bytes.saturating_sub(own_bytes),
            victims: present(self.victim_seen),
            floods: flooded,
            readers: self.readers.get().unwrap_or(0.0) as u32,
            backlog_bytes,
            queue_delay: drain.map(|rate| Duration::from_secs_f64((queued / rate.max(1.0)).min(1e6))),
            tick: if believed { tick } else { Duration::ZERO },
        }
    }

    /// The control group that holds all floods and no victim, if one does.
    pub(crate) fn floods_group(&self) -> Option<&str> {
        self.floods_group.as_deref()
    }

    fn tell_groups(&mut self, at: Duration, tick: Duration, actors: &[Actor]) {
        for victim in actors.iter().filter(|actor| is_victim(actor, tick)) {
            self.victims_groups.insert(victim.group.clone(), at);
        }
        self.victims_groups.retain(|_, seen| at - *seen < PRESENCE);
        let mut floods = actors.iter().filter(|actor| is_flood(actor, tick)).map(|flood| &flood.group);
        if let Some(first) = floods.next() {
            self.floods_group = first.clone().filter(|_| floods.all(|group| group == first));
        }
        let is_in = |group: &Option<String>, flood: &str| {
            let below = group.as_deref().and_then(|group| group.strip_prefix(flood));
            below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || flood.is_empty())
        };
        // A limit of a group holds the groups below it, too.
        if self.floods_group.as_ref().is_some_and(|flood| self.victims_groups.keys().any(|g| is_in(g, flood)))
        {
            self.floods_group = None;
        }
    }

    fn goal(&self, config: &Config) -> Duration {
        if let Some(goal) = config.goal {
            return goal.max(LEAST_GOAL);
        }
        match (self.base.get(), self.crowded.get()) {
            (Some(base), _) => nanoseconds(base * self.slower * BASE_MULTIPLE).max(LEAST_GOAL),
            // Never seen alone: the best that it had is not worse than its base.
            (None, Some(best)) => nanoseconds(best * BASE_MULTIPLE).clamp(LEAST_GOAL, UNKNOWN_GOAL),
            (None, None) => UNKNOWN_GOAL,
        }
    }

    /// What ended within the last second against the goal; and what has not ended, which counts
    /// once it is late beyond doubt.
    fn pressure(&self, config: &Config, goal: Duration, oldest: Duration) -> (Option<f64>, u64) {
        let mut all = LatencyCounts::default();
        self.recent.iter().for_each(|(_, counts)| all.merge(counts));
        let share = |time: Duration| time.as_secs_f64() / goal.as_secs_f64();
        // A p99 needs a hundred operations.
        let rank = if config.goal.is_some() && all.count() >= 100 { 0.99 } else { 0.9 };
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

/// Whether somebody floods: he dirtied much within a tick, and made little of it stable.
#[must_use]
pub fn is_flood(actor: &Actor, tick: Duration) -> bool {
    let much = actor.dirtied_bytes as f64 >= FLOOD_RATE * tick.as_secs_f64();
    much && actor.dirtied_bytes >= FLOOD_COMMIT * actor.commits.count()
}

/// Whether somebody is to be protected: he waits, or has waited within a tick, and does not flood.
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
            self.estimator.update(&Config::default(), self.at, TICK, &seen, Pulled::Nothing)
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
        // The tick in which the backlog began is none of it.
        assert_eq!(bench.tick(5 << 20, 100, vec![flood()]).drain_bytes_per_s, None);
        assert_eq!(bench.tick(25 << 20, 100, vec![flood()]).drain_bytes_per_s, Some(100.0 * 1048576.0));
        // Idle for an hour: still known.
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
        // Also a victim that has not waited for a moment.
        assert_eq!(told(vec![vec![group("copy", victim(5, 4))], vec![copy()]]), None);
    }

    #[test]
    fn who_floods_and_who_waits_is_told_by_what_they_do() {
        let mut bench = Bench::new();
        let only_flood = bench.tick(25 << 20, 0, vec![flood()]);
        assert_eq!((only_flood.victims, only_flood.floods), (false, true));
        // One that makes 16 MiB stable at a time is a flood.
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
        // Somebody who waits and gets nothing is a victim under pressure.
        let stuck = Actor { waiting: 1, oldest: Duration::from_secs(2), ..Actor::default() };
        let estimate = bench.tick(0, 0, vec![stuck]);
        assert!(estimate.victims && estimate.pressure.unwrap() > 1.0, "{estimate:?}");
    }
}
