//! Stalls of frames that are made here. The truth is known: a victim waits from one moment to
//! another, and frames of any length look at it.

use floodwall_model::frame::{Disk, Frame, Guard, GuardedDisk, Process, Waits};
use floodwall_model::stall::Stall;
use proptest::prelude::*;

use super::{Detector, Event, QUIET_MS};

const NIGHT_MS: u64 = 1_795_745_400_000;

fn frame(at_ms: u64, window_ms: u64, processes: Vec<Process>) -> Frame {
    let backlog = Disk {
        name: "sda".into(),
        mounts: vec!["/srv".into()],
        backlog_bytes: Some(at_ms % 1_000_000),
        drain_ms: Some(34_000),
        drain_bytes_per_s: Some(120_000_000),
        ..Disk::default()
    };
    let disks = vec![backlog];
    Frame { at_unix_ms: at_ms, window_ms, disks, processes, ..Frame::default() }
}

/// A victim of sda with waits that ended, in milliseconds, and the age of one under way.
fn victim(ended_ms: &[u64], oldest_ms: u64) -> Process {
    let waits = Waits {
        call: "fsync".into(),
        count: ended_ms.len() as u64,
        max_us: ended_ms.iter().max().copied().unwrap_or(0) * 1000,
        sum_us: ended_ms.iter().sum::<u64>() * 1000,
        ..Waits::default()
    };
    Process {
        pid: 812,
        name: "postgres".into(),
        disk: Some("sda".into()),
        is_victim: true,
        waits: if ended_ms.is_empty() { Vec::new() } else { vec![waits] },
        waiting: u64::from(oldest_ms > 0),
        oldest_us: oldest_ms * 1000,
        ..Process::default()
    }
}

fn flood(pid: u32, bytes: u64, percent: f32) -> Process {
    Process {
        pid,
        name: "cp".into(),
        disk: Some("sda".into()),
        is_flood: bytes > 0,
        dirtied_bytes: Some(bytes),
        backlog_percent: Some(percent),
        ..Process::default()
    }
}

/// The stalls that ended, those at the end of the frames included.
fn ended(frames: &[Frame]) -> Vec<Stall> {
    let mut detector = Detector::new();
    let mut events: Vec<Event> = frames.iter().flat_map(|frame| detector.frame(frame)).collect();
    events.extend(detector.finish());
    let ended = events.into_iter().filter_map(|event| match event {
        Event::Ended(stall) => Some(stall),
        Event::Began(_) => None,
    });
    ended.collect()
}

/// When it began and ended, after the night's beginning.
fn times(stall: &Stall) -> (u64, u64) {
    (stall.began_unix_ms - NIGHT_MS, stall.ended_unix_ms - NIGHT_MS)
}

/// Frames of so many milliseconds that look at one victim, which waits once after another.
fn look(waits: &[(u64, u64)], window_ms: u64, frames: u64) -> Vec<Frame> {
    let made = (1..=frames).map(|number| {
        let (from, to) = ((number - 1) * window_ms, number * window_ms);
        let ended: Vec<u64> = waits
            .iter()
            .filter(|(_, end)| (from..to).contains(end))
            .map(|(begin, end)| end - begin)
            .collect();
        let under_way = waits.iter().find(|(begin, end)| *begin < to && *end >= to);
        let oldest = under_way.map_or(0, |(begin, _)| to - begin);
        let is_seen = !ended.is_empty() || oldest > 0;
        let processes = if is_seen { vec![victim(&ended, oldest)] } else { Vec::new() };
        frame(NIGHT_MS + to, window_ms, processes)
    });
    made.collect()
}

#[test]
fn a_wait_that_outlasts_frames_is_one_stall() {
    // From 2.4 s to 12.7 s.
    let stalls = ended(&look(&[(2_400, 12_700)], 1_000, 20));
    let [stall] = stalls.as_slice() else { panic!("{stalls:?}") };
    assert_eq!(times(stall), (2_400, 13_000), "the end is that of the window");
    assert_eq!((stall.slowest_us(), stall.victims[0].waited_us), (10_300_000, 10_300_000));
    assert_eq!((stall.victims[0].count, stall.victims[0].call.as_deref()), (1, Some("fsync")));
    assert_eq!(stall.worst_unix_ms, NIGHT_MS + 13_000);
    assert!(!stall.end_unseen);
}

