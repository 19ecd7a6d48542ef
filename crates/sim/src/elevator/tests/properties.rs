//! Properties of every elevator under any input: each request is dispatched once, bytes are kept,
//! no request is forgotten, holds end in the future.

use std::collections::{BTreeMap, VecDeque};

use floodwall_device::{Nanos, Op};
use proptest::prelude::*;

use super::super::{Dispatch, Elevator, ElevatorKind};
use crate::eras::parts::{QueueFacts, build, offered};
use crate::kernel::Generation;
use crate::request::{Flags, IoRequest, LEVELS, NORMAL_LEVEL, PriorityClass, ProcessId};

const PAGE: u64 = 4096;
/// More would not fit into the device.
const DEVICE_DEPTH: usize = 8;

/// One step of a workload.
#[derive(Clone, Debug)]
struct Step {
    op: Op,
    page: u64,
    pages: u64,
    flags: Flags,
    process: u32,
    class: PriorityClass,
    level: u8,
    /// Time to the next step.
    pause_us: u64,
    /// How many completions come first.
    completions: usize,
}

fn step() -> impl Strategy<Value = Step> {
    let op = prop_oneof![
        5 => Just(Op::Read),
        5 => Just(Op::Write { fua: false }),
        1 => Just(Op::Write { fua: true }),
        1 => Just(Op::Flush),
        1 => Just(Op::Discard),
        1 => Just(Op::WriteZeroes),
    ];
    let class = prop_oneof![
        8 => Just(PriorityClass::BestEffort),
        1 => Just(PriorityClass::RealTime),
        1 => Just(PriorityClass::Idle),
    ];
    let priority = (class, prop_oneof![Just(NORMAL_LEVEL), 0..LEVELS]);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>())
        .prop_map(|(sync, idle, meta)| Flags { sync, idle, meta, ..Flags::default() });
    let pause = prop_oneof![3 => 0_u64..50, 2 => 50_u64..5_000, 1 => 5_000_u64..400_000];
    (op, 0_u64..40, 1_u64..5, flags, 0_u32..4, priority, pause, 0_usize..4).prop_map(
        |(op, page, pages, flags, process, (class, level), pause_us, completions)| Step {
            op,
            page,
            pages,
            flags,
            process,
            class,
            level,
            pause_us,
            completions,
        },
    )
}

/// Drives an elevator through a workload and checks it at each step.
struct Driver<'a> {
    elevator: &'a mut dyn Elevator,
    now: Nanos,
    /// Bytes of each request that waits.
    waiting: BTreeMap<u64, u64>,
    in_device: VecDeque<IoRequest>,
    bytes_in: u64,
    bytes_out: u64,
}

impl Driver<'_> {
    fn submit(&mut self, id: u64, step: &Step) -> Result<(), TestCaseError> {
        let len = if step.op == Op::Flush { 0 } else { step.pages * PAGE };
        let bio = IoRequest {
            id,
            op: step.op,
            offset: step.page * PAGE,
            len,
            flags: step.flags,
            process: ProcessId(step.process),
            class: step.class,
            level: step.level,
            queued: self.now,
        };
        self.bytes_in += len;
        let Some(merge) = self.elevator.merge(self.now, &bio, 8 * PAGE) else {
            self.elevator.insert(self.now, bio);
            self.waiting.insert(id, len);
            return Ok(());
        };
        prop_assert!(
            matches!(step.op, Op::Read | Op::Write { fua: false } | Op::Discard),
            "{:?} merged",
            step.op
        );
        let absorbed = match merge.absorbed {
            Some(gone) => self
                .waiting
                .remove(&gone)
                .ok_or_else(|| TestCaseError::fail("absorbed what did not wait"))?,
            None => 0,
        };
        let grown = self
            .waiting
            .get_mut(&merge.into)
            .ok_or_else(|| TestCaseError::fail("merged into nothing"))?;
        *grown += len + absorbed;
        prop_assert!(*grown <= 8 * PAGE, "too large");
        Ok(())
    }

    /// Sends all dispatchable requests; returns until when the elevator holds back.
    fn pump(&mut self) -> Result<Option<Nanos>, TestCaseError> {
        while self.in_device.len() < DEVICE_DEPTH {
            match self.elevator.dispatch(self.now, self.in_device.len() as u32) {
                Dispatch::Request(request) => {
                    let len = self.waiting.remove(&request.id);
                    prop_assert_eq!(len, Some(request.len), "request {}", request.id);
                    self.bytes_out += request.len;
                    self.in_device.push_back(request);
                }
                Dispatch::Hold(until) => {
                    prop_assert!(until > self.now, "held until {:?} at {:?}", until, self.now);
                    prop_assert!(!self.waiting.is_empty());
                    return Ok(Some(until));
                }
                Dispatch::Wait => {
                    prop_assert!(
                        !self.in_device.is_empty(),
                        "waits for nothing: {:?}",
                        self.waiting
                    );
                    prop_assert!(!self.waiting.is_empty());
                    return Ok(None);
                }
                Dispatch::Empty => {
                    prop_assert!(self.waiting.is_empty(), "forgotten: {:?}", self.waiting);
                    break;
                }
            }
            prop_assert_eq!(self.elevator.len(), self.waiting.len());
        }
        Ok(None)
    }

    fn complete(&mut self) {
        if let Some(request) = self.in_device.pop_front() {
            self.elevator.completed(self.now, &request);
        }
    }

    fn run(&mut self, steps: &[Step]) -> Result<(), TestCaseError> {
        for (id, step) in steps.iter().enumerate() {
            for _ in 0..step.completions {
                self.complete();
                self.pump()?;
            }
            self.submit(id as u64, step)?;
            let hold = self.pump()?;
            let next = self.now + Nanos::from_micros(step.pause_us);
            if let Some(until) = hold.filter(|&until| until < next) {
                self.now = until;
                self.pump()?;
            }
            self.now = next;
        }
        // Everything left is served while the device takes 5 ms for each.
        let mut idle_rounds = 0;
        while !self.waiting.is_empty() || !self.in_device.is_empty() {
            let before = self.waiting.len();
            let hold = self.pump()?;
            self.now = match (self.in_device.is_empty(), hold) {
                (true, Some(until)) => until,
                _ => self.now + Nanos::from_millis(5),
            };
            self.complete();
            idle_rounds = if self.waiting.len() == before && self.in_device.is_empty() {
                idle_rounds + 1
            } else {
                0
            };
            prop_assert!(idle_rounds < 1000, "nothing moves: {:?}", self.waiting);
        }
        prop_assert_eq!(self.bytes_in, self.bytes_out);
        prop_assert!(self.elevator.is_empty());
        Ok(())
    }
}

