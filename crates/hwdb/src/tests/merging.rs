//! Two machines confirm a value, and nothing else does.

use proptest::prelude::*;

use crate::testing::{best, evidence, figure, submission};
use crate::{Database, Evidence, Merged, Submission, merge, product};

fn of(said: impl IntoIterator<Item = Submission>) -> Merged {
    merge(&said.into_iter().map(evidence).collect::<Vec<_>>())
}

/// The confirmed drain rate in MB/s, and what is said of candidates.
fn drain(said: impl IntoIterator<Item = Submission>) -> (Option<f64>, String) {
    let merged = of(said);
    let rate = merged.database.entries().first().and_then(|e| e.drain_bytes_per_s);
    let said: Vec<String> = merged.candidates.iter().map(ToString::to_string).collect();
    (rate.map(|rate| rate / 1e6), said.join("\n"))
}

#[test]
fn two_sources_whose_intervals_meet_confirm_a_rate() {
    let (rate, said) = drain([submission(1, 121.0), submission(2, 117.0)]);
    assert_eq!((rate, said.as_str()), (Some(117.0), ""));
    assert_eq!(drain([1, 2, 3].map(|n| submission(n, 117.0 + n as f64))).0, Some(119.0));
}

#[test]
fn sources_that_submit_the_same_result_are_one() {
    let newer = |source, rate| Submission { date: "2026-11-28".into(), ..submission(source, rate) };
    for [a, b, c] in [[1, 2, 3], [3, 2, 1]] {
        let copied = [submission(a, 121.0), submission(b, 121.0)];
        let (rate, said) = drain(copied.clone());
        assert_eq!(rate, None);
        assert!(said.contains("one source"), "{said}");
        // Results of either of the two come from the same machine as far as the merge can tell.
        for more in [newer(a, 120.0), newer(b, 120.0)] {
            assert_eq!(drain(copied.iter().cloned().chain([more])).0, None);
        }
        // A third one that has a result in common with one of the two, and one that has not.
        let all = || copied.iter().cloned().chain([newer(b, 120.0), newer(c, 120.0)]);
        assert_eq!(drain(all()).0, None);
        assert_eq!(drain(all().chain([submission(4, 122.0)])).0, Some(120.0));
        let nobody = Submission { source: None, ..submission(a, 121.0) };
        let two = [nobody, submission(a, 121.0), submission(b, 120.0)];
        assert_eq!(drain(two).0, Some(120.0), "a copy without a source");
    }
}

#[test]
fn a_rate_stays_a_candidate_until_more_than_half_agree() {
    for (said, why) in [
        (vec![submission(1, 121.0)], "one source; a second one has to agree"),
        (vec![submission(1, 121.0), submission(1, 120.0)], "one source"),
        (vec![submission(1, 121.0), submission(2, 60.0)], "2 sources, and no two of them agree"),
        (
            vec![
                submission(1, 121.0),
                submission(2, 120.0),
                submission(3, 60.0),
                submission(4, 240.0),
            ],
            "2 of 4 sources agree; more than half have to",
        ),
    ] {
        let (rate, told) = drain(said);
        assert_eq!(rate, None);
        let device = "ST1000DM003 (firmware CC43, 1TB): drain rate stays a candidate: ";
        assert!(told.contains(&format!("{device}{why}")), "{told}");
    }
}

#[test]
fn a_result_without_a_source_or_with_a_wide_interval_confirms_nothing() {
    let nobody = Submission { source: None, ..submission(2, 121.0) };
    assert_eq!(drain([submission(1, 121.0), nobody]).0, None);
    let wide = figure(121e6, 50e6, 300e6);
    let wide = Submission { drain_bytes_per_s: Some(wide), ..submission(2, 121.0) };
    assert_eq!(drain([submission(1, 121.0), wide]).0, None);
    let mut once = submission(2, 121.0);
    once.drain_bytes_per_s.as_mut().unwrap().low = None;
    once.drain_bytes_per_s.as_mut().unwrap().high = None;
    assert_eq!(drain([submission(1, 121.0), once]).0, None);
}

#[test]
fn a_source_has_one_voice_its_newest() {
    let newer = Submission { date: "2026-11-28".into(), ..submission(1, 60.0) };
    let other = submission(2, 122.0);
    assert_eq!(drain([submission(1, 121.0), newer.clone(), other.clone()]).0, None);
    assert_eq!(drain([submission(1, 121.0), other]).0, Some(121.0));
    assert_eq!(drain([submission(1, 121.0), newer, submission(2, 60.0)]).0, Some(60.0));
}

