//! Hand-worked traces of the anticipatory elevator.

use super::*;
use crate::elevator::tests::{dispatched, drain, from, read, request_of, write};

fn anticipatory(old: bool) -> Anticipatory {
    Anticipatory::new(old, 1000, AnticipatoryTunables::new(1000))
}

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

#[test]
fn defaults_are_fractions_of_a_second_in_ticks() {
    let at_1000 = AnticipatoryTunables::new(1000);
    assert_eq!(
        (at_1000.antic_expire_ms, at_1000.read_expire_ms, at_1000.write_batch_expire_ms),
        (6, 125, 125)
    );
    assert_eq!(AnticipatoryTunables::new(250).antic_expire_ms, 4, "one tick");
    assert_eq!(AnticipatoryTunables::new(100).antic_expire_ms, 10, "one tick at least");
}

#[test]
fn after_a_read_a_write_waits_for_six_ms() {
    let mut elevator = anticipatory(true);
    elevator.insert(ms(0), from(1, read(1, 0, 1)));
    let first = request_of(elevator.dispatch(ms(0), 0));
    elevator.insert(ms(1), from(2, write(2, 1000, 1)));
    assert_eq!(elevator.dispatch(ms(1), 1), Dispatch::Wait, "the read is still in the device");
    elevator.completed(ms(10), &first);
    assert_eq!(elevator.dispatch(ms(10), 0), Dispatch::Hold(ms(16)));
    assert_eq!(elevator.dispatch(ms(15), 0), Dispatch::Hold(ms(16)));
    assert_eq!(dispatched(&mut elevator, ms(16)), Some(2));
}

#[test]
fn the_same_process_is_served_at_once_wherever_it_reads() {
    let mut elevator = anticipatory(true);
    elevator.insert(ms(0), from(1, read(1, 0, 1)));
    let first = request_of(elevator.dispatch(ms(0), 0));
    elevator.insert(ms(1), from(2, write(2, 1000, 1)));
    elevator.completed(ms(10), &first);
    assert_eq!(elevator.dispatch(ms(10), 0), Dispatch::Hold(ms(16)));
    elevator.insert(ms(12), from(1, read(3, 50_000_000, 1)));
    assert_eq!(dispatched(&mut elevator, ms(12)), Some(3));
}

#[test]
fn another_process_is_served_if_it_is_close_and_the_longer_the_wait_the_farther_is_close() {
    // 8192 sectors are 1024 pages; a sector count doubles with each millisecond waited.
    for (page, waited_ms, breaks) in
        [(1000, 0, true), (1100, 0, false), (1100, 1, true), (30_000, 4, false), (30_000, 5, true)]
    {
        let mut elevator = anticipatory(true);
        elevator.insert(ms(0), from(1, read(1, 0, 1)));
        let first = request_of(elevator.dispatch(ms(0), 0));
        elevator.completed(ms(10), &first);
        // Something must wait so that anticipation begins.
        elevator.insert(ms(10), from(3, write(9, 900_000, 1)));
        assert_eq!(elevator.dispatch(ms(10), 0), Dispatch::Hold(ms(16)));
        let now = ms(10 + waited_ms);
        elevator.insert(now, from(2, read(2, page, 1)));
        let dispatch = elevator.dispatch(now, 0);
        assert_eq!(
            matches!(dispatch, Dispatch::Request(r) if r.id == 2),
            breaks,
            "{page} after {waited_ms} ms: {dispatch:?}"
        );
    }
}

#[test]
fn a_process_that_thinks_long_is_not_waited_for() {
    for (think, waited_for) in [(2, true), (19, false)] {
        let mut elevator = anticipatory(true);
        let mut done = 0;
        for id in 0..4 {
            let now = done + think;
            elevator.insert(ms(now), from(1, read(id, id, 1)));
            let request = request_of(elevator.dispatch(ms(now), 0));
            done = now + 5;
            elevator.completed(ms(done), &request);
        }
        elevator.insert(ms(done), from(2, write(10, 5000, 1)));
        let waits = elevator.dispatch(ms(done), 0) == Dispatch::Hold(ms(done + 6));
        assert_eq!(waits, waited_for, "it thinks for {think} ms, the wait would be 6 ms");
    }
}

#[test]
fn a_batch_must_leave_the_device_before_the_other_begins() {
    let mut elevator = anticipatory(false);
    elevator.set("antic_expire", "0").unwrap();
    elevator.insert(ms(0), from(2, write(1, 0, 1)));
    elevator.insert(ms(0), from(2, write(2, 10, 1)));
    let in_device =
        [request_of(elevator.dispatch(ms(0), 0)), request_of(elevator.dispatch(ms(0), 1))];
    elevator.insert(ms(1), from(1, read(3, 5, 1)));
    elevator.insert(ms(1), from(2, write(4, 20, 1)));
    for request in &in_device {
        assert_eq!(
            elevator.dispatch(ms(2), 2),
            Dispatch::Wait,
            "the reads' turn, but writes are in the device"
        );
        elevator.completed(ms(2), request);
    }
    assert_eq!(dispatched(&mut elevator, ms(2)), Some(3));
}

#[test]
fn write_batches_grow_when_they_end_early_and_shrink_when_they_are_late() {
    for (took_ms, before, after) in [(10, 12, 24), (100, 12, 13), (130, 12, 11), (400, 12, 6)] {
        let mut elevator = anticipatory(true);
        elevator.set("antic_expire", "0").unwrap();
        assert_eq!(elevator.write_batch_count(), before, "125 ticks / 10");
        // A read, then a write batch of 12 beside which a read waits all the time.
        elevator.insert(ms(0), from(1, read(1, 0, 1)));
        let first = request_of(elevator.dispatch(ms(0), 0));
        for n in 0..12 {
            elevator.insert(ms(0), from(2, write(100 + n, 100 + n * 10, 1)));
        }
        elevator.completed(ms(1), &first);
        // That was judged as the end of a write batch, too.
        elevator.write_batch_count = before;
        let mut in_device = vec![request_of(elevator.dispatch(ms(1), 0))];
        elevator.insert(ms(1), from(1, read(2, 5, 1)));
        // One write more than the batch may have.
        elevator.insert(ms(1), from(2, write(200, 900, 1)));
        while let Dispatch::Request(request) = elevator.dispatch(ms(1), in_device.len() as u32) {
            in_device.push(request);
        }
        assert_eq!(in_device.len(), 12);
        for request in &in_device {
            elevator.completed(ms(1 + took_ms - 1), request);
        }
        let read = request_of(elevator.dispatch(ms(1 + took_ms - 1), 0));
        assert_eq!(read.id, 2);
        elevator.completed(ms(1 + took_ms), &read);
        assert_eq!(elevator.write_batch_count(), after, "{took_ms} ms");
    }
}

#[test]
fn alone_in_the_queue_it_is_an_elevator() {
    let mut elevator = anticipatory(true);
    for (id, page) in [(1, 500), (2, 100), (3, 300)] {
        elevator.insert(ms(0), from(2, write(id, page, 1)));
    }
    assert_eq!(drain(&mut elevator), [2, 3, 1]);
}
