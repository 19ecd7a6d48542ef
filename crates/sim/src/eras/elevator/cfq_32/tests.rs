//! Hand-worked traces of CFQ in 2.6.32.

use super::*;
use crate::elevator::tests::{
    at_level, classed, dispatched, from, merged, read, request_of, write,
};

fn cfq() -> Cfq32 {
    Cfq32::new(1000, true, Cfq32Tunables::new(1000))
}

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

fn sync(mut request: IoRequest) -> IoRequest {
    request.flags.sync = true;
    request
}

#[test]
fn a_synchronous_write_has_its_processs_queue_and_pushes_the_flood_aside() {
    let mut elevator = cfq();
    for n in 0..10 {
        elevator.insert(ms(5000), from(9, write(100 + n, n * 10, 1)));
    }
    assert_eq!(dispatched(&mut elevator, ms(5000)), Some(100));
    elevator.insert(ms(5001), from(1, sync(write(1, 9000, 1))));
    // The queue idles and an asynchronous request is in the device: it drains first.
    assert_eq!(elevator.dispatch(ms(5001), 1), Dispatch::Wait);
    elevator.completed(ms(5002), &from(9, write(100, 0, 1)));
    let fsync = request_of(elevator.dispatch(ms(5002), 0));
    assert_eq!(fsync.id, 1);
    assert_eq!(
        elevator.dispatch(ms(5002), 1),
        Dispatch::Wait,
        "no asynchronous request beside a synchronous one"
    );
    elevator.completed(ms(5010), &fsync);
    // NOIDLE: no wait for another one.
    assert_eq!(dispatched(&mut elevator, ms(5010)), Some(101));
}

#[test]
fn a_read_or_direct_write_is_waited_for_after_it() {
    for request in [read(1, 9000, 1), {
        let mut direct = sync(write(1, 9000, 1));
        direct.flags.idle = true;
        direct
    }] {
        let mut elevator = cfq();
        elevator.insert(ms(0), from(1, request));
        let first = request_of(elevator.dispatch(ms(0), 0));
        elevator.insert(ms(1), from(9, write(100, 0, 1)));
        elevator.completed(ms(5), &first);
        assert_eq!(elevator.dispatch(ms(5), 0), Dispatch::Hold(ms(13)), "{:?}", request.op);
        assert_eq!(dispatched(&mut elevator, ms(13)), Some(100));
    }
}

#[test]
fn asynchronous_requests_wait_for_synchronous_ones_in_the_device_even_without_idling() {
    let mut elevator = cfq();
    elevator.set("slice_idle", "0").unwrap();
    elevator.insert(ms(5000), from(1, read(1, 9000, 1)));
    let first = request_of(elevator.dispatch(ms(5000), 0));
    elevator.insert(ms(5000), from(9, write(100, 0, 1)));
    assert_eq!(elevator.dispatch(ms(5000), 1), Dispatch::Wait);
    elevator.completed(ms(5001), &first);
    assert_eq!(dispatched(&mut elevator, ms(5001)), Some(100));
}

#[test]
fn asynchronous_depth_grows_by_one_each_100_ms_after_the_last_synchronous_request() {
    for (since_ms, depth) in [(0, 1), (99, 1), (100, 1), (200, 2), (350, 3), (5000, 16)] {
        let mut elevator = cfq();
        elevator.insert(ms(0), from(1, read(1, 0, 1)));
        let first = request_of(elevator.dispatch(ms(0), 0));
        elevator.completed(ms(1), &first);
        elevator.process_exited(ms(1), ProcessId(1));
        let now = ms(1 + since_ms);
        for n in 0..40 {
            elevator.insert(now, from(9, write(100 + n, n * 10, 1)));
        }
        let mut in_device = 0;
        while let Dispatch::Request(_) = elevator.dispatch(now, in_device) {
            in_device += 1;
        }
        assert_eq!(in_device, depth, "{since_ms} ms");
    }
}

#[test]
fn four_in_the_device_beside_others_and_sixteen_alone() {
    let mut elevator = cfq();
    for n in 0..40 {
        elevator.insert(ms(0), from(1, read(n, n * 10, 1)));
    }
    let mut alone = elevator.clone();
    elevator.insert(ms(0), from(2, read(100, 9000, 1)));
    for (elevator, depth) in [(&mut elevator, 4), (&mut alone, 16)] {
        let mut in_device = 0;
        while let Dispatch::Request(_) = elevator.dispatch(ms(0), in_device) {
            in_device += 1;
        }
        assert_eq!(in_device, depth);
    }
}

#[test]
fn the_tree_puts_a_short_slice_behind_a_long_one() {
    // Keys with two queues: jiffies + (2 - 1) * (180 - slice), slice 100 for a reader and 40 for
    // writes: 80 and 140 ticks.
    let mut elevator = cfq();
    elevator.insert(ms(0), from(9, write(1, 0, 1)));
    elevator.insert(ms(0), from(1, read(2, 100, 1)));
    elevator.insert(ms(50), from(2, read(3, 5000, 1)));
    let now = 300_000;
    let keys: Vec<i64> =
        elevator.tree.iter().map(|&at| elevator.queues[at as usize].key - now).collect();
    // One queue: no spread; two: 80; three: 50 + 2 * 80.
    assert_eq!(keys, [0, 80, 210]);
}

