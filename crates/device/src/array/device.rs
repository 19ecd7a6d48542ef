//! The array as a [`Device`].

use super::{Array, Member};
use crate::device::{Completion, Device, DeviceStats, LostWrites, Profile, Request};
use crate::events::earlier;
use crate::time::Nanos;

impl Device for Array {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.start(now, request);
    }

    fn next_event(&self) -> Option<Nanos> {
        let ready = self.ready.front().map(|c| c.at);
        earlier(ready, (self.soonest < Nanos::MAX).then_some(self.soonest))
    }

    fn advance(&mut self, to: Nanos, out: &mut Vec<Completion>) {
        while let Some(now) = self.next_event().filter(|t| *t <= to) {
            while self.ready.front().is_some_and(|c| c.at <= now) {
                out.extend(self.ready.pop_front());
            }
            let mut from = 0;
            while let Some(member) = self.members[from..].iter_mut().find(|m| {
                from += 1;
                m.due <= now
            }) {
                let mut done = std::mem::take(&mut self.scratch);
                member.device.advance(now, &mut done);
                member.look();
                for c in &done {
                    self.member_done(c);
                }
                done.clear();
                self.scratch = done;
            }
            self.find_soonest();
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
