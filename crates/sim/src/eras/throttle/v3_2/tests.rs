//! Decisions of single looks, with figures worked out by hand.

use super::*;
use crate::kernel::Generation;
use crate::throttle::WbCounts;

const MACHINE: Machine = Machine { hz: 250, cpus: 2, possible_cpus: 2 };
/// 1,000,000 pages dirtyable: limit 200,000, background 100,000, freerun 150,000, setpoint 175,000.
const MEMORY: Memory = Memory {
    total: 1_000_000,
    free: 999_999,
    reserve: 0,
    file: 0,
    anon: 0,
    mapped: 0,
    swap_free: false,
};
/// Long after the start, at tick 250,000.
const NOW: Nanos = Nanos::from_secs(1_000);

fn ticks(n: u64) -> Nanos {
    Nanos(NOW.0 + n * 4_000_000)
}

/// One device with nearly all completions and fresh estimates, one task.
fn machine() -> (Pausing, Dirtier) {
    let mut t = Pausing::new(MACHINE, DirtyKnobs::defaults(Generation::K3_2), &MEMORY);
    let bdi = t.add_bdi(BdiLimits::default());
    let (wb, task) = (t.add_wb(bdi, None), t.add_task(TaskTraits::default()));
    t.completed(wb, NOW, 100_000_000);
    t.bdis[0].estimate.stamp = 250_000;
    (t, Dirtier { task, cpu: 0, wb })
}

fn seen(dirty: u64) -> Seen {
    let wb = WbCounts { reclaimable: dirty, flushing: true, ..WbCounts::default() };
    Seen { memory: MEMORY, dirty, writeback: 0, wb, memcg: None }
}

fn look(t: &mut Pausing, who: Dirtier, pages: u64, dirty: u64) -> Verdict {
    t.dirtied(who, pages);
    t.balance(who, NOW, &seen(dirty)).verdict
}

#[test]
fn below_freerun_the_next_look_is_the_root_of_the_room_away() {
    let (mut t, who) = machine();
    assert_eq!(t.until_check(who), 32);
    // 50,000 left: 2^(15/2) = 128.
    assert_eq!(look(&mut t, who, 32, 150_000), Verdict::Go { next_check_pages: 128 });
    assert!(!t.dirtied(who, 127));
    assert!(t.dirtied(who, 1));
    // 200,000 / (2 * 32) for all tasks of a CPU together.
    assert_eq!(t.ratelimit_pages, 3_125);
}

#[test]
fn a_pause_is_pages_over_rate_and_what_it_comes_to_decides_on_the_next_stretch() {
    // At the setpoint the rate is 25,600 pages/s less a little, the longest pause 20 ms (5 ticks).
    // For 1,000 pages 9 ticks would be due: 5 are taken. Next time 25,600 * 2 / 250 = 204, but not
    // less than a quarter: 250, made odd.
    let (mut t, who) = machine();
    assert_eq!(look(&mut t, who, 1_000, 175_000), Verdict::Sleep { until: ticks(5) });
    assert_eq!(
        t.resume(who, ticks(5), 0, &seen(175_000)).verdict,
        Verdict::Go { next_check_pages: 251 }
    );
    // 200 pages are 1 tick.
    assert_eq!(look(&mut t, who, 200, 175_000), Verdict::Sleep { until: ticks(1) });
    // 100 pages are less than a tick: no sleep, and twice as many next time: 204, between 112
    // and 400.
    let (mut t, who) = machine();
    assert_eq!(look(&mut t, who, 100, 175_000), Verdict::Go { next_check_pages: 204 });
    // 300 pages are 2 ticks, between a quarter of the longest and the longest: as before.
    let (mut t, who) = machine();
    assert_eq!(look(&mut t, who, 300, 175_000), Verdict::Sleep { until: ticks(2) });
    assert_eq!(
        t.resume(who, ticks(2), 0, &seen(175_000)).verdict,
        Verdict::Go { next_check_pages: 32 }
    );
}

#[test]
fn at_the_limit_tasks_wait_until_it_is_kept_or_their_device_has_next_to_nothing() {
    let (mut t, who) = machine();
    assert_eq!(look(&mut t, who, 32, 200_000), Verdict::Sleep { until: ticks(5) });
    assert_eq!(
        t.resume(who, ticks(5), 0, &seen(200_000)).verdict,
        Verdict::Sleep { until: ticks(10) }
    );
    // Below freerun again: it leaves; its last pause was the longest, so 204 or 7/8 of the 32, 28,
    // made odd. But what it last found of the device, that it was over its share (a little less
    // than all), stands.
    assert_eq!(
        t.resume(who, ticks(10), 0, &seen(100_000)).verdict,
        Verdict::Go { next_check_pages: 8 }
    );
    assert_eq!(t.tasks[0].nr_dirtied_pause, 29);
    // Counters may be off by 2 * 8 * 2 pages.
    let (mut t, who) = machine();
    let mut small = seen(200_000);
    small.wb.reclaimable = 32;
    t.dirtied(who, 32);
    // The least pause is 4 ticks.
    assert_eq!(t.balance(who, NOW, &small).verdict, Verdict::Sleep { until: ticks(4) });
    assert!(matches!(t.resume(who, ticks(4), 0, &small).verdict, Verdict::Go { .. }));
}

