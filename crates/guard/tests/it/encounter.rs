//! One encounter of a victim and a flood.

use crate::{Run, State, options, part, s, with};

/// The victim from the first second on, the copy from the sixth, both for a minute, and the copy
/// alone at the end.
fn encounter(device: &str, guarded: bool) -> Run {
    let mut run = Run::new(vec![part(options(device))], guarded);
    run.start(1, "db");
    run.start(6, "copy");
    run.stop(66, "db");
    run.until(81);
    run
}

/// One encounter on a device, with and without the guard. `share`: the least share of its rate
/// without the guard that the flood has to keep.
fn protects_and_gives_back(device: &str, share: f64) {
    let (mut with, without) = (encounter(device, true), encounter(device, false));
    let protected = with.entered(State::Protect, 6).unwrap();
    assert!(protected <= s(7), "protected at {protected:?}");
    let written = with.writes.first().unwrap().0;
    assert!((s(6)..=s(7)).contains(&written), "first write at {written:?}");
    let alone = with.iops(3, 6);
    let dead = with.seconds[8..66].iter().filter(|s| (s.ops as f64) < 0.1 * alone).count();
    // Tries may cost some seconds.
    assert!(dead <= 5, "{dead} seconds with less than a tenth of {alone} IOPS");
    let (kept, lost) = (with.iops(36, 66) / alone, without.iops(36, 66) / alone);
    assert!(kept > 0.25 && kept > 4.0 * lost, "{kept:.2} of {alone} IOPS kept, {lost:.2} without");
    let flood = with.flooded(36, 66) / without.flooded(36, 66);
    assert!(flood > share, "the flood has {flood:.2} of what it would have");
    // The victim leaves.
    let free = with.entered(State::Free, 66).unwrap();
    assert!(free <= s(76), "free at {free:?}");
    assert!(with.writes.iter().all(|(at, _)| *at <= free));
    let mut fresh = Run::new(vec![part(options(device))], false);
    assert_eq!(with.knobs(), fresh.knobs());
    let flood = with.flooded(76, 81) / without.flooded(76, 81);
    assert!(flood > 0.9, "afterwards the flood has {flood:.2} of what it would have");
}

#[test]
fn an_array_with_a_cache() {
    // In mode protect the flood's floor, a tenth of what the array drains, is all that it can have.
    protects_and_gives_back("raid10-bbwc-2010", 0.09);
}

#[test]
fn a_disk() {
    protects_and_gives_back("hdd-7200", 0.2);
}

#[test]
fn a_cloud_volume() {
    protects_and_gives_back("cloud-gp3", 0.6);
}

#[test]
fn an_ssd() {
    protects_and_gives_back("sata-ssd", 0.1);
}

#[test]
fn a_victim_that_comes_into_a_flood_is_served_as_soon_as_the_queue_has_run_dry() {
    for device in ["raid10-bbwc-2010", "hdd-7200", "cloud-gp3"] {
        let mut run = Run::new(vec![part(options(device))], true);
        run.start(0, "copy");
        run.start(10, "db");
        run.until(30);
        assert!(
            run.writes.iter().all(|(at, _)| *at >= s(10)),
            "{device}: written before anybody waited"
        );
        let protected = run.entered(State::Protect, 10).unwrap();
        assert!(protected <= s(11), "{device}: {protected:?}");
        // The victim's rate alone.
        let mut alone = Run::new(vec![part(options(device))], false);
        alone.start(0, "db");
        alone.until(10);
        let alone = alone.iops(5, 10);
        let kept = run.iops(20, 30) / alone;
        assert!(kept > 0.2, "{device}: {kept:.2} of {alone}");
    }
}

#[test]
fn nothing_is_written_while_nobody_waits_or_nobody_floods() {
    for (device, loads) in [
        ("hdd-7200", &["copy"][..]),
        ("hdd-7200", &["db"]),
        ("sata-ssd", &["db"]),
        ("sata-ssd", &["copy"]),
        ("cloud-gp3", &[]),
    ] {
        let mut run = Run::new(vec![part(options(device))], true);
        loads.iter().for_each(|load| run.start(1, load));
        run.until(30);
        assert_eq!(run.writes, [], "{device} {loads:?}");
        assert_eq!(run.state(), State::Free, "{device} {loads:?}");
    }
}

#[test]
fn readers_are_left_alone_while_they_keep_their_goal_and_helped_when_they_miss_it() {
    let reads = |device: &str, guarded| {
        let parts = with(
            options(device),
            &["read,threads=16,size=4GiB,name=db"],
            &["seq,size=16GiB,name=copy"],
        );
        let mut run = Run::new(vec![parts], guarded);
        run.start(1, "db");
        run.start(6, "copy");
        run.until(36);
        run
    };
    // Any queue that leaves sixteen readers alive leaves nearly no writes to a disk.
    for (device, least) in [("raid10-bbwc-2010", 0.5), ("hdd-7200", 0.005)] {
        let (with, without) = (reads(device, true), reads(device, false));
        let alone = with.iops(3, 6);
        let (kept, lost) = (with.iops(20, 36) / alone, without.iops(20, 36) / alone);
        // A quarter of the rate alone is a wait of four times alone's, the goal.
        assert!(kept >= 0.25 && kept > 0.9 * lost, "{device}: {kept:.2} kept, {lost:.2} without");
        let share = with.flooded(20, 36) / without.flooded(20, 36);
        assert!(share > least, "{device}: the flood has {share:.3} of what it would have");
    }
}
