//! Decisions in a loop: writers as fast as memory, a throttle, a flusher and devices that drain at
//! a fixed rate, in steps of a tick.
//!
//! The plant is as small as it can be, so that its figures show the throttle alone. They are
//! compared with the promises of the algorithms: one writer at the drain rate and the setpoint, N
//! writers an N-th each. Dirty pages never exceed the limit by more than one look.

use floodwall_device::Nanos;

use super::*;
use crate::kernel::Generation;
use crate::limits::{BdiLimits, DirtyKnobs, Limit, Memory};

/// A tick at 250 Hz: timers go off at no other moments.
const STEP: Nanos = Nanos::from_millis(4);
/// Pages that a writer dirties in a step if nothing holds it back: 2 GB/s.
const MEMORY_SPEED: u64 = 2_000;
/// Pages that the request queue holds: 16 requests of 512 KiB.
const QUEUE: u64 = 2048;
const MACHINE: Machine = Machine { hz: 250, cpus: 4, possible_cpus: 4 };

/// 1,000,000 pages dirtyable in every generation, near enough: limit 200,000, background 100,000,
/// freerun 150,000, setpoint 175,000.
const MEMORY: Memory = Memory {
    total: 1_000_000,
    free: 999_999,
    reserve: 0,
    file: 0,
    anon: 0,
    mapped: 0,
    swap_free: false,
};

struct Writer {
    who: Dirtier,
    dirtied: u64,
    wake: Nanos,
    /// It waits within `balance_dirty_pages`.
    held: bool,
    /// Pages that it dirtied between its last two looks.
    stretch: u64,
}

struct Context {
    id: WbId,
    counts: WbCounts,
    memcg: bool,
    /// Pages that the flusher has still to submit of its chunk.
    chunk: u64,
    /// Pages per second.
    drain: u64,
    /// What the device could have written and has not, in 1/1000 of a page.
    owed: u64,
}

struct Plant {
    throttle: Box<dyn Throttle>,
    now: Nanos,
    writers: Vec<Writer>,
    wbs: Vec<Context>,
    headroom: u64,
    /// Most pages over the hard limit, and the most that the writers had dirtied since they last
    /// looked.
    worst_excess: u64,
}

impl Plant {
    fn new(generation: Generation, knobs: DirtyKnobs, devices: &[(u64, BdiLimits)]) -> Self {
        let mut throttle = crate::eras::parts::throttle(generation, MACHINE, knobs, &MEMORY);
        let wbs = devices.iter().map(|(drain, limits)| {
            let bdi = throttle.add_bdi(*limits);
            let id = throttle.add_wb(bdi, None);
            Context {
                id,
                counts: WbCounts::default(),
                memcg: false,
                chunk: 0,
                drain: *drain,
                owed: 0,
            }
        });
        let wbs = wbs.collect();
        Self { throttle, now: Nanos::ZERO, writers: Vec::new(), wbs, headroom: 0, worst_excess: 0 }
    }

    fn add_writers(&mut self, wb: usize, n: u32) {
        for _ in 0..n {
            let task = self.throttle.add_task(TaskTraits::default());
            let who = Dirtier {
                task,
                cpu: self.writers.len() as u32 % MACHINE.cpus,
                wb: self.wbs[wb].id,
            };
            self.writers.push(Writer {
                who,
                dirtied: 0,
                wake: Nanos::ZERO,
                held: false,
                stretch: 0,
            });
        }
    }

    fn seen(&self, wb: usize) -> Seen {
        let context = &self.wbs[wb];
        let sum = |f: fn(&WbCounts) -> u64| self.wbs.iter().map(|wb| f(&wb.counts)).sum();
        let (dirty, writeback) = (sum(|c| c.reclaimable), sum(|c| c.writeback));
        let memory =
            Memory { free: MEMORY.free - dirty - writeback, file: dirty + writeback, ..MEMORY };
        let counts = context.counts;
        let memcg = context.memcg.then(|| MemcgCounts {
            file: counts.dirty(),
            headroom: self.headroom - counts.dirty(),
            dirty: counts.reclaimable,
            writeback: counts.writeback,
        });
        Seen { memory, dirty, writeback, wb: counts, memcg }
    }

    fn dirty(&self) -> u64 {
        self.wbs.iter().map(|wb| wb.counts.dirty()).sum()
    }

    fn run(&mut self, seconds: u64) {
        let until = self.now + Nanos::from_secs(seconds);
        while self.now < until {
            self.now += STEP;
            for wb in 0..self.wbs.len() {
                self.drain(wb);
                self.flush(wb);
            }
            for i in 0..self.writers.len() {
                self.write(i);
            }
            let limit = self.throttle.thresholds(&self.seen(0).memory).dirty;
            self.worst_excess = self.worst_excess.max(self.dirty().saturating_sub(limit));
        }
    }

