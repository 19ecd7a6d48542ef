//! What a recording leaves out of a frame, so that a day of a busy host takes little.
//!
//! - Measured figures have three significant digits, and those of processes that neither wait long
//!   nor flood have two. Percentages have one decimal place.
//! - How many waits took how long (octaves) is kept of victims alone.
//!
//! Moments, numbers of processes, settings and limits stay as they are.

use floodwall_model::frame::{Disk, Frame, Machine, Process};

/// Digits of figures that matter.
const DIGITS: u32 = 3;
/// Digits of figures of other processes.
const BYSTANDER_DIGITS: u32 = 2;

/// A frame as it is recorded.
#[must_use]
pub fn condensed(mut frame: Frame) -> Frame {
    machine(&mut frame.machine);
    frame.disks.iter_mut().for_each(disk);
    frame.processes.iter_mut().for_each(process);
    for disk in frame.guard.iter_mut().flat_map(|guard| &mut guard.disks) {
        percent(&mut disk.pressure_percent);
    }
    frame
}

fn machine(machine: &mut Machine) {
    for bytes in [&mut machine.dirty_bytes, &mut machine.writeback_bytes].into_iter().flatten() {
        round(bytes, DIGITS);
    }
    percent(&mut machine.waited_percent);
}

fn disk(disk: &mut Disk) {
    let figures = [
        &mut disk.backlog_bytes,
        &mut disk.peak_backlog_bytes,
        &mut disk.drain_bytes_per_s,
        &mut disk.drain_ms,
        &mut disk.hard_limit_ms,
        &mut disk.limit_bytes,
        &mut disk.read_bytes_per_s,
        &mut disk.written_bytes_per_s,
    ];
    for figure in figures.into_iter().flatten() {
        round(figure, DIGITS);
    }
    percent(&mut disk.busy_percent);
    for requests in &mut disk.requests {
        round(&mut requests.count, DIGITS);
        round(&mut requests.bytes, DIGITS);
        let times = [
            &mut requests.queue_p50_us,
            &mut requests.queue_p99_us,
            &mut requests.device_p50_us,
            &mut requests.device_p99_us,
            &mut requests.device_max_us,
        ];
        for time in times.into_iter().flatten() {
            round(time, DIGITS);
        }
    }
}

fn process(process: &mut Process) {
    let is_bystander = !process.is_victim && !process.is_flood;
    let digits = if is_bystander { BYSTANDER_DIGITS } else { DIGITS };
    for waits in &mut process.waits {
        for figure in [&mut waits.count, &mut waits.p50_us, &mut waits.max_us, &mut waits.sum_us] {
            round(figure, digits);
        }
        if let Some(p99_us) = &mut waits.p99_us {
            round(p99_us, digits);
        }
        if !process.is_victim {
            waits.octaves.clear();
        }
    }
    for figure in [&mut process.oldest_us, &mut process.throttled_ms] {
        round(figure, digits);
    }
    let memory_bytes = process.group.as_mut().and_then(|group| group.memory_bytes.as_mut());
    for bytes in [process.dirtied_bytes.as_mut(), memory_bytes].into_iter().flatten() {
        round(bytes, digits);
    }
    percent(&mut process.backlog_percent);
}

/// Rounds to so many significant digits, half up. A number that would then be too large stays.
fn round(figure: &mut u64, digits: u32) {
    let Some(surplus) = figure.checked_ilog10().and_then(|last| (last + 1).checked_sub(digits))
    else {
        return;
    };
    let step = 10_u64.pow(surplus);
    if let Some(sum) = figure.checked_add(step / 2) {
        *figure = sum - sum % step;
    }
}

fn percent(figure: &mut Option<f32>) {
    if let Some(percent) = figure {
        *percent = (*percent * 10.0).round() / 10.0;
    }
}

#[cfg(test)]
mod tests {
    use floodwall_model::frame::Waits;
    use proptest::prelude::*;

    use super::*;

    fn rounded(mut figure: u64, digits: u32) -> u64 {
        round(&mut figure, digits);
        figure
    }

    #[test]
    fn figures_have_three_digits() {
        for (figure, expected) in [
            (0, 0),
            (7, 7),
            (999, 999),
            (1_234, 1_230),
            (1_235, 1_240),
            (99_950, 100_000),
            (123_456_789, 123_000_000),
            (u64::MAX, u64::MAX),
        ] {
            assert_eq!(rounded(figure, 3), expected);
        }
        assert_eq!(rounded(1_251, 2), 1_300);
        assert_eq!(rounded(99, 2), 99);
    }

    #[test]
    fn a_victim_keeps_more_than_a_bystander() {
        let waits =
            Waits { count: 1_234, max_us: 56_789, octaves: vec![(9, 1_234)], ..Waits::default() };
        let process = Process { pid: 123_456, waits: vec![waits], ..Process::default() };
        let victim = Process { is_victim: true, ..process.clone() };
        let processes = vec![process, victim];
        let recorded =
            condensed(Frame { at_unix_ms: 1_795_737_612_345, processes, ..Frame::default() });
        assert_eq!(recorded.at_unix_ms, 1_795_737_612_345);
        let figures = |process: &Process| {
            let waits = &process.waits[0];
            (process.pid, waits.count, waits.max_us, waits.octaves.len())
        };
        assert_eq!(figures(&recorded.processes[0]), (123_456, 1_200, 57_000, 0));
        assert_eq!(figures(&recorded.processes[1]), (123_456, 1_230, 56_800, 1));
    }

    proptest! {
        #[test]
        fn a_figure_changes_by_half_a_percent_at_most(figure in 0..u64::MAX / 2) {
            let rounded_once = rounded(figure, 3);
            prop_assert!(rounded_once.abs_diff(figure) <= figure / 200);
            prop_assert_eq!(rounded(rounded_once, 3), rounded_once);
        }
    }
}
