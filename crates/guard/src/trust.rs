//! Floods that have told that they pace themselves (`floodwall pace`). The guard spares them,
//! unless victims miss their goal in spite of it.
//!
//! ```text
//! all floods pace themselves ─▶ spared ─ victims miss their goal for 10 s ─▶ floods like any
//!                                                other, until all that say so have gone
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use floodwall_model::plant::Actor;

use crate::config::{HARMED, PRESENCE, SPARED};
use crate::look::Now;
use crate::who::is_flood;

/// Other floods that are remembered: one is enough to end the sparing.
const MOST_OTHERS: usize = 64;

/// Whether the floods of a device pace themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OwnPace {
    /// Not all of them do.
    #[default]
    No,
    /// All do. The guard pulls no lever because of them.
    Spared,
    /// All claim to do so, and victims miss their goal all the same. The guard treats them as any
    /// flood.
    Missed,
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct Trust {
    /// When a flood that paces itself was last seen.
    paced: Option<Duration>,
    /// Floods that do not, and when each was last seen. A backlog that they have left counts.
    others: BTreeMap<String, Duration>,
    /// For how long victims have missed their goal.
    late: Duration,
    is_lost: bool,
}

impl Trust {
    /// Whether victims missed their goal in spite of it.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Takes in one look. `drains`: whether the kernel writes a backlog out.
    pub(crate) fn look(&mut self, now: &Now<'_>, actors: &[Actor], drains: bool) {
        let (at, tick) = (now.seen.at, now.tick);
        let is_present = |seen: Duration| at.saturating_sub(seen) < PRESENCE;
        self.others.retain(|_, seen| drains || is_present(*seen));
        for flood in actors.iter().filter(|actor| is_flood(actor, tick)) {
            if flood.paces_itself {
                self.paced = Some(at);
                self.others.remove(&flood.who);
            } else if !now.seen.missed_waits && self.others.len() < MOST_OTHERS {
                self.others.insert(flood.who.clone(), at);
            }
        }
        if !self.paced.is_some_and(is_present) {
            (self.paced, self.late, self.is_lost) = (None, Duration::ZERO, false);
        }
    }

    /// Judges the floods by the victims' wait as a share of their goal.
    pub(crate) fn judge(&mut self, tick: Duration, pressure: Option<f64>) -> OwnPace {
        if self.paced.is_none() || !self.others.is_empty() {
            self.late = Duration::ZERO;
            return OwnPace::No;
        }
        let is_late = pressure.is_some_and(|pressure| pressure > HARMED);
        self.late = if is_late { self.late + tick } else { Duration::ZERO };
        self.is_lost |= self.late >= SPARED;
        if self.is_lost { OwnPace::Missed } else { OwnPace::Spared }
    }
}

#[cfg(test)]
mod tests {
    use floodwall_model::plant::Observation;

    use super::*;

    const TICK: Duration = Duration::from_millis(250);

    struct Bench {
        trust: Trust,
        at: Duration,
    }

    impl Bench {
        fn new() -> Self {
            Self { trust: Trust::default(), at: Duration::ZERO }
        }

        /// So many seconds with the same actors and pressure.
        fn run(&mut self, seconds: u32, actors: &[Actor], drains: bool, pressure: f64) -> OwnPace {
            let mut own_pace = OwnPace::No;
            for _ in 0..4 * seconds {
                self.at += TICK;
                let seen = Observation { at: self.at, ..Observation::default() };
                self.trust.look(&Now::new(&seen, TICK), actors, drains);
                own_pace = self.trust.judge(TICK, Some(pressure));
            }
            own_pace
        }
    }

    fn flood(who: &str, paces_itself: bool) -> Actor {
        let dirtied_bytes = if paces_itself { 0 } else { 100 << 20 };
        Actor { who: who.to_owned(), dirtied_bytes, paces_itself, ..Actor::default() }
    }

    #[test]
    fn a_flood_that_paces_itself_is_spared_until_victims_have_missed_their_goal_for_long() {
        let mut bench = Bench::new();
        let paced = [flood("cp", true)];
        assert_eq!(bench.run(60, &paced, true, 0.9), OwnPace::Spared);
        assert_eq!(bench.run(8, &paced, true, 5.0), OwnPace::Spared, "one late operation");
        assert_eq!(bench.run(1, &paced, true, 0.9), OwnPace::Spared);
        assert_eq!(bench.run(10, &paced, true, 1.1), OwnPace::Missed);
        assert_eq!(bench.run(600, &paced, true, 0.1), OwnPace::Missed, "because of the guard");
        // It has gone, and another one comes.
        assert_eq!(bench.run(4, &[], true, 0.1), OwnPace::No);
        assert_eq!(bench.run(1, &paced, true, 5.0), OwnPace::Spared);
    }

    #[test]
    fn beside_another_flood_nobody_is_spared_until_its_backlog_is_written() {
        let mut bench = Bench::new();
        let both = [flood("cp", true), flood("dd", false)];
        assert_eq!(bench.run(60, &both, true, 5.0), OwnPace::No);
        assert_eq!(bench.run(60, &both[..1], true, 5.0), OwnPace::No, "dd's backlog");
        assert_eq!(bench.run(1, &both[..1], false, 5.0), OwnPace::Spared);
        assert_eq!(bench.run(1, &both, true, 0.1), OwnPace::No);
    }

    #[test]
    fn what_a_flood_wrote_before_it_told_is_not_anothers() {
        let mut bench = Bench::new();
        assert_eq!(bench.run(1, &[flood("cp", false)], true, 0.1), OwnPace::No);
        assert_eq!(bench.run(1, &[flood("cp", true)], true, 0.1), OwnPace::Spared);
    }
}