#[test]
fn another_firmware_or_size_is_another_device() {
    let firmware = Submission { firmware: Some("CC44".into()), ..submission(2, 121.0) };
    let size = Submission { size_class: "2TB".into(), ..submission(3, 121.0) };
    let merged = of([submission(1, 121.0), firmware, size]);
    assert_eq!(merged.database.entries(), []);
    assert_eq!(merged.candidates.len(), 6, "a rate and a sync each: {:?}", merged.candidates);
}

#[test]
fn two_searches_confirm_near_settings_and_the_surer_one_is_taken() {
    let with = |source: u64, setting: &str, kept: (f64, f64, f64)| {
        let mut best = best(setting);
        best.victim_kept = figure(kept.0, kept.1, kept.2);
        Submission { best: Some(best), ..submission(source, 121.0) }
    };
    let eight = with(1, "nr_requests=8,scheduler=bfq", (0.8, 0.7, 0.9));
    let setting = |said: Vec<Submission>| {
        let merged = of(said);
        merged.database.entries()[0].settings.get("commit").map(ToString::to_string)
    };
    let sixteen = with(2, "nr_requests=16,scheduler=bfq", (0.85, 0.8, 0.9));
    let found = setting(vec![eight.clone(), sixteen]);
    assert_eq!(found.as_deref(), Some("nr_requests=16,scheduler=bfq"));
    for (other, kept) in [
        ("nr_requests=16,scheduler=kyber", (0.85, 0.8, 0.9)),
        ("nr_requests=16,scheduler=bfq", (0.4, 0.3, 0.5)),
    ] {
        assert_eq!(setting(vec![eight.clone(), with(2, other, kept)]), None, "{other} {kept:?}");
    }
    let mut once = with(2, "nr_requests=8,scheduler=bfq", (0.1, 0.1, 0.1));
    let kept = &mut once.best.as_mut().unwrap().victim_kept;
    (kept.low, kept.high, kept.rounds) = (None, None, 1);
    assert!(setting(vec![eight.clone(), once]).is_some(), "a search without that interval");
    let reads = {
        let mut said = with(2, "nr_requests=8,scheduler=bfq", (0.8, 0.7, 0.9));
        said.best.as_mut().unwrap().victim = "read".into();
        said
    };
    assert_eq!(setting(vec![eight, reads]), None, "another kind of victim");
}

#[test]
fn a_model_is_marked_and_gives_way_to_measurements() {
    let it = product("hdd-7200").unwrap();
    let modelled = Submission {
        modelled_by: Some(it.preset.into()),
        model: it.model.into(),
        firmware: None,
        size_class: it.size().to_string(),
        best: Some(best("nr_requests=8,scheduler=bfq")),
        ..submission(1, 100.0)
    };
    let merged = of([modelled.clone()]);
    let entry = &merged.database.entries()[0];
    assert!(entry.is_modelled());
    let said = "sda: others with this disk (ST31000528AS) found nothing yet; the model hdd-7200 \
        of it says: drains 100 MB/s; syncs in 8.30 ms; \
        best for commit: nr_requests=8,scheduler=bfq";
    assert_eq!(entry.sentence("sda").unwrap(), said);
    for firmware in ["any", ""] {
        assert!(merged.database.find(it.model, firmware, it.size_bytes).is_some());
    }
    assert!(merged.database.find(it.model, "any", 1 << 30).is_none());
    let measured = [1, 2].map(|n| {
        let rate = 90.0 + n as f64;
        Submission { model: it.model.into(), ..submission(n, rate) }
    });
    let merged = of(measured.into_iter().chain([modelled]));
    assert!(merged.database.entries().iter().all(|entry| !entry.is_modelled()));
}

#[test]
fn the_file_is_the_documented_one() {
    let said = [
        Submission { best: Some(best("nr_requests=8,scheduler=bfq")), ..submission(1, 121.0) },
        Submission {
            best: Some(best("nr_requests=8,scheduler=bfq")),
            kernel: "6.1.0".into(),
            ram_gib: 64,
            ..submission(2, 118.0)
        },
    ];
    let all = said.map(evidence);
    let mut hashes = all.each_ref().map(|one| &one.hash[..12]);
    hashes.sort_unstable();
    let merged = merge(&all).database;
    let text = merged.to_text();
    let body: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    let evidence = format!(
        " FLOODWALL_EVIDENCE={}+{},n=2,kernel=6.1.0..6.18.5,ram=16..64GiB,date=2026-11-27",
        hashes[0], hashes[1]
    );
    assert_eq!(
        body,
        [
            "",
            "floodwall:block:name:ST1000DM003:fwrev:CC43:size:1TB",
            " FLOODWALL_DRAIN_BPS=118000000",
            " FLOODWALL_SYNC_US=8300",
            " FLOODWALL_SETTING=nr_requests=8,scheduler=bfq",
            &evidence,
        ]
    );
    let said = "sda: others with this disk (ST1000DM003) found: drains 118 MB/s; \
        syncs in 8.30 ms; best for commit: nr_requests=8,scheduler=bfq \
        (n=2,kernel=6.1.0..6.18.5,ram=16..64GiB,date=2026-11-27)";
    assert_eq!(merged.entries()[0].sentence("sda").unwrap(), said);
}

