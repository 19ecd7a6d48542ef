//! The two levers and their steps, as knobs.
//!
//! ```text
//! queue level   0: the administrator's   1: 8 × 512 KiB   2: 8 × 256   3: 8 × 128   4: 4 × 128   5: 4 × 64   6: 4 × 32   (requests × size)
//! limit level   0: the administrator's   1: drain rate × 0.5 s, strict, for this device alone   2: half of that …   down to 16 MiB
//! ```
//!
//! The requests of a level are the flood's; what readers among the victims hold comes on top, because both take slots of one pool and a reader that finds none
//! has lost what a short queue was to give him. Limits are kept as a share of the hard limit (`bdi.max_ratio_fine`), as the kernel keeps them.

use std::collections::BTreeMap;
use std::time::Duration;

use floodwall_model::Setting;

use crate::config::{ABOVE_BACKLOG, FIRST_LIMIT, LEAST_LIMIT, RAMP};
use crate::estimate::Estimate;

/// Requests and KiB a request of the queue levels from 1 on; each lets half as much of a flood into the queue as the one before.
const QUEUE: [(u32, u32); 6] = [(8, 512), (8, 256), (8, 128), (4, 128), (4, 64), (4, 32)];
/// The tightest queue level.
pub(crate) const TIGHTEST_QUEUE: u32 = QUEUE.len() as u32;
/// The queue level while the drain rate is not known: 1 MiB, 10 ms of a disk.
const UNKNOWN_QUEUE: u32 = 3;
/// Share of the goal that a flood's part of the queue may take.
const QUEUE_SHARE: f64 = 0.5;
/// Parts per million of the whole.
const PPM: f64 = 1e6;
/// A limit is written anew if it is off by more than this: the hard limit that it is a share of moves with free memory.
const DRIFT: f64 = 0.1;

/// How far the levers are pulled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Level {
    /// Of the queue; 0: as the administrator has it.
    pub queue: u32,
    /// Of the limits; 0: as the administrator has them.
    pub limit: u32,
}

impl Level {
    /// Whether nothing is pulled.
    #[must_use]
    pub fn is_free(self) -> bool {
        self == Self::default()
    }

    /// The first level of an encounter: what stands in the queue takes half of the goal.
    pub(crate) fn first(estimate: &Estimate) -> Self {
        if estimate.base.is_none() && !estimate.goal_is_given {
            // What a victim waits for behind the shortest queue is what it would wait for by itself, or close to it: the base is learnt there.
            return Self { queue: TIGHTEST_QUEUE, limit: 0 };
        }
        let Some(drain) = estimate.drain_bytes_per_s else { return Self { queue: UNKNOWN_QUEUE, limit: 0 } };
        let room = drain * estimate.goal.as_secs_f64() * QUEUE_SHARE;
        let fits = |(requests, kib): &(u32, u32)| f64::from(requests * kib) * 1024.0 <= room;
        let queue = QUEUE.iter().position(fits).map_or(TIGHTEST_QUEUE, |i| i as u32 + 1);
        Self { queue, limit: 0 }
    }

    /// One step towards the administrator's, the limits first: they cost most.
    pub(crate) fn looser(self) -> Self {
        if self.limit > 0 {
            Self { limit: self.limit - 1, ..self }
        } else {
            Self { queue: self.queue.saturating_sub(1), ..self }
        }
    }

    /// Half way back to the administrator's.
    pub(crate) fn half(self) -> Self {
        Self { queue: self.queue / 2, limit: self.limit / 2 }
    }
}

/// The limit of a level in bytes.
pub(crate) fn limit_bytes(level: u32, drain_bytes_per_s: f64) -> u64 {
    let first = drain_bytes_per_s * FIRST_LIMIT.as_secs_f64();
    ((first / f64::from(1u32 << (level - 1).min(30))) as u64).max(LEAST_LIMIT)
}

/// Whether a limit level is the last that changes anything.
pub(crate) fn is_last_limit(level: u32, estimate: &Estimate) -> bool {
    estimate.drain_bytes_per_s.is_none_or(|drain| level > 0 && limit_bytes(level, drain) == LEAST_LIMIT)
}

