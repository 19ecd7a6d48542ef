//! Hand-worked traces of BFQ, and its shares.

use super::super::tests::{
    at_level, classed, dispatched, drain, from, merged, read, request_of, write,
};
use super::state::{NORMAL_WEIGHT, Queue, Waker, process_key, weight_of};
use super::*;
use crate::request::{LEVELS, NORMAL_LEVEL, PriorityClass};

fn bfq() -> Bfq {
    Bfq::new(250, true, true, BfqTunables::new(250))
}

/// Without weight raising, so that all queues weigh the same.
fn plain() -> Bfq {
    let mut elevator = bfq();
    elevator.set("low_latency", "0").unwrap();
    elevator
}

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

fn queue_of(elevator: &Bfq, process: u32) -> Queue {
    let request = from(process, read(0, 0, 1));
    elevator.queues[elevator.of_process.get(process_key(&request)).unwrap() as usize]
}

#[test]
fn a_new_process_is_interactive_and_weighs_thirty_times_as_much() {
    let mut elevator = bfq();
    elevator.insert(ms(0), from(1, read(1, 0, 1)));
    let queue = queue_of(&elevator, 1);
    assert_eq!((queue.entity.weight, queue.raise.factor, elevator.raised_busy), (1200, 30, 1));
    // Reference 7 s at 14,000, the estimate starts at two thirds of that: 10.5 s.
    assert_eq!(elevator.clock.to_ms(elevator.raise_duration()), 10_500);
    assert!(!queue.just_created);
    let mut elevator = plain();
    elevator.insert(ms(0), from(1, read(1, 0, 1)));
    assert_eq!(queue_of(&elevator, 1).entity.weight, 40);
}

#[test]
fn raising_ends_after_120_000_sectors() {
    let mut elevator = bfq();
    // A megabyte each, 2048 sectors: the 59th is past 120,000.
    for n in 0..60 {
        elevator.insert(ms(n), from(1, read(n, n * 256, 256)));
        let request = request_of(elevator.dispatch(ms(n), 0));
        elevator.completed(ms(n), &request);
        let raised = queue_of(&elevator, 1).raise.factor > 1;
        assert_eq!(raised, (n + 1) * 2048 <= 120_000, "after {} sectors", (n + 1) * 2048);
    }
}

#[test]
fn a_budget_bounds_a_turn_and_grows_fourfold_when_it_is_used_up() {
    let mut elevator = plain();
    for n in 0..40 {
        elevator.insert(ms(0), from(1, read(n, n * 256, 256)));
        elevator.insert(ms(0), from(2, read(100 + n, 1_000_000 + n * 256, 256)));
    }
    // The first budget: two thirds of 16,384 sectors, room for five requests of 2048.
    let sent: Vec<u64> = (0..6)
        .map(|_| {
            let request = request_of(elevator.dispatch(ms(0), 0));
            elevator.completed(ms(0), &request);
            request.id
        })
        .collect();
    assert_eq!(sent, [0, 1, 2, 3, 4, 100]);
    assert_eq!(
        queue_of(&elevator, 1).max_budget,
        16 * 1024,
        "four times as much, at most the greatest budget"
    );
}

#[test]
fn budgets_follow_what_ended_the_turn() {
    let at = 0;
    let minimum = 16 * 1024 / 32;
    for (reason, before, in_device, after) in [
        (Reason::BudgetExhausted, 1000, 0, 4000),
        (Reason::BudgetTimeout, 1000, 0, 2000),
        (Reason::TooIdle, 1000, 1, 2000),
        (Reason::TooIdle, 10_000, 0, 10_000 - 4 * minimum),
        (Reason::TooIdle, 5 * minimum, 0, minimum),
        (Reason::NoMoreRequests, 1000, 0, 700),
        (Reason::Preempted, 1000, 0, 1000),
    ] {
        let mut elevator = plain();
        elevator.insert(ms(0), from(1, read(1, 0, 1)));
        request_of(elevator.dispatch(ms(0), 0));
        let queue = &mut elevator.queues[at];
        queue.max_budget = before;
        queue.entity.service = 700;
        queue.in_device = in_device;
        elevator.expire(at as u32, false, reason, elevator.now(ms(1)));
        assert_eq!(elevator.queues[at].max_budget, after, "{reason:?}");
    }
}

