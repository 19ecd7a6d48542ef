//! Hand-worked traces of CFQ in 2.6.18.

use super::*;
use crate::elevator::tests::{
    at_level, classed, dispatched, drain, from, merged, read, request_of, write,
};

fn cfq() -> Cfq18 {
    Cfq18::new(1000, Cfq18Tunables::new(1000))
}

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

/// Dispatches until nothing more goes, with nothing completed.
fn all_now(elevator: &mut Cfq18, now: Nanos) -> Vec<IoRequest> {
    let mut sent = Vec::new();
    while let Dispatch::Request(request) = elevator.dispatch(now, sent.len() as u32) {
        sent.push(request);
    }
    sent
}

fn ids(requests: &[IoRequest]) -> Vec<u64> {
    requests.iter().map(|request| request.id).collect()
}

#[test]
fn defaults_are_fractions_of_a_second_in_ticks() {
    let tunables = Cfq18Tunables::new(1000);
    assert_eq!(
        (tunables.slice_sync_ms, tunables.slice_async_ms, tunables.slice_idle_ms),
        (100, 40, 8)
    );
    assert_eq!((tunables.fifo_expire_sync_ms, tunables.fifo_expire_async_ms), (125, 250));
    assert_eq!(Cfq18Tunables::new(100).slice_idle_ms, 10, "one tick at least");
}

#[test]
fn a_reader_keeps_the_device_for_its_slice_quantum_by_quantum() {
    let mut elevator = cfq();
    for n in 0..6 {
        elevator.insert(ms(0), from(1, read(n, n * 10, 1)));
    }
    elevator.insert(ms(0), from(2, read(100, 5000, 1)));
    let first = all_now(&mut elevator, ms(0));
    // A call takes four, the next call the rest. Process 2 gets no turn while process 1 has
    // requests in the device.
    assert_eq!(ids(&first), [0, 1, 2, 3, 4, 5]);
    assert_eq!(elevator.dispatch(ms(0), 6), Dispatch::Wait);
    for request in &first {
        elevator.completed(ms(10), request);
    }
    // Empty now: eight milliseconds for process 1.
    assert_eq!(elevator.dispatch(ms(10), 0), Dispatch::Hold(ms(18)));
    elevator.insert(ms(12), from(1, read(6, 60, 1)));
    assert_eq!(dispatched(&mut elevator, ms(12)), Some(6));
}

#[test]
fn an_idle_wait_that_was_for_nothing_gives_the_turn_to_the_next() {
    let mut elevator = cfq();
    elevator.insert(ms(0), from(1, read(1, 0, 1)));
    let first = request_of(elevator.dispatch(ms(0), 0));
    elevator.insert(ms(0), from(2, read(2, 5000, 1)));
    elevator.completed(ms(5), &first);
    assert_eq!(elevator.dispatch(ms(5), 0), Dispatch::Hold(ms(13)));
    assert_eq!(dispatched(&mut elevator, ms(13)), Some(2));
}

#[test]
fn a_slice_ends_after_100_ms_even_for_a_reader_that_never_stops() {
    let mut elevator = cfq();
    elevator.insert(ms(0), from(1, read(0, 0, 1)));
    elevator.insert(ms(0), from(2, read(100, 9000, 1)));
    let mut now = 0;
    let mut id = 1;
    loop {
        let request = request_of(elevator.dispatch(ms(now), 0));
        if request.id == 100 {
            break;
        }
        now += 5;
        elevator.completed(ms(now), &request);
        elevator.insert(ms(now), from(1, read(id, id, 1)));
        id += 1;
    }
    // The slice began at 0 and holds 100 ticks; at 105 it is over.
    assert_eq!(now, 105);
}

#[test]
fn a_slice_ends_with_requests_in_the_device_too() {
    let mut elevator = cfq();
    for n in 0..10 {
        elevator.insert(ms(0), from(1, read(n, n * 10, 1)));
    }
    elevator.insert(ms(0), from(2, read(100, 9000, 1)));
    for id in 0..4 {
        assert_eq!(dispatched(&mut elevator, ms(0)), Some(id));
    }
    let mut later = elevator.clone();
    assert_eq!(dispatched(&mut elevator, ms(100)), Some(4), "the last tick of the slice");
    assert_eq!(dispatched(&mut later, ms(101)), Some(100));
}

#[test]
fn every_write_is_asynchronous_and_all_writers_share_a_queue() {
    let mut elevator = cfq();
    let mut sync = from(1, write(1, 100, 1));
    sync.flags.sync = true;
    elevator.insert(ms(0), sync);
    elevator.insert(ms(0), from(2, write(2, 50, 1)));
    assert_eq!(elevator.queues.len(), 1);
    assert_eq!(drain(&mut elevator), [2, 1], "sorted as one");
}

#[test]
fn writes_lose_their_turn_after_16_requests_but_a_reader_waits_for_that() {
    let mut elevator = cfq();
    for n in 0..40 {
        elevator.insert(ms(0), from(9, write(100 + n, n * 10, 1)));
    }
    let mut sent = vec![request_of(elevator.dispatch(ms(0), 0))];
    elevator.insert(ms(0), from(1, read(1, 9000, 1)));
    for _ in 1..17 {
        sent.push(request_of(elevator.dispatch(ms(0), sent.len() as u32)));
    }
    // Four calls of four, then the reader's queue: no preemption, although the read came after the
    // first write.
    assert_eq!(ids(&sent[..16]), (100..116).collect::<Vec<_>>());
    assert_eq!(sent[16].id, 1);
}