#[test]
fn a_device_over_its_share_or_a_machine_over_its_limit_is_looked_at_every_8_pages() {
    let exceeded = |share_ppm, dirty, own| {
        let (mut t, who) = machine();
        t.dirty_limit.limit = 300_000;
        t.set_bdi(BdiId(0), BdiLimits { max_ppm: share_ppm, ..BdiLimits::default() });
        let mut counts = seen(dirty);
        counts.wb.reclaimable = own;
        t.balance(who, NOW, &counts);
        t.interval(who) == 8
    };
    assert!(!exceeded(1_000_000, 160_000, 160_000));
    assert!(exceeded(1_000_000, 200_001, 1_000));
    // 10 % of 200,000.
    assert!(exceeded(100_000, 160_000, 20_001));
    assert!(!exceeded(100_000, 160_000, 20_000));
    // Shares do not matter below freerun.
    assert!(!exceeded(100_000, 150_000, 20_001));
}

#[test]
fn estimates_are_updated_after_200_ms_but_not_over_a_pause_of_a_second() {
    let at = |elapsed: u64, flusher: bool, since: u64| {
        let (mut t, who) = machine();
        t.bdis[0].estimate.stamp = 250_000 - elapsed;
        let mut counts = seen(175_000);
        counts.wb.written = 2_000;
        if flusher {
            t.bdis[0].run = Some((250_000 - since, 250_000));
            t.writepages_end(who.wb, NOW, &counts);
        } else {
            t.dirtied(who, 32);
            t.balance(who, NOW, &counts);
        }
        (t.bdis[0].estimate.write_bandwidth, t.bdis[0].estimate.stamp == 250_000)
    };
    // A writer waits for more than 50 ticks, a flusher for 50. (2,000 * 250 + 25,600 * (1,024 -
    // 51)) >> 10, and the same with 50.
    assert_eq!(at(50, false, 0), (25_600, false));
    assert_eq!(at(51, false, 0), (24_813, true));
    assert_eq!(at(49, true, 0), (25_600, false));
    assert_eq!(at(50, true, 0), (24_838, true));
    // Up to a second in any case; after more, only if this run of the flusher began before the last
    // update.
    assert_eq!(at(250, false, 0), (19_838, true));
    assert_eq!(at(251, false, 0), (25_600, true));
    assert_eq!(at(251, true, 250), (25_600, true));
    assert_eq!(at(251, true, 251), (19_813, true));
}

#[test]
fn a_flusher_that_was_silent_for_long_has_started_anew() {
    let (mut t, who) = machine();
    t.writepages_begin(who.wb, NOW, &seen(0));
    t.writepages_end(who.wb, ticks(100), &seen(0));
    t.writepages_begin(who.wb, ticks(150), &seen(0));
    assert_eq!(t.bdis[0].run, Some((250_000, 250_150)));
    t.writepages_begin(who.wb, ticks(201), &seen(0));
    assert_eq!(t.bdis[0].run, Some((250_201, 250_201)));
}

#[test]
fn background_writeback_starts_and_goes_on() {
    let (mut t, who) = machine();
    let mut start = |dirty, flushing| {
        let mut counts = seen(dirty);
        counts.wb.flushing = flushing;
        t.balance(who, NOW, &counts).start_background
    };
    assert!(!start(100_000, false));
    assert!(start(100_001, false));
    assert!(!start(100_001, true));
    let over = |t: &mut Pausing, own, others| {
        let wb = WbCounts { reclaimable: own, ..WbCounts::default() };
        t.over_background(WbId(0), NOW, &Seen { dirty: own + others, wb, ..seen(0) })
    };
    assert!(over(&mut t, 0, 100_001));
    assert!(!over(&mut t, 0, 100_000));
    t.set_bdi(BdiId(0), BdiLimits { max_ppm: 100_000, ..BdiLimits::default() });
    assert!(over(&mut t, 10_001, 0));
    assert!(!over(&mut t, 10_000, 0));
}

#[test]
fn leaving_bytes_for_a_ratio_still_goes_by_the_bytes() {
    let (mut t, _) = machine();
    let ratio = DirtyKnobs::defaults(Generation::K3_2);
    let bytes = DirtyKnobs { dirty: Limit::Bytes(64_000 * 4096), ..ratio };
    t.set_knobs(bytes, &MEMORY);
    assert_eq!(t.ratelimit_pages, 1_000);
    t.set_knobs(ratio, &MEMORY);
    assert_eq!((t.ratelimit_pages, t.thresholds(&MEMORY).dirty), (1_000, 200_000));
    // Written once more, with another value.
    t.set_knobs(DirtyKnobs { dirty: Limit::Ratio(40), ..ratio }, &MEMORY);
    assert_eq!(t.ratelimit_pages, 6_250);
}