#[test]
fn a_process_that_comes_back_at_once_goes_on_with_the_rest_of_its_budget() {
    // "At once" is within three times slice_idle of its last completion, which was at 1 ms.
    for (back_ms, at_once) in [(25, true), (26, false)] {
        let mut elevator = plain();
        elevator.insert(ms(0), from(1, read(1, 0, 256)));
        for n in 0..8 {
            elevator.insert(ms(0), from(2, read(100 + n, 900_000 + n * 256, 256)));
        }
        let first = request_of(elevator.dispatch(ms(0), 0));
        elevator.completed(ms(1), &first);
        assert_eq!(elevator.dispatch(ms(1), 0), Dispatch::Hold(ms(9)));
        // Too idle: the next budget is four minima less than the first. The rest of the first is as
        // large.
        assert_eq!(dispatched(&mut elevator, ms(9)), Some(100));
        assert!(queue_of(&elevator, 1).expects_more);
        elevator.insert(ms(back_ms), from(1, read(2, 256, 256)));
        assert_eq!(queue_of(&elevator, 1).entity.budget, 10_922 - 2048);
        // The other one reads in sequence and is worth waiting for: only a process that goes on
        // pushes it aside.
        assert_eq!(dispatched(&mut elevator, ms(back_ms)), Some(if at_once { 2 } else { 101 }));
    }
}

#[test]
fn virtual_time_passes_with_service_by_the_sum_of_weights() {
    let mut elevator = plain();
    elevator.insert(ms(0), from(1, read(1, 0, 8)));
    elevator.insert(ms(0), from(2, read(2, 5000, 8)));
    request_of(elevator.dispatch(ms(0), 0));
    assert_eq!(elevator.trees[1].vtime, (64 << 22) / 80);
}

#[test]
fn asynchronous_sectors_cost_three_times_as_much_among_equals() {
    let mut elevator = plain();
    elevator.insert(ms(0), from(9, write(1, 0, 8)));
    let at = elevator.find_queue(&write(0, 0, 1)).unwrap();
    let handle = elevator.queues[at as usize].next.unwrap();
    assert_eq!(elevator.charge(at, handle), 3 * 64);
    // With a second class about, shares differ and it is charged as it is.
    elevator.insert(ms(0), classed(PriorityClass::RealTime, from(1, read(2, 500, 1))));
    assert_eq!(elevator.charge(at, handle), 64);
}

/// A process of [`shares`]: its number, its priority, whether it reads.
type Process = (u32, (PriorityClass, u8), bool);

const BE: (PriorityClass, u8) = (PriorityClass::BestEffort, NORMAL_LEVEL);

/// Serves requests of 64 KiB, one at a time, 1 ms each, for `seconds`; each process always has four
/// waiting. Returns the bytes of each process.
fn shares(elevator: &mut Bfq, processes: &[Process], seconds: u64) -> Vec<u64> {
    let mut id = 0;
    let mut next = vec![0_u64; processes.len()];
    let mut served = vec![0_u64; processes.len()];
    let mut submit = |elevator: &mut Bfq, n: usize, now: Nanos| {
        let (process, (class, level), sync) = processes[n];
        let page = n as u64 * 100_000_000 + next[n] * 16;
        next[n] += 1;
        id += 1;
        let mut request = if sync { read(id, page, 16) } else { write(id, page, 16) };
        request.queued = now;
        elevator.insert(now, at_level(level, classed(class, from(process, request))));
    };
    for n in 0..processes.len() {
        for _ in 0..4 {
            submit(elevator, n, ms(0));
        }
    }
    let mut now = 0;
    while now < seconds * 1000 {
        match elevator.dispatch(ms(now), 0) {
            Dispatch::Request(request) => {
                now += 1;
                elevator.completed(ms(now), &request);
                let n = processes
                    .iter()
                    .position(|&(process, ..)| process == request.process.0)
                    .unwrap();
                served[n] += request.len;
                submit(elevator, n, ms(now));
            }
            Dispatch::Hold(until) => now = until.0.div_ceil(1_000_000),
            other => panic!("{other:?}"),
        }
    }
    served
}

