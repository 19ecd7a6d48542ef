//! Which levers a device has, the steps from one level to the next, and the knobs of a level.
//!
//! ```text
//! the administrator's values, the kernel's refusals ─▶ Offers ─┬─▶ first level, recipes, lengths
//! a level and a step ──────────────────────────────────────────┴─▶ the next level ─▶ knobs
//! ```
//!
//! Limits are kept as a share of the hard limit (`bdi.max_ratio_fine`), as the kernel keeps them.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;

use crate::act::Held;
use crate::config::{LIMIT_TRIAL, RAMP};
use crate::estimate::Estimate;
use crate::level::{
    DEPTH, ELEVATORS, Level, SHALLOWEST, SIZE, SMALLEST, elevator_level, elevator_name,
};
use crate::limit::{DRIFT, Ramp, last_limit};
use crate::pace::limits;

/// Depths and sizes with which encounters begin, from the longest queue to the shortest.
const QUEUE: [(u8, u8); 6] = [(3, 1), (3, 2), (3, 3), (4, 3), (4, 4), (4, 5)];
/// An elevator (`None`: the administrator's), a depth and a size.
type Recipe = (Option<&'static str>, u8, u8);
/// Levels that together come close to the best for each committing victim of the league
/// (docs/league.md). They are tried one after another. No single step leads from one to another,
/// because the best queue under one elevator is the worst under the next.
const FOR_COMMITS: [Recipe; 5] = [
    (Some("bfq"), 3, 3),
    (Some("bfq"), 0, 3),
    (Some("kyber"), 3, 1),
    (Some("kyber"), 3, 3),
    (None, 0, 3),
];
/// The same for victims that read.
const FOR_READS: [Recipe; 4] =
    [(Some("bfq"), 2, 0), (Some("bfq"), 3, 3), (Some("kyber"), 3, 3), (None, 0, 0)];
/// Share of the goal that a flood's part of the queue may take.
const QUEUE_SHARE: f64 = 0.5;
/// Parts per million of the whole.
const PPM: f64 = 1e6;

/// Which levers a device has.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Offers<'a> {
    /// The control group that holds all floods and no victim, if it can be paced.
    pub(crate) group: Option<&'a str>,
    /// Whether a victim can be raised under the elevator in force.
    pub(crate) raise: bool,
    /// Whether the elevator belongs to another program.
    pub(crate) elevator_is_theirs: bool,
    /// Elevators besides the administrator's, by their level.
    elevators: [bool; ELEVATORS.len()],
    depth: bool,
    size: bool,
    wbt: bool,
    limit: bool,
    /// How many of [`DEPTH`] and of [`SIZE`] are not below the administrator's value.
    above: (u8, u8),
    /// The level of the administrator's elevator; 0 if it is not in [`ELEVATORS`].
    own: u8,
    /// The administrator's requests, and KiB a request.
    own_queue: (Option<u32>, Option<u32>),
}

impl<'a> Offers<'a> {
    /// `floods_group`: the control group that all floods are in, and no victim.
    pub(crate) fn of(held: &Held, hard_limit: Option<u64>, floods_group: Option<&'a str>) -> Self {
        let own = held.own().get("scheduler").unwrap_or_default();
        let number =
            |knob: &str| held.own().get(knob).and_then(|text| text.trim().parse::<u32>().ok());
        let above = |ours: &[u32], own: Option<u32>| {
            ours.iter().filter(|n| own.is_some_and(|own| **n >= own)).count() as u8
        };
        Self {
            group: floods_group.filter(|group| limits(group).iter().all(|limit| held.has(limit))),
            raise: false,
            elevator_is_theirs: !held.has("scheduler"),
            elevators: ELEVATORS.map(|name| name != own && held.may_switch_elevator(name)),
            depth: held.has("nr_requests"),
            size: held.has("max_sectors_kb"),
            wbt: held.has("wbt_lat_usec") && held.own().get("wbt_lat_usec") != Some("0"),
            limit: hard_limit.is_some()
                && held.has("bdi.max_ratio_fine")
                && held.has("bdi.strict_limit"),
            above: (above(&DEPTH, number("nr_requests")), above(&SIZE, number("max_sectors_kb"))),
            own: elevator_level(own),
            own_queue: (number("nr_requests"), number("max_sectors_kb")),
        }
    }