#[test]
fn what_is_left_of_a_slice_counts_next_time() {
    let mut elevator = cfq();
    elevator.insert(ms(0), from(1, read(1, 0, 1)));
    elevator.insert(ms(0), from(2, read(2, 90_000, 1)));
    let first = request_of(elevator.dispatch(ms(0), 0));
    elevator.insert(ms(1), from(1, read(3, 500, 1)));
    // The slice runs from the first completion: 10 to 110. Metadata of process 2 pushes it aside at
    // 20, with 90 ms left.
    elevator.completed(ms(10), &first);
    let mut meta = from(2, read(4, 91_000, 1));
    meta.flags.meta = true;
    elevator.insert(ms(20), meta);
    let queue = elevator.queues[0];
    assert_eq!(queue.key - 300_000, 20 + 80 - 90);
    assert_eq!(dispatched(&mut elevator, ms(20)), Some(4), "metadata first within the queue, too");
}

#[test]
fn real_time_pushes_aside_and_idle_comes_last() {
    let mut elevator = cfq();
    elevator.set("slice_idle", "0").unwrap();
    elevator.insert(ms(0), classed(PriorityClass::Idle, from(3, read(3, 30, 1))));
    elevator.insert(ms(0), from(2, read(20, 20_000, 1)));
    elevator.insert(ms(0), from(2, read(21, 40_000, 1)));
    assert_eq!(dispatched(&mut elevator, ms(0)), Some(20));
    elevator.insert(ms(0), classed(PriorityClass::RealTime, from(1, read(1, 90_000, 1))));
    let order: Vec<u64> = (0..3)
        .map(|_| {
            let request = request_of(elevator.dispatch(ms(0), 1));
            elevator.completed(ms(0), &request);
            request.id
        })
        .collect();
    assert_eq!(order, [1, 21, 3]);
}

#[test]
fn merging_stays_within_a_queue() {
    let mut elevator = cfq();
    elevator.insert(ms(0), from(1, read(1, 10, 1)));
    assert_eq!(merged(&mut elevator, &from(2, read(2, 11, 1))), None);
    assert_eq!(merged(&mut elevator, &from(1, read(3, 11, 1))), Some(1));
    elevator.insert(ms(0), from(1, write(4, 100, 1)));
    assert_eq!(
        merged(&mut elevator, &from(1, sync(write(5, 101, 1)))),
        None,
        "not into an asynchronous one"
    );
    assert_eq!(
        merged(&mut elevator, &from(7, write(6, 101, 1))),
        Some(4),
        "all asynchronous ones share a queue"
    );
}

#[test]
fn processes_that_read_interleaved_parts_come_to_share_a_queue() {
    let mut elevator = cfq();
    // Processes 1 and 2 read every other page of the same stretch. Each asks for its next page when
    // its last one is done and the device is at work again.
    for process in [1_u32, 2] {
        elevator.insert(ms(0), from(process, read(process.into(), u64::from(process), 1)));
    }
    let mut request = request_of(elevator.dispatch(ms(0), 0));
    for now in 1..10 {
        elevator.completed(ms(now), &request);
        let next = request_of(elevator.dispatch(ms(now), 0));
        elevator.insert(
            ms(now),
            from(request.process.0, read(request.id + 2, request.offset / PAGE + 2, 1)),
        );
        request = next;
    }
    let queue_of = |process: u32| {
        let context = elevator.contexts.get(process.into()).unwrap();
        elevator.context_list[context as usize].queue
    };
    assert_eq!(queue_of(1), queue_of(2));
    assert!(elevator.queues[queue_of(1).unwrap() as usize].shared);
}

#[test]
fn no_idling_on_a_device_that_neither_rotates_nor_serves_one_at_a_time() {
    let mut elevator = Cfq32::new(1000, false, Cfq32Tunables::new(1000));
    elevator.insert(ms(0), from(1, read(1, 0, 1)));
    let first = request_of(elevator.dispatch(ms(0), 0));
    elevator.insert(ms(1), from(2, read(2, 90_000, 1)));
    elevator.completed(ms(5), &first);
    assert_eq!(dispatched(&mut elevator, ms(5)), Some(2));
}

#[test]
fn a_process_seeks_by_all_its_requests_and_is_then_waited_for_briefly() {
    // A thread that writes a log in order, each write waited for, and between them blocks all over
    // the disk that are not: raid10d.
    let mut elevator = cfq();
    let direct = |id, sector| {
        let mut request = sync(write(id, sector, 1));
        request.flags.idle = true;
        from(1, request)
    };
    let mut now = 0;
    let mut wait = 0;
    for n in 0..200 {
        elevator.insert(ms(now), from(1, write(1_000 + n, n * 7_919 % 200 * 1_000_000, 1)));
        elevator.insert(ms(now), direct(n, 10 + n));
        let mut next = elevator.dispatch(ms(now), 0);
        while let Dispatch::Request(request) = next {
            now += 1;
            elevator.completed(ms(now), &request);
            next = elevator.dispatch(ms(now), 0);
        }
        if let Dispatch::Hold(until) = next {
            wait = until.since(ms(now)).0 / 1_000_000;
            now += wait;
            let late = request_of(elevator.dispatch(ms(now), 0));
            elevator.completed(ms(now), &late);
        }
        now += 1;
    }
    // CFQ_MIN_TT, not slice_idle: the process seeks, though its synchronous queue does not.
    assert_eq!(wait, 2);
}

/// `cfq_prio_slice`: a fifth of the slice for each level.
#[test]
fn a_level_is_worth_a_fifth_of_a_slice() {
    let mut elevator = cfq();
    for (level, sync_ms, async_ms) in [(0, 180, 72), (3, 120, 48), (4, 100, 40), (7, 40, 16)] {
        for (request, slice_ms) in [(read(1, 0, 1), sync_ms), (write(1, 0, 1), async_ms)] {
            let at = elevator.add_queue(&at_level(level, request));
            let queue = &elevator.queues[at as usize];
            assert_eq!(elevator.slice(queue.sync, queue.level), slice_ms, "level {level}");
        }
    }
}
