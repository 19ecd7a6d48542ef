//! The law on a disk of arithmetic, and on sequences of counters.

mod disk;
mod silences;

use std::time::Duration;

use super::*;

use disk::{Disk, hard_disk};

const TICK: Duration = Duration::from_millis(10);
const MB: f64 = 1e6;
/// The time at which a run begins, by the clock of all commands.
const START: Duration = Duration::from_millis(123_456);

const MOST_AHEAD: u64 = 128 << 20;

fn new_law(goal: Goal) -> Law {
    Law::new(goal, None, MOST_AHEAD, START)
}

#[test]
fn alone_it_takes_all_that_the_disk_takes() {
    for bytes_per_s in [10.0 * MB, 120.0 * MB, 3000.0 * MB] {
        let disk = Disk { bytes_per_s, ..hard_disk(None) };
        let mut law = new_law(Goal::default());
        let out = disk.run(&mut law, 10.0, 0.0..0.0);
        assert_eq!(law.state(), State::Alone);
        assert!(out.own_bytes >= 0.999 * bytes_per_s * 10.0);
        assert!((law.capacity() / bytes_per_s - 1.0).abs() < 0.01, "{}", law.capacity());
    }
}

#[test]
fn a_victim_that_takes_all_keeps_nearly_all_of_it() {
    let disk = hard_disk(None);
    let mut law = new_law(Goal::default());
    let out = disk.run(&mut law, 62.0, 2.0..62.0);
    let alone = 60.0 / disk.commit_s;
    assert!(out.commits / alone >= 0.9, "{}", out.commits / alone);
    assert_ne!(law.state(), State::Alone);
    assert!(out.own_bytes > 2.0 * disk.bytes_per_s + 60.0 * 0.01 * disk.bytes_per_s);
}

#[test]
fn beside_a_victim_at_a_third_of_the_capacity_it_keeps_half() {
    let disk = hard_disk(Some(1.0 / 3.0 / 0.008));
    let mut law = new_law(Goal::default());
    let before = disk.run(&mut law, 2.0, 0.0..0.0);
    let out = disk.run(&mut law, 60.0, 0.0..60.0);
    assert!(before.own_bytes > 0.0);
    assert!(out.commits >= 0.98 * 60.0 / 3.0 / 0.008, "{}", out.commits);
    assert!(out.wait_s / out.commits <= 2.0 * disk.commit_s, "{}", out.wait_s / out.commits);
    assert!(out.own_bytes >= 0.5 * 60.0 * disk.bytes_per_s, "{}", out.own_bytes / disk.bytes_per_s);
}

#[test]
fn two_commands_share_fairly_and_delay_others_no_more_than_one() {
    let disk = hard_disk(Some(1.0 / 3.0 / 0.008));
    let mut first = new_law(Goal::default());
    disk.run(&mut first, 9.5, 0.0..9.5);
    let mut second =
        Law::new(Goal::default(), None, MOST_AHEAD, START + Duration::from_millis(9500));
    let laws = &mut [&mut first, &mut second];
    disk.run_together(laws, 20.0, 0.0..20.0);
    let out = disk.run_together(laws, 100.0, 0.0..100.0);
    let mean_s = out.wait_s / out.commits;
    assert!(mean_s <= 2.0 * disk.commit_s, "{mean_s}");
    let ratio = out.each_bytes[0] / out.each_bytes[1];
    assert!((0.5..=2.0).contains(&ratio), "{:?}", out.each_bytes);
    assert!(out.own_bytes >= 0.4 * 100.0 * disk.bytes_per_s, "{:?}", out.each_bytes);
}

#[test]
fn it_yields_within_half_a_second_and_comes_back_after_two() {
    let disk = hard_disk(None);
    let mut law = new_law(Goal::default());
    disk.run(&mut law, 3.0, 0.0..0.0);
    disk.run(&mut law, 0.5, 0.0..0.5);
    assert_ne!(law.state(), State::Alone);
    let out = disk.run(&mut law, 4.0, 0.0..0.0);
    assert_eq!(law.state(), State::Alone);
    assert!(out.own_bytes >= 1.4 * disk.bytes_per_s);
}

