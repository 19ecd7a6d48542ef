//! Software RAID: every member has a separate queue and elevator, and none knows of the others.
//!
//! ```text
//! request ─▶ member by its chunk ─▶ the member's elevator ─▶ at most `depth` of each in the device
//! ```
//!
//! This matters if the members share a controller's cache behind their queues. An elevator holds
//! writes back while one of *its* reads or synchronous writes is under way. It can't hold back the
//! other members' writes, which fill the cache. A mirrored pair counts as one member here, because
//! both halves get the same requests. Slots and wbt are separate for each member, too
//! ([`Queues`](super::queues::Queues)).

use floodwall_device::Nanos;

use super::Stripes;
use crate::elevator::{Dispatch, Elevator, Merge, TunableError};
use crate::request::{IoRequest, ProcessId};

struct Member {
    elevator: Box<dyn Elevator>,
    in_flight: u32,
}

/// See the [module](self).
pub(crate) struct Striped {
    members: Vec<Member>,
    stripes: Stripes,
    /// Requests of each member that the device takes at once.
    depth: u32,
    /// The next member to serve.
    turn: usize,
}

impl Striped {
    /// One elevator a member; there must be at least one.
    pub(crate) fn new(elevators: Vec<Box<dyn Elevator>>, chunk: u64, depth: u32) -> Self {
        let members: Vec<_> =
            elevators.into_iter().map(|elevator| Member { elevator, in_flight: 0 }).collect();
        let stripes = Stripes { members: members.len() as u32, chunk };
        Self { members, stripes, depth, turn: 0 }
    }

    /// The elevators of all member queues as one; there must be at least one.
    pub(crate) fn one(
        mut elevators: Vec<Box<dyn Elevator>>,
        chunk: u64,
        depth: u32,
    ) -> Box<dyn Elevator> {
        match elevators.pop() {
            Some(only) if elevators.is_empty() => only,
            last => {
                elevators.extend(last);
                Box::new(Self::new(elevators, chunk, depth))
            }
        }
    }

    fn member(&mut self, offset: u64) -> &mut Member {
        &mut self.members[self.stripes.member(offset)]
    }
}

impl Elevator for Striped {
    fn name(&self) -> &'static str {
        self.members.first().map_or("none", |m| m.elevator.name())
    }

    fn merge(&mut self, now: Nanos, bio: &IoRequest, max_bytes: u64) -> Option<Merge> {
        self.member(bio.offset).elevator.merge(now, bio, max_bytes)
    }

    fn insert(&mut self, now: Nanos, request: IoRequest) {
        self.member(request.offset).elevator.insert(now, request);
    }

    fn dispatch(&mut self, now: Nanos, _in_flight: u32) -> Dispatch {
        let count = self.members.len();
        let (mut hold, mut wait) = (None::<Nanos>, false);
        for i in 0..count {
            let number = (self.turn + i) % count;
            let member = &mut self.members[number];
            if member.in_flight >= self.depth {
                wait |= !member.elevator.is_empty();
                continue;
            }
            match member.elevator.dispatch(now, member.in_flight) {
                Dispatch::Request(request) => {
                    member.in_flight += 1;
                    self.turn = number + 1;
                    return Dispatch::Request(request);
                }
                Dispatch::Hold(until) => hold = Some(hold.map_or(until, |h| h.min(until))),
                Dispatch::Wait => wait = true,
                Dispatch::Empty => {}
            }
        }
        match (hold, wait) {
            (Some(until), _) => Dispatch::Hold(until),
            (None, true) => Dispatch::Wait,
            (None, false) => Dispatch::Empty,
        }
    }

    fn completed(&mut self, now: Nanos, request: &IoRequest) {
        let member = self.member(request.offset);
        member.in_flight = member.in_flight.saturating_sub(1);
        member.elevator.completed(now, request);
    }

    fn process_exited(&mut self, now: Nanos, process: ProcessId) {
        self.members.iter_mut().for_each(|m| m.elevator.process_exited(now, process));
    }

    /// `nr_requests`: of each member.
    fn depth_updated(&mut self, nr_requests: u32) {
        self.members.iter_mut().for_each(|m| m.elevator.depth_updated(nr_requests));
    }

    /// `nr_requests`: of the member that the request goes to.
    fn depth_limit(&self, request: &IoRequest, nr_requests: u32) -> u32 {
        self.members[self.stripes.member(request.offset)].elevator.depth_limit(request, nr_requests)
    }

    fn len(&self) -> usize {
        self.members.iter().map(|m| m.elevator.len()).sum()
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), TunableError> {
        self.members.iter_mut().try_for_each(|m| m.elevator.set(name, value))
    }

    fn tunables(&self) -> Vec<(&'static str, String)> {
        self.members.first().map_or_else(Vec::new, |m| m.elevator.tunables())
    }
}

#[cfg(test)]
mod tests {
    use floodwall_device::Op;

    use super::*;
    use crate::eras::elevator::Noop;
    use crate::request::{Flags, NORMAL_LEVEL, PriorityClass};

    fn request(id: u64, offset: u64) -> IoRequest {
        IoRequest {
            id,
            op: Op::Read,
            offset,
            len: 4096,
            flags: Flags::default(),
            process: ProcessId(0),
            class: PriorityClass::BestEffort,
            level: NORMAL_LEVEL,
            queued: Nanos::ZERO,
        }
    }

    #[test]
    fn each_member_has_its_own_order_and_depth() {
        let elevators = (0..2).map(|_| Box::new(Noop::new(true)) as Box<dyn Elevator>).collect();
        let mut striped = Striped::new(elevators, 65_536, 1);
        // Three for the first member, one for the second.
        for (id, offset) in [(1, 0), (2, 131_072), (3, 262_144), (4, 65_536)] {
            striped.insert(Nanos::ZERO, request(id, offset));
        }
        let next = |striped: &mut Striped| match striped.dispatch(Nanos::ZERO, 0) {
            Dispatch::Request(r) => r.id,
            other => panic!("{other:?}"),
        };
        assert_eq!([next(&mut striped), next(&mut striped)], [1, 4]);
        assert_eq!(striped.dispatch(Nanos::ZERO, 2), Dispatch::Wait);
        striped.completed(Nanos(5), &request(1, 0));
        assert_eq!(next(&mut striped), 2);
        assert_eq!(striped.len(), 1);
    }
}