    fn drain(&mut self, wb: usize) {
        let context = &mut self.wbs[wb];
        context.owed += context.drain * STEP.0 / 1_000_000;
        let done = (context.owed / 1000).min(context.counts.writeback);
        context.owed = if context.counts.writeback > done { context.owed - done * 1000 } else { 0 };
        context.counts.writeback -= done;
        context.counts.written += done;
        self.throttle.completed(context.id, self.now, done);
    }

    /// Submits chunk after chunk, as fast as the request queue takes them, while there is more than
    /// the background threshold.
    fn flush(&mut self, wb: usize) {
        let (id, seen) = (self.wbs[wb].id, self.seen(wb));
        if !seen.wb.flushing {
            return;
        }
        if self.wbs[wb].chunk == 0 {
            if !self.throttle.over_background(id, self.now, &seen) {
                self.wbs[wb].counts.flushing = false;
                return;
            }
            self.throttle.writepages_begin(id, self.now, &seen);
            self.wbs[wb].chunk = self.throttle.chunk_pages(id, u64::MAX);
        }
        let context = &self.wbs[wb];
        let most = context.chunk.min(QUEUE.saturating_sub(context.counts.writeback));
        let submitted = self.submit(wb, most);
        let context = &mut self.wbs[wb];
        context.chunk -= submitted;
        if context.chunk == 0 || context.counts.reclaimable == 0 {
            context.chunk = 0;
            let seen = self.seen(wb);
            self.throttle.writepages_end(id, self.now, &seen);
        }
    }

    fn submit(&mut self, wb: usize, most: u64) -> u64 {
        let counts = &mut self.wbs[wb].counts;
        let pages = most.min(counts.reclaimable);
        counts.reclaimable -= pages;
        counts.writeback += pages;
        pages
    }

    fn write(&mut self, i: usize) {
        let (who, wb) = (self.writers[i].who, self.writers[i].who.wb.0 as usize);
        if self.now < self.writers[i].wake {
            return;
        }
        if self.writers[i].held {
            let ruling = self.throttle.resume(who, self.now, 0, &self.seen(wb));
            self.follow(i, ruling);
        }
        let mut left = MEMORY_SPEED;
        while left > 0 && !self.writers[i].held {
            let pages = self.throttle.until_check(who).min(left);
            left -= pages;
            let counts = &mut self.wbs[wb].counts;
            counts.reclaimable += pages;
            counts.dirtied += pages;
            self.writers[i].dirtied += pages;
            self.writers[i].stretch += pages;
            if self.throttle.dirtied(who, pages) {
                self.writers[i].stretch = 0;
                let ruling = self.throttle.balance(who, self.now, &self.seen(wb));
                self.follow(i, ruling);
            }
        }
    }

    fn follow(&mut self, i: usize, mut ruling: Ruling) {
        let (who, wb) = (self.writers[i].who, self.writers[i].who.wb.0 as usize);
        loop {
            self.wbs[wb].counts.flushing |= ruling.start_background;
            match ruling.verdict {
                Verdict::Go { next_check_pages } => {
                    assert!(next_check_pages > 0);
                    assert_eq!(next_check_pages, self.throttle.until_check(who));
                    self.writers[i].held = false;
                    return;
                }
                Verdict::Sleep { until } | Verdict::CongestionWait { until } => {
                    assert!(until > self.now, "a sleep that is over already");
                    self.writers[i].held = true;
                    self.writers[i].wake = until;
                    return;
                }
                Verdict::WriteOut { pages } => {
                    let room = (2 * QUEUE).saturating_sub(self.wbs[wb].counts.writeback);
                    let wrote = self.submit(wb, pages.min(room));
                    ruling = self.throttle.resume(who, self.now, wrote, &self.seen(wb));
                }
            }
        }
    }

    /// Pages per second of each writer, and the mean of dirty pages (sampled every second), over so
    /// many seconds.
    fn measure(&mut self, seconds: u64) -> (Vec<u64>, u64) {
        let before: Vec<u64> = self.writers.iter().map(|w| w.dirtied).collect();
        let mut sum = 0;
        for _ in 0..seconds {
            self.run(1);
            sum += self.dirty();
        }
        (
            self.writers
                .iter()
                .zip(before)
                .map(|(w, before)| (w.dirtied - before) / seconds)
                .collect(),
            sum / seconds,
        )
    }
}