    /// Bytes that fit into the queue at a level.
    pub(crate) fn queue_bytes(&self, level: Level) -> f64 {
        let number =
            |ours: Option<u32>, own: Option<u32>| f64::from(ours.or(own).unwrap_or(1).max(1));
        let (requests, kib) = self.own_queue;
        number(level.requests(), requests) * number(level.kib(), kib) * 1024.0
    }

    /// The lengths that the queue of a level can have, with their bytes, from the administrator's
    /// to the shortest.
    pub(crate) fn lengths(&self, level: Level) -> Vec<(Level, f64)> {
        let mut lengths: Vec<(Level, f64)> = Vec::new();
        for (depth, size) in [(0, 0), (1, 1), (2, 1)].into_iter().chain(QUEUE) {
            let level = self.queue(level, (depth, size));
            let bytes = self.queue_bytes(level);
            if lengths.last().is_none_or(|(_, last)| bytes < *last) {
                lengths.push((level, bytes));
            }
        }
        lengths
    }

    /// A level with this depth and size, as far as the device has them and the administrator's are
    /// not smaller.
    fn queue(&self, level: Level, (depth, size): (u8, u8)) -> Level {
        Level {
            depth: if self.depth && depth > self.above.0 { depth } else { 0 },
            size: if self.size && size > self.above.1 { size } else { 0 },
            ..level
        }
    }

    /// The first level of an encounter: the requests in the queue take half of the goal.
    pub(crate) fn first(&self, estimate: &Estimate) -> Level {
        let queue = |length: (u8, u8)| self.queue(Level::default(), length);
        let shortest = QUEUE[QUEUE.len() - 1];
        if estimate.base.is_none() && !estimate.goal_is_given {
            // Behind the shortest queue a victim waits about as long as alone, so the base is
            // learnt there.
            return queue(shortest);
        }
        let drain = estimate.drain_or_prior();
        let room = drain * estimate.goal.as_secs_f64() * QUEUE_SHARE;
        let bytes = |(depth, size): (u8, u8)| {
            let level = Level { depth, size, ..Level::default() };
            f64::from(level.requests().unwrap_or(0)) * f64::from(level.kib().unwrap_or(0)) * 1024.0
        };
        queue(QUEUE.into_iter().find(|q| bytes(*q) <= room).unwrap_or(shortest))
    }

    /// The levels that an encounter with an unknown device tries first.
    pub(crate) fn recipes(&self, reads: bool) -> VecDeque<Level> {
        let recipes: &[Recipe] = if reads { &FOR_READS } else { &FOR_COMMITS };
        let mut levels = VecDeque::new();
        for level in recipes.iter().filter_map(|recipe| self.recipe(*recipe)) {
            if !levels.contains(&level) {
                levels.push_back(level);
            }
        }
        levels
    }

    /// What else may help victims at a level's length of the queue: other elevators, writeback
    /// throttling, a limit. Little is queued there, so a change of the elevator waits for little.
    pub(crate) fn besides(&self, level: Level, e: &Estimate) -> VecDeque<Level> {
        let elevators = (1..=ELEVATORS.len() as u8).map(Step::Elevator);
        let steps = [Step::Raise].into_iter().chain(elevators).chain([
            Step::Elevator(0),
            Step::Wbt,
            Step::Limit,
        ]);
        steps.filter_map(|step| step.from(level, e, self)).collect()
    }

