//! `io.max`: what a control group may read and write a second (block/blk-throttle.c of 6.18).
//!
//! ```text
//! bio ─▶ group and direction: within the rates since the slice began? ─ yes ─▶ passes
//!             └ no: queued, first in first out ─ the device's timer ─▶ all that are within by then
//! ```
//!
//! A *slice* is a tenth of a second. Elapsed time is rounded up to whole slices, so a slice's whole
//! allowance may pass at its beginning. Bytes therefore come in bursts of up to a tenth of a
//! second's worth. An unused allowance is lost when its slice ends while nothing is queued. Bytes
//! are checked before operations; a bio is charged for each when it passes that check. Bios are
//! counted, not requests: the model makes none that is longer than a request, so none is split.
//!
//! The kernel takes at most eight bios of a group at a time, three quarters of them reads
//! (`THROTL_GRP_QUANTUM`), and repeats that until nothing is within the rates. That takes no time
//! here, so only the order at the end counts: all reads before all writes, groups in turn
//! (`throtl_pop_queued`). The parents of the groups have no limits and are left out. Time is
//! counted in ticks of `CONFIG_HZ`.

mod way;

use std::collections::VecDeque;

use floodwall_device::{Nanos, Op};

use super::Bio;
use crate::groups::Rates;
use crate::throttle::jiffies::Clock;
use way::{Queued, Tick, Way, slice_ticks};

/// A group's first bio is looked at again after so many slices at the latest
/// (`throtl_schedule_pending_timer`).
const PATIENCE_SLICES: u64 = 8;

/// One group: reads, writes.
#[derive(Clone, Debug, Default)]
struct Group {
    ways: [Way; 2],
    /// The tick at which one of its first bios may go on, if any waits (`disptime`).
    due: Option<u64>,
}

/// The outcome for a bio.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Passage {
    /// It may go on at once; if not, it is queued.
    pub(crate) passes: bool,
    /// The device's timer is to go off at this moment, instead of when it was to before.
    pub(crate) timer: Option<Nanos>,
}

/// See the [module](self).
#[derive(Clone, Debug)]
pub(crate) struct IoMax {
    clock: Clock,
    groups: Vec<Group>,
}

impl IoMax {
    /// Groups by their numbers.
    pub(crate) fn new(clock: Clock, rates: impl Iterator<Item = Rates>) -> Self {
        let slice = (0, slice_ticks(clock));
        let way = |rates: &Rates, i: usize| Way {
            bytes_per_s: rates.bytes[i],
            operations_per_s: rates.operations[i],
            slice,
            ..Way::default()
        };
        let group = |rates: Rates| Group { ways: [way(&rates, 0), way(&rates, 1)], due: None };
        Self { clock, groups: rates.map(group).collect() }
    }

    /// Changes a group's rates: what it was charged is forgotten, and what waits is looked at anew
    /// (`tg_conf_updated`; what a slice has left over is not carried on). Returns when the timer is
    /// to go off.
    pub(crate) fn change(&mut self, now: Nanos, group: usize, rates: Rates) -> Option<Nanos> {
        let at = Tick { clock: self.clock, now: self.clock.jiffies(now) };
        let group = &mut self.groups[group];
        for (i, way) in group.ways.iter_mut().enumerate() {
            (way.bytes_per_s, way.operations_per_s) = (rates.bytes[i], rates.operations[i]);
            (way.bytes, way.operations) = (0, 0);
            way.slice = (at.now, at.now + slice_ticks(self.clock));
        }
        group.set_due(at);
        self.timer(now)
    }

    /// A group, by its number, submits a bio (`__blk_throtl_bio`).
    pub(crate) fn submit(&mut self, now: Nanos, group: usize, bio: &Bio) -> Passage {
        let at = Tick { clock: self.clock, now: self.clock.jiffies(now) };
        let group = &mut self.groups[group];
        let way = &mut group.ways[direction(bio)];
        if !way.is_limited() {
            return Passage { passes: true, timer: None };
        }
        let mut queued = Queued { bio: *bio, charged: false, for_bytes: false };
        if way.lets_through(at, &mut queued) {
            way.operations += 1;
            way.trim(at);
            return Passage { passes: true, timer: None };
        }
        if bio.flags.meta {
            // Others may wait for it: it goes on and is paid for by those that follow.
            way.charge_bytes(&mut queued);
            way.operations += 1;
            return Passage { passes: true, timer: None };
        }
        let was_empty = way.queue.is_empty();
        queued.for_bytes = !queued.charged;
        way.for_bytes += usize::from(queued.for_bytes);
        way.queue.push_back(queued);
        if was_empty {
            group.set_due(at);
        }
        Passage { passes: false, timer: was_empty.then(|| self.timer(now)).flatten() }
    }