#[test]
fn commits_that_are_our_own_are_a_false_alarm() {
    // They end while we write, and none while we are silent.
    let mut law = new_law(Goal::default());
    let mut allowance = law.step(&Seen::default());
    let mut own = 0.0;
    for _ in 0..3000 {
        let writes = allowance.rate != Some(0.0);
        let bytes = if writes { 1_200_000 } else { 0 };
        own += bytes as f64;
        allowance = law.step(&Seen {
            elapsed: TICK,
            own_bytes: bytes,
            backlogged: writes,
            flushes: Waits { ops: u64::from(writes), wait: Duration::from_millis(1) },
            ..Seen::default()
        });
    }
    assert!(own >= 0.9 * 120.0 * MB * 30.0, "{own}");
}

#[test]
fn commits_of_our_own_do_not_keep_the_share_of_a_victim_that_left() {
    let disk = hard_disk(None);
    let mut law = new_law(Goal::default());
    disk.run(&mut law, 2.0, 0.0..0.0);
    disk.run(&mut law, 3.0, 0.0..3.0);
    assert_ne!(law.state(), State::Alone);
    let mut allowance = law.step(&Seen::default());
    for _ in 0..1000 {
        let writes = allowance.rate != Some(0.0);
        allowance = law.step(&Seen {
            elapsed: TICK,
            own_bytes: u64::from(writes) * 1_200_000,
            flushes: Waits { ops: u64::from(writes), wait: Duration::from_millis(1) },
            ..Seen::default()
        });
    }
    assert_eq!(law.state(), State::Alone);
}

#[test]
fn a_starved_victim_of_a_disk_without_a_cache_is_found() {
    // Two pieces of 2.5 MiB end in 40 ms, as five requests. The victim's eight commits a second are
    // fewer than the five pieces whose ends may lie inside of a request.
    let piece = 2560_u64 << 10;
    let own = |tick: u32| {
        let pieces = u64::from(tick % 4 == 3) * 2;
        Seen {
            elapsed: TICK,
            own_bytes: pieces * piece,
            own: Waits { ops: pieces, wait: Duration::from_millis(200 * pieces) },
            backlogged: true,
            writes: Waits { ops: pieces * 5 / 2, wait: Duration::from_millis(500 * pieces) },
            written_bytes: pieces * piece,
            busy: TICK,
            in_flight: 20,
            flushless: Some(1280 << 10),
            ..Seen::default()
        }
    };
    let silent = Seen { elapsed: TICK, flushless: Some(1280 << 10), ..Seen::default() };
    let mut law = new_law(Goal::default());
    let mut silences = 0;
    for tick in 0..1000 {
        let is_silent = law.state() == State::Listening;
        silences += u32::from(is_silent);
        law.step(&if is_silent { silent } else { own(tick) });
    }
    assert_eq!(law.state(), State::Alone);
    assert_eq!(silences, 21, "one silence shows the command's requests per byte");
    let found = (0..150).position(|tick| {
        let mut seen = own(tick);
        let commits = u64::from(tick % 12 == 0);
        seen.writes.ops += commits;
        seen.written_bytes += commits * (16 << 10);
        law.step(&seen);
        law.state() == State::Listening
    });
    assert!(found.is_some(), "within 1.5 s");
}

#[test]
fn a_request_that_outlasts_a_silence_belongs_to_others() {
    // A commit waits in the disk for our data, and ends after the silence.
    let mut law = new_law(Goal::default());
    let own = Seen { elapsed: TICK, own_bytes: 1_200_000, backlogged: true, ..Seen::default() };
    let commit = Seen { flushes: Waits { ops: 2, wait: TICK }, in_flight: 1, ..own };
    law.step(&own);
    law.step(&commit);
    assert_eq!(law.state(), State::Listening);
    for _ in 0..220 {
        law.step(&Seen { elapsed: TICK, in_flight: 1, ..Seen::default() });
    }
    assert_eq!(law.state(), State::Yielding);
}