    /// A recipe as a level, without values that the administrator has anyway. `None` if the device
    /// lacks the elevator.
    fn recipe(&self, (elevator, depth, size): Recipe) -> Option<Level> {
        let elevator = elevator.map_or(0, elevator_level);
        let elevator = if elevator == self.own { 0 } else { elevator };
        let level = Level { elevator, ..Level::default() };
        self.may_switch_elevator(elevator).then(|| self.queue(level, (depth, size)))
    }

    /// Whether the elevator of a level is bfq.
    pub(crate) fn is_bfq(&self, level: Level) -> bool {
        elevator_name(level.elevator).or(elevator_name(self.own)) == Some("bfq")
    }

    pub(crate) fn may_switch_elevator(&self, level: u8) -> bool {
        usize::from(level)
            .checked_sub(1)
            .is_none_or(|i| self.elevators.get(i).is_some_and(|has| *has))
    }
}

/// One step of one lever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Shallower,
    Deeper,
    Smaller,
    Larger,
    Elevator(u8),
    ShortestQueue,
    Raise,
    Wbt,
    Limit,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Shallower => "fewer requests",
            Self::Deeper => "more requests",
            Self::Smaller => "smaller requests",
            Self::Larger => "larger requests",
            Self::Elevator(level) => {
                elevator_name(*level).unwrap_or("the administrator's elevator")
            }
            Self::ShortestQueue => "the shortest queue",
            Self::Raise => "the other of victims raised and not",
            Self::Wbt => "the other of writeback throttling on and off",
            Self::Limit => "the other of a limit and none",
        })
    }
}

impl Step {
    /// Whether it changes the elevator.
    pub(crate) fn is_elevator(self) -> bool {
        matches!(self, Self::Elevator(_))
    }

    /// All steps in the order in which they are tried. Those that give more to the side with the
    /// smaller share come first. A limit comes last, because its effect is the least certain.
    pub(crate) fn all(victims_have_less: bool) -> impl Iterator<Item = Self> {
        let (tighter, looser) = ([Self::Smaller, Self::Shallower], [Self::Larger, Self::Deeper]);
        let (first, last) = if victims_have_less { (tighter, looser) } else { (looser, tighter) };
        let elevators = (0..=ELEVATORS.len())
            .map(|i| Self::Elevator((i + 1) as u8 % (ELEVATORS.len() as u8 + 1)));
        first
            .into_iter()
            .chain(victims_have_less.then_some(Self::ShortestQueue))
            .chain([Self::Raise])
            .chain(elevators)
            .chain(last)
            .chain([Self::Wbt, Self::Limit])
    }

    /// The level after this step; `None` if the device has no such level.
    pub(crate) fn from(self, level: Level, e: &Estimate, offers: &Offers<'_>) -> Option<Level> {
        match self {
            Self::Shallower if offers.depth && level.depth.max(offers.above.0) < SHALLOWEST => {
                // The first step leads to the largest depth below the administrator's.
                Some(Level { depth: level.depth.max(offers.above.0) + 1, ..level })
            }
            Self::Deeper if level.depth > 0 => {
                let depth = level.depth - 1;
                Some(Level { depth: if depth <= offers.above.0 { 0 } else { depth }, ..level })
            }
            Self::Smaller if offers.size && level.size.max(offers.above.1) < SMALLEST => {
                Some(Level { size: level.size.max(offers.above.1) + 1, ..level })
            }
            Self::Larger if level.size > 0 => {
                let size = level.size - 1;
                Some(Level { size: if size <= offers.above.1 { 0 } else { size }, ..level })
            }
            Self::Elevator(elevator)
                if elevator != level.elevator && offers.may_switch_elevator(elevator) =>
            {
                Some(Level { elevator, unraised: false, ..level })
            }
            Self::ShortestQueue if offers.depth && offers.size && !level.has_shortest_queue() => {
                let (depth, size) = (SHALLOWEST, SMALLEST);
                (offers.above.0 < depth && offers.above.1 < size).then_some(Level {
                    depth,
                    size,
                    ..level
                })
            }
            Self::Raise => offers.raise.then_some(Level { unraised: !level.unraised, ..level }),
            Self::Wbt => {
                let bfq = offers.is_bfq(level);
                (offers.wbt && !bfq).then_some(Level { wbt_off: !level.wbt_off, ..level })
            }
            Self::Limit if level.limit > 0 => Some(Level { limit: 0, ..level }),
            Self::Limit => {
                let drain = e.drain_bytes_per_s.filter(|_| offers.limit)?;
                // The backlog above a limit has to drain first, and victims wait meanwhile.
                let soon = e.backlog_bytes as f64 <= drain * RAMP * LIMIT_TRIAL.as_secs_f64();
                soon.then(|| Level { limit: last_limit(e), ..level })
            }
            _ => None,
        }
    }
}

