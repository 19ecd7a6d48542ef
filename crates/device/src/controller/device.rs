//! The controller as a [`Device`].

use super::{CacheMode, Controller, Event};
use crate::device::{Completion, Device, DeviceStats, LostWrites, Op, Profile, Request};
use crate::events::{if_ever, or_never};
use crate::time::Nanos;

impl Device for Controller {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.last_command = now;
        self.command_free = self.command_free.max(now) + self.p.command;
        let ready = self.command_free;
        let across = match request.op {
            // Each copy comes over the link.
            Op::Write { .. } => self.up.send(ready, request.len * u64::from(self.p.copies)),
            _ => ready,
        };
        self.events.push(across + self.p.latency, Event::Arrive(request));
    }

    fn next_event(&self) -> Option<Nanos> {
        if_ever(self.events.due().min(self.backing_due))
    }

    fn advance(&mut self, to: Nanos, out: &mut Vec<Completion>) {
        loop {
            let now = self.events.due().min(self.backing_due);
            if now > to || now == Nanos::MAX {
                return;
            }
            if self.backing_due <= now {
                let mut done = std::mem::take(&mut self.scratch);
                self.backing.advance(now, &mut done);
                self.backing_due = or_never(self.backing.next_event());
                for c in &done {
                    self.backing_done(c);
                }
                done.clear();
                self.scratch = done;
                // Completions that are ready now come before those of the next event.
                out.append(&mut self.ready);
            }
            match self.events.pop_due(now) {
                Some((_, Event::Done(c))) => out.push(c),
                Some((_, event)) => {
                    self.handle(now, event);
                    out.append(&mut self.ready);
                }
                None => {}
            }
        }
    }

    fn profile(&self) -> Profile {
        let backing = self.backing.profile();
        Profile {
            volatile_cache: match self.mode {
                CacheMode::Protected => false,
                CacheMode::Volatile | CacheMode::WriteThrough => {
                    self.mode == CacheMode::Volatile
                        || self.p.mode == CacheMode::Protected
                        || backing.volatile_cache
                }
            },
            queue_depth: backing.queue_depth.max(self.p.destage_depth),
            floor: self.p.command + self.p.latency,
            max_rate: self.p.link_rate,
            ..backing
        }
    }

    fn stats(&self) -> DeviceStats {
        self.stats_at(Nanos::MAX)
    }

    fn stats_at(&self, now: Nanos) -> DeviceStats {
        let mut stats = self.own_stats();
        stats.add_part(&self.backing.stats_at(now));
        stats
    }

    fn powercut(&mut self, now: Nanos) -> LostWrites {
        let mut lost = self.backing.powercut(now).extents;
        self.backing_due = or_never(self.backing.next_event());
        if self.mode == CacheMode::Protected {
            self.cache.restore();
        } else {
            lost.extend(self.cache.lost());
            self.cache.clear();
        }
        self.events.clear();
        if let Some(at) = self.p.battery_until.filter(|_| self.mode == CacheMode::Protected) {
            self.events.push(at.max(now), Event::BatteryFails);
        }
        self.subs.clear();
        self.waiting.clear();
        self.refused = 0;
        self.forced.clear();
        self.flushes.clear();
        self.destaging = 0;
        self.pump_at = None;
        for lane in [&mut self.up, &mut self.down, &mut self.pipe] {
            lane.reset(now);
        }
        (self.command_free, self.last_command) = (now, now);
        // A battery-backed cache writes on as soon as the power is back.
        self.pump(now);
        LostWrites::new(lost)
    }

    fn oldest_volatile(&self) -> Option<u64> {
        let here = match self.mode {
            CacheMode::Protected => None,
            CacheMode::Volatile | CacheMode::WriteThrough => {
                self.cache.lost().map(|e| e.since).min()
            }
        };
        match (here, self.backing.oldest_volatile()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }
}
