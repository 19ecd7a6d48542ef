//! The disk as a [`Device`].

use super::Disk;
use crate::device::{Completion, Device, DeviceStats, LostWrites, Op, Profile, Request};
use crate::events::if_ever;
use crate::time::Nanos;

impl Device for Disk {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.command_free = self.command_free.max(now) + self.p.command;
        let ready = self.command_free;
        let at = match request.op {
            Op::Write { .. } => self.link.send(ready, request.len),
            _ => ready,
        };
        if let Some((later, overtaken)) = self.take_back(at) {
            self.arrivals.push(later, overtaken);
        }
        if !self.begin(now, at, request) {
            self.urgent += usize::from(!self.goes_through(&request));
            self.arrivals.push(at, request);
        }
    }

    /// The arrival of a command from which nothing can come before the head is free is no event.
    fn next_event(&self) -> Option<Nanos> {
        let due = self.head_due().min(self.done.due());
        let quiet = self.urgent == 0 && self.work.is_some();
        if_ever(if quiet { due } else { due.min(self.arrivals.due()) })
    }

    fn advance(&mut self, to: Nanos, out: &mut Vec<Completion>) {
        loop {
            let head = self.head_due();
            let now = head.min(self.arrivals.due()).min(self.done.due());
            if now > to || now == Nanos::MAX {
                return;
            }
            while let Some((_, c)) = self.done.pop_due(now) {
                out.push(c);
            }
            if let Some((_, work)) = self.work.take_if(|(end, _)| *end <= now) {
                self.finish(now, work);
            } else if let Some((_, request)) = self.arrivals.pop_due(now) {
                self.urgent -= usize::from(!self.goes_through(&request));
                self.arrive(now, request);
            }
            self.start(now);
            out.append(&mut self.ready);
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
        self.stats_at(Nanos::MAX)
    }

    fn stats_at(&self, now: Nanos) -> DeviceStats {
        let counts = match &self.begun {
            Some(begun) if begun.at > now => begun.counts,
            _ => self.counts,
        };
        DeviceStats {
            cache_bytes: self.cache.bytes(),
            cache_size_bytes: self.p.write_cache,
            cache_waiting: self.waiting.len() as u64,
            media_read_bytes: counts.read_bytes,
            media_write_bytes: counts.write_bytes,
            media_busy_ns: counts.busy_ns,
            seeks: counts.seeks,
            seek_bytes: counts.seek_bytes,
            ..DeviceStats::default()
        }
    }

    fn powercut(&mut self, now: Nanos) -> LostWrites {
        let lost = LostWrites::new(self.cache.lost().collect());
        self.cache.clear();
        self.take_back(now);
        self.begun = None;
        self.arrivals.clear();
        self.urgent = 0;
        self.done.clear();
        self.queue.clear();
        self.backlog.clear();
        self.waiting.clear();
        self.forced.clear();
        self.flushes.clear();
        self.buffer.clear();
        self.work = None;
        self.command_free = now;
        self.link.reset(now);
        lost
    }

    fn oldest_volatile(&self) -> Option<u64> {
        self.cache.lost().map(|e| e.since).min()
    }
}
