//! The array as a [`Device`].

use super::Array;
use crate::device::{Completion, Device, DeviceStats, LostWrites, Profile, Request};
use crate::events::earlier;
use crate::time::Nanos;

impl Device for Array {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.start(now, request);
    }

    fn next_event(&self) -> Option<Nanos> {
        earlier(self.local.next(), self.members.iter().filter_map(|m| m.next).min())
    }

    fn advance(&mut self, to: Nanos, out: &mut Vec<Completion>) {
        while let Some(now) = self.next_event().filter(|t| *t <= to) {
            if let Some((_, c)) = self.local.pop_due(now) {
                out.push(c);
                continue;
            }
            for i in 0..self.members.len() {
                let member = &mut self.members[i];
                if member.next.is_none_or(|t| t > now) {
                    continue;
                }
                let mut done = std::mem::take(&mut self.scratch);
                member.device.advance(now, &mut done);
                member.next = member.device.next_event();
                for c in done.drain(..) {
                    self.member_done(&c);
                }
                self.scratch = done;
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
        let mut stats = DeviceStats::default();
        for member in &self.members {
            stats.add_part(&member.device.stats());
        }
        stats
    }

    fn powercut(&mut self, now: Nanos) -> LostWrites {
        self.parents.clear();
        self.tasks.clear();
        self.rows.clear();
        self.subs.clear();
        self.local.clear();
        let losses: Vec<LostWrites> = self
            .members
            .iter_mut()
            .map(|m| {
                let lost = m.device.powercut(now);
                m.next = m.device.next_event();
                m.queued = 0;
                lost
            })
            .collect();
        self.translate(&losses)
    }

    fn oldest_volatile(&self) -> Option<u64> {
        self.members.iter().filter(|m| m.alive).filter_map(|m| m.device.oldest_volatile()).min()
    }
}