    /// The timer has gone off: appends what may go on, in its order. Returns when it is to go off
    /// again (`throtl_pending_timer_fn`).
    pub(crate) fn dispatch(&mut self, now: Nanos, ready: &mut VecDeque<Bio>) -> Option<Nanos> {
        let at = Tick { clock: self.clock, now: self.clock.jiffies(now) };
        let mut passed: [Vec<VecDeque<Bio>>; 2] = Default::default();
        for group in
            self.groups.iter_mut().filter(|group| group.due.is_some_and(|due| due <= at.now))
        {
            for (way, passed) in group.ways.iter_mut().zip(&mut passed) {
                passed.push(way.dispatch(at));
            }
            group.set_due(at);
        }
        for mut groups in passed {
            while groups.iter().any(|bios| !bios.is_empty()) {
                ready.extend(groups.iter_mut().filter_map(VecDeque::pop_front));
            }
        }
        self.timer(now)
    }

    /// When the first group is due; the timer wheel is never early
    /// (`throtl_schedule_pending_timer`).
    fn timer(&self, now: Nanos) -> Option<Nanos> {
        let tick = self.clock.jiffies(now);
        let due = self.groups.iter().filter_map(|group| group.due).min()?;
        let ticks = due.saturating_sub(tick).min(PATIENCE_SLICES * slice_ticks(self.clock));
        Some(self.clock.timer(now, ticks))
    }
}

impl Group {
    /// `tg_update_disptime`.
    fn set_due(&mut self, at: Tick) {
        let wait = self.ways.iter_mut().filter_map(|way| way.wait_of_first(at)).min();
        self.due = wait.map(|wait| at.now + wait);
    }
}