#[test]
fn the_call_is_that_of_the_longest_wait_that_is_known_ended_or_not() {
    let hangs = |call: Option<&str>, oldest_ms| Process {
        oldest_call: call.map(str::to_owned),
        ..victim(&[400], oldest_ms)
    };
    let call = |processes: [Process; 2]| {
        let at_ms = [NIGHT_MS + 3_000, NIGHT_MS + 4_000].into_iter();
        let frames: Vec<_> =
            at_ms.zip(processes).map(|(at_ms, one)| frame(at_ms, 1_000, vec![one])).collect();
        ended(&frames)[0].victims[0].call.clone()
    };
    let (read, unknown) = (Some("read"), None);
    assert_eq!(call([hangs(read, 2_000), hangs(unknown, 0)]).as_deref(), read);
    assert_eq!(call([hangs(unknown, 0), hangs(read, 2_000)]).as_deref(), read);
    assert_eq!(call([hangs(read, 300), hangs(unknown, 3_000)]).as_deref(), Some("fsync"));
    assert_eq!(call([hangs(unknown, 2_000), hangs(unknown, 3_000)]), None);
}

#[test]
fn a_wait_is_as_long_for_frames_of_any_length() {
    for window_ms in [500, 1_000, 5_000] {
        let stalls = ended(&look(&[(2_400, 12_700)], window_ms, 30_000 / window_ms));
        let [stall] = stalls.as_slice() else { panic!("{window_ms}: {stalls:?}") };
        let (began, end) = times(stall);
        assert_eq!((began, stall.slowest_us()), (2_400, 10_300_000), "{window_ms}");
        assert!((12_700..=12_700 + window_ms).contains(&end), "{window_ms}: {end}");
    }
}

#[test]
fn a_wait_that_is_seen_only_when_it_ends_began_before_its_frame() {
    let frames = [frame(NIGHT_MS + 60_000, 1_000, vec![victim(&[41_000], 0)])];
    assert_eq!(times(&ended(&frames)[0]), (19_000, 60_000));
}

#[test]
fn many_short_waits_last_as_long_as_all_together_and_not_longer_than_the_window() {
    let nine = frame(NIGHT_MS + 5_000, 5_000, vec![victim(&[400; 9], 0)]);
    assert_eq!(times(&ended(&[nine])[0]), (1_400, 5_000));
    let threads = frame(NIGHT_MS + 5_000, 5_000, vec![victim(&[400; 90], 0)]);
    assert_eq!(times(&ended(&[threads])[0]), (0, 5_000));
}

#[test]
fn less_than_a_second_is_no_stall() {
    assert_eq!(ended(&look(&[(200, 900)], 1_000, 5)), []);
    assert_eq!(ended(&look(&[(200, 900)], 5_000, 5)), []);
    // Its last window ends 1.1 s after it began.
    assert_eq!(ended(&look(&[(900, 1_800)], 1_000, 5)).len(), 1);
}

#[test]
fn commits_with_a_pause_are_one_stall_and_two_quiet_seconds_end_it() {
    let waits = [(0, 900), (1_900, 2_900), (3_100, 4_100)];
    assert_eq!(ended(&look(&waits, 1_000, 10)).len(), 1);
    let later = [(0, 1_500), (4_100, 5_600)];
    let stalls = ended(&look(&later, 1_000, 12));
    assert_eq!(stalls.iter().map(times).collect::<Vec<_>>(), [(0, 2_000), (4_100, 6_000)]);
}

