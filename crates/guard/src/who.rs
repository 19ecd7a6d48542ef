//! Which actors are victims and floods, and the names of those seen within [`PRESENCE`].

use std::collections::BTreeMap;
use std::time::Duration;

use floodwall_model::plant::Actor;

use crate::config::{FLOOD_COMMIT, FLOOD_RATE, PRESENCE};

/// Names of each kind that are kept: a machine may have ten thousand writers.
const MOST_NAMES: usize = 64;

/// See the [module](self). Each name has the time at which it was seen last.
#[derive(Clone, Debug, Default)]
pub(crate) struct Who {
    pub(crate) victims: BTreeMap<String, Duration>,
    pub(crate) floods: BTreeMap<String, Duration>,
    /// Those of the floods that pace themselves.
    pub(crate) paced: BTreeMap<String, Duration>,
}

impl Who {
    /// Takes in one look.
    pub(crate) fn look(&mut self, at: Duration, tick: Duration, actors: &[Actor]) {
        for actor in actors {
            let kind = if is_flood(actor, tick) {
                &mut self.floods
            } else if is_victim(actor, tick) {
                &mut self.victims
            } else {
                continue;
            };
            if kind.len() < MOST_NAMES || kind.contains_key(&actor.who) {
                kind.insert(actor.who.clone(), at);
                if actor.paces_itself() {
                    self.paced.insert(actor.who.clone(), at);
                    // It may have waited before it told.
                    self.victims.remove(&actor.who);
                }
            }
        }
        for kind in [&mut self.victims, &mut self.floods, &mut self.paced] {
            kind.retain(|_, seen| at.saturating_sub(*seen) < PRESENCE);
        }
    }
}

/// Whether an actor floods: it dirtied much within a tick, and made little of that stable. One that
/// has told that it floods need not have dirtied much.
#[must_use]
pub fn is_flood(actor: &Actor, tick: Duration) -> bool {
    if actor.paces_itself() {
        return actor.dirtied_bytes > 0;
    }
    let much = actor.dirtied_bytes as f64 >= FLOOD_RATE * tick.as_secs_f64();
    much && actor.dirtied_bytes >= FLOOD_COMMIT * actor.commits.count()
}

/// Whether an actor is a victim: it waits, or has waited within a tick, and does not flood. One
/// that has told that it floods waits for its own data.
#[must_use]
pub fn is_victim(actor: &Actor, tick: Duration) -> bool {
    !actor.paces_itself() && !is_flood(actor, tick) && (actor.waiting > 0 || actor.operations() > 0)
}
