//! Decisions of single looks, with figures worked out by hand.

use super::super::{MemcgCounts, WbCounts};
use super::*;
use crate::kernel::Generation;
use crate::limits::Limit;

const MACHINE: Machine = Machine { hz: 250, cpus: 2, possible_cpus: 2 };
/// 1,000,000 pages dirtyable. In 1/4096: 20 % are 819, 10 % are 409, so limit 199,951, background
/// 99,853, freerun 149,902, setpoint 174,926.
const MEMORY: Memory =
    Memory { total: 0, free: 999_999, reserve: 0, file: 0, anon: 0, mapped: 0, swap_free: false };
/// Long after the start, at tick 250,000.
const NOW: Nanos = Nanos::from_secs(1_000);
const TICK: u64 = 4_000_000;

struct Runner {
    t: Balancing,
    who: Dirtier,
}

fn runner() -> Runner {
    with(BdiLimits::default(), TaskTraits::default())
}

fn with(limits: BdiLimits, traits: TaskTraits) -> Runner {
    let mut t = Balancing::new(MACHINE, DirtyKnobs::defaults(Generation::K6), &MEMORY);
    let bdi = t.add_bdi(limits);
    let wb = t.add_wb(bdi, None);
    let task = t.add_task(traits);
    // The device has all completions, and its estimates are fresh.
    t.completed(wb, Nanos::from_secs(996), 1_000_000);
    t.wbs[0].estimate.stamp = 250_000;
    Runner { t, who: Dirtier { task, cpu: 0, wb } }
}

/// One device with so many pages dirty, all of them its own.
fn seen(dirty: u64) -> Seen {
    let wb = WbCounts { reclaimable: dirty, flushing: true, ..WbCounts::default() };
    Seen { memory: MEMORY, dirty, writeback: 0, wb, memcg: None }
}

fn ticks(n: u64) -> Nanos {
    Nanos(NOW.0 + n * TICK)
}

impl Runner {
    /// Dirties so many pages and looks.
    fn look(&mut self, now: Nanos, pages: u64, dirty: u64) -> Verdict {
        self.t.dirtied(self.who, pages);
        self.t.balance(self.who, now, &seen(dirty)).verdict
    }

    fn paused_when(&self) -> Option<u64> {
        self.t.tasks[0].paused_when
    }
}

#[test]
fn below_freerun_the_next_look_is_the_root_of_the_room_away() {
    let mut r = runner();
    // New tasks look after 32 pages. Room: 199,951 - 149,902 = 50,049 (2^15.6): 2^(15/2) = 128.
    assert_eq!(r.t.until_check(r.who), 32);
    assert_eq!(r.look(NOW, 32, 149_902), Verdict::Go { next_check_pages: 128 });
    assert_eq!(r.paused_when(), Some(250_000));
    // Nothing dirty: 2^(17/2) = 256.
    assert_eq!(r.look(NOW, 128, 0), Verdict::Go { next_check_pages: 256 });
    assert!(
        matches!(r.look(NOW, 256, 149_903), Verdict::Go { .. }),
        "period 0: 1 tick at 2,290 * 25,600/1,024 is 229 pages"
    );
}

#[test]
fn a_cpu_looks_after_ratelimit_pages_whoever_dirtied_them() {
    let mut r = runner();
    // 199,951 / (2 * 32).
    assert_eq!(r.t.ratelimit_pages, 3_124);
    let others: Vec<Dirtier> =
        (0..200).map(|_| Dirtier { task: r.t.add_task(TaskTraits::default()), ..r.who }).collect();
    // 31 pages each are below every task's interval; the 101st brings the CPU to 3,131.
    let due = others.iter().position(|other| r.t.dirtied(*other, 31));
    assert_eq!(due, Some(100));
    assert_eq!(r.t.dirtied[0], 0);
    // 3,093 pages later a task with 32 to go is told of the CPU's 31.
    r.t.dirtied[0] = 3_093;
    assert_eq!(r.t.until_check(r.who), 31);
}

