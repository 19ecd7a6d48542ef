//! The arithmetic against a running kernel: the values that Linux 6.18 wrote to its tracepoints,
//! computed again, exactly.
//!
//! tests/data/writeback-6.18.csv says how it was recorded. A row of `balance_dirty_pages` shows
//! inputs and outputs of one look. A row of `bdi_dirty_ratelimit` shows those of one update of the
//! rate limit, just before the look that made it. Rows are in the order of the kernel's events. A
//! trace lacks three things; rows that need them are left out and counted:
//!
//! - The average bandwidth in use. The next update shows it, unless a flusher or the work 200 ms
//!   after writeback has moved it meanwhile.
//! - Looks below freerun. They leave no trace but change the task's interval.
//! - The device's share, where the run does not fix it. `wb_setpoint` shows it rounded.

use super::estimate::{Estimate, RateRules};
use super::pause;
use super::position::{self, Control};
use crate::limits::Thresholds;

const CSV: &str = include_str!("../../tests/data/writeback-6.18.csv");
const HZ: u64 = 250;
/// Thresholds of all runs: `dirty_bytes` and `dirty_background_bytes` in pages.
const THRESHOLDS: Thresholds = Thresholds { dirty: 65_536, background: 32_768 };

/// Conditions of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run {
    /// `min_ratio` = `max_ratio` = 50 %: the device's share is half the limit.
    HalfShare,
    /// The same, and `strict_limit`.
    Strict,
    /// The share follows the completions.
    FreeShare,
}

#[derive(Clone, Copy, Debug)]
struct Look {
    control: Control,
    wb_setpoint: u64,
    rate: u64,
    task_rate: u64,
    dirtied: u64,
    dirtied_pause: u64,
    /// Ticks; not above 0 if it did not sleep.
    pause: i64,
    period: u64,
    think: i64,
}

#[derive(Clone, Copy, Debug)]
struct Update {
    bandwidth: u64,
    avg_bandwidth: u64,
    dirty_rate: u64,
    rate: u64,
    task_rate: u64,
    balanced: u64,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Look(Look),
    Update(Update),
}

#[derive(Clone, Copy, Debug)]
struct Row {
    run: Run,
    us: u64,
    pid: u64,
    event: Event,
}

/// The columns: run, us, pid, event, limit, dirty, wb_setpoint, wb_dirty, dirty_ratelimit,
/// task_ratelimit, dirtied, dirtied_pause, pause, period, think, write_bw, awrite_bw, dirty_rate,
/// balanced_dirty_ratelimit.
fn parse(line: &str) -> Row {
    let cells: Vec<&str> = line.split(',').collect();
    let signed =
        |i: usize| cells[i].parse::<i64>().unwrap_or_else(|_| panic!("cell {i} of '{line}'"));
    let number = |i: usize| signed(i) as u64;
    // kB/s of 4 KiB pages and ms of 4 ms ticks: multiples of 4, so nothing is lost.
    let rate = |i: usize| number(i) / 4;
    let run = match cells[0] {
        "half-share" => Run::HalfShare,
        "strict" => Run::Strict,
        "free-share" => Run::FreeShare,
        other => panic!("run '{other}'"),
    };
    let event = if cells[3] == "bdi_dirty_ratelimit" {
        Event::Update(Update {
            bandwidth: rate(15),
            avg_bandwidth: rate(16),
            dirty_rate: rate(17),
            rate: rate(8),
            task_rate: rate(9),
            balanced: rate(18),
        })
    } else {
        let (wb_thresh, wb_bg_thresh) = (32_768, 16_384);
        let control = Control {
            thresholds: THRESHOLDS,
            limit: number(4),
            dirty: number(5),
            wb_thresh,
            wb_bg_thresh,
            wb_dirty: number(7),
        };
        Event::Look(Look {
            control,
            wb_setpoint: number(6),
            rate: rate(8),
            task_rate: rate(9),
            dirtied: number(10),
            dirtied_pause: number(11),
            pause: signed(12) / 4,
            period: number(13) / 4,
            think: signed(14) / 4,
        })
    };
    Row { run, us: number(1), pid: number(2), event }
}

fn rows() -> Vec<Row> {
    CSV.lines().filter(|line| !line.starts_with('#')).skip(1).map(parse).collect()
}

fn update(row: &Row) -> Option<Update> {
    if let Event::Update(update) = row.event { Some(update) } else { None }
}

fn look(row: &Row) -> Option<Look> {
    if let Event::Look(look) = row.event { Some(look) } else { None }
}

/// Updates less than this far apart have none in between. A writer updates when more than 50 ticks
/// (200 ms) have passed since the last update. So it takes 51 ticks (204 ms), plus the time until
/// the next writer comes by.
const NEXT_UPDATE_US: u64 = 209_000;