#[test]
fn a_log_write_of_the_command_s_own_is_a_false_alarm() {
    // Flushes that wait for the command's data in the cache, and go on in its silence.
    let mut law = new_law(Goal::default());
    let own = Seen { elapsed: TICK, own_bytes: 1_200_000, backlogged: true, ..Seen::default() };
    let flush = Waits { ops: 1, wait: Duration::from_millis(300) };
    law.step(&own);
    law.step(&Seen { flushes: Waits { ops: 2, ..flush }, in_flight: 1, ..own });
    assert_eq!(law.state(), State::Listening);
    let silent = Seen { elapsed: TICK, ..Seen::default() };
    for tick in 0..80 {
        let flushes = if tick == 30 || tick == 35 { flush } else { Waits::default() };
        law.step(&Seen { flushes, in_flight: u64::from(tick < 35), ..silent });
    }
    assert_eq!(law.state(), State::Alone);
}

#[test]
fn the_capacity_is_not_the_speed_of_the_cache() {
    let mut law = new_law(Goal::default());
    for tick in 0..300 {
        let own_bytes = if tick < 50 { 2_500_000 } else { 1_200_000 };
        law.step(&Seen { elapsed: TICK, own_bytes, backlogged: true, ..Seen::default() });
    }
    assert!((law.capacity() / (120.0 * MB) - 1.0).abs() < 0.01, "{}", law.capacity());
}

#[test]
fn the_guess_rises_in_steps_to_the_rate_of_single_pieces() {
    let mut capacity = Capacity::default();
    let guess = capacity.bytes_per_s();
    let mut raised = |to: f64| {
        capacity.raise(to * guess);
        capacity.bytes_per_s() / guess
    };
    assert_eq!(raised(0.5), 1.0, "others delay the pieces");
    assert!((raised(1.15) - 1.1).abs() < 1e-9);
    assert!((raised(1.15) - 1.15).abs() < 1e-9);
    capacity.observe(&Seen {
        elapsed: Duration::from_secs(1),
        own_bytes: 1 << 40,
        ..Seen::default()
    });
    let measured = capacity.bytes_per_s();
    capacity.raise(2.0 * measured);
    assert_eq!(capacity.bytes_per_s(), measured);
}

#[test]
fn bytes_of_unknown_time_tell_no_rate() {
    let own = Waits { ops: 3, wait: Duration::from_millis(20) };
    let seen = Seen { own_bytes: 3 << 20, own, own_untimed_bytes: 1 << 20, ..Seen::default() };
    assert_eq!(seen.own_rate(), Some(f64::from(2 << 20) / 0.02));
    assert_eq!(Seen { own: Waits::default(), ..seen }.own_rate(), None);
}

#[test]
fn reads_of_our_own_are_no_sign_of_others() {
    let mut law = new_law(Goal::default());
    let own = Seen {
        elapsed: TICK,
        own_bytes: 600_000,
        reads: Waits { ops: 5, wait: Duration::from_millis(20) },
        read_bytes: 600_000,
        own_read_bytes: 600_000,
        ..Seen::default()
    };
    for _ in 0..300 {
        law.step(&own);
        assert_eq!(law.state(), State::Alone);
    }
    // As many again of somebody else.
    let reads = Waits { ops: 10, ..own.reads };
    for _ in 0..200 {
        law.step(&Seen { reads, read_bytes: 1_200_000, ..own });
    }
    assert_ne!(law.state(), State::Alone);
}

