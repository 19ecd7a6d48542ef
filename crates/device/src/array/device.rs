//! The array as a [`Device`].

use super::{Array, Member};
use crate::device::{Completion, Device, DeviceStats, LostWrites, Profile, Request};
use crate::events::if_ever;
use crate::time::Nanos;

impl Device for Array {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.start(now, request);
    }

    fn next_event(&self) -> Option<Nanos> {
        if_ever(self.due())
    }

    fn advance(&mut self, to: Nanos, out: &mut Vec<Completion>) {
        loop {
            let now = self.due();
            if now > to || now == Nanos::MAX {
                return;
            }
            if self.soonest.0 <= now {
                // All that are due, in their order. One that is due again at once waits for the
                // others.
                let mut next = Some(self.soonest.1);
                while let Some(i) = next {
                    self.advance_member(i, now);
                    self.find_soonest();
                    next = match self.soonest.0 {
                        t if t > now => None,
                        _ => (i + 1..self.members.len()).find(|i| self.members[*i].due <= now),
                    };
                }
            }
            while self.ready.front().is_some_and(|c| c.at <= now) {
                out.extend(self.ready.pop_front());
            }
        }
    }

    fn profile(&self) -> Profile {
        let members: Vec<Profile> = self.members.iter().map(|m| m.device.profile()).collect();
        let least = |f: fn(&Profile) -> u64| members.iter().map(f).min().unwrap_or(0);
        Profile {
            capacity_bytes: self.layout.capacity(least(|p| p.capacity_bytes)),
            rotational: members.iter().any(|p| p.rotational),
            volatile_cache: members.iter().any(|p| p.volatile_cache),
            queue_depth: members.iter().map(|p| p.queue_depth).sum(),
            floor: Nanos(least(|p| p.floor.0)),
            max_rate: members.iter().map(|p| p.max_rate).sum(),
        }
    }

    fn stats(&self) -> DeviceStats {
        self.stats_at(Nanos::MAX)
    }

    fn stats_at(&self, now: Nanos) -> DeviceStats {
        let mut stats = DeviceStats::default();
        for member in &self.members {
            stats.add_part(&member.device.stats_at(now));
        }
        stats
    }

    fn powercut(&mut self, now: Nanos) -> LostWrites {
        self.parents.clear();
        self.tasks.clear();
        self.rows.clear();
        self.subs.clear();
        self.ready.clear();
        let losses: Vec<LostWrites> = self
            .members
            .iter_mut()
            .map(|m| {
                m.queued = 0;
                m.device.powercut(now)
            })
            .collect();
        self.members.iter_mut().for_each(Member::look);
        self.find_soonest();
        self.translate(&losses)
    }

    fn oldest_volatile(&self) -> Option<u64> {
        self.members.iter().filter(|m| m.alive).filter_map(|m| m.device.oldest_volatile()).min()
    }
}