#[test]
fn a_stall_begins_once_it_counts_and_ends_once() {
    let mut detector = Detector::new();
    let mut seen = Vec::new();
    for (number, frame) in look(&[(500, 3_500)], 1_000, 8).iter().enumerate() {
        for event in detector.frame(frame) {
            match event {
                Event::Began(stall) => seen.push((number + 1, "began", times(&stall))),
                Event::Ended(stall) => seen.push((number + 1, "ended", times(&stall))),
            }
        }
        let is_open = !detector.open().is_empty();
        assert_eq!(is_open, (2..=5).contains(&(number + 1)), "second {}", number + 1);
    }
    assert_eq!(seen, [(2, "began", (500, 2_000)), (6, "ended", (500, 4_000))]);
}

#[test]
fn a_hole_and_a_clock_that_is_set_back_end_a_stall() {
    let waits = |at_ms| frame(NIGHT_MS + at_ms, 1_000, vec![victim(&[], 1_500)]);
    let stalls = ended(&[waits(2_000), waits(3_000), waits(3_600_000)]);
    assert_eq!(
        stalls.iter().map(times).collect::<Vec<_>>(),
        [(500, 3_000), (3_598_500, 3_600_000)]
    );
    assert!(stalls.iter().all(|stall| stall.end_unseen));
    // A window that is late is no hole, a second one that is missing neither.
    assert_eq!(ended(&[waits(2_000), waits(3_000), waits(7_000)]).len(), 1);
    assert_eq!(ended(&[waits(2_000), waits(3_000), waits(7_001)]).len(), 2);

    let back = ended(&[waits(500_000), waits(501_000), waits(2_000), waits(3_000)]);
    assert_eq!(back.iter().map(times).collect::<Vec<_>>(), [(498_500, 501_000), (500, 3_000)]);
}

#[test]
fn authors_flooded_within_it_or_hold_a_tenth_of_its_backlog() {
    let with = |at_ms, more: &[Process]| {
        let victim = victim(&[], at_ms);
        frame(NIGHT_MS + at_ms, 1_000, [std::slice::from_ref(&victim), more].concat())
    };
    let small = Process { is_flood: false, ..flood(3, 10, 9.9) };
    let frames = [
        // It has ended: a share is all that is left of it.
        with(1_000, &[flood(1, 0, 80.0), small.clone()]),
        with(2_000, &[flood(1, 0, 60.0), flood(2, 7_000, 15.0), small.clone()]),
        with(3_000, &[flood(2, 5_000, 40.0), small]),
    ];
    let stall = &ended(&frames)[0];
    let floods: Vec<_> =
        stall.floods.iter().map(|f| (f.pid, f.dirtied_bytes, f.backlog_percent)).collect();
    assert_eq!(floods, [(1, 0, Some(80.0)), (2, 12_000, Some(40.0))]);
}

#[test]
fn the_largest_holder_keeps_its_name_and_the_kernels_workers_come_last() {
    let worker = Process { name: "kworker/u8:2-loop8".into(), ..flood(2, 9_000, 60.0) };
    let frames = [1_000, 2_000].map(|at_ms| {
        let mut processes = vec![victim(&[], at_ms), flood(1, 0, 40.0), worker.clone()];
        processes.extend((100..120).map(|pid| flood(pid, 5_000, 0.0)));
        frame(NIGHT_MS + at_ms, 1_000, processes)
    });
    let floods = &ended(&frames)[0].floods;
    assert_eq!((floods[0].pid, floods.len()), (1, 17));
    assert_eq!(floods[15].name, worker.name, "the last one with a name");
}

#[test]
fn a_kernel_worker_that_waits_is_named_after_the_victims() {
    let worker = Process { pid: 2, name: "kworker/u8:2-writeback".into(), ..victim(&[], 2_500) };
    let stall = &ended(&[frame(NIGHT_MS + 2_000, 1_000, vec![worker, victim(&[], 2_000)])])[0];
    assert_eq!(stall.victims.iter().map(|v| v.pid).collect::<Vec<_>>(), [812, 2]);
    assert_eq!(stall.slowest_us(), 2_000_000, "that of the process that is named");
}