fn plant(generation: Generation, drain: u64, writers: u32) -> Plant {
    let mut plant =
        Plant::new(generation, DirtyKnobs::defaults(generation), &[(drain, BdiLimits::default())]);
    plant.add_writers(0, writers);
    plant
}

/// Within so many percent.
#[track_caller]
fn near(value: u64, wanted: u64, percent: u64) {
    let off = value.abs_diff(wanted);
    assert!(off * 100 <= wanted * percent, "{value} is not within {percent} % of {wanted}");
}

#[test]
fn one_writer_gets_the_drain_rate_at_the_setpoint() {
    for generation in [Generation::K3_2, Generation::K6] {
        for drain in [8_000, 25_000, 100_000] {
            let mut plant = plant(generation, drain, 1);
            // From freerun to the setpoint are 25,000 pages; they take their time on a slow device.
            plant.run(60 + 1_500_000 / drain);
            let (rates, dirty) = plant.measure(30);
            near(rates[0], drain, 3);
            // Half-way between freerun (150,000) and limit (200,000); 10 % of it is 35 % of that
            // stretch either way.
            near(dirty, 175_000, 8);
            assert_eq!(plant.worst_excess, 0, "{generation} at {drain}");
        }
    }
}

#[test]
fn many_writers_share_the_drain_rate_equally() {
    for generation in [Generation::K3_2, Generation::K6] {
        for n in [4, 16, 64] {
            let mut plant = plant(generation, 25_000, n);
            plant.run(60);
            let (rates, dirty) = plant.measure(30);
            near(rates.iter().sum(), 25_000, 3);
            for rate in rates {
                near(rate, 25_000 / u64::from(n), 15);
            }
            near(dirty, 175_000, 10);
        }
    }
}

#[test]
fn no_generation_exceeds_its_limit_by_more_than_a_look() {
    for (generation, limit) in [
        (Generation::K2_6_18, 400_000),
        (Generation::K2_6_32, 200_000),
        (Generation::K3_2, 200_000),
        (Generation::K6, 200_000),
    ] {
        let mut plant = plant(generation, 10_000, 16);
        plant.run(90);
        // Every CPU dirties at most ratelimit_pages (1,024 at most in the old ones, limit / 32 /
        // CPUs in the new) before a task looks.
        let look = if generation <= Generation::K2_6_32 {
            1_024
        } else {
            limit / 32 / u64::from(MACHINE.cpus)
        };
        assert!(
            plant.worst_excess <= look * u64::from(MACHINE.cpus),
            "{generation}: {}",
            plant.worst_excess
        );
        // And the limit is used: writers are not stopped long before it.
        assert!(plant.dirty() > limit * 7 / 10, "{generation}: {}", plant.dirty());
    }
}

#[test]
fn writers_that_write_for_themselves_get_the_drain_rate_too() {
    for generation in [Generation::K2_6_18, Generation::K2_6_32] {
        for n in [1, 4] {
            let mut plant = plant(generation, 25_000, n);
            plant.run(60);
            let (rates, dirty) = plant.measure(60);
            near(rates.iter().sum(), 25_000, 5);
            let limit = plant.throttle.thresholds(&MEMORY).dirty;
            assert!(
                (limit * 3 / 4..limit + 5 * 1024).contains(&dirty),
                "{generation}: {dirty} of {limit}"
            );
        }
    }
}

#[test]
fn the_bandwidth_is_found() {
    for drain in [3_000, 200_000] {
        let mut plant = plant(Generation::K6, drain, 2);
        plant.run(60);
        near(plant.throttle.bandwidth_pages_per_s(WbId(0)).unwrap(), drain, 3);
    }
}

#[test]
fn devices_share_the_limit_by_bandwidth() {
    for generation in [Generation::K2_6_32, Generation::K3_2, Generation::K6] {
        let free = BdiLimits::default();
        let mut plant = Plant::new(
            generation,
            DirtyKnobs::defaults(generation),
            &[(40_000, free), (10_000, free)],
        );
        plant.add_writers(0, 2);
        plant.add_writers(1, 2);
        plant.run(90);
        let (rates, _) = plant.measure(30);
        near(rates[0] + rates[1], 40_000, 5);
        near(rates[2] + rates[3], 10_000, 8);
        let (fast, slow) = (plant.wbs[0].counts.dirty(), plant.wbs[1].counts.dirty());
        assert!((5 * slow / 2..=7 * slow).contains(&fast), "{generation}: {fast} and {slow}");
    }
}

