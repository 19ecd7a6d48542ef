//! The request queues of a device: slots and wbt gate, once for each member of a software RAID.
//!
//! ```text
//! bio ─▶ queue by its chunk ─▶ that queue's gate ─▶ one of that queue's slots
//! ```
//!
//! md has neither slots nor wbt: its requests count in the member's queue. A slow or overloaded
//! member therefore takes nothing from the others. [`Striped`](super::Striped) chooses the member's
//! elevator for a request, by the same chunks.

use floodwall_device::Nanos;

use super::gate::Gate;
use super::pool::RequestPool;
use crate::request::ProcessIndex;
use crate::wbt::Wbt;

/// Which member queue a place on the device belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stripes {
    /// Queues; at least one.
    pub(crate) members: u32,
    /// Bytes on one member before the next one's turn.
    pub(crate) chunk: u64,
}

impl Stripes {
    /// A single queue.
    pub(crate) const ONE: Self = Self { members: 1, chunk: 4096 };

    pub(super) fn member(self, offset: u64) -> usize {
        (offset / self.chunk.max(1) % u64::from(self.members.max(1))) as usize
    }
}

/// A member's queue.
#[derive(Debug)]
pub(super) struct MemberQueue {
    pub(super) pool: RequestPool,
    /// `None`: the queue knows no wbt.
    pub(super) gate: Option<Gate>,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Queues {
    stripes: Stripes,
    members: Vec<MemberQueue>,
}

impl Queues {
    /// `pool` and `wbt` are what each of them begins with.
    pub(super) fn new(stripes: Stripes, pool: &RequestPool, wbt: Option<&Wbt>) -> Self {
        let queue =
            || MemberQueue { pool: pool.clone(), gate: wbt.map(|wbt| Gate::new(wbt.clone())) };
        Self { stripes, members: (0..stripes.members.max(1)).map(|_| queue()).collect() }
    }

    /// The queue of a place on the device.
    pub(super) fn of(&mut self, offset: u64) -> &mut MemberQueue {
        let member = self.stripes.member(offset);
        &mut self.members[member]
    }

    pub(super) fn add_process(&mut self) {
        for queue in &mut self.members {
            queue.pool.add_process();
            if let Some(gate) = &mut queue.gate {
                gate.add_process();
            }
        }
    }

    pub(super) fn gates(&mut self) -> impl Iterator<Item = &mut Gate> {
        self.members.iter_mut().filter_map(|queue| queue.gate.as_mut())
    }

    /// When the first gate's window is over.
    pub(super) fn next_event(&self) -> Option<Nanos> {
        self.members.iter().filter_map(|queue| queue.gate.as_ref().and_then(Gate::next_event)).min()
    }

    /// The first queue's wbt. A change of its target applies to all queues.
    pub(super) fn wbt(&self) -> Option<&Wbt> {
        self.members.first().and_then(|queue| queue.gate.as_ref()).map(Gate::wbt_state)
    }

    /// Slots of all queues together.
    pub(super) fn slots(&self) -> u32 {
        self.members.iter().map(|queue| queue.pool.size()).sum()
    }

    /// Another number of slots, of all queues together.
    pub(super) fn resize(&mut self, slots: u32, woken: &mut Vec<ProcessIndex>) -> u32 {
        let each = slots / self.members.len().max(1) as u32;
        self.members.iter_mut().for_each(|queue| queue.pool.resize(each, woken));
        each
    }

    /// Whether a class of requests is congested in any of them: what md says of itself
    /// (`raid0_congested`, `raid10_congested`).
    pub(super) fn congested(&self, class: usize) -> bool {
        self.members.iter().any(|queue| queue.pool.congested(class))
    }
}

#[cfg(test)]
mod tests {
    use floodwall_device::Op;
    use proptest::prelude::*;

    use super::*;
    use crate::kernel::Generation;
    use crate::request::{Flags, IoRequest, NORMAL_LEVEL, PriorityClass, ProcessId};
    use crate::wbt::Track;

    const CHUNK: u64 = 64 << 10;
    const SLOTS: u32 = 12;
    const DEPTH: u32 = 32;