fn every_elevator() -> Vec<(String, Box<dyn Elevator>)> {
    let mut all = Vec::new();
    for generation in [Generation::K2_6_18, Generation::K2_6_32, Generation::K3_2, Generation::K6] {
        for rotational in [true, false] {
            let facts = QueueFacts { rotational, cpus: 2, ..QueueFacts::new(generation) };
            for &kind in offered(generation) {
                let elevator = build(kind, &facts).unwrap();
                all.push((format!("{generation} {kind} rotational {rotational}"), elevator));
            }
        }
    }
    all
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn everything_is_served_once_with_all_its_bytes(
        steps in prop::collection::vec(step(), 1..120)
    ) {
        for (name, mut elevator) in every_elevator() {
            let mut driver = Driver {
                elevator: elevator.as_mut(),
                now: Nanos::ZERO,
                waiting: BTreeMap::new(),
                in_device: VecDeque::new(),
                bytes_in: 0,
                bytes_out: 0,
            };
            driver.run(&steps).map_err(|error| TestCaseError::fail(format!("{name}: {error}")))?;
        }
    }

    /// A write in the middle of a flood of reads, and a read in the middle of a flood of writes, at
    /// one request a millisecond. After its expiry, only the batches that may still be ahead of it
    /// pass by.
    #[test]
    fn the_deadline_family_starves_nobody(
        page in 0_u64..1000, flood in prop::collection::vec(0_u64..1000, 64),
        is_read in any::<bool>()
    ) {
        let expiry_ms: u64 = if is_read { 500 } else { 5000 };
        let [ours, other]: [fn(u64, u64, u64) -> IoRequest; 2] =
            if is_read { [super::read, super::write] } else { [super::write, super::read] };
        for (generation, kind) in [
            (Generation::K2_6_18, ElevatorKind::Deadline),
            (Generation::K2_6_32, ElevatorKind::Deadline),
            (Generation::K6, ElevatorKind::MqDeadline),
        ] {
            let mut elevator = build(kind, &QueueFacts::new(generation)).unwrap();
            elevator.insert(Nanos::ZERO, ours(1, page * 10, 1));
            let mut id = 2;
            let mut served_at = None;
            for ms in 0..expiry_ms + 1000 {
                let now = Nanos::from_millis(ms);
                // The queue never runs empty of the flood.
                for at in &flood[..if ms == 0 { 64 } else { 1 }] {
                    let at = (at + ms * 7) % 1000 * 10 + 5;
                    elevator.insert(now, other(id, at, 1));
                    id += 1;
                }
                let Dispatch::Request(request) = elevator.dispatch(now, 0) else { panic!() };
                elevator.completed(now, &request);
                if request.id == 1 {
                    served_at = Some(ms);
                    break;
                }
            }
            // Two read batches, one write batch, or the rest of one: none longer than 16.
            let latest = expiry_ms + 3 * 16 + 4;
            prop_assert!(served_at.is_some_and(|ms| ms <= latest), "{} {}: \
                {:?}", generation, kind, served_at);
        }
    }
}
