//! A network link with a file server behind it, in front of any device.
//!
//! ```text
//! request ─ server work ─ link up ─ rtt/2 ─▶ device ─ link down ─ rtt/2 ─▶ done
//! ```
//!
//! The link is full duplex: writes load one direction, reads the other, `len / rate` each, one at a
//! time. A command without data weighs `header` bytes in either direction. An acknowledged write is
//! as stable as the device behind the server makes it. An export that answers from memory is a
//! [controller](crate::controller) cache in volatile mode between link and disks.

use crate::device::{Completion, Device, DeviceStats, LostWrites, Op, Profile, Request};
use crate::events::{EventQueue, if_ever, or_never};
use crate::lane::Lane;
use crate::slab::Slab;
use crate::time::Nanos;

/// Bytes of an RPC, TCP and Ethernet header with each message.
const HEADER: u64 = 200;

/// What a link is made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinkParams {
    /// Bytes per second and direction.
    pub rate: f64,
    /// Round trip without load.
    pub round_trip: Nanos,
    /// The server's work per request, one at a time.
    pub server: Nanos,
}

enum Event {
    Arrive(Request),
    Done(Completion),
}

/// See the [module](self).
pub struct Link {
    p: LinkParams,
    inner: Box<dyn Device>,
    up: Lane,
    down: Lane,
    server_free: Nanos,
    events: EventQueue<Event>,
    subs: Slab<Request>,
    scratch: Vec<Completion>,
}

impl Link {
    /// Puts a device at the far end of a link.
    #[must_use]
    pub fn new(p: LinkParams, inner: Box<dyn Device>) -> Self {
        Self {
            p,
            inner,
            up: Lane::new(p.rate),
            down: Lane::new(p.rate),
            server_free: Nanos::ZERO,
            events: EventQueue::new(),
            subs: Slab::new(),
            scratch: Vec::new(),
        }
    }

    /// When something next happens.
    fn due(&self) -> Nanos {
        self.events.due().min(or_never(self.inner.next_event()))
    }

    fn half(&self) -> Nanos {
        Nanos(self.p.round_trip.0 / 2)
    }
}

impl Device for Link {
    fn submit(&mut self, now: Nanos, request: Request) {
        let bytes = HEADER + if matches!(request.op, Op::Write { .. }) { request.len } else { 0 };
        let across = self.up.send(now, bytes) + self.half();
        self.server_free = self.server_free.max(across) + self.p.server;
        self.events.push(self.server_free, Event::Arrive(request));
    }

    fn next_event(&self) -> Option<Nanos> {
        if_ever(self.due())
    }

    fn advance(&mut self, to: Nanos, out: &mut Vec<Completion>) {
        while let Some(now) = self.next_event().filter(|t| *t <= to) {
            if or_never(self.inner.next_event()) <= now {
                let mut done = std::mem::take(&mut self.scratch);
                self.inner.advance(now, &mut done);
                for c in done.drain(..) {
                    let Some(request) = self.subs.remove(c.id as usize) else { continue };
                    let bytes = HEADER + if request.op == Op::Read { request.len } else { 0 };
                    let at = self.down.send(c.at, bytes) + self.half();
                    self.events.push(at, Event::Done(Completion { id: request.id, at, ..c }));
                }
                self.scratch = done;
            }
            match self.events.pop_due(now) {
                Some((_, Event::Done(c))) => out.push(c),
                Some((_, Event::Arrive(request))) => {
                    let slot = self.subs.insert(request);
                    self.inner.submit(now, Request { id: slot as u64, ..request });
                }
                None => {}
            }
        }
    }

    fn profile(&self) -> Profile {
        let inner = self.inner.profile();
        Profile {
            floor: self.half() + self.half() + self.p.server + inner.floor,
            max_rate: inner.max_rate.min(self.p.rate),
            ..inner
        }
    }

    fn stats(&self) -> DeviceStats {
        self.inner.stats()
    }

    fn stats_at(&self, now: Nanos) -> DeviceStats {
        self.inner.stats_at(now)
    }

    fn powercut(&mut self, now: Nanos) -> LostWrites {
        self.events.clear();
        self.subs.clear();
        self.up.reset(now);
        self.down.reset(now);
        self.server_free = now;
        self.inner.powercut(now)
    }

    fn oldest_volatile(&self) -> Option<u64> {
        self.inner.oldest_volatile()
    }
}