    fn queues(members: u32, generation: Generation) -> Queues {
        let pool = RequestPool::new(generation.is_multiqueue(), SLOTS);
        let wbt = generation.is_multiqueue().then(|| Wbt::new(250, DEPTH, false, false));
        let mut queues = Queues::new(Stripes { members, chunk: CHUNK }, &pool, wbt.as_ref());
        (0..PROCESSES).for_each(|_| queues.add_process());
        queues
    }

    const PROCESSES: u32 = 200;

    fn write(offset: u64, sync: bool) -> IoRequest {
        IoRequest {
            id: 0,
            op: Op::Write { fua: false },
            offset,
            len: 4096,
            flags: Flags { sync, background: !sync, ..Flags::default() },
            process: ProcessId(0),
            class: PriorityClass::BestEffort,
            level: NORMAL_LEVEL,
            queued: Nanos::ZERO,
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            cases: 64,
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        /// For any distribution of requests over the members, none exceeds its slots or the write
        /// limit of its gate. A process that one member refuses finds the others open.
        #[test]
        fn slots_and_gates_are_capped_for_each_member(
            members in 1u32..7,
            asked in prop::collection::vec((0u64..64, any::<bool>(), any::<bool>()), 1..200),
        ) {
            let mut queues = queues(members, Generation::K6);
            let most = queues.wbt().unwrap().limits();
            let count = members as usize;
            let (mut slots, mut through) = (vec![Vec::new(); count], vec![0u32; count]);
            let mut woken = Vec::new();
            for (number, (chunk, sync, ends)) in asked.into_iter().enumerate() {
                let now = Nanos(number as u64);
                let (offset, process) = (chunk * CHUNK, ProcessIndex(number as u32));
                let member = (chunk % u64::from(members)) as usize;
                let queue = queues.of(offset);
                let io = write(offset, sync);
                let gate = queue.gate.as_mut().unwrap();
                let limit = if sync { most.max } else { most.background };
                let passed = gate.ask(now, process, &io, false, &mut woken);
                prop_assert!(!passed || through[member] < limit, "{through:?}, limit {limit}");
                if !passed {
                    continue;
                }
                let track = gate.use_pass(process);
                prop_assert!(matches!(track, Track::Throttled(_)));
                if queue.pool.take(now, 1, SLOTS, process, false) {
                    through[member] += 1;
                    slots[member].push((io, track));
                    prop_assert!(slots[member].len() as u32 <= SLOTS, "{slots:?}");
                } else {
                    let used = slots[member].len() as u32;
                    prop_assert_eq!(used, SLOTS, "refused although it had room");
                    gate.released(now, io.id, track, &mut woken);
                }
                prop_assert_eq!(queue.pool.used() as usize, slots[member].len());
                if ends && let Some((io, track)) = slots[member].pop() {
                    through[member] -= 1;
                    queue.pool.give_back(1, &mut woken);
                    queue.gate.as_mut().unwrap().completed(now, &io, track, Nanos(1), &mut woken);
                }
            }
        }
    }

    #[test]
    fn a_full_member_leaves_the_others_their_slots() {
        for generation in [Generation::K2_6_18, Generation::K2_6_32, Generation::K6] {
            let mut queues = queues(3, generation);
            let mut take = |member: u64, process| {
                let queue = queues.of(member * CHUNK);
                queue.pool.take(Nanos(1), 1, SLOTS, ProcessIndex(process), false)
            };
            let first = (0..100).filter(|process| take(0, *process)).count() as u32;
            let second = (100..200).filter(|process| take(1, *process)).count() as u32;
            assert!((SLOTS - 1..=SLOTS * 3 / 2).contains(&first), "{generation}: {first}");
            assert_eq!(second, first, "{generation}");
            assert!(queues.congested(1) != generation.is_multiqueue(), "{generation}");
            assert_eq!(queues.slots(), 3 * SLOTS);
        }
    }

    #[test]
    fn places_go_to_members_by_chunk() {
        let stripes = Stripes { members: 3, chunk: CHUNK };
        assert_eq!(
            [0, CHUNK - 1, CHUNK, 2 * CHUNK, 3 * CHUNK].map(|at| stripes.member(at)),
            [0, 0, 1, 2, 0]
        );
        assert_eq!(Stripes::ONE.member(u64::MAX), 0);
    }
}