#[test]
fn equal_processes_get_equal_shares() {
    let served = shares(&mut plain(), &[(1, BE, true), (2, BE, true), (3, BE, true)], 30);
    let total: u64 = served.iter().sum();
    for bytes in &served {
        let share = *bytes as f64 / total as f64;
        assert!((0.31..0.36).contains(&share), "{served:?}");
    }
}

#[test]
fn a_flood_gets_a_third_of_what_a_reader_gets() {
    let served = shares(&mut plain(), &[(1, BE, true), (9, BE, false)], 30);
    let ratio = served[0] as f64 / served[1] as f64;
    assert!((2.7..3.3).contains(&ratio), "{served:?}");
}

#[test]
fn levels_share_the_sectors_by_their_weights() {
    for (levels, weights) in [([0, 4], [80, 40]), ([4, 7], [40, 10]), ([0, 7], [80, 10])] {
        let mut elevator = plain();
        let processes = [0, 1].map(|n| (n as u32, (PriorityClass::BestEffort, levels[n]), true));
        let served = shares(&mut elevator, &processes, 60);
        let sectors = [served[0] / SECTOR, served[1] / SECTOR];
        // B-WF2Q+ is never further from the fluid shares than the budgets of all queues.
        let apart =
            (sectors[0] * weights[1]).abs_diff(sectors[1] * weights[0]) / (weights[0] + weights[1]);
        let bound = 2 * elevator.max_budget.unsigned_abs();
        assert!(apart <= bound, "{levels:?}: {sectors:?}, apart {apart}, bound {bound}");
    }
}

#[test]
fn real_time_goes_before_best_effort_as_long_as_it_has_requests() {
    let rt = PriorityClass::RealTime;
    let served =
        shares(&mut plain(), &[(1, (rt, 7), true), (2, (PriorityClass::BestEffort, 0), true)], 5);
    assert_eq!(served[1], 0, "{served:?}");
}

/// `bfq_bfqq_higher_class_or_weight` looks at the weight for any class.
#[test]
fn a_heavier_newcomer_of_a_lower_class_ends_a_turn() {
    let mut elevator = plain();
    let lightest = classed(PriorityClass::RealTime, at_level(7, from(1, read(1, 0, 1))));
    elevator.insert(ms(0), lightest);
    let first = request_of(elevator.dispatch(ms(0), 0));
    assert!(elevator.in_service.is_some());
    elevator.insert(ms(0), from(2, read(2, 5000, 1)));
    assert_eq!(elevator.in_service, None);
    elevator.completed(ms(1), &first);
}

#[test]
fn weights_are_ten_for_each_level_above_the_last() {
    let weights: Vec<u64> = (0..LEVELS).map(weight_of).collect();
    assert_eq!(weights, [80, 70, 60, 50, 40, 30, 20, 10]);
    assert_eq!(NORMAL_WEIGHT, 40);
}

/// `bfq_bfqq_handle_idle_busy_switch`: a queue with a set weight is not raised.
#[test]
fn only_processes_without_a_level_are_raised() {
    for (level, weight) in [(4, 1200), (3, 50), (5, 30)] {
        let mut elevator = bfq();
        let request = at_level(level, from(1, read(1, 0, 1)));
        elevator.insert(ms(0), request);
        let at = elevator.find_queue(&request).unwrap();
        assert_eq!(elevator.queues[at as usize].entity.weight, weight);
    }
}