/// Reads, or else writes (`bio_data_dir`).
fn direction(bio: &Bio) -> usize {
    usize::from(bio.op != Op::Read)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::block::End;
    use crate::request::Flags;
    use crate::request::ProcessIndex;

    fn bio(op: Op, len: u64) -> Bio {
        Bio::new(op, 0, len, Flags::default(), End::Process(ProcessIndex(0)))
    }

    fn write(len: u64) -> Bio {
        bio(Op::Write { fua: false }, len)
    }

    fn limits(hz: u32, rates: &[Rates]) -> IoMax {
        IoMax::new(Clock::new(hz, true), rates.iter().copied())
    }

    fn bytes(per_s: u64) -> Rates {
        Rates { bytes: [Some(per_s); 2], ..Rates::default() }
    }

    fn operations(per_s: u32) -> Rates {
        Rates { operations: [Some(per_s); 2], ..Rates::default() }
    }

    /// Submits bios until one has to wait and so many wait; how many passed, and when the timer
    /// goes off.
    fn fill(io_max: &mut IoMax, group: usize, bio: &Bio, waiting: usize) -> (u64, Option<Nanos>) {
        let (mut passed, mut timer, mut queued) = (0, None, 0);
        while queued < waiting {
            let passage = io_max.submit(Nanos::ZERO, group, bio);
            passed += u64::from(passage.passes);
            queued += usize::from(!passage.passes);
            timer = passage.timer.or(timer);
        }
        (passed, timer)
    }

    /// Lets the timer go off as often as it does up to a moment: when it did, and how many bios
    /// went on then.
    fn rounds(io_max: &mut IoMax, mut timer: Option<Nanos>, until: Nanos) -> Vec<(Nanos, u64)> {
        let mut rounds = Vec::new();
        while let Some(at) = timer.filter(|at| *at <= until) {
            let mut ready = VecDeque::new();
            timer = io_max.dispatch(at, &mut ready);
            rounds.push((at, ready.len() as u64));
        }
        rounds
    }

    /// By hand, at 250 ticks a second: a slice of 25 ticks allows 100,000 bytes, 24 pages. The next
    /// lacks 2,400 bytes, less than a tick's worth, so it may go in tick 26. The timer goes off a
    /// tick later. 27 ticks are two slices: 200,000 bytes, 48 pages. The next lacks 704: tick 51,
    /// 300,000 bytes, 73 pages; and so on.
    #[test]
    fn bytes_pass_in_bursts_of_a_slice() {
        let mut io_max = limits(250, &[bytes(1_000_000)]);
        let (passed, timer) = fill(&mut io_max, 0, &write(4_096), 1_000);
        assert_eq!((passed, timer), (24, Some(Nanos::from_millis(27 * 4))));
        let ticks: Vec<(u64, u64)> = rounds(&mut io_max, timer, Nanos::from_millis(500))
            .into_iter()
            .map(|(at, n)| (at.0 / 4_000_000, n))
            .collect();
        // 100,000 bytes are 24.4 pages, 200,000 48.8, 300,000 73.2, 400,000 97.7, 500,000 122.07.
        assert_eq!(ticks, [(27, 24), (52, 25), (77, 24), (102, 25)]);
    }

    /// The tick at which a slice ends still belongs to it.
    #[test]
    fn a_slice_allows_no_more_until_it_is_over() {
        for (tick, passes) in [(24, false), (25, false), (26, true)] {
            let mut io_max = limits(250, &[bytes(1_000_000)]);
            assert!((0..24).all(|_| io_max.submit(Nanos::ZERO, 0, &write(4_096)).passes));
            assert_eq!(
                io_max.submit(Nanos::from_millis(4 * tick), 0, &write(4_096)).passes,
                passes,
                "{tick}"
            );
        }
    }

    /// At 100 ticks a second 190,000 bytes of 1,000,000 are due every 19 ticks, and the timer goes
    /// off at the 20th, when two slices are over. `throtl_trim_slice` settles only one of them,
    /// which makes up for the delay: 315 in a minute. If it settled both, each write would take 20
    /// ticks: 300.
    #[test]
    fn a_late_timer_costs_nothing() {
        let mut io_max = limits(100, &[bytes(1_000_000)]);
        let (passed, timer) = fill(&mut io_max, 0, &write(190_000), 400);
        let went: u64 =
            rounds(&mut io_max, timer, Nanos::from_secs(60)).iter().map(|(_, n)| n).sum();
        assert_eq!((passed, went), (0, 315));
    }

    /// Operations: each slice allows a tenth of the rate. A late operation waits for the next
    /// slice, or for as long as one operation takes.
    #[test]
    fn operations_pass_in_bursts_of_a_slice_and_slow_rates_one_at_a_time() {
        let mut io_max = limits(250, &[operations(100)]);
        let (passed, timer) = fill(&mut io_max, 0, &write(1 << 20), 100);
        assert_eq!((passed, timer), (10, Some(Nanos::from_millis(26 * 4))));
        let went: Vec<u64> = rounds(&mut io_max, timer, Nanos::from_millis(450))
            .into_iter()
            .map(|(_, n)| n)
            .collect();
        assert_eq!(went, [10, 10, 10, 10]);
        // Two a second: 250 / 2 + 1 ticks and the timer's own, 127 ticks for each: the seventh in
        // tick 889, before 4 s are over.
        let mut io_max = limits(250, &[operations(2)]);
        let (passed, timer) = fill(&mut io_max, 0, &write(4_096), 10);
        assert_eq!(passed, 0, "a slice allows 0.2");
        let went: u64 =
            rounds(&mut io_max, timer, Nanos::from_secs(4)).into_iter().map(|(_, n)| n).sum();
        assert_eq!(went, 7);
    }

    /// `tg_within_limit`: a bio behind a queue for bytes is not charged, also when the first of the
    /// queue has been charged and waits for its operation alone.
    #[test]
    fn a_bio_behind_a_queue_for_bytes_is_not_charged() {
        let both = Rates { bytes: [Some(1_000_000); 2], operations: [Some(2); 2] };
        let mut io_max = limits(250, &[both]);
        // The first is within the bytes of its slice and waits for its operation, the second for
        // both.
        let timers = [0, 1].map(|_| io_max.submit(Nanos::ZERO, 0, &write(100_000)).timer);
        assert_eq!(io_max.groups[0].ways[1].for_bytes, 1);
        let went = rounds(&mut io_max, timers[0], Nanos::from_millis(600));
        assert_eq!(went.iter().map(|(_, n)| n).sum::<u64>(), 1, "{went:?}");
        let way = &io_max.groups[0].ways[1];
        assert!(way.queue[0].charged && way.for_bytes == 1);
        io_max.submit(Nanos::from_millis(600), 0, &write(4_096));
        let way = &io_max.groups[0].ways[1];
        assert!(!way.queue[1].charged, "{way:?}");
    }

    #[test]
    fn a_group_without_limits_and_the_other_direction_pass() {
        let only_writes = Rates { bytes: [None, Some(4_096)], ..Rates::default() };
        let mut io_max = limits(1_000, &[Rates::default(), only_writes]);
        fill(&mut io_max, 1, &write(1 << 20), 1);
        for (group, bio) in [(0, write(1 << 30)), (1, bio(Op::Read, 1 << 30))] {
            assert_eq!(
                io_max.submit(Nanos::ZERO, group, &bio),
                Passage { passes: true, timer: None },
                "{group}"
            );
        }
    }

    #[test]
    fn metadata_passes_and_is_paid_for_by_what_follows() {
        let mut io_max = limits(250, &[bytes(1_000_000)]);
        let record = Bio { flags: Flags { meta: true, ..Flags::default() }, ..write(1 << 20) };
        assert!(io_max.submit(Nanos::ZERO, 0, &record).passes);
        // 1,048,576 bytes are 1.05 s: the page after them waits until tick 263 and the timer's own.
        let passage = io_max.submit(Nanos::ZERO, 0, &write(4_096));
        assert!(!passage.passes);
        let went = rounds(&mut io_max, passage.timer, Nanos::from_secs(2));
        let last = went.iter().find(|(_, n)| *n == 1).unwrap().0;
        assert!((1_052..=1_160).contains(&(last.0 / 1_000_000)), "{went:?}");
        // A record that meets a queue passes it.
        fill(&mut io_max, 0, &write(1 << 20), 3);
        assert!(io_max.submit(Nanos::ZERO, 0, &record).passes);
    }

    #[test]
    fn a_flush_has_no_bytes_and_stands_behind_what_waits() {
        let mut io_max = limits(250, &[bytes(1_000_000)]);
        assert!(io_max.submit(Nanos::ZERO, 0, &bio(Op::Flush, 0)).passes);
        let (_, timer) = fill(&mut io_max, 0, &write(100_000), 1);
        assert!(!io_max.submit(Nanos::ZERO, 0, &bio(Op::Flush, 0)).passes);
        let mut ready = VecDeque::new();
        io_max.dispatch(timer.unwrap(), &mut ready);
        assert_eq!(ready.iter().map(|b| b.op).collect::<Vec<_>>(), [write(0).op, Op::Flush]);
    }

    #[test]
    fn reads_go_before_writes_and_groups_in_turn() {
        let mut io_max = limits(250, &[bytes(1_000_000), bytes(1_000_000)]);
        let mut timer = None;
        for (group, op) in
            [(0, Op::Write { fua: false }), (0, Op::Read), (1, Op::Write { fua: false })]
        {
            // As much as a slice allows, then three that wait: each by its length.
            for len in [100_000, 10 + group as u64, 10 + group as u64] {
                timer = io_max.submit(Nanos::ZERO, group, &bio(op, len)).timer.or(timer);
            }
        }
        let mut ready = VecDeque::new();
        io_max.dispatch(timer.unwrap(), &mut ready);
        let order: Vec<(bool, u64)> = ready.iter().map(|b| (b.op == Op::Read, b.len)).collect();
        assert_eq!(
            order,
            [(true, 10), (true, 10), (false, 10), (false, 11), (false, 10), (false, 11)]
        );
    }

    proptest! {
        /// Holds at any rate, length and clock. A queue that is never empty passes at most what
        /// the rate allows until the end of the slice. It passes at least what the rate allows
        /// until a slice and a tick before that, less one bio.
        #[test]
        fn a_backlog_passes_at_its_rate(
            hz in prop::sample::select(vec![100u32, 250, 300, 1000]),
            rate in 100_000u64..1 << 32,
            len in 512u64..4 << 20,
            seconds in 1u64..60,
        ) {
            let mut io_max = limits(hz, &[bytes(rate)]);
            let (mut passed, mut timer) = fill(&mut io_max, 0, &write(len), 2);
            let mut last = Nanos::ZERO;
            while let Some(at) = timer.filter(|at| *at <= Nanos::from_secs(seconds)) {
                // It stays full.
                for _ in 0..1 + rate / len / 8 {
                    io_max.submit(at, 0, &write(len));
                }
                let mut ready = VecDeque::new();
                timer = io_max.dispatch(at, &mut ready);
                prop_assert!(timer.is_some(), "the queue ran empty");
                passed += ready.len() as u64;
                last = at;
                let slice = 1.0 / 10.0;
                let bytes = (passed * len) as f64;
                let time = at.as_secs_f64();
                prop_assert!(bytes <= rate as f64 * (time + slice) + 1.0, "{bytes} after {time}");
                // Between two rounds: what one bio lacks, a slice, and the timer's rounding, by one
                // tick or eight.
                let least = rate as f64 * (time - 9.0 / f64::from(hz)) - len as f64;
                let least = least.min(rate as f64 * time);
                prop_assert!(bytes >= least, "{bytes} of {least} after {time}");
            }
            prop_assert!(last > Nanos::ZERO || len as f64 / rate as f64 + 1.0 > seconds as f64);
        }
    }
}
