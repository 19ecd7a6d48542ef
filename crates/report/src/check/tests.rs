//! What people and programs read of checks.

use std::time::Duration;

use floodwall_model::{Bytes, LatencyCounts};

use super::*;
use crate::status::Style;

fn counts(n: u64, slow: u64, ms: u64) -> LatencyCounts {
    let fast = std::iter::repeat_n(1_300_000, (n - slow) as usize);
    LatencyCounts::from_values(fast.chain(std::iter::repeat_n(ms * 1_000_000, slow as usize)))
}

fn measured(n: u64, slow: u64, ms: u64, flood: Option<f64>) -> Result<Measured, String> {
    let (sync, commit) = (counts(n, slow, ms), counts(n, slow, ms + 1));
    Ok(Measured { seconds: 10.0, sync, commit, flood_bytes_per_s: flood, flood_stays_below: None })
}

/// A check of three runs: how many operations were slow in each, and how slow.
fn check(alone: (u64, u64, u64), flood: (u64, u64, u64), third: Result<Measured, String>) -> Check {
    Check {
        goal: Goal {
            program: "etcd".into(),
            writes: Writes::GrowingLog,
            block: Bytes(2300),
            call: "fdatasync",
            counted: Counted::Sync,
            limit: Duration::from_millis(10),
            source: Some("https://etcd.io/docs/latest/faq/"),
        },
        directory: "/var/lib/etcd".into(),
        filesystem: "ext4".into(),
        device: Some("sda".into()),
        runs: vec![
            Run { beside: Beside::Nothing, measured: measured(alone.0, alone.1, alone.2, None) },
            Run {
                beside: Beside::Flood,
                measured: measured(flood.0, flood.1, flood.2, Some(131e6)),
            },
            Run { beside: Beside::GuardedFlood, measured: third },
        ],
        missing: Vec::new(),
        warnings: Vec::new(),
        seconds: 61.0,
    }
}

fn fit() -> Check {
    check((7000, 0, 0), (4000, 30, 70), Err("good enough beside a flood without a guard".into()))
}

fn slow_beside_a_flood() -> Check {
    check((7000, 0, 0), (38, 20, 812), measured(3000, 40, 7, Some(88e6)))
}

fn slow() -> Check {
    let missing = Missing {
        what: "control groups of victims and floods".into(),
        why: "this user may make none".into(),
    };
    let check = check((700, 100, 24), (38, 20, 812), Err("a guard needs root".into()));
    Check { missing: vec![missing], ..check }
}

fn inconclusive() -> Check {
    check((7000, 0, 0), (38, 1, 812), Err("a guard needs root".into()))
}

#[test]
fn a_disk_is_judged_by_the_runs_without_a_guard() {
    let of = |check: &Check| verdict(check).fitness;
    assert_eq!(of(&fit()), Fitness::Fit);
    assert_eq!(of(&slow_beside_a_flood()), Fitness::SlowBesideFlood);
    assert_eq!(of(&slow()), Fitness::Slow);
    assert_eq!(of(&inconclusive()), Fitness::Inconclusive);
    let mut alone = fit();
    alone.runs.truncate(1);
    assert_eq!(of(&alone), Fitness::Fit);
    assert!(verdict(&alone).sentence.contains("No flood ran"));
}

#[test]
fn a_flood_that_stays_in_memory_shows_no_disk_to_be_good_enough() {
    let stays = |mut check: Check| {
        if let Ok(flooded) = &mut check.runs[1].measured {
            flooded.flood_stays_below = Some(Bytes::gib(2));
        }
        verdict(&check)
    };
    let small = stays(fit());
    assert_eq!(small.fitness, Fitness::Inconclusive);
    assert!(small.sentence.contains("writes back from 2 GiB"), "{}", small.sentence);
    assert!(small.next.iter().any(|(command, _)| command.ends_with("--alone")));
    assert_eq!(stays(slow_beside_a_flood()).fitness, Fitness::SlowBesideFlood);
}

#[test]
fn a_flood_that_was_left_out_for_want_of_time_shows_no_disk_to_be_good_enough() {
    let mut late = fit();
    late.runs.truncate(2);
    late.runs[1].measured = Err("it did not end within the check's 2 min".into());
    let said = verdict(&late);
    assert_eq!(said.fitness, Fitness::Inconclusive);
    insta::assert_snapshot!(said.sentence, @"Not conclusive for etcd: alone it is good enough, \
        but the run beside a flood is left out: it did not end within the check's 2 min.");
    late.runs[0].measured = late.runs[1].measured.clone();
    insta::assert_snapshot!(verdict(&late).sentence, @"Not conclusive for etcd: the run alone is \
        left out: it did not end within the check's 2 min.");
    let slow = Check { runs: slow().runs[..1].to_vec(), ..late };
    assert_eq!(verdict(&slow).fitness, Fitness::Slow);
}

#[test]
fn texts() {
    for (name, check) in [
        ("fit", fit()),
        ("slow_beside_a_flood", slow_beside_a_flood()),
        ("slow", slow()),
        ("inconclusive", inconclusive()),
    ] {
        insta::assert_snapshot!(name, text(&check, Style { width: 80, ..Style::default() }));
    }
}

#[test]
fn documents() {
    insta::assert_snapshot!("json", json(&slow_beside_a_flood()).unwrap());
    insta::assert_snapshot!("junit", junit(&inconclusive()));
    let lines = [fit(), slow_beside_a_flood(), slow(), inconclusive()].map(|check| {
        let (line, status) = nagios(&check);
        format!("{status}: {line}")
    });
    insta::assert_snapshot!("nagios", lines.join("\n"));
    assert_eq!(nagios_failed("etcd", "a | b"), "ETCD UNKNOWN - a / b");
}

#[test]
fn names_can_break_no_document() {
    let mut check = fit();
    check.runs[2].measured = Err("<'&\"\u{1b}[1m\u{202e}".into());
    assert!(junit(&check).contains("&lt;&#39;&amp;&quot;\\u{1b}[1m\\u{202e}"), "{}", junit(&check));
}
