//! The control group that could be paced: the one that holds all floods of a device and no victim.
//!
//! ```text
//! commits, of all devices ─▶ groups of victims, for 20 s ─┐
//! floods of this device ───▶ their one group ─────────────┴─▶ the group, or why there is none
//! ```

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use floodwall_model::control_group::is_in;
use floodwall_model::plant::Actor;

use crate::config::{PRESENCE, VICTIMS_GROUP};
use crate::look::Now;
use crate::trust::Trust;
use crate::who::{is_flood, is_victim};

/// Why a flood can't be paced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unpaced {
    /// No control group of the unified hierarchy is known for it.
    NoGroup,
    /// The floods are in several groups.
    SeveralGroups,
    /// Its group holds a victim, or a process that may be one.
    WithVictim,
    /// The guard can't set io.max or memory.high of its group.
    NoLimits,
    /// It wrote more than its pace.
    Ignored,
}

impl fmt::Display for Unpaced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoGroup => "its control group is not known (pacing needs cgroup v2)",
            Self::SeveralGroups => "the floods are in several control groups",
            Self::WithVictim => "its control group holds a victim, too",
            Self::NoLimits => "the guard can't set io.max and memory.high of its control group",
            Self::Ignored => "it wrote more than it was allowed to",
        })
    }
}

/// See the [module](self).
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    /// Control groups in which victims were seen, and when.
    victims: BTreeMap<String, Duration>,
    /// The one control group of the floods that were seen last, if it holds no victim.
    flood: Option<String>,
    /// The reason why no group can be paced.
    unpaced: Option<Unpaced>,
}

impl Groups {
    /// The control group that holds all floods and no victim, if one does.
    pub(crate) fn flood(&self) -> Option<&str> {
        self.flood.as_deref()
    }

    /// Why the flood can't be paced.
    pub(crate) fn unpaced(&self) -> Option<Unpaced> {
        self.unpaced
    }

    /// A flood's own program reads, too: a process that only reads keeps no group from being paced.
    /// A group is not paced for a flood that paces itself, unless the `trust` in it is lost.
    /// `flood_seen`: when a flood was last present.
    pub(crate) fn look(
        &mut self,
        now: &Now<'_>,
        actors: &[Actor],
        flood_seen: Option<Duration>,
        is_paced: bool,
        trust: &Trust,
    ) {
        let (at, tick) = (now.seen.at, now.tick);
        self.victims.extend(now.committing.iter().map(|group| (group.clone(), at)));
        // A commit that is stuck does not end.
        for waiting in actors.iter().filter(|actor| actor.waiting > 0) {
            if let Some(seen) = waiting.group.as_ref().and_then(|group| self.victims.get_mut(group))
            {
                *seen = at;
            }
        }
        self.victims.retain(|_, seen| at - *seen < VICTIMS_GROUP);
        if flood_seen.is_none_or(|seen| at - seen >= PRESENCE) {
            (self.flood, self.unpaced) = (None, None);
        }
        // A process that looks like a flood while commits are unseen may be a victim.
        let is_known = |actor: &&Actor| {
            let is_spared = actor.paces_itself() && !trust.is_lost();
            !now.seen.missed_waits && is_flood(actor, tick) && !is_spared
        };
        let mut floods = actors.iter().filter(is_known).map(|flood| &flood.group);
        if let Some(first) = floods.next() {
            let is_one = floods.all(|group| group == first);
            self.flood = first.clone().filter(|_| is_one);
            self.unpaced = match (is_one, first) {
                (false, _) => Some(Unpaced::SeveralGroups),
                (true, None) => Some(Unpaced::NoGroup),
                (true, Some(_)) => None,
            };
        }
        // A limit of a group holds the groups below it, too.
        let committers = &self.victims;
        let of_victims =
            self.flood.take_if(|flood| committers.keys().any(|group| is_in(group, flood)));
        // One that waits, and has ended no read, may be committing: no pace begins meanwhile.
        let waits =
            |actor: &&Actor| actor.waiting > 0 && actor.reads.is_empty() && is_victim(actor, tick);
        let all = now.seen.devices.iter().flat_map(|device| &device.actors);
        let mut waiting = all.filter(waits).filter_map(|actor| actor.group.as_ref());
        let of_waiting =
            self.flood.take_if(|flood| !is_paced && waiting.any(|group| is_in(group, flood)));
        if of_victims.or(of_waiting).is_some() {
            self.unpaced = Some(Unpaced::WithVictim);
        }
    }
}
