//! What silences and glances tell the law.

use std::time::Duration;

use super::{TICK, new_law};
use crate::law::listen::{Heard, Silence};
use crate::law::{Goal, Phase, Seen, State, Waits};

#[test]
fn a_victim_that_comes_soon_after_false_alarms_is_found_by_a_glance() {
    let mut law = new_law(Goal::default());
    // Own requests, three a second, and none in a silence.
    let own = |tick: u32| Seen {
        elapsed: TICK,
        own_bytes: 1_200_000,
        backlogged: true,
        flushes: Waits {
            ops: u64::from(tick.is_multiple_of(33)),
            wait: Duration::from_millis(200),
        },
        ..Seen::default()
    };
    let silent = Seen { elapsed: TICK, ..Seen::default() };
    let (mut silences, mut glances) = (0, 0);
    for tick in 0..2000 {
        let is_silent = law.state() == State::Listening;
        if let Phase::Listen(listen) = &law.phase {
            silences += u32::from(listen.kind() == Silence::Full);
            glances += u32::from(listen.kind() == Silence::Glance);
        }
        law.step(&if is_silent { silent } else { own(tick) });
    }
    assert_eq!(law.state(), State::Alone);
    // Four or five full silences of 20 ticks each, and glances of 3 ticks.
    assert!((80..=105).contains(&silences) && (20..=60).contains(&glances), "{silences} {glances}");
    // A victim with as many requests that goes on in silences.
    let commit = Waits { ops: 1, wait: Duration::from_millis(8) };
    let found = (0..160).position(|tick| {
        let is_silent = law.state() == State::Listening;
        law.step(&if is_silent { Seen { flushes: commit, ..silent } } else { own(tick) });
        law.state() == State::Yielding
    });
    assert!(found.is_some(), "within 1.6 s");
}

#[test]
fn a_silence_in_which_the_disk_still_wrote_our_data_is_no_base() {
    let silence = |wait_ms: u64| Seen {
        elapsed: Duration::from_millis(200),
        flushes: Waits { ops: 100, wait: Duration::from_millis(100 * wait_ms) },
        busy: Duration::from_millis(if wait_ms > 2 { 200 } else { 60 }),
        ..Seen::default()
    };
    let mut heard = Heard::default();
    let base_ms = |heard: &Heard| heard.base_s(|seen| seen.flushes).unwrap() * 1e3;
    for (wait_ms, base) in [(9, 9.0), (8, 8.0), (1, 1.0), (9, 1.0), (1, 1.0)] {
        heard.learn(&silence(wait_ms));
        assert!((base_ms(&heard) - base).abs() < 1e-9, "{wait_ms} {}", base_ms(&heard));
    }
    assert!((heard.busy() - 0.3).abs() < 1e-9);
    assert!((heard.known_ops_per_s().unwrap() - 500.0).abs() < 1e-9);
    // Few operations differ too much by chance for that.
    let few = |wait_ms| Seen {
        flushes: Waits { ops: 5, wait: Duration::from_millis(5 * wait_ms) },
        ..silence(wait_ms)
    };
    let mut heard = Heard::default();
    for wait_ms in [1, 1, 3] {
        heard.learn(&few(wait_ms));
    }
    assert!((base_ms(&heard) - 2.0).abs() < 1e-9);
}

#[test]
fn the_second_silence_begins_the_share_anew() {
    // In the first one the disk is busy all the time with the command's data.
    let mut law = new_law(Goal::default());
    let commit = Waits { ops: 1, wait: Duration::from_millis(3) };
    let (mut shares, mut silences) = (Vec::new(), 0);
    for _ in 0..250 {
        let was_listening = law.state() == State::Listening;
        let busy = if silences == 0 { TICK } else { TICK * 3 / 10 };
        let own_bytes = if was_listening { 0 } else { 100_000 };
        law.step(&Seen { elapsed: TICK, own_bytes, flushes: commit, busy, ..Seen::default() });
        if was_listening && law.state() == State::Yielding {
            silences += 1;
            shares.push(law.share.share());
        }
    }
    assert!(shares[0] < 0.03 && (0.3..0.4).contains(&shares[1]), "{shares:?}");
}
