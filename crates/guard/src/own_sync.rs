//! Floods that wait for their own data. A copy's last fsync takes as long as its backlog takes to
//! drain, whatever lever is pulled. It is no victim's commit.
//!
//! ```text
//! floods ─▶ waits, since 3 s after that at the latest ─▶ taken out until it ends
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use floodwall_model::plant::{Actor, Observation};
use floodwall_model::{DeviceId, LatencyCounts};

use crate::config::PRESENCE;
use crate::who::is_flood;

/// Actors whose flooded bytes may not be stable yet.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwnSyncs(BTreeMap<(DeviceId, String), Flood>);

#[derive(Clone, Copy, Debug)]
struct Flood {
    /// When it flooded last.
    at: Duration,
    /// The last look at which it waited for the data of this flood.
    waited: Option<Duration>,
}

impl OwnSyncs {
    /// Takes the operations of such actors out of an observation. An operation counts again after
    /// the actor's first commit, or if it begins more than [`PRESENCE`] after the flood.
    pub(crate) fn take_out(&mut self, seen: &mut Observation, tick: Duration) {
        let now = seen.at;
        for device in &mut seen.devices {
            for actor in &mut device.actors {
                let key = (device.id, actor.who.clone());
                if is_flood(actor, tick) {
                    // Its commits may be unseen.
                    if !seen.missed_waits {
                        self.0.insert(key, Flood { at: now, waited: None });
                    }
                    continue;
                }
                let Some(flood) = self.0.get_mut(&key) else { continue };
                let waits = waits_for(flood.at, now, actor);
                let is_going_on = waits || now - flood.at < PRESENCE;
                let has_waited =
                    std::mem::replace(&mut flood.waited, waits.then_some(now)).is_some();
                let is_over = actor.commits.count() > 0 || !is_going_on;
                if is_going_on || has_waited {
                    take_waits(actor);
                }
                if is_over {
                    self.0.remove(&key);
                }
            }
        }
        // Actors that have gone.
        self.0.retain(|_, flood| now.saturating_sub(flood.waited.unwrap_or(flood.at)) < PRESENCE);
    }
}

/// Whether its longest operation began while it flooded, or soon after.
fn waits_for(flooded: Duration, now: Duration, actor: &Actor) -> bool {
    actor.waiting > 0 && now.saturating_sub(actor.oldest) < flooded + PRESENCE
}

fn take_waits(actor: &mut Actor) {
    (actor.commits, actor.reads) = (LatencyCounts::default(), LatencyCounts::default());
    (actor.waiting, actor.oldest) = (0, Duration::ZERO);
}

#[cfg(test)]
mod tests {
    use floodwall_model::plant::{DeviceKind, DeviceObservation};
    use floodwall_model::trial::DeviceSample;

    use super::*;
    use crate::who::is_victim;

    const TICK: Duration = Duration::from_millis(250);

    fn actor(dirtied_mib: u64, commits: usize, waiting: u32) -> Actor {
        let commits = LatencyCounts::from_values(vec![1_000_000; commits]);
        Actor {
            who: "dd (7)".into(),
            dirtied_bytes: dirtied_mib << 20,
            commits,
            waiting,
            ..Actor::default()
        }
    }

    /// An operation that has been under way for so many looks.
    fn waits(looks: u32) -> Actor {
        Actor { oldest: TICK * looks, ..actor(0, 0, 1) }
    }

    /// Whether the actor of each look is a victim; looks that missed waits are marked.
    fn victims(looks: &[(bool, Actor)]) -> Vec<bool> {
        let mut syncs = OwnSyncs::default();
        let each = looks.iter().enumerate().map(|(n, (missed_waits, actor))| {
            let device = DeviceObservation {
                id: DeviceId { major: 8, minor: 0 },
                kind: DeviceKind::Unknown,
                counters: DeviceSample::default(),
                dirty_bytes: None,
                writeback_bytes: None,
                changing: false,
                actors: vec![actor.clone()],
            };
            let mut seen = Observation {
                at: TICK * n as u32,
                missed_waits: *missed_waits,
                devices: vec![device],
                ..Observation::default()
            };
            syncs.take_out(&mut seen, TICK);
            is_victim(&seen.devices[0].actors[0], TICK)
        });
        each.collect()
    }

    fn seen(actor: Actor) -> (bool, Actor) {
        (false, actor)
    }

    #[test]
    fn a_flood_that_makes_its_own_data_stable_is_no_victim() {
        let mut looks = vec![seen(actor(100, 0, 0))];
        looks.extend((0..240).map(|n| seen(waits(n))));
        looks.push(seen(actor(0, 1, 0)));
        assert!(!victims(&looks).contains(&true));
        // Its next commit counts.
        looks.push(seen(actor(0, 1, 0)));
        assert_eq!(victims(&looks).last(), Some(&true));
    }

    #[test]
    fn a_flood_that_rests_for_three_seconds_is_as_any_other_actor() {
        let mut looks = vec![seen(actor(100, 0, 0))];
        looks.extend(vec![seen(actor(0, 0, 0)); 12]);
        looks.push(seen(actor(0, 0, 1)));
        assert_eq!(victims(&looks).last(), Some(&true));
    }

    #[test]
    fn a_reader_that_has_written_its_file_is_a_victim_after_three_seconds() {
        let mut looks = vec![seen(actor(100, 0, 0))];
        looks.extend(vec![seen(waits(1)); 20]);
        let victims = victims(&looks);
        assert!(!victims[..12].contains(&true) && !victims[14..].contains(&false), "{victims:?}");
    }

    #[test]
    fn a_committer_that_looks_like_a_flood_is_a_victim_again_after_one_commit() {
        let looks = [actor(0, 9, 0), actor(9, 0, 1), actor(0, 9, 1), actor(0, 9, 1)].map(seen);
        assert_eq!(victims(&looks), [true, false, false, true]);
        // Commits were unseen when it dirtied much.
        let unseen = [(true, actor(9, 0, 0)), seen(actor(0, 0, 1))];
        assert_eq!(victims(&unseen), [false, true]);
    }
}