#[test]
fn a_pause_is_pages_over_rate() {
    let mut r = runner();
    r.t.tasks[0].paused_when = Some(250_000);
    // At the setpoint: x = (199,951 << 16)/199,951|1 = 65,536; wb_setpoint = 174,926; ratio =
    // 1,024 * (span)/(span|1) with span = 8 * 25,600 = 204,800: 1,023. Rate 25,600 * 1,023 >> 10 =
    // 25,575. 1,000 pages: 250,000 / 25,575 = 9 ticks.
    let Verdict::Sleep { until } = r.look(NOW, 1_000, 174_926) else { panic!("no sleep") };
    // Timers are a tick late.
    assert_eq!(until, ticks(10));
    assert!(r.t.slept_recently(BdiId(0), ticks(249)));
    assert!(!r.t.slept_recently(BdiId(0), ticks(250)));
    let go = r.t.resume(r.who, until, 0, &seen(174_926)).verdict;
    // 10 ms at the base rate, 25,600 * 2 / 256; the pause counts from where it should have ended.
    assert_eq!(go, Verdict::Go { next_check_pages: 200 });
    assert_eq!(r.paused_when(), Some(250_009));
}

#[test]
fn time_that_has_passed_is_taken_off_and_short_pauses_are_owed() {
    let mut r = runner();
    // 4 of the 9 ticks have passed since the last pause.
    r.t.tasks[0].paused_when = Some(249_996);
    assert_eq!(r.look(NOW, 1_000, 174_926), Verdict::Sleep { until: ticks(6) });
    // 100 pages are 0.98 of a tick: period 0, no pause, and nothing is forgotten.
    let mut r = runner();
    r.t.tasks[0].paused_when = Some(250_000);
    r.t.tasks[0].nr_dirtied_pause = 100;
    assert_eq!(r.look(NOW, 100, 174_926), Verdict::Go { next_check_pages: 100 });
    assert_eq!(r.t.tasks[0].nr_dirtied, 100, "the next look counts them, too");
    // 200 pages are 1 tick, less than the least pause of 2: owed.
    let mut r = runner();
    r.t.tasks[0].paused_when = Some(250_000);
    r.t.tasks[0].nr_dirtied_pause = 200;
    assert_eq!(r.look(NOW, 200, 174_926), Verdict::Go { next_check_pages: 200 });
    assert_eq!((r.paused_when(), r.t.tasks[0].nr_dirtied), (Some(250_001), 0));
    // The second time both ticks are slept.
    assert_eq!(r.look(NOW, 200, 174_926), Verdict::Sleep { until: ticks(3) });
}

#[test]
fn a_task_that_did_something_else_for_a_second_starts_afresh() {
    let mut r = runner();
    r.t.tasks[0].paused_when = Some(250_000 - 250 - 9 - 1);
    assert!(matches!(r.look(NOW, 1_000, 174_926), Verdict::Go { .. }));
    assert_eq!(r.paused_when(), Some(250_000));
    // One tick less and the time is still paid back.
    let mut r = runner();
    r.t.tasks[0].paused_when = Some(250_000 - 250 - 9);
    assert!(matches!(r.look(NOW, 1_000, 174_926), Verdict::Go { .. }));
    assert_eq!(r.paused_when(), Some(250_000 - 250));
}

#[test]
fn a_pause_is_at_most_200_ms_and_what_is_cut_off_is_owed() {
    let mut r = runner();
    r.t.tasks[0].paused_when = Some(250_000);
    // 6,000 pages: 1,500,000 / 25,575 = 58 ticks, 8 over 50: they count as if they had begun 8
    // ticks later.
    assert_eq!(r.look(NOW, 6_000, 174_926), Verdict::Sleep { until: ticks(51) });
    r.t.resume(r.who, ticks(51), 0, &seen(174_926));
    assert_eq!(r.paused_when(), Some(250_058));
    // Not more than once again as much is owed: 20,000 pages are 195 ticks.
    r.t.tasks[0].paused_when = Some(250_000);
    r.look(NOW, 20_000, 174_926);
    r.t.resume(r.who, ticks(51), 0, &seen(174_926));
    assert_eq!(r.paused_when(), Some(250_100));
}

#[test]
fn at_the_limit_tasks_wait_until_it_is_kept_or_their_device_has_next_to_nothing() {
    let mut r = runner();
    assert_eq!(r.look(NOW, 32, 199_951), Verdict::Sleep { until: ticks(51) });
    let again = r.t.resume(r.who, ticks(51), 0, &seen(199_951)).verdict;
    assert_eq!(again, Verdict::Sleep { until: ticks(102) });
    // Below it the look is repeated with the same 32 pages, whose time has long passed.
    assert!(matches!(r.t.resume(r.who, ticks(102), 0, &seen(174_926)).verdict, Verdict::Go { .. }));
    // A device with no more pages than its counters may be off (2 CPUs: 2 * 8 * 2 = 32) lets its
    // writers go after one sleep.
    let mut r = runner();
    let mut small = seen(199_951);
    small.wb.reclaimable = 32;
    r.t.dirtied(r.who, 32);
    // max_pause: 32 / (1 + 25,600 / 32) + 1 = 1 tick.
    assert_eq!(r.t.balance(r.who, NOW, &small).verdict, Verdict::Sleep { until: ticks(2) });
    // Its pace came out as 0 pages, so it looks again at the next one.
    assert_eq!(r.t.resume(r.who, ticks(2), 0, &small).verdict, Verdict::Go { next_check_pages: 1 });
}

