//! The right to start, wake-ups, and the windows' effect on the depth.

use super::*;
use crate::request::{Flags, NORMAL_LEVEL, PriorityClass, ProcessId};

const MS: u64 = 1_000_000;

fn request(id: u64, op: Op, flags: Flags) -> IoRequest {
    let class = PriorityClass::BestEffort;
    IoRequest {
        id,
        op,
        offset: 0,
        len: 4096,
        flags,
        process: ProcessId(0),
        class,
        level: NORMAL_LEVEL,
        queued: Nanos::ZERO,
    }
}

fn write(flags: Flags) -> IoRequest {
    request(1, Op::Write { fua: false }, flags)
}

const BACKGROUND: Flags = Flags { background: true, sync: false, idle: false, meta: false };
const PLAIN: Flags = Flags { background: false, ..BACKGROUND };
const SYNC: Flags = Flags { sync: true, ..PLAIN };
const DIRECT: Flags = Flags { idle: true, ..SYNC };

/// An SSD without a volatile cache and a queue of 256: limits 16, 8, 4. Far enough from the
/// beginning that no read is recent.
fn ssd() -> (Wbt, Nanos) {
    (Wbt::new(250, 256, false, false), Nanos::from_secs(10))
}

/// How many of a kind may start.
fn start_all(wbt: &mut Wbt, now: Nanos, flags: Flags, slept: bool) -> u32 {
    let request = write(flags);
    let track = wbt.track(&request);
    (0..1000).take_while(|_| wbt.may_start(now, &request, track, slept)).count() as u32
}

/// A read that took so long in the device is done.
fn read(wbt: &mut Wbt, now: Nanos, latency: Nanos) {
    let read = request(9, Op::Read, PLAIN);
    let track = wbt.track(&read);
    assert!(wbt.may_start(now, &read, track, false));
    wbt.issued(Nanos(now.0.saturating_sub(latency.0)), 9, track);
    assert!(!wbt.completed(now, &read, track, latency, false));
}

/// A write has come and gone.
fn written(wbt: &mut Wbt, now: Nanos) {
    let write = write(SYNC);
    let track = wbt.track(&write);
    assert!(wbt.may_start(now, &write, track, false));
    wbt.completed(now, &write, track, Nanos(MS), false);
}

#[test]
fn each_kind_has_its_limit() {
    let limit = |flags, slept| {
        let (mut wbt, now) = ssd();
        start_all(&mut wbt, now, flags, slept)
    };
    assert_eq!(limit(BACKGROUND, false), 4);
    assert_eq!(limit(PLAIN, false), 8);
    assert_eq!(limit(SYNC, false), 16);
    assert_eq!(limit(Flags { meta: true, ..BACKGROUND }, false), 16);
    // A writer was throttled within the last second: cleaning is urgent.
    assert_eq!(limit(BACKGROUND, true), 16);
    // O_DIRECT is not counted.
    assert_eq!(limit(DIRECT, false), 1000);
}

#[test]
fn limits_are_levels_of_one_count() {
    let (mut wbt, now) = ssd();
    assert_eq!(start_all(&mut wbt, now, BACKGROUND, false), 4);
    assert_eq!(start_all(&mut wbt, now, PLAIN, false), 4);
    assert_eq!(start_all(&mut wbt, now, SYNC, false), 8);
    assert_eq!(start_all(&mut wbt, now, SYNC, false), 0);
    // Discards have a separate count, with the background limit.
    let discard = request(2, Op::Discard, SYNC);
    let track = wbt.track(&discard);
    assert_eq!((0..9).take_while(|_| wbt.may_start(now, &discard, track, false)).count(), 4);
}

#[test]
fn reads_within_100_ms_leave_plain_writes_the_background_limit() {
    let (mut wbt, now) = ssd();
    read(&mut wbt, now, Nanos(MS));
    // 25 ticks of 4 ms; at the 25th it is over.
    assert_eq!(start_all(&mut wbt, Nanos(now.0 + 99 * MS), PLAIN, false), 4);
    assert_eq!(start_all(&mut wbt, Nanos(now.0 + 100 * MS), PLAIN, false), 4);
}

#[test]
fn waiters_are_woken_some_at_a_time_or_when_a_write_cache_has_run_dry() {
    let release = |write_cache, slept| {
        let (mut wbt, now) = (Wbt::new(250, 256, false, write_cache), Nanos::from_secs(10));
        assert_eq!(start_all(&mut wbt, now, PLAIN, false), 8);
        let write = write(PLAIN);
        let track = wbt.track(&write);
        (0..8).map(|_| wbt.completed(now, &write, track, Nanos(MS), slept)).collect::<Vec<_>>()
    };
    // Limit 8, background 4: at 6 in flight two more (half the background limit) may come.
    assert_eq!(release(false, false), [false, true, true, true, true, true, true, true]);
    // With a volatile cache only when none is in flight,
    assert_eq!(release(true, false), [false, false, false, false, false, false, false, true]);
    // unless writers wait for memory.
    assert_eq!(release(true, true), release(false, true));
}