/// The first limit level that is as low as limits get.
pub(crate) fn last_limit(estimate: &Estimate) -> u32 {
    (1..=30).find(|level| is_last_limit(*level, estimate)).unwrap_or(0)
}

/// Time to drain what a level lets wait in RAM; for people.
pub(crate) fn limit_time(level: u32, estimate: &Estimate) -> Option<Duration> {
    let drain = estimate.drain_bytes_per_s.filter(|_| level > 0)?;
    Some(Duration::from_secs_f64(limit_bytes(level, drain) as f64 / drain.max(1.0)))
}

/// A device's limit on its way down to its target, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Ramp(Option<f64>);

impl Ramp {
    /// One tick. Up at once; down at half of the drain rate and never below what is there: the kernel stops everybody who writes to a device that is above its limit, victims too.
    pub(crate) fn tick(&mut self, level: u32, estimate: &Estimate, hard_limit: Option<u64>) {
        let (Some(drain), Some(hard), true) = (estimate.drain_bytes_per_s, hard_limit, level > 0) else {
            self.0 = None;
            return;
        };
        let target = limit_bytes(level, drain) as f64;
        let there = estimate.backlog_bytes as f64;
        let now = self.0.unwrap_or_else(|| (there * ABOVE_BACKLOG).clamp(target, (hard as f64).max(target)));
        let lower = (now - drain * RAMP * estimate.tick.as_secs_f64()).max(there.min(now));
        self.0 = Some(lower.max(target));
    }

    /// Whether it has arrived.
    pub(crate) fn is_at_target(self, level: u32, estimate: &Estimate) -> bool {
        match (self.0, estimate.drain_bytes_per_s) {
            (Some(now), Some(drain)) => now <= limit_bytes(level, drain) as f64 * (1.0 + DRIFT),
            _ => true,
        }
    }
}

/// What is to be in force on one device: knobs that differ from the administrator's, with their values.
///
/// `held`: what is in force of it. `hard_limit`: the machine's, in bytes; without it there are no limits.
pub(crate) fn wanted(
    level: Level,
    ramp: Ramp,
    estimate: &Estimate,
    own: &Setting,
    held: &BTreeMap<String, String>,
    hard_limit: Option<u64>,
) -> BTreeMap<String, String> {
    let mut wanted = BTreeMap::new();
    let number = |knob: &str| own.get(knob).and_then(|text| text.trim().parse::<u64>().ok());
    if level.queue > 0 {
        let (requests, kib) = QUEUE[(level.queue.min(TIGHTEST_QUEUE) - 1) as usize];
        let requests = held_slots(held, requests, estimate.readers);
        // Never more than the administrator allows.
        if number("nr_requests").is_some_and(|now| now > u64::from(requests)) {
            wanted.insert("nr_requests".to_owned(), requests.to_string());
        }
        if number("max_sectors_kb").is_some_and(|now| now > u64::from(kib)) {
            wanted.insert("max_sectors_kb".to_owned(), kib.to_string());
        }
    }
    if let (Some(limit), Some(hard), Some(most)) =
        (ramp.0, hard_limit.filter(|hard| *hard > 0), number("bdi.max_ratio_fine"))
    {
        let value = ((limit / hard as f64 * PPM) as u64).clamp(1, most);
        let now: Option<u64> = held.get("bdi.max_ratio_fine").and_then(|text| text.parse().ok());
        let close = |now: &u64| (*now as f64 - value as f64).abs() <= DRIFT * value as f64;
        wanted.insert("bdi.max_ratio_fine".to_owned(), now.filter(close).unwrap_or(value).to_string());
        wanted.insert("bdi.strict_limit".to_owned(), "1".to_owned());
    }
    wanted
}