#[test]
fn a_device_over_its_share_is_looked_at_every_8_pages_if_the_machine_is_over_its_limit() {
    let mut r = runner();
    r.t.global.limit.limit = 250_000;
    r.t.tasks[0].nr_dirtied_pause = 200;
    r.look(NOW, 32, 199_951);
    assert_eq!(r.t.interval(r.who), 200, "at the limit, not over it");
    r.look(NOW, 32, 199_952);
    assert_eq!(r.t.interval(r.who), 8);
    r.look(NOW, 32, 180_000);
    assert_eq!(r.t.interval(r.who), 200);
}

#[test]
fn background_writeback_is_started_by_dirty_pages_not_by_those_under_writeback() {
    let mut r = runner();
    let mut start = |dirty, writeback, flushing| {
        let wb = WbCounts { reclaimable: dirty, writeback, flushing, ..WbCounts::default() };
        r.t.balance(r.who, NOW, &Seen { dirty, writeback, wb, ..seen(0) }).start_background
    };
    assert!(!start(99_853, 0, false));
    assert!(start(99_854, 0, false));
    assert!(!start(99_854, 0, true));
    assert!(!start(50_000, 99_902, false));
    // Above freerun in any case.
    assert!(start(50_000, 99_903, false));
}

#[test]
fn flushers_go_on_while_the_machine_or_the_device_is_over() {
    let mut r = runner();
    let over = |r: &mut Runner, own, others| {
        let wb = WbCounts { reclaimable: own, ..WbCounts::default() };
        r.t.over_background(r.who.wb, NOW, &Seen { dirty: own + others, wb, ..seen(0) })
    };
    assert!(over(&mut r, 0, 99_854));
    assert!(!over(&mut r, 0, 99_853));
    // A tenth of the background threshold for this device.
    r.t.set_bdi(BdiId(0), BdiLimits { max_ppm: 100_000, ..BdiLimits::default() });
    assert!(!over(&mut r, 9_985, 0));
    assert!(over(&mut r, 9_986, 0));
}

#[test]
fn estimates_are_updated_when_more_than_200_ms_have_passed() {
    let mut r = runner();
    let mut counts = seen(174_926);
    counts.wb.written = 2_000;
    r.t.balance(r.who, ticks(50), &counts);
    assert_eq!(r.t.wbs[0].estimate.written_stamp, 0);
    r.t.balance(r.who, ticks(51), &counts);
    assert_eq!((r.t.wbs[0].estimate.written_stamp, r.t.wbs[0].estimate.stamp), (2_000, 250_051));
    // (2,000 * 250 + 25,600 * (1,024 - 51)) >> 10.
    assert_eq!(r.t.wbs[0].estimate.write_bandwidth, 24_813);
    // A flusher updates the bandwidth only.
    let rate = r.t.wbs[0].estimate.dirty_ratelimit;
    r.t.writepages_end(r.who.wb, ticks(101), &counts);
    assert_eq!(r.t.wbs[0].estimate.stamp, 250_051);
    r.t.writepages_end(r.who.wb, ticks(102), &counts);
    assert_eq!((r.t.wbs[0].estimate.stamp, r.t.wbs[0].estimate.dirty_ratelimit), (250_102, rate));
    r.t.writeback_settled(r.who.wb, ticks(103), &counts);
    assert_eq!(r.t.wbs[0].estimate.stamp, 250_103);
    // After a second of nothing at all the gap does not count; while pages are under writeback it
    // does.
    let mut busy = counts;
    busy.wb.writeback = 1;
    r.t.writepages_begin(r.who.wb, ticks(500), &busy);
    assert_eq!(r.t.wbs[0].estimate.stamp, 250_103);
    r.t.writepages_begin(r.who.wb, ticks(353), &counts);
    assert_eq!(r.t.wbs[0].estimate.stamp, 250_103);
    r.t.writepages_begin(r.who.wb, ticks(354), &counts);
    assert_eq!(r.t.wbs[0].estimate.stamp, 250_354);
}

