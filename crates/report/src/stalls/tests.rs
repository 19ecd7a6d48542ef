//! Stalls as people and programs read them.

use floodwall_model::stall::{Flood, Stall, Victim};
use jiff::tz::TimeZone;

use super::testing::{NIGHT_MS, berlin, stall};
use super::*;
use crate::numbers::UNKNOWN;
use crate::status::Style;

/// One that was cut off, of processes that bite.
fn other() -> Stall {
    let victim = Victim { pid: 9, name: "\u{1b}[31mred\n".into(), ..Victim::default() };
    let others = Victim { name: "others".into(), ..Victim::default() };
    Stall {
        began_unix_ms: NIGHT_MS + 3_600_000,
        ended_unix_ms: NIGHT_MS + 3_602_500,
        worst_unix_ms: NIGHT_MS + 3_602_000,
        disk: "nvme0n1".into(),
        victims: vec![Victim { slowest_us: 1_100_000, ..victim.clone() }, victim, others],
        end_unseen: true,
        ..Stall::default()
    }
}

fn listing<'a>(stalls: &'a [Stall], zone: &'a TimeZone) -> Listing<'a> {
    Listing {
        stalls,
        from_unix_ms: NIGHT_MS - 86_400_000,
        to_unix_ms: NIGHT_MS + 86_400_000,
        disk: None,
        known: Some((NIGHT_MS - 90_000_000, NIGHT_MS + 90_000_000)),
        gaps: &[],
        damaged: 0,
        zone,
    }
}

#[test]
fn a_sentence_says_who_and_why() {
    assert_eq!(
        sentence(&stall(), &berlin()),
        "2026-11-27 03:10:12, for 41.0 s: postgres (812, postgresql.service) waited up to 3.20 s \
         for fsync on sda (/var/lib/postgresql), because cp (4711, backup.service) dirtied \
         12.0 GB; 4.10 GB were dirty, 34.2 s of draining at 120 MB/s"
    );
    assert_eq!(
        sentence(&other(), &berlin()),
        format!(
            "2026-11-27 04:10:12, for at least 2.50 s: {} (9) and more than 1 others waited up \
             to 1.10 s for nvme0n1, and no flood was seen",
            r"\u{1b}[31mred\u{a}"
        )
    );
}

#[test]
fn a_flood_may_be_over_or_be_the_victim_itself() {
    let mut gone = stall();
    gone.floods[0].dirtied_bytes = 0;
    let said = sentence(&gone, &berlin());
    let part = "because cp (4711, backup.service) wrote 93 % of the backlog; 4.10 GB";
    assert!(said.contains(part), "{said}");
    let dirtied = |stall: &Stall| {
        let at = COLUMNS.iter().position(|column| column.title == "DIRTIED").unwrap();
        cells(stall, &berlin())[at].clone()
    };
    assert_eq!((dirtied(&stall()), dirtied(&gone)), ("12.0 GB".into(), "before: 93 %".into()));
    // 93 % of 4.10 GB: half of it within the stall, or a little less.
    gone.floods[0].dirtied_bytes = 1_907_000_000;
    assert_eq!(dirtied(&gone), "1.91 GB");
    gone.floods[0].dirtied_bytes = 1_906_000_000;
    assert_eq!(dirtied(&gone), "before: 93 %");
    gone.floods[0].dirtied_bytes = 0;
    gone.floods[0].backlog_percent = None;
    assert_eq!(dirtied(&gone), UNKNOWN);

    let mut own = stall();
    own.floods[0].pid = 812;
    own.floods.push(Flood { pid: 3, dirtied_bytes: 64 << 20, ..Flood::default() });
    let said = sentence(&own, &berlin());
    let part = "because it dirtied 12.0 GB itself and others dirtied 67.1 MB; ";
    assert!(said.contains(part), "{said}");
}

#[test]
fn the_table_fits_and_ends_with_sums() {
    let zone = berlin();
    let stalls = [stall(), other(), Stall { disk: "sdb".into(), ..stall() }];
    let at = |width| text(&listing(&stalls, &zone), Style { color: false, width });
    for width in [60, 80, 100, 140] {
        let widest = at(width).lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(width.max(70)), "{width}: {widest:?}\n{}", at(width));
    }
    insta::assert_snapshot!("stalls_80", at(80));
    insta::assert_snapshot!("stalls_180", at(180));
}

#[test]
fn no_stall_is_a_sentence_that_says_what_was_recorded() {
    let zone = berlin();
    let none = Listing { disk: Some("sda"), ..listing(&[], &zone) };
    insta::assert_snapshot!(text(&none, Style::default()), @r"
    No stall of sda from 2026-11-26 03:10:12 to 2026-11-28 03:10:12.
    Recordings exist from 2026-11-26 02:10:12 to 2026-11-28 04:10:12.
    ");
    let gaps = [NIGHT_MS..NIGHT_MS + 600_000, NIGHT_MS + 3_600_000..NIGHT_MS + 7_200_000];
    let part = text(&Listing { gaps: &gaps, ..none }, Style { width: 100, ..Style::default() });
    insta::assert_snapshot!(part, @r"
    No stall of sda from 2026-11-26 03:10:12 to 2026-11-28 03:10:12.
    Recordings exist from 2026-11-26 02:10:12 to 2026-11-28 04:10:12.
    Without frames, 1 h 10 min in all: 2026-11-27 03:10:12 to 2026-11-27 03:20:12 (10 min 0 s),
    2026-11-27 04:10:12 to 2026-11-27 05:10:12 (1 h 0 min).
    ");
}

#[test]
fn a_recording_of_a_part_is_said_beside_stalls_too() {
    let zone = berlin();
    let stalls = [stall()];
    let whole = listing(&stalls, &zone);
    let says = |listing: &Listing<'_>| text(listing, Style::default()).contains("Recordings exist");
    assert!(!says(&whole));
    let (first, last) = whole.known.unwrap();
    assert!(says(&Listing { known: Some((NIGHT_MS, last)), ..whole }));
    assert!(says(&Listing { known: Some((first, NIGHT_MS)), ..whole }));
}

#[test]
fn sums_are_those_of_the_stalls() {
    let mut more = other();
    more.floods = vec![Flood { name: "dd".into(), ..Flood::default() }];
    let totals = Totals::of(&[stall(), stall(), more]);
    assert_eq!((totals.stalls, totals.stalled_ms, totals.slowest_us), (3, 84_500, 3_200_000));
    assert_eq!(totals.worst_unix_ms, Some(NIGHT_MS + 30_000));
    assert_eq!(totals.most_frequent_flood.as_deref(), Some("cp"));
    assert_eq!(totals.most_frequent_flood_workload.as_deref(), Some("backup.service"));
    assert_eq!(totals.most_frequent_flood_stalls, 2);
    assert_eq!(Totals::of(&[]), Totals::default());
}

#[test]
fn json_holds_the_stalls_as_they_are_stored() {
    let zone = berlin();
    let stalls = [stall(), other()];
    let document: serde_json::Value =
        serde_json::from_str(&json(&listing(&stalls, &zone)).unwrap()).unwrap();
    assert_eq!(document["schema"], SCHEMA);
    assert_eq!(document["stalls"], serde_json::to_value(&stalls).unwrap());
    assert_eq!(document["totals"]["stalled_ms"], 43_500);
    assert_eq!(document["recorded_from_unix_ms"], NIGHT_MS - 90_000_000);
}
