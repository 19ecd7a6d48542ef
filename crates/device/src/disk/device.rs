//! The disk as a [`Device`].

use super::{Disk, Event};
use crate::device::{Completion, Device, DeviceStats, LostWrites, Op, Profile, Request};
use crate::events::earlier;
use crate::time::Nanos;

impl Device for Disk {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.command_free = self.command_free.max(now) + self.p.command;
        let ready = self.command_free;
        let at = match request.op {
            Op::Write { .. } => self.link(ready, request.len),
            _ => ready,
        };
        self.events.push(at, Event::Arrive(request));
    }

    fn next_event(&self) -> Option<Nanos> {
        let work = match &self.work {
            Some((end, _)) => Some(*end),
            None => self.shingle.as_ref().and_then(|s| s.cleans_at()),
        };
        earlier(work, self.events.next())
    }

    fn advance(&mut self, to: Nanos, out: &mut Vec<Completion>) {
        while let Some(now) = self.next_event().filter(|t| *t <= to) {
            if self.work.as_ref().is_some_and(|(end, _)| *end <= now) {
                if let Some((_, work)) = self.work.take() {
                    self.finish(now, work);
                }
            } else {
                match self.events.pop_due(now) {
                    Some((_, Event::Done(c))) => {
                        out.push(c);
                        continue;
                    }
                    Some((_, Event::Arrive(request))) => self.arrive(now, request),
                    None => {}
                }
            }
            self.start(now);
        }
    }

    fn profile(&self) -> Profile {
        Profile {
            capacity_bytes: self.geometry.mechanics().capacity,
            rotational: true,
            volatile_cache: self.p.write_cache > 0,
            queue_depth: self.p.queue_depth,
            floor: self.p.command,
            max_rate: self.p.link_rate,
        }
    }

    fn stats(&self) -> DeviceStats {
        DeviceStats {
            cache_bytes: self.cache.bytes(),
            cache_waiting: self.waiting.len() as u64,
            ..self.stats
        }
    }

    fn powercut(&mut self, now: Nanos) -> LostWrites {
        let lost = LostWrites::new(self.cache.lost().collect());
        self.cache.clear();
        self.events.clear();
        self.queue.clear();
        self.backlog.clear();
        self.waiting.clear();
        self.forced.clear();
        self.flushes.clear();
        self.buffer.clear();
        self.work = None;
        self.command_free = now;
        self.link_free = now;
        lost
    }

    fn oldest_volatile(&self) -> Option<u64> {
        self.cache.lost().map(|e| e.since).min()
    }
}