#[test]
fn a_late_request_starts_the_turn_once() {
    let mut elevator = cfq();
    elevator.insert(ms(0), from(1, read(1, 0, 1)));
    let first = request_of(elevator.dispatch(ms(0), 0));
    elevator.completed(ms(1), &first);
    // Behind the head at first, then two ahead of it that come later.
    elevator.insert(ms(2), from(2, read(2, 900, 1)));
    elevator.insert(ms(3), from(2, read(3, 800, 1)));
    elevator.insert(ms(4), from(2, read(4, 10, 1)));
    let late = ms(2 + 126);
    let mut in_time = elevator.clone();
    assert_eq!(ids(&all_now(&mut in_time, ms(127)))[0], 4, "nearest to the head");
    // The expired one and its neighbours form one sorted dispatch list.
    elevator.insert(late, from(2, read(5, 901, 1)));
    let sent = ids(&all_now(&mut elevator, late));
    assert_eq!(sent, [4, 3, 2, 5]);
    let queue = elevator.queues[1];
    assert!(queue.fifo_checked);
}

#[test]
fn a_request_that_comes_of_age_within_the_slice_is_served_then() {
    let mut elevator = cfq();
    elevator.set("quantum", "1").unwrap();
    elevator.set("fifo_expire_sync", "10").unwrap();
    elevator.insert(ms(0), from(1, read(1, 900, 1)));
    for (id, page) in [(2, 10), (3, 20), (4, 30)] {
        elevator.insert(ms(5), from(1, read(id, page, 1)));
    }
    assert_eq!(dispatched(&mut elevator, ms(5)), Some(2));
    assert_eq!(dispatched(&mut elevator, ms(11)), Some(1));
    // Once in a slice: the others are late as well by now. What follows was chosen before the late
    // one had moved the head: ahead of request 2.
    assert_eq!(dispatched(&mut elevator, ms(20)), Some(3));
}

#[test]
fn real_time_then_best_effort_then_after_a_silence_idle() {
    let mut elevator = cfq();
    elevator.insert(ms(1000), from(2, read(2, 20, 1)));
    elevator.insert(ms(1000), classed(PriorityClass::RealTime, from(1, read(1, 100, 1))));
    let first = request_of(elevator.dispatch(ms(1000), 0));
    assert_eq!(first.id, 1);
    elevator.insert(ms(1000), classed(PriorityClass::Idle, from(3, read(3, 30, 1))));
    elevator.completed(ms(1001), &first);
    assert_eq!(elevator.dispatch(ms(1001), 0), Dispatch::Hold(ms(1009)));
    let second = request_of(elevator.dispatch(ms(1009), 0));
    assert_eq!(second.id, 2);
    elevator.completed(ms(1010), &second);
    assert_eq!(elevator.dispatch(ms(1010), 0), Dispatch::Hold(ms(1018)));
    // 100 ms without any other request.
    assert_eq!(elevator.dispatch(ms(1018), 0), Dispatch::Hold(ms(1110)));
    assert_eq!(dispatched(&mut elevator, ms(1110)), Some(3));
}

#[test]
fn queues_that_do_not_idle_all_send_in_one_call() {
    let mut elevator = cfq();
    elevator.set("slice_idle", "0").unwrap();
    for (process, page) in [(1, 300), (2, 100), (3, 200)] {
        elevator.insert(ms(0), from(process, read(process.into(), page, 1)));
    }
    elevator.fill(elevator.clock.jiffies(ms(0)));
    assert_eq!(ids(elevator.sent.make_contiguous()), [2, 3, 1], "sorted together");
}

#[test]
fn the_dispatch_list_goes_one_way_from_the_driver() {
    let mut elevator = cfq();
    elevator.driver_position = 500 * 4096;
    for (id, page) in [(1, 900), (2, 100), (3, 600), (4, 300)] {
        elevator.sort_for_driver(read(id, page, 1));
    }
    assert_eq!(elevator.sent.iter().map(|request| request.id).collect::<Vec<_>>(), [3, 1, 2, 4]);
}

#[test]
fn back_merges_cross_queues_and_front_merges_do_not() {
    let mut elevator = cfq();
    elevator.insert(ms(0), from(1, read(1, 50, 1)));
    elevator.insert(ms(0), from(1, read(2, 100, 1)));
    assert_eq!(merged(&mut elevator, &from(2, read(3, 101, 1))), Some(2));
    elevator.insert(ms(0), from(2, read(4, 500, 1)));
    assert_eq!(
        merged(&mut elevator, &from(2, read(5, 49, 1))),
        None,
        "request 1 is another process's"
    );
    assert_eq!(merged(&mut elevator, &from(2, read(6, 499, 1))), Some(4));
}

#[test]
fn nobody_idles_for_a_process_that_is_gone() {
    let mut elevator = cfq();
    elevator.insert(ms(0), from(1, read(1, 0, 1)));
    let first = request_of(elevator.dispatch(ms(0), 0));
    elevator.insert(ms(0), from(2, read(2, 5000, 1)));
    elevator.process_exited(ms(1), ProcessId(1));
    elevator.completed(ms(5), &first);
    assert_eq!(dispatched(&mut elevator, ms(5)), Some(2));
}

/// `cfq_prio_to_slice`: a fifth of the slice for each level.
#[test]
fn a_level_is_worth_a_fifth_of_a_slice() {
    let mut elevator = cfq();
    for (level, slice_ms) in [(0, 180), (3, 120), (4, 100), (7, 40)] {
        let at = elevator.queue(&at_level(level, read(1, 0, 1)));
        assert_eq!(elevator.slice(&elevator.queues[at as usize]), slice_ms, "level {level}");
    }
}