/// The updates before and after a row, if nothing can have moved the bandwidth in between.
fn around(rows: &[Row], i: usize) -> Option<(Update, Update)> {
    let same = |row: &&Row| row.run == rows[i].run;
    let before = rows[..=i].iter().rev().take_while(same).find(|row| update(row).is_some())?;
    let after = rows[i + 1..].iter().take_while(same).find(|row| update(row).is_some())?;
    (after.us - before.us < NEXT_UPDATE_US).then_some((update(before)?, update(after)?))
}

/// The rate that a look allowed its task, for each bandwidth that can have been in use.
fn allowed(look: &Look, run: Run, bandwidths: [u64; 2]) -> [u64; 2] {
    bandwidths.map(|avg| {
        (look.rate * position::ratio(&look.control, avg, run == Run::Strict)) >> position::SHIFT
    })
}

/// How many values agreed, how many did not, and how many could not be told.
#[derive(Debug, Default, PartialEq, Eq)]
struct Agreement {
    same: u32,
    other: u32,
    untold: u32,
}

impl Agreement {
    fn count(&mut self, same: Option<bool>) {
        match same {
            Some(true) => self.same += 1,
            Some(false) => self.other += 1,
            None => self.untold += 1,
        }
    }
}

#[test]
fn the_position_ratio_gives_the_kernels_task_ratelimit() {
    let rows = rows();
    let (mut half, mut strict) = (Agreement::default(), Agreement::default());
    for (i, row) in rows.iter().enumerate() {
        let Some(seen) = look(row) else { continue };
        match row.run {
            // The bandwidth plays no part.
            Run::Strict => strict.count(Some(allowed(&seen, row.run, [1, 1])[0] == seen.task_rate)),
            // The look that made an update went by the bandwidth before it, later ones by the one
            // after.
            Run::HalfShare => half.count(around(&rows, i).map(|(before, after)| {
                allowed(&seen, row.run, [before.avg_bandwidth, after.avg_bandwidth])
                    .contains(&seen.task_rate)
            })),
            Run::FreeShare => {}
        }
    }
    assert_eq!(half, Agreement { same: 374, other: 0, untold: 106 });
    assert_eq!(strict, Agreement { same: 373, other: 0, untold: 0 });
}

#[test]
fn a_free_share_can_be_read_back_to_two_pages_and_one_of_them_is_it() {
    let rows = rows();
    let mut agreement = Agreement::default();
    for (i, row) in rows.iter().enumerate().filter(|(_, row)| row.run == Run::FreeShare) {
        let Some(seen) = look(row) else { continue };
        agreement.count(around(&rows, i).map(|(before, after)| {
            // The trace has setpoint * wb_thresh / (thresh + 1), rounded down.
            let setpoint = THRESHOLDS.setpoint(seen.control.limit);
            let least = (seen.wb_setpoint * (THRESHOLDS.dirty + 1)).div_ceil(setpoint);
            (least..).take_while(|n| setpoint * n / (THRESHOLDS.dirty + 1) == seen.wb_setpoint).any(
                |wb_thresh| {
                    let seen = Look { control: Control { wb_thresh, ..seen.control }, ..seen };
                    allowed(&seen, row.run, [before.avg_bandwidth, after.avg_bandwidth])
                        .contains(&seen.task_rate)
                },
            )
        }));
    }
    assert_eq!(agreement, Agreement { same: 181, other: 0, untold: 1 });
}

#[test]
fn periods_and_pauses_are_the_kernels() {
    let rows = rows();
    let (mut periods, mut pauses) = (Agreement::default(), Agreement::default());
    for (i, row) in rows.iter().enumerate() {
        let Some(seen) = look(row) else { continue };
        // At rate 0 the kernel shows its longest pause for both.
        let Some(period) = (HZ * seen.dirtied).checked_div(seen.task_rate) else { continue };
        periods.count(Some(period == seen.period));
        pauses.count(around(&rows, i).map(|(before, after)| {
            [before, after].iter().any(|update| {
                let avg = update.avg_bandwidth;
                let longest = pause::max_pause(HZ, seen.control.wb_dirty, avg);
                let pace = pause::pace(HZ, longest, avg, seen.rate, seen.task_rate);
                let pause = period as i64 - seen.think;
                let shown = if pause < pace.min_pause as i64 {
                    pause.min(0)
                } else {
                    pause.min(longest as i64)
                };
                shown == seen.pause
            })
        }));
    }
    assert_eq!(periods, Agreement { same: 1024, other: 0, untold: 0 });
    assert_eq!(pauses, Agreement { same: 725, other: 0, untold: 299 });
}