#[test]
fn a_merged_request_leaves_its_place() {
    let (mut wbt, now) = ssd();
    assert_eq!(start_all(&mut wbt, now, BACKGROUND, false), 4);
    let track = wbt.track(&write(BACKGROUND));
    assert!(wbt.released(now, 1, track, false));
    assert_eq!(start_all(&mut wbt, now, BACKGROUND, false), 1);
}

#[test]
fn slow_reads_halve_the_depth_and_shorten_the_window() {
    let (mut wbt, mut now) = ssd();
    let mut windows = Vec::new();
    let mut depths = Vec::new();
    for _ in 0..5 {
        for _ in 0..3 {
            written(&mut wbt, now);
        }
        read(&mut wbt, now, Nanos(3 * MS));
        let timer = wbt.next_timer().unwrap();
        windows.push(timer.since(now).0 / MS);
        now = timer;
        assert!(!wbt.timer(now, false));
        depths.push(wbt.limits().max);
    }
    assert_eq!(depths, [8, 4, 2, 1, 1]);
    // 1,600 ms / ⌊√(256 (step + 1))⌋ = 100, 72.7, 59.3, 50 (and, kept at step 4, 45.7). Timers are
    // late by a tick of 4 ms; in whole ticks: 25 + 1, 18 + 1, 14 + 1, 12 + 1, 11 + 1.
    assert_eq!(windows, [104, 76, 60, 52, 48]);
}

#[test]
fn one_fast_read_hides_any_number_of_slow_ones() {
    let (mut wbt, now) = ssd();
    for _ in 0..3 {
        written(&mut wbt, now);
    }
    for latency in [500, 1, 900] {
        read(&mut wbt, now, Nanos(latency * MS));
    }
    assert!(wbt.timer(wbt.next_timer().unwrap(), false));
    assert_eq!(wbt.step(), -1);
}

#[test]
fn a_read_that_does_not_come_back_counts_before_it_does() {
    let (mut wbt, now) = ssd();
    let slow = request(7, Op::Read, PLAIN);
    let track = wbt.track(&slow);
    wbt.issued(now, 7, track);
    written(&mut wbt, now);
    // Longer than the target of 2 ms, and no other read in the window.
    let timer = wbt.next_timer().unwrap();
    wbt.timer(timer, false);
    assert_eq!(wbt.step(), 1);
    // With another, fast read it counts once it has taken longer than the window (72.7 ms by now).
    for _ in 0..3 {
        written(&mut wbt, timer);
    }
    let fast = request(8, Op::Read, PLAIN);
    wbt.completed(timer, &fast, track, Nanos(MS), false);
    wbt.timer(wbt.next_timer().unwrap(), false);
    assert_eq!(wbt.step(), 2);
    // Once it is back it is forgotten: three writes and a good read are a step up.
    wbt.completed(timer, &slow, track, Nanos(MS), false);
    for _ in 0..3 {
        written(&mut wbt, timer);
    }
    wbt.timer(wbt.next_timer().unwrap(), false);
    assert_eq!(wbt.step(), 1);
}

#[test]
fn writes_alone_are_boosted_to_three_quarters_of_the_queue_and_silence_brings_the_depth_back() {
    let (mut wbt, mut now) = ssd();
    let mut depths = Vec::new();
    for _ in 0..5 {
        written(&mut wbt, now);
        now = wbt.next_timer().unwrap();
        wbt.timer(now, false);
        depths.push(wbt.limits().max);
    }
    assert_eq!(depths, [31, 61, 121, 192, 192]);
    // Five silent windows for the first step back; scaling starts the count anew, so five for each.
    let mut steps = Vec::new();
    while let Some(timer) = wbt.next_timer() {
        wbt.timer(timer, false);
        steps.push(wbt.step());
    }
    assert_eq!(steps.len(), 20, "the timer stops at step 0 with nothing in flight");
    assert_eq!((steps[3], steps[4], steps[19]), (-4, -3, 0));
}

#[test]
fn settings() {
    let (mut wbt, now) = ssd();
    assert_eq!(wbt.latency_us(), 2_000);
    assert_eq!(Wbt::new(250, 32, true, true).latency_us(), 75_000);
    // bfq switches a default off and on again.
    wbt.disable_default();
    assert_eq!((wbt.latency_us(), wbt.track(&write(BACKGROUND))), (0, Track::No));
    // Writing the target that it has already does not switch it on.
    assert!(!wbt.set_latency_us(None));
    assert!(!wbt.enabled());
    wbt.enable_default();
    assert!(wbt.enabled());
    // An administrator's target survives bfq.
    assert!(wbt.set_latency_us(Some(5_000)));
    wbt.disable_default();
    assert_eq!(wbt.latency_us(), 5_000);
    assert!(wbt.set_latency_us(Some(0)));
    assert_eq!((wbt.latency_us(), wbt.limits().normal), (0, 0));
    wbt.enable_default();
    assert!(!wbt.enabled());
    assert_eq!(start_all(&mut wbt, now, BACKGROUND, false), 1000);
    assert!(wbt.set_latency_us(None));
    assert_eq!(wbt.latency_us(), 2_000);
}
