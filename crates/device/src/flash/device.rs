//! The solid-state drive as a [`Device`].

use super::{Event, Flash};
use crate::device::{Completion, Device, DeviceStats, LostWrites, Op, Profile, Request};
use crate::events::if_ever;
use crate::time::Nanos;

impl Device for Flash {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.catch_up(now);
        if self.p.stall_every > 0 && request.op.is_write() {
            self.since_stall += request.len;
            if self.since_stall >= self.p.stall_every {
                self.since_stall -= self.p.stall_every;
                self.command_free = self.command_free.max(now) + self.p.stall;
            }
        }
        self.command_free = self.command_free.max(now) + self.p.command;
        let ready = self.command_free;
        match request.op {
            Op::Read => {
                let at = self.read(ready + self.p.read_latency, &request);
                self.events
                    .push(at, Event::Done(Completion { id: request.id, at, result: Ok(()) }));
            }
            Op::Write { .. } => {
                let across = self.inward.send(ready, request.len);
                self.events.push(across + self.p.write_latency, Event::Accept(request));
            }
            _ => self.events.push(ready + self.p.write_latency, Event::Accept(request)),
        }
    }

    fn next_event(&self) -> Option<Nanos> {
        if_ever(self.events.due())
    }

    fn advance(&mut self, to: Nanos, out: &mut Vec<Completion>) {
        while let Some((now, event)) = self.events.pop_due(to) {
            match event {
                Event::Done(c) => out.push(c),
                Event::Accept(request) => self.accept(now, request),
                Event::Programmed(die) => self.programmed(now, die),
            }
            out.append(&mut self.ready);
        }
    }

    fn profile(&self) -> Profile {
        Profile {
            capacity_bytes: self.p.capacity,
            rotational: false,
            volatile_cache: !self.p.protected,
            queue_depth: 2 * self.p.dies,
            floor: self.p.command + self.p.write_latency.min(self.p.read_latency + self.p.read),
            max_rate: self.p.link_rate,
        }
    }

    fn stats(&self) -> DeviceStats {
        DeviceStats {
            cache_bytes: self.fill,
            cache_waiting: self.waiting.len() as u64,
            ..self.stats
        }
    }

    fn powercut(&mut self, now: Nanos) -> LostWrites {
        let lost = LostWrites::new(self.held.drain(..).map(|h| h.extent).collect());
        self.events.clear();
        self.waiting.clear();
        self.barriers.clear();
        for die in &mut self.dies {
            die.program = None;
            die.read_free = now;
        }
        self.free_dies = (0..self.dies.len()).collect();
        self.assigned = self.accepted;
        self.stable = self.accepted;
        self.fill = 0;
        self.inward.reset(now);
        self.outward.reset(now);
        (self.command_free, self.last_activity) = (now, now);
        lost
    }

    fn oldest_volatile(&self) -> Option<u64> {
        self.held.iter().map(|h| h.extent.since).min()
    }
}