/// The knobs of one device that are to differ from the administrator's, with their values.
///
/// `hard_limit`: the machine's, in bytes. Without it no limit is set.
pub(crate) fn wanted(
    level: Level,
    ramp: Ramp,
    held: &Held,
    hard_limit: Option<u64>,
) -> BTreeMap<String, String> {
    let mut wanted = BTreeMap::new();
    let own = held.own();
    let number = |knob: &str| own.get(knob).and_then(|text| text.trim().parse::<u64>().ok());
    if let Some(name) = elevator_name(level.elevator) {
        wanted.insert("scheduler".to_owned(), name.to_owned());
    }
    if level.wbt_off && own.get("wbt_lat_usec").is_some() {
        wanted.insert("wbt_lat_usec".to_owned(), "0".to_owned());
    }
    // Never more than the administrator allows.
    if let Some(requests) =
        level.requests().filter(|n| number("nr_requests").is_some_and(|own| own > u64::from(*n)))
    {
        wanted.insert("nr_requests".to_owned(), requests.to_string());
    }
    if let Some(kib) =
        level.kib().filter(|n| number("max_sectors_kb").is_some_and(|own| own > u64::from(*n)))
    {
        wanted.insert("max_sectors_kb".to_owned(), kib.to_string());
    }
    if let (Some(limit), Some(hard), Some(most)) =
        (ramp.bytes(), hard_limit.filter(|hard| *hard > 0), number("bdi.max_ratio_fine"))
    {
        let value = ((limit / hard as f64 * PPM) as u64).clamp(1, most);
        let now: Option<u64> =
            held.written("bdi.max_ratio_fine").and_then(|text| text.parse().ok());
        let close = |now: &u64| (*now as f64 - value as f64).abs() <= DRIFT * value as f64;
        wanted.insert(
            "bdi.max_ratio_fine".to_owned(),
            now.filter(close).unwrap_or(value).to_string(),
        );
        wanted.insert("bdi.strict_limit".to_owned(), "1".to_owned());
    }
    wanted
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use floodwall_model::Setting;

    use super::*;
    use crate::config::LEAST_LIMIT;
    use crate::limit::{is_last_limit, limit_bytes};

    fn offers() -> Offers<'static> {
        Offers { depth: true, size: true, ..Offers::default() }
    }

    fn held() -> Held {
        Held::new(own())
    }

    fn own() -> Setting {
        let pairs = [
            ("nr_requests", "256"),
            ("max_sectors_kb", "4096"),
            ("bdi.max_ratio_fine", "1000000"),
            ("bdi.strict_limit", "0"),
        ];
        pairs.map(|(k, v)| (k.to_owned(), v.to_owned())).into_iter().collect()
    }

    fn estimate(drain: f64, goal_ms: u64) -> Estimate {
        Estimate {
            drain_bytes_per_s: Some(drain),
            goal: Duration::from_millis(goal_ms),
            base: Some(Duration::from_millis(goal_ms / 4)),
            ..Estimate::default()
        }
    }

    #[test]
    fn a_level_is_read_as_it_is_written() {
        for elevator in 0..=4 {
            for (depth, size) in [(0, 0), (1, 5), (4, 1), (0, 3)] {
                for (limit, wbt_off, unraised) in
                    [(0, false, false), (7, true, false), (1, false, true)]
                {
                    let level = Level { elevator, depth, size, wbt_off, unraised, limit };
                    assert_eq!(level.to_string().parse(), Ok(level), "{level}");
                }
            }
        }
        for text in
            ["", "cfq", "bfq, 7 requests", "bfq, 96 KiB", "bfq, 8 requests, turbo", "bfq, limit 0"]
        {
            assert!(text.parse::<Level>().is_err(), "{text}");
        }
        let level = Level { size: 1, limit: 2, ..Level::default() };
        let knobs: Vec<&str> = level.knobs().collect();
        assert_eq!(knobs, ["max_sectors_kb", "bdi.max_ratio_fine", "bdi.strict_limit"]);
    }

    #[test]
    fn the_first_level_leaves_half_of_the_goal_to_the_flood() {
        let first = |e: &Estimate| {
            let level = offers().first(e);
            (level.requests(), level.kib())
        };
        // 100 MB/s, 20 ms: half of it is 1 MB, less than 8 × 128 KiB.
        assert_eq!(first(&estimate(100e6, 20)), (Some(4), Some(128)));
        assert_eq!(first(&estimate(3e9, 20)), (Some(8), Some(512)));
        assert_eq!(first(&estimate(1e6, 20)), (Some(4), Some(32)));
        assert!(offers().first(&Estimate::default()).has_shortest_queue());
        let unknown =
            Estimate { drain_bytes_per_s: None, prior_bytes_per_s: 100e6, ..estimate(1.0, 20) };
        assert_eq!(first(&unknown), (Some(4), Some(128)));
        let level =
            Level { elevator: 1, depth: 4, size: 5, wbt_off: true, unraised: true, limit: 3 };
        assert_eq!(level.half(), Level { limit: 1, ..Level::default() });
        assert!(level.half().half().is_free());
    }

    #[test]
    fn the_administrators_own_short_queue_is_never_made_longer() {
        let mut own = own();
        own.0.insert("nr_requests".into(), "4".into());
        own.0.insert("max_sectors_kb".into(), "64".into());
        let level = Level { depth: 1, size: 1, ..Level::default() };
        let short = Held::new(own);
        assert!(wanted(level, Ramp::default(), &short, Some(1 << 30)).is_empty());
        // An absent knob is not written.
        let nothing = Held::new(Setting::default());
        let level = Level { depth: 4, size: 5, wbt_off: true, limit: 6, ..Level::default() };
        assert!(wanted(level, Ramp::default(), &nothing, None).is_empty());
    }

    #[test]
    fn a_limit_comes_down_in_steps_to_its_target_and_stays() {
        let mut e = estimate(1e8, 20);
        e.backlog_bytes = 800_000_000;
        e.tick = Duration::from_millis(250);
        let (mut ramp, level) = (Ramp::default(), Level { limit: 1, ..Level::default() });
        let mut held = held();
        let mut steps = Vec::new();
        for _ in 0..100 {
            ramp.tick(1, &e, Some(1 << 30));
            let now = wanted(level, ramp, &held, Some(1 << 30));
            let ppm: u64 = now["bdi.max_ratio_fine"].parse().unwrap();
            let limit = ppm as f64 / PPM * (1u64 << 30) as f64;
            assert_eq!(now["bdi.strict_limit"], "1");
            assert!(
                limit > 0.95 * e.backlog_bytes as f64,
                "{limit} below {} that are there",
                e.backlog_bytes
            );
            steps.push(ppm);
            // The device drains 25 MB a tick, and writers fill up to nine tenths of the limit.
            held.put("bdi.max_ratio_fine", &now["bdi.max_ratio_fine"]);
            e.backlog_bytes =
                (e.backlog_bytes - 25_000_000).max((0.9 * limit) as u64).min(e.backlog_bytes);
        }
        // 50 MB of 1 GiB are 46,566 ppm; a tenth more or less is not worth a write.
        let last = *steps.last().unwrap();
        assert!((46_566..=51_300).contains(&last) && ramp.is_at_target(1, &e), "{steps:?}");
        assert!(steps.windows(2).all(|w| w[1] <= w[0]), "{steps:?}");
        steps.dedup();
        assert!(steps.len() < 30, "{} writes", steps.len());
        assert_eq!(limit_bytes(9, 1e8), LEAST_LIMIT);
        assert!(is_last_limit(9, &e) && !is_last_limit(1, &e));
        // The limit rises at once, and is dropped at level 0.
        e.drain_bytes_per_s = Some(4e8);
        ramp.tick(1, &e, Some(1 << 30));
        assert_eq!(ramp.bytes(), Some(2e8));
        ramp.tick(0, &e, Some(1 << 30));
        assert!(wanted(Level::default(), ramp, &held, Some(1 << 30)).is_empty());
    }

    #[test]
    fn steps_lead_only_where_there_is_something() {
        let e = estimate(1e8, 20);
        let offers = Offers::of(&held(), Some(1 << 30), None);
        let from = |level: Level| {
            Step::all(true).filter_map(|s| s.from(level, &e, &offers)).collect::<Vec<_>>()
        };
        let all = from(Level { depth: 3, size: 3, ..Level::default() });
        // Neither an elevator nor throttling is among the knobs.
        assert_eq!(all.iter().filter(|l| l.elevator > 0 || l.wbt_off).count(), 0);
        for (depth, size) in [(4, 3), (2, 3), (3, 4), (3, 2)] {
            assert!(
                all.iter().any(|l| (l.depth, l.size) == (depth, size)),
                "{depth} {size}: {all:?}"
            );
        }
        assert!(all.iter().any(|l| l.limit > 0));
        assert!(
            from(Level { depth: 4, size: 5, ..Level::default() })
                .iter()
                .all(|l| l.depth <= 4 && l.size <= 5)
        );
        // A queue that is short already is not made longer on the way back.
        let mut short = own();
        short.0.insert("nr_requests".into(), "20".into());
        let offers_of_short = Offers::of(&Held::new(short), None, None);
        let step = |step: Step, depth| {
            step.from(Level { depth, ..Level::default() }, &e, &offers_of_short).map(|l| l.depth)
        };
        assert_eq!((step(Step::Shallower, 0), step(Step::Deeper, 2)), (Some(2), Some(0)));
        // Victims are raised and not by a step where there is one to be raised, and under a new
        // elevator always.
        let unraised = Level { unraised: true, ..Level::default() };
        assert_eq!(Step::Raise.from(Level::default(), &e, &offers), None);
        let mut raises = offers;
        raises.raise = true;
        assert_eq!(Step::Raise.from(Level::default(), &e, &raises), Some(unraised));
        assert_eq!(Step::Raise.from(unraised, &e, &raises), Some(Level::default()));
        // A backlog that takes minutes to drain is not waited for.
        let full = Estimate { backlog_bytes: 4 << 30, ..e.clone() };
        assert_eq!(Step::Limit.from(Level::default(), &full, &offers), None);
        let mut own = own();
        own.0.insert("scheduler".into(), "mq-deadline".into());
        let offers = Offers::of(&Held::new(own), None, None);
        assert_eq!(
            Step::Elevator(2).from(Level::default(), &e, &offers),
            None,
            "it is the administrator's"
        );
        let bfq = Some(Level { elevator: 1, ..Level::default() });
        assert_eq!(Step::Elevator(1).from(Level::default(), &e, &offers), bfq);
        assert_eq!(Step::Elevator(1).from(unraised, &e, &offers), bfq);
    }
}