#[test]
fn a_quiet_second_within_it_counts_and_those_after_it_do_not() {
    let quiet = |at_ms, bytes| {
        let mut quiet = frame(NIGHT_MS + at_ms, 1_000, vec![flood(1, bytes, 20.0)]);
        quiet.disks[0].backlog_bytes = Some(bytes);
        quiet
    };
    let loud = |at_ms| {
        let mut loud = frame(NIGHT_MS + at_ms, 1_000, vec![victim(&[900], 0), flood(1, 1, 20.0)]);
        loud.disks[0].backlog_bytes = Some(1);
        loud
    };
    let frames = [loud(1_000), quiet(2_000, 50), loud(3_000), quiet(4_000, 999), quiet(5_000, 999)];
    let stall = &ended(&frames)[0];
    assert_eq!((stall.floods[0].dirtied_bytes, stall.backlog_bytes), (52, Some(50)));
}

#[test]
fn the_backlog_is_the_largest_with_the_rate_and_the_guards_state_of_the_worst_moment() {
    let mut frames = look(&[(0, 4_900)], 1_000, 8);
    for (number, frame) in frames.iter_mut().enumerate() {
        let disk = &mut frame.disks[0];
        disk.backlog_bytes = Some([10, 30, 20][number.min(2)]);
        disk.drain_bytes_per_s = Some(number as u64);
        let state = ["watch", "pace"][number.min(1)].to_owned();
        let disks = vec![GuardedDisk { name: "sda".into(), state, ..GuardedDisk::default() }];
        frame.guard = Some(Guard { disks, ..Guard::default() });
    }
    let stall = &ended(&frames)[0];
    assert_eq!((stall.backlog_bytes, stall.drain_bytes_per_s), (Some(30), Some(1)));
    assert_eq!((stall.guard.as_deref(), &*stall.mounts[0]), (Some("pace"), "/srv"));
}

#[test]
fn disks_stall_apart() {
    let on = |disk: &str, oldest_ms| Process { disk: Some(disk.into()), ..victim(&[], oldest_ms) };
    let frames = [
        frame(NIGHT_MS + 1_000, 1_000, vec![on("sda", 900)]),
        frame(NIGHT_MS + 2_000, 1_000, vec![on("sda", 1_900), on("sdb", 500)]),
        frame(NIGHT_MS + 3_000, 1_000, vec![on("sdb", 1_500)]),
        frame(NIGHT_MS + 4_000, 1_000, vec![on("sdb", 2_500)]),
    ];
    let stalls = ended(&frames);
    let told: Vec<_> = stalls.iter().map(|stall| (&*stall.disk, times(stall))).collect();
    assert_eq!(told, [("sda", (100, 2_000)), ("sdb", (1_500, 4_000))]);
    assert_eq!(stalls.iter().map(|stall| stall.end_unseen).collect::<Vec<_>>(), [false, true]);
}

#[test]
fn what_is_settled_lies_before_an_episode_that_goes_on() {
    let mut detector = Detector::new();
    assert_eq!(detector.settled_unix_ms(), None);
    let mut settled = Vec::new();
    for frame in look(&[(1_700, 3_500)], 1_000, 7) {
        detector.frame(&frame);
        settled.push(detector.settled_unix_ms().unwrap() - NIGHT_MS);
    }
    assert_eq!(settled, [1_000, 1_699, 1_699, 1_699, 1_699, 6_000, 7_000]);
}

/// A process of few, so that frames have the same ones.
fn any_process() -> impl Strategy<Value = Process> {
    let numbers = (0..4_u32, 0..2_usize, any::<bool>(), any::<bool>());
    let sizes = (0..9_000_u64, 0..9_000_u64, any::<u32>(), proptest::option::of(0.0..100.0_f32));
    (numbers, sizes).prop_map(
        |((pid, disk, is_victim, is_flood), (ended, oldest, bytes, share))| {
            let made = victim(&[ended], oldest);
            let disk = Some(["sda", "sdb"][disk].to_owned());
            let dirtied_bytes = Some(bytes.into());
            Process {
                pid,
                disk,
                is_victim,
                is_flood,
                dirtied_bytes,
                backlog_percent: share,
                ..made
            }
        },
    )
}