#[test]
fn others_that_commit_too_seldom_are_yielded_to_on_a_guards_word() {
    // One commit a second, in no silence if `is_heard` is false.
    let steps_of = |law: &mut Law, others_reported: bool, seconds: u32, is_heard: bool| {
        let mut allowance = law.step(&Seen { others_reported, ..Seen::default() });
        let mut own = 0.0;
        for tick in 0..seconds * 100 {
            let writes = allowance.rate != Some(0.0);
            let wanted = allowance.rate.map_or(120.0 * MB, |rate| rate.min(120.0 * MB));
            let own_bytes = (wanted * TICK.as_secs_f64()) as u64;
            own += own_bytes as f64;
            let ops = u64::from(tick % 100 == 50 && (writes || is_heard));
            allowance = law.step(&Seen {
                elapsed: TICK,
                own_bytes,
                backlogged: writes && allowance.rate.is_none(),
                flushes: Waits { ops, wait: Duration::from_millis(8 * ops) },
                others_reported,
                ..Seen::default()
            });
        }
        own / f64::from(seconds)
    };
    let mut law = new_law(Goal::default());
    steps_of(&mut law, false, 10, true);
    steps_of(&mut law, true, 1, true);
    assert!(law.state() == State::Yielding && law.heard.is_known());
    let steps =
        |law: &mut Law, others_reported, seconds| steps_of(law, others_reported, seconds, false);
    let mut law = new_law(Goal::default());
    steps(&mut law, false, 10);
    assert_eq!(law.state(), State::Alone, "the counters don't show them");
    steps(&mut law, true, 2);
    assert_eq!(law.state(), State::Yielding);
    let rate = steps(&mut law, true, 20);
    assert_ne!(law.state(), State::Alone);
    assert!((0.3..0.6).contains(&(rate / (120.0 * MB))), "{rate}");
    let Allowance { in_flight, .. } = law.step(&Seen { others_reported: true, ..Seen::default() });
    assert!(in_flight as f64 <= 0.04 * 120.0 * MB, "{in_flight}");
    // The guard says that they have gone, or says nothing any more.
    steps(&mut law, false, 7);
    assert_eq!(law.state(), State::Alone);
}

#[test]
fn fixed_goals_and_a_maximum() {
    let mut law = new_law(Goal::Rate(5.0 * MB));
    assert_eq!(law.step(&Seen::default()).rate, Some(5.0 * MB));
    // It neither listens nor yields: its own commits would look like those of others.
    let out = hard_disk(None).run(&mut law, 4.0, 0.0..4.0);
    assert!((out.own_bytes / (4.0 * 5.0 * MB) - 1.0).abs() < 0.05, "{}", out.own_bytes);
    assert_eq!((law.state(), law.yielded()), (State::Fixed, Duration::ZERO));
    let mut law = Law::new(Goal::default(), Some(7.0 * MB), MOST_AHEAD, START);
    assert_eq!(law.step(&Seen::default()).rate, Some(7.0 * MB));
    let disk = hard_disk(None);
    let mut law = new_law(Goal::Share(0.25));
    disk.run(&mut law, 2.0, 0.0..0.0);
    disk.run(&mut law, 2.0, 0.0..2.0);
    let rate = law.step(&Seen { elapsed: TICK, in_flight: 1, ..Seen::default() }).rate.unwrap();
    assert!((rate / (0.25 * disk.bytes_per_s) - 1.0).abs() < 0.01);
}

#[test]
fn a_share_is_one_of_a_measured_capacity_though_others_wait_from_the_start() {
    // Three times what is guessed before the first measurement.
    let disk = Disk { bytes_per_s: 200.0 * MB, ..hard_disk(Some(20.0)) };
    let mut law = new_law(Goal::Share(0.25));
    disk.run(&mut law, 4.0, 0.0..4.0);
    assert_eq!(law.state(), State::Yielding);
    assert!(law.capacity() > 150.0 * MB, "{}", law.capacity());
}

#[test]
fn beside_others_a_piece_is_as_long_as_their_commit_and_waits_for_an_idle_disk() {
    for goal in [1.2, 2.0, 3.0] {
        let disk = hard_disk(Some(1.0 / 3.0 / 0.008));
        let mut law = new_law(Goal::Victim(goal));
        disk.run(&mut law, 2.0, 0.0..0.0);
        assert_eq!(law.step(&Seen::default()).idle_for, None);
        disk.run(&mut law, 20.0, 0.0..20.0);
        let Allowance { rate, piece, in_flight, idle_for, .. } = law.step(&Seen::default());
        let ahead = (rate.unwrap() * 0.05) as u64;
        assert_eq!(in_flight, ahead.max(2 * piece));
        let commits = piece as f64 / disk.bytes_per_s / disk.commit_s;
        assert!((0.9..1.05).contains(&commits), "{commits}");
        assert_eq!(idle_for, Some(Duration::from_millis(1)));
    }
}

