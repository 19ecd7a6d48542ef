//! Floods that have told that they pace themselves (`floodwall pace`). The guard spares them,
//! unless victims miss their goal in spite of it.
//!
//! ```text
//! all floods pace themselves ─▶ spared ─ victims miss their goal for 10 s ─▶ floods like any
//!                                                other, as long as those that said so live
//! ```
//!
//! A process that has told so counts once it, or a child, has written.

use std::collections::BTreeMap;
use std::time::Duration;

use floodwall_model::plant::{Actor, Claimant};

use crate::config::{BACKLOG, HARMED, PRESENCE, SPARED};
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
    /// The processes that have told for the floods that are present.
    paced: BTreeMap<Claimant, Claim>,
    /// Floods that do not, and when each was last seen. A backlog that they have left counts.
    others: BTreeMap<String, Duration>,
    /// For how long victims have missed their goal.
    late: Duration,
    /// The start of each process beside which victims missed their goal, by its number. A number
    /// that is used again is another process's: one is kept for each number at most.
    lost: BTreeMap<u32, u64>,
}

/// One process's word.
#[derive(Clone, Copy, Debug)]
struct Claim {
    /// The last look with it.
    told: Duration,
    /// The last look with a flood that it stands for.
    wrote: Duration,
}

impl Trust {
    /// Whether victims missed their goal in spite of it.
    pub(crate) fn is_lost(&self) -> bool {
        self.paced.keys().any(|one| self.lost.get(&one.pid) == Some(&one.start_ticks))
    }

    /// Takes in one look. `drains`: whether the kernel writes a backlog out.
    pub(crate) fn look(
        &mut self,
        now: &Now<'_>,
        actors: &[Actor],
        backlog_bytes: u64,
        drains: bool,
    ) {
        let at = now.seen.at;
        let is_present = |seen: Duration| at.saturating_sub(seen) < PRESENCE;
        self.others.retain(|_, seen| drains || is_present(*seen));
        for actor in actors {
            let floods = is_flood(actor, now.tick);
            if let Some(one) = actor.paced_by {
                self.others.remove(&actor.who);
                if floods {
                    self.paced.insert(one, Claim { told: at, wrote: at });
                } else if let Some(claim) = self.paced.get_mut(&one) {
                    claim.told = at;
                }
            } else if floods && !now.seen.missed_waits && self.others.len() < MOST_OTHERS {
                self.others.insert(actor.who.clone(), at);
            }
        }
        // One that writes no more may have left the backlog.
        let writes = |claim: &Claim| backlog_bytes >= BACKLOG || is_present(claim.wrote);
        self.paced.retain(|_, claim| is_present(claim.told) && writes(claim));
    }