#[test]
fn a_change_of_the_hard_limit_is_in_force_at_once() {
    let mut r = runner();
    assert_eq!(r.t.global.limit.limit, 199_951);
    let bytes =
        DirtyKnobs { dirty: Limit::Bytes(1_000 * 4096), ..DirtyKnobs::defaults(Generation::K6) };
    r.t.set_knobs(bytes, &MEMORY);
    assert_eq!((r.t.global.limit.limit, r.t.ratelimit_pages), (1_000, 16));
    assert_eq!(r.t.thresholds(&MEMORY), Thresholds { dirty: 1_000, background: 500 });
    assert_eq!(r.t.chunk_pages(r.who.wb, u64::MAX), 1024);
    // The background knob changes neither.
    r.t.global.limit.limit = 1_234;
    r.t.set_knobs(DirtyKnobs { background: Limit::Ratio(1), ..bytes }, &MEMORY);
    assert_eq!(r.t.global.limit.limit, 1_234);
}

#[test]
fn privileged_tasks() {
    // Real time: a quarter and a 32nd more: 199,951 + 49,987 + 6,248 = 256,186 and 99,853 +
    // 24,963 + 6,248 = 131,064: freerun 193,625.
    let real_time = TaskTraits { real_time: true, local: false };
    let mut r = with(BdiLimits::default(), real_time);
    assert!(matches!(r.look(NOW, 32, 193_625), Verdict::Go { .. }));
    assert_eq!(r.paused_when(), Some(250_000));
    // nfsd on its own machine: free while its own device has less than the middle of its share.
    let mut r = with(BdiLimits::default(), TaskTraits { local: true, real_time: false });
    let mut idle = seen(199_951);
    idle.wb.reclaimable = 149_901;
    assert!(matches!(r.t.balance(r.who, NOW, &idle).verdict, Verdict::Go { .. }));
    idle.wb.reclaimable = 149_902;
    assert!(matches!(r.t.balance(r.who, NOW, &idle).verdict, Verdict::Sleep { .. }));
}

#[test]
fn under_a_strict_limit_only_the_device_counts() {
    let strict = BdiLimits { max_ppm: 10_000, strict: true, ..BdiLimits::default() };
    let mut r = with(strict, TaskTraits::default());
    // Completions count up to 10/1024, less than 1 %; a hundredth of the room is more: (199,951 -
    // 1,487) / 100 = 1,984. Background 1,984 * 99,853 / 199,951 = 990; freerun 1,487; room 497:
    // 2^(8/2) = 16.
    assert_eq!(r.look(NOW, 32, 1_487), Verdict::Go { next_check_pages: 16 });
    assert!(matches!(r.look(NOW, 1_000, 1_600), Verdict::Sleep { .. }));
    assert_eq!(r.t.interval(r.who), 16);
    r.look(NOW, 16, 2_000);
    assert_eq!(r.t.interval(r.who), 8, "over its share is enough");
}

#[test]
fn the_narrower_of_machine_and_cgroup_decides() {
    let mut r = runner();
    let memcg = r.t.add_memcg();
    let wb = r.t.add_wb(BdiId(0), Some(memcg));
    r.t.completed(wb, Nanos::from_secs(999), 1_000_000);
    r.t.wbs[1].estimate.stamp = 250_000;
    r.who.wb = wb;
    // 100,000 pages in the cgroup: limit 19,995, background 9,985, freerun 14,990.
    let counts = |dirty| Seen {
        memcg: Some(MemcgCounts { file: 50_000, headroom: 50_000, dirty, writeback: 0 }),
        ..seen(dirty)
    };
    // Room in the cgroup: 5,005, 2^(12/2) = 64; in the machine 184,961, 2^(17/2) = 256.
    assert_eq!(
        r.t.balance(r.who, NOW, &counts(14_990)).verdict,
        Verdict::Go { next_check_pages: 64 }
    );
    assert!(matches!(r.t.balance(r.who, NOW, &counts(19_995)).verdict, Verdict::Sleep { .. }));
    assert!(r.t.over_background(wb, NOW, &counts(9_986)));
    // The device's share is 1,000,000 of 1,000,001 completions, a page less.
    assert!(r.t.over_background(wb, NOW, &counts(9_985)));
    assert!(!r.t.over_background(wb, NOW, &counts(9_984)));
}