#[test]
fn a_file_of_others_is_read_as_far_as_it_is_right() {
    let text = "# a comment\n\nblock:name:other:fwrev:x:\n IOCOST_SOLUTIONS=naive\n\n\
        floodwall:block:name:DISK A:fwrev:1:size:1TB\n\
        floodwall:block:name:DISK B:fwrev:*:size:1TB\n \
        FLOODWALL_DRAIN_BPS=121000000\n FLOODWALL_FUTURE=1\n\n\
        floodwall:block:name:DISK C*:fwrev:1:size:1TB\n FLOODWALL_DRAIN_BPS=121000000\n\n\
        floodwall:block:name:DISK D:fwrev:1:size:1TB\n FLOODWALL_DRAIN_BPS=121\n";
    let (database, problems) = Database::read(text);
    let found: Vec<&str> = database.entries().iter().map(|e| e.model.as_str()).collect();
    assert_eq!(found, ["DISK A", "DISK B"]);
    let places = ["line 11 ", "line 15 "];
    assert!(problems.iter().zip(places).all(|(p, place)| p.starts_with(place)), "{problems:?}");
    assert_eq!(problems.len(), 2);
}

#[test]
fn the_shipped_file_is_read_as_it_was_written() {
    let (shipped, problems) = Database::read(crate::SHIPPED);
    assert_eq!(problems, Vec::<String>::new());
    assert_eq!(shipped.to_text(), crate::SHIPPED);
}

fn any_submission() -> impl Strategy<Value = Submission> {
    let setting = proptest::sample::select(vec![
        None,
        Some("nr_requests=8,scheduler=bfq"),
        Some("nr_requests=16,scheduler=bfq"),
        Some("scheduler=kyber"),
    ]);
    let rate = prop_oneof![100.0..140.0f64, prop_oneof![Just(100.0), Just(103.0)]];
    (0..5u64, rate, setting, 0..2u8, 26..28u8).prop_map(|(source, rate, setting, firmware, day)| {
        Submission {
            best: setting.map(best),
            firmware: Some(format!("CC4{firmware}")),
            date: format!("2026-11-{day}"),
            ..submission(source, rate)
        }
    })
}

proptest! {
    #[test]
    fn the_order_and_doubles_make_no_difference(
        (said, shuffled) in proptest::collection::vec(any_submission(), 0..12)
            .prop_flat_map(|said| (Just(said.clone()), Just(said).prop_shuffle())),
    ) {
        let all: Vec<Evidence> = said.into_iter().map(evidence).collect();
        let mut others: Vec<Evidence> = shuffled.into_iter().map(evidence).collect();
        others.extend(all.iter().take(3).cloned());
        let [a, b] = [merge(&all), merge(&others)];
        prop_assert_eq!(a.database.to_text(), b.database.to_text());
        prop_assert_eq!(a.candidates, b.candidates);
    }

    #[test]
    fn one_source_alone_confirms_nothing(
        said in proptest::collection::vec(any_submission(), 0..12),
    ) {
        let all: Vec<Evidence> = said
            .into_iter()
            .map(|said| evidence(Submission { source: Some("a".repeat(16)), ..said }))
            .collect();
        prop_assert!(merge(&all).database.entries().is_empty());
    }

    #[test]
    fn a_confirmed_value_has_two_sources_behind_it(
        said in proptest::collection::vec(any_submission(), 0..12),
    ) {
        let merged = of(said.clone());
        for entry in merged.database.entries() {
            let of_it = said.iter().filter(|said| said.firmware == entry.firmware);
            let sources: std::collections::BTreeSet<_> = of_it.map(|said| &said.source).collect();
            prop_assert!(sources.len() >= 2);
        }
        prop_assert_eq!(Database::read(&merged.database.to_text()).0, merged.database);
    }
}