#[test]
fn after_a_sleep_a_task_dirties_as_many_pages_as_the_kernel_said() {
    let rows = rows();
    let mut agreement = Agreement::default();
    for (i, row) in rows.iter().enumerate() {
        let Some(seen) = look(row).filter(|look| look.pause > 0) else { continue };
        // The recording has gaps; within it no task sleeps for more than 200 ms.
        let soon = |next: &&Row| next.run == row.run && next.us - row.us < 500_000;
        let next = rows[i + 1..]
            .iter()
            .take_while(soon)
            .find(|next| next.pid == row.pid && look(next).is_some());
        let (Some(next), Some((before, after))) = (next.and_then(look), around(&rows, i)) else {
            agreement.count(None);
            continue;
        };
        let same = [before, after].iter().any(|update| {
            let avg = update.avg_bandwidth;
            let longest = pause::max_pause(HZ, seen.control.wb_dirty, avg);
            pause::pace(HZ, longest, avg, seen.rate, seen.task_rate).next_pages
                == next.dirtied_pause
        });
        // A power of two in its place is an untraced look below freerun.
        agreement.count(if same || !next.dirtied_pause.is_power_of_two() {
            Some(same)
        } else {
            None
        });
    }
    assert_eq!(agreement, Agreement { same: 416, other: 0, untold: 250 });
}

#[test]
fn the_rate_limit_follows_as_the_kernels() {
    let rows = rows();
    let mut agreement = Agreement::default();
    for (i, row) in rows.iter().enumerate() {
        let Some(now) = update(row).filter(|_| row.run != Run::FreeShare) else { continue };
        // The recording has gaps; within it updates are never a second apart.
        let before = rows[..i].iter().rev().find(|before| update(before).is_some());
        let before = before
            .filter(|before| before.run == row.run && row.us - before.us < 1_000_000)
            .and_then(update);
        let looked = rows[i + 1..]
            .iter()
            .take_while(|next| next.run == row.run)
            .find(|next| next.pid == row.pid)
            .and_then(look);
        let (Some(before), Some(looked)) = (before, looked) else {
            agreement.count(None);
            continue;
        };
        let mut estimate = Estimate {
            avg_write_bandwidth: now.avg_bandwidth,
            dirty_ratelimit: before.rate,
            balanced_dirty_ratelimit: before.balanced,
            ..Estimate::new(0)
        };
        let strict = row.run == Run::Strict;
        let ratio = position::ratio(&looked.control, now.avg_bandwidth, strict);
        // So many pages in a second are so many pages per second.
        let rules = RateRules { hz: HZ, strict, capped: true };
        let shown = estimate.update_ratelimit(&rules, &looked.control, ratio, now.dirty_rate, HZ);
        let ours = (shown, estimate.dirty_ratelimit, estimate.balanced_dirty_ratelimit);
        agreement.count(Some(ours == ((now.dirty_rate, now.task_rate), now.rate, now.balanced)));
    }
    assert_eq!(agreement, Agreement { same: 25, other: 0, untold: 3 });
}

#[test]
fn the_bandwidth_is_smoothed_as_the_kernels() {
    let rows = rows();
    let mut agreement = Agreement::default();
    for (i, row) in rows.iter().enumerate().filter(|(_, row)| update(row).is_some()) {
        let Some((before, after)) = around(&rows, i) else {
            agreement.count(None);
            continue;
        };
        let mut estimate = Estimate {
            write_bandwidth: before.bandwidth,
            avg_write_bandwidth: before.avg_bandwidth,
            ..Estimate::new(0)
        };
        // Over a whole period of 1,024 ticks the old value counts nothing, so this many pages give
        // the new one.
        estimate.update_bandwidth(HZ, 1024, (after.bandwidth << 10).div_ceil(HZ));
        assert_eq!(estimate.write_bandwidth, after.bandwidth, "row {i}, run {:?}", row.run);
        agreement.count(Some(estimate.avg_write_bandwidth == after.avg_bandwidth));
    }
    assert_eq!(agreement, Agreement { same: 20, other: 0, untold: 14 });
}

#[test]
fn sleeps_end_a_tick_late_and_never_early() {
    let rows = rows();
    let mut late: Vec<i64> = Vec::new();
    for (i, row) in rows.iter().enumerate() {
        let Some(seen) = look(row).filter(|look| look.pause > 0) else { continue };
        let soon = |next: &&Row| next.run == row.run && next.us - row.us < 500_000;
        let next = rows[i + 1..]
            .iter()
            .take_while(soon)
            .find(|next| next.pid == row.pid && look(next).is_some());
        late.extend(next.map(|next| (next.us - row.us) as i64 - seen.pause * 4_000));
    }
    late.sort_unstable();
    assert!(late[0] >= 0, "{} us early", -late[0]);
    // A task that is woken at a tick dirties its pages in less than a tick and looks again just
    // after it. From look to look it takes the pause and one tick, as jiffies::Clock has it.
    let median = late[late.len() / 2];
    assert!((3_500..4_500).contains(&median), "{median} us");
    let clock = super::jiffies::Clock::new(HZ as u32, true);
    let at = floodwall_device::Nanos::from_millis(1_000);
    assert_eq!(clock.timer(at, 3).since(at), floodwall_device::Nanos::from_millis(16));
}