/// `bfq_check_ioprio_change`.
#[test]
fn a_process_with_another_level_keeps_its_queue_and_has_another_weight() {
    let mut elevator = plain();
    elevator.insert(ms(0), from(1, read(1, 0, 1)));
    let first = request_of(elevator.dispatch(ms(0), 0));
    elevator.completed(ms(1), &first);
    let queues = elevator.queues.len();
    elevator.insert(ms(50), at_level(0, from(1, read(2, 1, 1))));
    assert_eq!(queue_of(&elevator, 1).entity.weight, 80);
    let request = request_of(elevator.dispatch(ms(50), 0));
    elevator.completed(ms(51), &request);
    elevator.insert(ms(100), from(1, read(3, 2, 1)));
    assert_eq!((queue_of(&elevator, 1).entity.weight, elevator.queues.len()), (40, queues));
}

/// `bfq_async_queue_prio`.
#[test]
fn writes_that_nobody_waits_for_have_a_queue_for_each_priority() {
    let mut elevator = plain();
    let mut queue = |class, level, process| {
        let request = classed(class, at_level(level, from(process, write(0, 0, 1))));
        elevator.queue(&request, elevator.now(ms(0)))
    };
    let (be, idle) = (PriorityClass::BestEffort, PriorityClass::Idle);
    let first = queue(be, 4, 1);
    assert_eq!(queue(be, 4, 2), first, "whoever writes");
    assert_ne!(queue(be, 0, 1), first);
    assert_ne!(queue(PriorityClass::RealTime, 4, 1), first);
    let background = queue(idle, 7, 1);
    assert_eq!(queue(idle, 0, 2), background, "the idle class has no levels");
}

#[test]
fn the_idle_class_gets_a_turn_every_200_ms() {
    let idle = (PriorityClass::Idle, NORMAL_LEVEL);
    let served = shares(&mut plain(), &[(1, BE, true), (2, idle, true)], 30);
    let requests = served[1] / 65_536;
    // The class gives way after each request while others are busy.
    assert!((90..=160).contains(&requests), "{requests}");
}

#[test]
fn the_device_waits_for_a_reader_that_it_would_be_slower_without() {
    for (rotational, waits) in [(true, true), (false, false)] {
        let mut elevator = Bfq::new(250, rotational, true, BfqTunables::new(250));
        elevator.set("low_latency", "0").unwrap();
        elevator.insert(ms(0), from(1, read(1, 0, 1)));
        let first = request_of(elevator.dispatch(ms(0), 0));
        elevator.completed(ms(4), &first);
        elevator.insert(ms(4), from(9, write(2, 5000, 1)));
        // Among equals a reader in sequence is worth waiting for on a disk; on flash that queues by
        // itself it is not, and the newcomer pushes in.
        let hold = elevator.dispatch(ms(4), 0);
        assert_eq!(hold == Dispatch::Hold(ms(12)), waits, "rotational {rotational}: {hold:?}");
    }
}

#[test]
fn the_device_waits_20_ms_for_a_raised_queue() {
    let mut elevator = Bfq::new(250, false, true, BfqTunables::new(250));
    elevator.insert(ms(0), from(1, read(1, 0, 1)));
    let first = request_of(elevator.dispatch(ms(0), 0));
    elevator.completed(ms(4), &first);
    elevator.insert(ms(4), from(9, write(2, 5000, 1)));
    assert_eq!(elevator.dispatch(ms(4), 0), Dispatch::Hold(ms(24)));
    elevator.insert(ms(10), from(1, read(3, 90_000, 1)));
    assert_eq!(dispatched(&mut elevator, ms(10)), Some(3));
}