/// Frames that mostly follow each other; some leave a hole or go back.
fn any_frames() -> impl Strategy<Value = Vec<Frame>> {
    let step = prop_oneof![
        20 => Just(0_i64),
        2 => 0..20_000_i64,
        1 => -20_000..0_i64,
    ];
    let window = proptest::sample::select(vec![0_u64, 500, 1_000, 5_000]);
    let one = (step, window, proptest::collection::vec(any_process(), 0..3));
    proptest::collection::vec(one, 0..60).prop_map(|steps| {
        let mut at_ms = NIGHT_MS;
        let frames = steps.into_iter().map(|(step, window_ms, processes)| {
            at_ms = (at_ms + window_ms).saturating_add_signed(step);
            frame(at_ms, window_ms, processes)
        });
        frames.collect()
    })
}

proptest! {
    #[test]
    fn stalls_of_a_disk_follow_each_other(frames in any_frames()) {
        let mut detector = Detector::new();
        let mut open: Vec<Stall> = Vec::new();
        let mut last: Vec<Stall> = Vec::new();
        let mut before_ms = 0;
        let none = Frame::default();
        for (number, frame) in frames.iter().chain([&none]).enumerate() {
            let events =
                if number < frames.len() { detector.frame(frame) } else { detector.finish() };
            for event in events {
                match event {
                    Event::Began(stall) => {
                        prop_assert!(open.iter().all(|other| other.disk != stall.disk));
                        open.push(stall);
                    }
                    Event::Ended(stall) => {
                        let at = open.iter().position(|other| other.disk == stall.disk);
                        prop_assert!(at.is_some(), "ended without a beginning: {stall:?}");
                        open.remove(at.unwrap());
                        prop_assert!(stall.began_unix_ms <= stall.worst_unix_ms);
                        prop_assert!(stall.worst_unix_ms <= stall.ended_unix_ms);
                        prop_assert!(stall.lasted_ms() > 1_000);
                        let mut pairs = stall.victims.windows(2);
                        let is_sorted = pairs.all(|two| {
                            two[1].pid == 0 || two[0].slowest_us >= two[1].slowest_us
                        });
                        prop_assert!(is_sorted);
                        for other in last.iter().filter(|other| other.disk == stall.disk) {
                            prop_assert!(other.ended_unix_ms <= stall.began_unix_ms);
                        }
                        last.push(stall);
                    }
                }
            }
            if frame.at_unix_ms < before_ms {
                // Its times come again.
                last.clear();
            }
            before_ms = frame.at_unix_ms;
            prop_assert_eq!(detector.open().len(), open.len());
            let mut disks = detector.open().iter().map(|stall| &stall.disk);
            prop_assert!(disks.all(|disk| open.iter().any(|stall| stall.disk == *disk)));
        }
        prop_assert!(open.is_empty());
    }

    /// One victim waits once: the stall is that wait, within a window.
    #[test]
    fn the_truth_is_found_within_a_window(
        begin in 0..20_000_u64,
        length in 1_001..60_000_u64,
        window_ms in proptest::sample::select(vec![250_u64, 1_000, 5_000]),
    ) {
        let end = begin + length;
        let frames = look(&[(begin, end)], window_ms, (end + 2 * QUIET_MS) / window_ms + 2);
        let stalls = ended(&frames);
        prop_assert_eq!(stalls.len(), 1);
        let (began, ended) = times(&stalls[0]);
        // Of a wait inside one window it is not known when in it.
        let late = if begin / window_ms == end / window_ms { window_ms } else { 0 };
        prop_assert!((begin..=begin + late).contains(&began), "{} {}", begin, began);
        prop_assert!((end..=end + window_ms).contains(&ended), "{} {}", end, ended);
        prop_assert_eq!(stalls[0].slowest_us(), length * 1000);
    }
}
