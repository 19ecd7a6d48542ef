//! One look at all devices, and the levers during a measurement.

use std::collections::BTreeSet;
use std::time::Duration;

use floodwall_model::plant::Observation;

use crate::who::is_victim;

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

/// One look at all devices.
pub(crate) struct Now<'a> {
    pub(crate) seen: &'a Observation,
    /// Time since the look before.
    pub(crate) tick: Duration,
    /// Control groups in which a process has committed since then.
    pub(crate) committing: BTreeSet<String>,
}

impl<'a> Now<'a> {
    pub(crate) fn new(seen: &'a Observation, tick: Duration) -> Self {
        Self { seen, tick, committing: committing_groups(seen, tick) }
    }
}

/// The control groups in which a process has committed, on whatever device: `memory.high` holds a
/// group back on all of them.
fn committing_groups(seen: &Observation, tick: Duration) -> BTreeSet<String> {
    let actors = seen.devices.iter().flat_map(|device| &device.actors);
    let committing = actors.filter(|actor| is_victim(actor, tick) && actor.commits.count() > 0);
    committing.filter_map(|actor| actor.group.clone()).collect()
}