#[test]
fn eight_processes_at_once_are_a_large_burst_and_not_raised() {
    let mut elevator = bfq();
    for process in 1..=10 {
        elevator.insert(ms(0), from(process, read(process.into(), u64::from(process) * 1000, 1)));
    }
    for process in [1, 7, 8, 9, 10] {
        assert!(queue_of(&elevator, process).in_large_burst, "process {process}");
    }
    // The first seven had been raised before the burst was detected.
    assert_eq!(queue_of(&elevator, 9).raise.factor, 1);
    assert_eq!(elevator.raised_busy, 7);
}

#[test]
fn slots_are_shared_out() {
    let mut sync = write(1, 0, 1);
    sync.flags.sync = true;
    let depths = |elevator: &Bfq| {
        [read(1, 0, 1), sync, write(1, 0, 1)]
            .map(|request| elevator.depth_limit(&from(77, request), 256))
    };
    let mut elevator = bfq();
    assert_eq!(depths(&elevator), [256, 192, 128]);
    elevator.insert(ms(0), from(1, read(1, 0, 1)));
    assert_eq!(depths(&elevator), [256, 96, 48], "a raised queue is busy");
    // Weights 1200 and 40: the other reader's share of 256 is 8.
    let mut elevator = bfq();
    elevator.insert(ms(0), from(1, read(0, 0, 1)));
    elevator.set("low_latency", "0").unwrap();
    for n in 0..40 {
        elevator.insert(ms(0), from(2, read(1 + n, 100 + n * 10, 1)));
    }
    let limit = elevator.depth_limit(&from(2, read(99, 9000, 1)), 256);
    assert_eq!(limit, 1);
}

/// The flood's slots beside a busy victim. There are 256, and asynchronous writes may have half.
fn flood_may_have(groups: bool, class: PriorityClass, level: u8) -> u32 {
    let mut elevator = Bfq::new(250, true, groups, BfqTunables::new(250));
    elevator.set("low_latency", "0").unwrap();
    elevator.insert(ms(0), classed(class, at_level(level, from(1, read(0, 0, 1)))));
    for id in 1..=128 {
        let request = write(id, 1_000_000 + id * 100, 1);
        let limit = elevator.depth_limit(&request, 256);
        if limit == 1 {
            return id as u32 - 1;
        }
        assert_eq!(limit, 128);
        elevator.insert(ms(0), request);
    }
    128
}

#[test]
fn the_flood_keeps_its_weights_share_of_the_slots() {
    let (rt, be) = (PriorityClass::RealTime, PriorityClass::BestEffort);
    // 128 * 40 / 80, 128 * 40 / 120, 128 * 40 / 50. A higher class counts eight times: 128 * 40 /
    // 680, 128 * 40 / 360.
    for (class, level, slots) in [(be, 4, 64), (be, 0, 43), (be, 7, 102), (rt, 0, 8), (rt, 4, 14)] {
        assert_eq!(flood_may_have(true, class, level), slots, "{class:?}/{level}");
        assert_eq!(flood_may_have(false, class, level), 128, "without group support");
    }
}

/// Two processes that wait for one another in turn, both heavier than a flood that always waits:
/// how long after its arrival each request is sent, ms.
fn delays_of_two_that_wait_for_one_another(turns: u64) -> Vec<u64> {
    let mut elevator = plain();
    let mut now = 0;
    let mut delays = Vec::new();
    for turn in 0..turns {
        while elevator.requests.len() < 4 {
            let id = 1000 + elevator.wakers_found + turn * 100 + elevator.requests.len() as u64;
            elevator.insert(ms(now), from(9, write(id, 5_000_000 + id * 300, 256)));
        }
        let request = at_level(0, from(1 + (turn % 2) as u32, read(turn + 1, turn * 1_000_000, 1)));
        elevator.insert(ms(now), request);
        let came = now;
        loop {
            match elevator.dispatch(ms(now), 0) {
                Dispatch::Request(sent) => {
                    now += 1;
                    elevator.completed(ms(now), &sent);
                    if sent.id == request.id {
                        delays.push(now - 1 - came);
                        break;
                    }
                }
                Dispatch::Hold(until) => now = until.0 / 1_000_000,
                other => panic!("{other:?}"),
            }
        }
    }
    delays
}