#[test]
fn a_strict_limit_holds_one_device_while_the_machine_is_empty() {
    let strict = BdiLimits { max_ppm: 50_000, strict: true, ..BdiLimits::default() };
    let mut plant =
        Plant::new(Generation::K6, DirtyKnobs::defaults(Generation::K6), &[(10_000, strict)]);
    plant.add_writers(0, 2);
    // 5 % of 200,000.
    let most = 10_000;
    for _ in 0..60 {
        plant.run(1);
        let dirty = plant.wbs[0].counts.dirty();
        assert!(dirty <= most + 2 * 200_000 / 128, "{dirty}");
    }
    let (rates, dirty) = plant.measure(30);
    near(rates[0] + rates[1], 10_000, 3);
    // The share's setpoint: (10,000 + 5,000) / 2.
    near(dirty, 7_500, 15);
    // Without strict the same share holds no writer back below the machine's freerun.
    let mut loose = Plant::new(
        Generation::K6,
        DirtyKnobs::defaults(Generation::K6),
        &[(10_000, BdiLimits { strict: false, ..strict })],
    );
    loose.add_writers(0, 2);
    loose.run(2);
    assert!(loose.dirty() > 140_000, "{}", loose.dirty());
}

#[test]
fn an_abrupt_cut_of_the_limit_stops_all_writers_in_6_x_and_not_in_3_2() {
    let dirtied_after_cut = |generation| {
        let mut plant = plant(generation, 25_000, 4);
        plant.run(60);
        let knobs = DirtyKnobs {
            dirty: Limit::Bytes(50_000 * 4096),
            background: Limit::Bytes(25_000 * 4096),
            ..DirtyKnobs::defaults(generation)
        };
        let memory = plant.seen(0).memory;
        plant.throttle.set_knobs(knobs, &memory);
        // A sleeping writer may go on after its pause; then about 120,000 pages have to drain, 5 s.
        plant.run(1);
        let before: u64 = plant.writers.iter().map(|w| w.dirtied).sum();
        plant.run(3);
        plant.writers.iter().map(|w| w.dirtied).sum::<u64>() - before
    };
    // 3 s of bandwidth are 75,000 pages; each look lets a task dirty a page or so.
    assert!(dirtied_after_cut(Generation::K6) < 2_000, "{}", dirtied_after_cut(Generation::K6));
    assert!(
        dirtied_after_cut(Generation::K3_2) > 10_000,
        "{}",
        dirtied_after_cut(Generation::K3_2)
    );
}

#[test]
fn a_cgroup_is_held_to_its_share_of_its_own_memory() {
    let mut plant = Plant::new(
        Generation::K6,
        DirtyKnobs::defaults(Generation::K6),
        &[(25_000, BdiLimits::default())],
    );
    let memcg = plant.throttle.add_memcg();
    plant.wbs[0].id = plant.throttle.add_wb(BdiId(0), Some(memcg));
    // The second context stands for the device; the first one (the root's) stays idle.
    let idle = Context {
        id: WbId(0),
        counts: WbCounts::default(),
        memcg: false,
        chunk: 0,
        drain: 0,
        owed: 0,
    };
    plant.wbs.insert(0, idle);
    plant.wbs[1].memcg = true;
    plant.headroom = 100_000;
    plant.add_writers(1, 2);
    plant.run(60);
    let (rates, dirty) = plant.measure(30);
    near(rates[0] + rates[1], 25_000, 5);
    // 20 % and 10 % of 100,000 pages: limit 20,000, setpoint 17,500; the machine's freerun is far
    // away.
    assert!((14_000..=20_500).contains(&dirty), "{dirty}");
}

#[test]
fn background_writeback_starts_and_ends_at_its_threshold() {
    for generation in [Generation::K2_6_18, Generation::K2_6_32, Generation::K3_2, Generation::K6] {
        let mut plant = plant(generation, 50_000, 1);
        // The device's share is known: 3.2 counts it up from nothing, over several times the limit.
        plant.throttle.completed(WbId(0), Nanos::ZERO, 10_000_000);
        // A burst of 0.24 s: 120,000 pages, above the background threshold of 100,000 and below
        // every writer's freerun.
        while plant.writers[0].dirtied < 120_000 {
            plant.now += STEP;
            plant.write(0);
        }
        assert!(plant.wbs[0].counts.flushing, "{generation}");
        plant.writers.clear();
        plant.run(20);
        assert!(!plant.wbs[0].counts.flushing, "{generation}");
        // It ends with the chunk that takes it below; there are no more writers, and nothing is
        // left under writeback.
        let chunk = plant.throttle.chunk_pages(WbId(0), u64::MAX);
        assert!(
            (100_000 - chunk..=100_000).contains(&plant.dirty()),
            "{generation}: {}",
            plant.dirty()
        );
    }
}