#[test]
fn alone_a_measured_disk_has_a_second_of_data_before_it() {
    let disk = hard_disk(None);
    let mut law = new_law(Goal::default());
    let guessed = law.step(&Seen::default());
    assert_eq!(guessed.in_flight, guessed.under_way);
    disk.run(&mut law, 2.0, 0.0..0.0);
    let Allowance { under_way, in_flight, .. } = law.step(&Seen::default());
    let seconds = [under_way, in_flight].map(|bytes| bytes as f64 / disk.bytes_per_s);
    assert!((0.19..0.21).contains(&seconds[0]), "{seconds:?}");
    assert!((0.95..1.05).contains(&seconds[1]), "{seconds:?}");
    let fast = Disk { bytes_per_s: 1000.0 * MB, ..hard_disk(None) };
    let mut law = new_law(Goal::default());
    fast.run(&mut law, 2.0, 0.0..0.0);
    assert_eq!(law.step(&Seen::default()).in_flight, MOST_AHEAD);
    let mut small = Law::new(Goal::default(), None, 1 << 20, START);
    fast.run(&mut small, 2.0, 0.0..0.0);
    let Allowance { under_way, in_flight, .. } = small.step(&Seen::default());
    assert_eq!(in_flight, under_way);
}

#[test]
fn waits_that_differ_by_chance_do_not_raise_the_share_beside_a_busy_victim() {
    let second = |ops, wait_s| Seen {
        elapsed: Duration::from_secs(1),
        flushes: Waits { ops, wait: Duration::from_secs_f64(wait_s) },
        busy: Duration::from_secs(1),
        ..Seen::default()
    };
    let (mut heard, mut share) = (Heard::default(), Share::default());
    heard.learn(&second(100, 1.0));
    heard.learn(&second(100, 1.0));
    share.begin(0.05);
    for window in 0..400 {
        // 1.05 waits on average.
        let wait_s = 0.8 * if window % 2 == 0 { 0.9 } else { 1.2 };
        let own_bytes = (share.share() * 100.0 * MB) as u64;
        share.observe(&Seen { own_bytes, ..second(80, wait_s) }, &heard, 2.0, 100.0 * MB);
    }
    assert!(share.share() < 0.03, "{}", share.share());
}

#[test]
fn a_share_rises_fast_where_many_operations_tell_the_wait() {
    let disk = Disk { bytes_per_s: 400.0 * MB, commit_s: 0.000_5, rate: Some(1000.0) };
    let mut law = new_law(Goal::default());
    disk.run(&mut law, 2.0, 0.0..0.0);
    disk.run(&mut law, 3.0, 0.0..3.0);
    let out = disk.run(&mut law, 1.0, 0.0..1.0);
    assert!(out.own_bytes >= 0.5 * disk.bytes_per_s, "{}", out.own_bytes / disk.bytes_per_s);
    assert!(out.wait_s / out.commits <= 2.0 * disk.commit_s, "{}", out.wait_s / out.commits);
}

proptest::proptest! {
    #[test]
    fn whatever_is_seen_the_allowance_can_be_used(
        steps in proptest::collection::vec(
            (0u64..5_000, 0u64..1 << 40, 0u64..5_000, 0u64..100_000, 0u64..100), 1..200),
    ) {
        let mut law = new_law(Goal::default());
        for (ms, bytes, ops, wait_ms, in_flight) in steps {
            let allowance = law.step(&Seen {
                elapsed: Duration::from_millis(ms),
                own_bytes: bytes,
                own_under_way: bytes / 2,
                backlogged: ops % 2 == 0,
                flushes: Waits { ops, wait: Duration::from_millis(wait_ms) },
                reads: Waits { ops: ops / 3, wait: Duration::from_millis(wait_ms / 5) },
                busy: Duration::from_millis(wait_ms),
                in_flight,
                ..Seen::default()
            });
            proptest::prop_assert!(allowance.rate.is_none_or(|r| r.is_finite() && r >= 0.0));
            proptest::prop_assert!(allowance.piece >= 128 << 10);
            proptest::prop_assert!(allowance.in_flight >= 2 * allowance.piece);
            if law.state() == State::Yielding {
                proptest::prop_assert!(allowance.rate.is_some_and(|r| r > 0.0));
            }
        }
    }
}