/// `bfq_check_waker`: the device is kept for the one that waits, and the other one's request goes
/// at once as soon as it is known to wake it.
#[test]
fn a_known_waker_is_served_at_once() {
    let delays = delays_of_two_that_wait_for_one_another(40);
    assert!(delays[..6].iter().any(|&delay| delay >= 8), "{delays:?}");
    assert!(delays[20..].iter().all(|&delay| delay == 0), "{delays:?}");
}

/// `bfq_select_queue`: among those that a queue wakes the one that was found out last
/// (`woken_list.first`).
#[test]
fn what_a_queue_wakes_is_served_while_the_queue_is_waited_for() {
    let mut elevator = plain();
    for process in 1..=3 {
        elevator.insert(ms(0), at_level(0, from(process, read(process.into(), 5000, 1))));
    }
    elevator.insert(ms(0), from(9, write(9, 900_000, 256)));
    let first = request_of(elevator.dispatch(ms(0), 0));
    elevator.completed(ms(1), &first);
    let at = |process| elevator.find_queue(&at_level(0, from(process, read(0, 0, 1)))).unwrap();
    let (served, woken) = (at(first.process.0), [at(2), at(3)]);
    assert_eq!((first.process.0, elevator.in_service), (1, Some(served)));
    for (found, other) in [(1, woken[1]), (2, woken[0])] {
        elevator.queues[other as usize].waker =
            Waker { known: Some(served), found, ..Waker::default() };
        assert_eq!(elevator.inject(served), Some(other));
    }
}

#[test]
fn slice_idle_has_two_names() {
    let mut elevator = bfq();
    elevator.set("slice_idle", "2").unwrap();
    assert_eq!(elevator.slice_idle_ns(), 2_000_000);
    elevator.set("iosched/slice_idle_us", "500").unwrap();
    assert_eq!(elevator.slice_idle_ns(), 500_000);
    elevator.set("strict_guarantees", "1").unwrap();
    assert_eq!(elevator.slice_idle_ns(), 8_000_000, "strict guarantees need 8 ms");
    let error = elevator.set("quantum", "4").unwrap_err().to_string();
    assert!(
        error.starts_with("bfq has no tunable 'quantum': it has fifo_expire_sync, "),
        "{error}"
    );
}

#[test]
fn merging_stays_within_a_queue() {
    let mut elevator = plain();
    elevator.insert(ms(0), from(1, read(1, 10, 1)));
    assert_eq!(merged(&mut elevator, &from(2, read(2, 11, 1))), None);
    assert_eq!(merged(&mut elevator, &from(1, read(3, 11, 1))), Some(1));
    elevator.insert(ms(0), from(1, read(4, 13, 1)));
    let merge = elevator.merge(ms(0), &from(1, read(5, 12, 1)), 1 << 20);
    assert_eq!(merge, Some(Merge { into: 1, absorbed: Some(4) }));
    assert_eq!(drain(&mut elevator), [1]);
}

#[test]
fn strict_guarantees_allow_one_in_the_device() {
    let mut elevator = plain();
    elevator.set("strict_guarantees", "1").unwrap();
    for n in 0..4 {
        elevator.insert(ms(0), from(1, read(n, n * 10, 1)));
    }
    let first = request_of(elevator.dispatch(ms(0), 0));
    assert_eq!(elevator.dispatch(ms(0), 1), Dispatch::Wait);
    elevator.completed(ms(1), &first);
    assert!(matches!(elevator.dispatch(ms(1), 0), Dispatch::Request(_)));
}