    /// Judges the floods by the victims' wait as a share of their goal.
    pub(crate) fn judge(&mut self, tick: Duration, pressure: Option<f64>) -> OwnPace {
        if self.paced.is_empty() || !self.others.is_empty() {
            self.late = Duration::ZERO;
            return OwnPace::No;
        }
        // What victims wait now does not tell of one that has come since.
        let is_late = !self.is_lost() && pressure.is_some_and(|pressure| pressure > HARMED);
        self.late = if is_late { self.late + tick } else { Duration::ZERO };
        if self.late >= SPARED {
            self.lost.extend(self.paced.keys().map(|one| (one.pid, one.start_ticks)));
        }
        if self.is_lost() { OwnPace::Missed } else { OwnPace::Spared }
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
                let backlog = if drains { BACKLOG } else { 0 };
                self.trust.look(&Now::new(&seen, TICK), actors, backlog, drains);
                own_pace = self.trust.judge(TICK, Some(pressure));
            }
            own_pace
        }
    }

    fn flood(who: &str) -> Actor {
        Actor { who: who.to_owned(), dirtied_bytes: 100 << 20, ..Actor::default() }
    }

    /// One that wrote something, or nothing.
    fn paced(who: &str, pid: u32, start_ticks: u64, dirtied_bytes: u64) -> Actor {
        let paced_by = Some(Claimant { pid, start_ticks });
        Actor { dirtied_bytes, paced_by, ..flood(who) }
    }

    #[test]
    fn a_flood_that_paces_itself_is_spared_until_victims_have_missed_their_goal_for_long() {
        let mut bench = Bench::new();
        let cp = [paced("cp", 7, 100, 4096)];
        assert_eq!(bench.run(60, &cp, true, 0.9), OwnPace::Spared);
        assert_eq!(bench.run(8, &cp, true, 5.0), OwnPace::Spared, "one late operation");
        assert_eq!(bench.run(1, &cp, true, 0.9), OwnPace::Spared);
        assert_eq!(bench.run(10, &cp, true, 1.1), OwnPace::Missed);
        assert_eq!(bench.run(600, &cp, true, 0.1), OwnPace::Missed, "because of the guard");
    }

    #[test]
    fn the_loss_of_trust_lasts_as_long_as_the_process() {
        let mut bench = Bench::new();
        let cp = paced("cp", 7, 100, 4096);
        assert_eq!(bench.run(10, std::slice::from_ref(&cp), true, 1.1), OwnPace::Missed);
        assert_eq!(bench.run(600, &[], false, 0.1), OwnPace::No);
        assert_eq!(bench.run(1, std::slice::from_ref(&cp), true, 0.1), OwnPace::Missed);
        // Another one that comes meanwhile has done nothing wrong.
        let tar = paced("tar", 8, 200, 4096);
        assert_eq!(bench.run(20, &[cp.clone(), tar.clone()], true, 5.0), OwnPace::Missed);
        assert_eq!(bench.run(4, &[tar], true, 0.1), OwnPace::Spared);
        // Its number is another process's now.
        assert_eq!(bench.run(4, &[], false, 0.1), OwnPace::No);
        let other = paced("cp", 7, 300, 4096);
        assert_eq!(bench.run(1, std::slice::from_ref(&other), true, 0.1), OwnPace::Spared);
        assert_eq!(bench.run(10, &[other], true, 1.1), OwnPace::Missed);
        assert_eq!(bench.trust.lost.len(), 1);
    }

    #[test]
    fn one_that_tells_and_writes_nothing_does_not_count() {
        let mut bench = Bench::new();
        let (idle, writes) = ([paced("sleep", 7, 100, 0)], [paced("sleep", 7, 100, 1)]);
        assert_eq!(bench.run(60, &idle, true, 5.0), OwnPace::No);
        assert_eq!(bench.run(1, &writes, false, 0.1), OwnPace::Spared);
        assert_eq!(bench.run(2, &idle, false, 0.1), OwnPace::Spared);
        assert_eq!(bench.run(2, &idle, false, 0.1), OwnPace::No);
        // The kernel writes the data that it has left.
        assert_eq!(bench.run(1, &writes, true, 0.1), OwnPace::Spared);
        assert_eq!(bench.run(60, &idle, true, 0.1), OwnPace::Spared);
        assert_eq!(bench.run(4, &[], true, 0.1), OwnPace::No);
    }

    #[test]
    fn beside_another_flood_nobody_is_spared_until_its_backlog_is_written() {
        let mut bench = Bench::new();
        let both = [paced("cp", 7, 100, 4096), flood("dd")];
        assert_eq!(bench.run(60, &both, true, 5.0), OwnPace::No);
        assert_eq!(bench.run(60, &both[..1], true, 5.0), OwnPace::No, "dd's backlog");
        assert_eq!(bench.run(1, &both[..1], false, 5.0), OwnPace::Spared);
        assert_eq!(bench.run(1, &both, true, 0.1), OwnPace::No);
    }

    #[test]
    fn what_a_flood_wrote_before_it_told_is_not_anothers() {
        let mut bench = Bench::new();
        assert_eq!(bench.run(1, &[flood("cp")], true, 0.1), OwnPace::No);
        assert_eq!(bench.run(1, &[paced("cp", 7, 100, 4096)], true, 0.1), OwnPace::Spared);
    }
}