/// Slots for the flood's requests and the readers'. Readers come and go by the second: what is there is kept while it is not too small nor twice too large.
fn held_slots(held: &BTreeMap<String, String>, requests: u32, readers: u32) -> u32 {
    let needed = requests + readers;
    let now: Option<u32> = held.get("nr_requests").and_then(|text| text.parse().ok());
    now.filter(|now| *now >= needed && (*now <= 2 * needed && readers > 0 || *now == needed))
        .unwrap_or(needed)
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_first_level_leaves_half_of_the_goal_to_the_flood() {
        // 100 MB/s, 20 ms: half of it is 1 MB, less than 8 × 128 KiB.
        assert_eq!(Level::first(&estimate(100e6, 20)).queue, 4);
        assert_eq!(Level::first(&estimate(3e9, 20)).queue, 1);
        assert_eq!(Level::first(&estimate(1e6, 20)).queue, TIGHTEST_QUEUE);
        assert_eq!(Level::first(&Estimate::default()).queue, TIGHTEST_QUEUE);
        let known = Estimate { drain_bytes_per_s: None, ..estimate(1.0, 20) };
        assert_eq!(Level::first(&known).queue, UNKNOWN_QUEUE);
        let mut level = Level { queue: 6, limit: 3 };
        let mut halves = 0;
        while !level.is_free() {
            level = level.half();
            halves += 1;
        }
        assert_eq!(halves, 3);
    }

    #[test]
    fn the_administrators_own_short_queue_is_never_made_longer() {
        let mut own = own();
        own.0.insert("nr_requests".into(), "4".into());
        own.0.insert("max_sectors_kb".into(), "64".into());
        let level = Level { queue: 1, limit: 0 };
        assert!(
            wanted(level, Ramp::default(), &estimate(1e8, 20), &own, &BTreeMap::new(), Some(1 << 30))
                .is_empty()
        );
        // What is not there is not written.
        assert!(
            wanted(
                Level { queue: 6, limit: 6 },
                Ramp::default(),
                &estimate(1e8, 20),
                &Setting::default(),
                &BTreeMap::new(),
                None
            )
            .is_empty()
        );
    }

    #[test]
    fn a_limit_comes_down_in_steps_to_its_target_and_stays() {
        let mut e = estimate(1e8, 20);
        e.backlog_bytes = 800_000_000;
        e.tick = Duration::from_millis(250);
        let (mut held, mut ramp, level) = (BTreeMap::new(), Ramp::default(), Level { queue: 0, limit: 1 });
        let mut steps = Vec::new();
        for _ in 0..100 {
            ramp.tick(1, &e, Some(1 << 30));
            let now = wanted(level, ramp, &e, &own(), &held, Some(1 << 30));
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
            e.backlog_bytes = (e.backlog_bytes - 25_000_000).max((0.9 * limit) as u64).min(e.backlog_bytes);
            held = now;
        }
        // 50 MB of 1 GiB are 46,566 ppm; a tenth more or less is not worth a write.
        let last = *steps.last().unwrap();
        assert!((46_566..=51_300).contains(&last) && ramp.is_at_target(1, &e), "{steps:?}");
        assert!(steps.windows(2).all(|w| w[1] <= w[0]), "{steps:?}");
        steps.dedup();
        assert!(steps.len() < 30, "{} writes", steps.len());
        assert_eq!(limit_bytes(9, 1e8), LEAST_LIMIT);
        assert!(is_last_limit(9, &e) && !is_last_limit(1, &e));
        // Up at once, and away.
        e.drain_bytes_per_s = Some(4e8);
        ramp.tick(1, &e, Some(1 << 30));
        assert_eq!(ramp, Ramp(Some(2e8)));
        ramp.tick(0, &e, Some(1 << 30));
        assert!(wanted(Level::default(), ramp, &e, &own(), &held, Some(1 << 30)).is_empty());
    }

    #[test]
    fn readers_keep_their_slots() {
        let mut e = estimate(1e8, 20);
        e.readers = 16;
        let level = Level { queue: 3, limit: 0 };
        let now = wanted(level, Ramp::default(), &e, &own(), &BTreeMap::new(), None);
        assert_eq!(now["nr_requests"], "24");
        // A few fewer change nothing, many fewer do.
        e.readers = 12;
        assert_eq!(wanted(level, Ramp::default(), &e, &own(), &now, None), now);
        e.readers = 2;
        assert_eq!(wanted(level, Ramp::default(), &e, &own(), &now, None)["nr_requests"], "10");
    }
}
