//! The document has the documented fields, reads back as it was, and its figures follow from its
//! raw data.

use floodwall_model::LatencyCounts;
use floodwall_model::hdr::decode;
use floodwall_model::status::Missing;
use floodwall_model::trial::OpLatencies;
use floodwall_stats::interval_store::IntervalStore;
use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::synthetic::{Made, run};

fn json(document: &Document) -> Value {
    serde_json::from_str(&document.to_json().unwrap()).unwrap()
}

fn compared_with_a_baseline() -> Document {
    let mut stored = Made::harmless().document();
    stored.trials[0].phases[1].intervals[0].flood_bytes = 400_000_000;
    let baseline = Baseline::from_document(&stored, "default.json");
    Document::new(run(), &Made::damage().scenario, Made::damage().trials(), Some(baseline)).unwrap()
}

#[test]
fn writing_and_reading_is_identity() {
    let mut partial = Made::reads().document();
    partial.run.status = RunStatus::Partial { why: "interrupted".into() };
    partial.run.missing = vec![Missing { what: "psi".into(), why: "absent".into() }];
    partial.run.warnings = vec!["a warning with \"quotes\" and µ".into()];
    partial.run.device = None;
    partial.trials[2].phases.truncate(2);
    partial.trials[2].phases[1].cut_short = Some("interrupted".into());
    partial.trials[2].phases[1].warmup.steady = None;
    for document in [Made::damage().document(), partial, compared_with_a_baseline()] {
        let text = document.to_json().unwrap();
        let back = Document::read(&text).unwrap();
        assert_eq!(back, document);
        assert_eq!(back.to_json().unwrap(), text);
    }
}

#[test]
fn the_summary_follows_from_the_raw_data_of_the_written_document() {
    for document in [
        Made::damage().document(),
        Made::reads().document(),
        Made::inconclusive().document(),
        compared_with_a_baseline(),
    ] {
        let back = Document::read(&document.to_json().unwrap()).unwrap();
        assert_eq!(back.recomputed_summary(), document.summary);
        assert!(back.summary.victim_kept.is_some());
    }
}

#[test]
fn merged_intervals_change_no_figure_but_their_resolution() {
    let mut trials = Made::damage().trials();
    for phase in trials.iter_mut().flat_map(|t| &mut t.phases) {
        let mut store = IntervalStore::new(4, usize::MAX);
        std::mem::take(&mut phase.intervals).into_iter().for_each(|i| store.push(i));
        phase.intervals = store.into_intervals();
    }
    let merged = Document::new(run(), &Made::damage().scenario, trials, None).unwrap();
    let back = Document::read(&merged.to_json().unwrap()).unwrap();
    assert_eq!(back, merged);
    let whole = Made::damage().document();
    assert_eq!(back.summary.victim_kept, whole.summary.victim_kept);
    assert_eq!(back.summary.dead_seconds, whole.summary.dead_seconds);
    assert_eq!(back.summary.both, whole.summary.both);
}

#[test]
fn the_names_that_scripts_rely_on() {
    let v = json(&Made::damage().document());
    assert_eq!(v["schema"], "floodwall/result/1");
    assert_eq!(v["status"]["state"], "complete");
    for path in [
        "/command",
        "/host/kernel",
        "/host/ram_bytes",
        "/host/cpus",
        "/device/name",
        "/device/model",
        "/device/scheduler",
        "/scenario/name",
        "/missing",
        "/warnings",
        "/seconds",
        "/started_at_unix_s",
        "/first_operation_ms",
        "/trials/0/setting/vm.dirty_ratio",
        "/trials/0/round",
        "/trials/0/phases/0/seconds",
        "/trials/0/phases/0/victim/ops",
        "/trials/0/phases/0/victim/iops",
        "/trials/0/phases/0/victim/commit_us/mean",
        "/trials/0/phases/0/victim/commit_us/p50",
        "/trials/0/phases/0/victim/commit_us/p90",
        "/trials/0/phases/0/victim/commit_us/p99",
        "/trials/0/phases/0/victim/commit_us/p999",
        "/trials/0/phases/0/victim/commit_us/max",
        "/trials/0/phases/0/victim/write_us/p50",
        "/trials/0/phases/0/victim/sync_us/p50",
        "/trials/0/phases/0/victim/dead_seconds",
        "/trials/0/phases/1/flood/bytes",
        "/trials/0/phases/1/flood/bytes_per_s",
        "/trials/0/phases/2/device/written_bytes",
        "/trials/0/phases/2/intervals/0/victim/commit_hdr",
        "/trials/0/phases/2/overrun/commit_hdr",
        "/trials/0/phases/3/burst/bytes_per_s",
        "/summary/victim_kept/value",
        "/summary/flood_kept/low",
        "/summary/burst_kept/high",
        "/summary/dead_seconds/value",
    ] {
        let found = v.pointer(path).unwrap_or_else(|| panic!("{path} is not there"));
        assert!(!found.is_null(), "{path} is null");
    }
    let names: Vec<_> =
        (0..4).map(|i| v["trials"][0]["phases"][i]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["victim", "flood", "both", "burst"]);
    assert!(v["trials"][0]["phases"][1]["victim"].is_null(), "no victim ran");
    assert!(v["trials"][0]["phases"][0]["victim"]["read_us"].is_null(), "nothing was read");
}

#[test]
fn derived_values_follow_from_the_raw_ones_beside_them() {
    let v = json(&Made::damage().document());
    let both = &v["trials"][0]["phases"][2];
    let intervals = both["intervals"].as_array().unwrap();
    let ops: u64 = intervals.iter().map(|i| i["victim"]["ops"].as_u64().unwrap()).sum();
    assert_eq!(both["victim"]["ops"].as_u64(), Some(ops));
    assert_eq!(both["victim"]["iops"].as_f64(), Some(ops as f64 / 12.0));
    assert_eq!(both["victim"]["dead_seconds"], 9);
    assert_eq!(both["victim"]["stalls"].as_array().unwrap().len(), 3);
    assert_eq!(both["device"]["flush_ops"], 12 * 14);
    assert_eq!(both["device"]["utilisation_percent"].as_f64(), Some(99.8));

    let mut commits = LatencyCounts::default();
    for part in intervals.iter().map(|i| &i["victim"]).chain([&both["overrun"]]) {
        let number = |name: &str| part[name].as_u64().unwrap();
        let text = part["commit_hdr"].as_str().unwrap();
        commits.merge(&decode(text, number("commit_sum_ns"), number("commit_max_ns")).unwrap());
    }
    assert_eq!(
        both["victim"]["commit_us"]["max"].as_f64(),
        Some(3_200_000.0),
        "the one in flight counts"
    );
    assert_eq!(both["victim"]["commit_us"]["mean"].as_f64(), commits.mean_ns().map(|ns| ns / 1e3));
}

#[test]
fn a_figure_that_is_not_known_is_null_and_says_why() {
    let mut made = Made::damage();
    made.scenario.floods.clear();
    let v = json(&made.document());
    assert!(v["summary"]["victim_kept"].is_null());
    let why = v["summary"]["unknown"][0]["why"].as_str();
    assert_eq!(why, Some("a victim beside a flood was not measured"));
}

#[test]
fn unknown_keys_are_ignored() {
    let document = Made::damage().document();
    let mut v = json(&document);
    for path in [
        "",
        "/host",
        "/device",
        "/summary",
        "/trials/0",
        "/trials/0/phases/0",
        "/trials/0/phases/0/victims/0",
    ] {
        v.pointer_mut(path).unwrap()["from_the_future"] = Value::from(vec![1, 2]);
    }
    v["trials"][0]["phases"][0]["intervals"][0]["victim"]["from_the_future"] = Value::from(1);
    v["trials"][0]["phases"][0]["intervals"][0]["host"]["from_the_future"] = Value::from(1);
    assert_eq!(Document::read(&v.to_string()).unwrap(), document);
}

#[test]
fn only_results_of_this_schema_are_read() {
    let message = |text: &str| Document::read(text).unwrap_err().to_string();
    assert_eq!(
        message(r#"{"schema": "floodwall/result/2", "trials": 7}"#),
        "can't read the result: its schema is 'floodwall/result/2', this program reads \
         'floodwall/result/1'"
    );
    assert_eq!(
        message("{}"),
        "can't read the result: it has no \"schema\", so it is not a floodwall result"
    );
    assert!(message("[1]").contains("can't read the result"));
}

#[test]
fn a_stored_result_is_written_again_byte_for_byte() {
    for (name, stored) in [
        ("sim-quick", include_str!("../../../../docs/data/sim-quick.json")),
        ("tune", include_str!("../../../../docs/data/tune.json")),
        ("two-kernels", include_str!("../../../../docs/data/two-kernels.json")),
    ] {
        let written = Document::read(stored).unwrap().to_json().unwrap();
        let differing = stored.lines().zip(written.lines()).find(|(before, after)| before != after);
        assert_eq!(differing, None, "{name}");
        assert!(written == stored, "{name}: {} bytes became {}", stored.len(), written.len());
    }
}

#[test]
fn a_result_without_the_fields_that_came_later_is_read() {
    let mut expected = Made::damage().document();
    let mut v = json(&expected);
    let phase = v.pointer_mut("/trials/0/phases/2").unwrap().as_object_mut().unwrap();
    phase.retain(|key, _| matches!(key.as_str(), "name" | "seconds" | "intervals" | "victims"));
    let kept = ["name", "ops", "bytes", "commit_hdr", "commit_sum_ns", "commit_max_ns"];
    phase["victims"][0].as_object_mut().unwrap().retain(|key, _| kept.contains(&key.as_str()));
    let interval = phase["intervals"][3].as_object_mut().unwrap();
    interval.remove("host");
    interval["victim"] = serde_json::json!({ "second_ops": interval["victim"]["second_ops"] });

    let phase = &mut expected.trials[0].phases[2];
    (phase.start_s, phase.cut_short, phase.burst) = (0.0, None, None);
    (phase.warmup, phase.overrun, phase.floods) = Default::default();
    let load = &mut phase.victims[0];
    let commit = load.latencies.commit.clone();
    load.latencies = OpLatencies { commit, ..OpLatencies::default() };
    (load.unserved_ops, load.command_runs, load.cpu_us, load.ops_with_warmup) = Default::default();
    let interval = &mut phase.intervals[3];
    (interval.victim_bytes, interval.latencies, interval.host) = Default::default();
    assert_eq!(Document::read(&v.to_string()).unwrap(), expected);
}

#[test]
fn a_cut_result_is_refused_with_its_last_line_and_the_remedy() {
    let text = Made::damage().document().to_json().unwrap();
    let remedy =
        "copy it again, or repeat the run with --out FILE, which writes a file whole or not at all";
    for cut in [0, 1, text.len() / 3, text.len() / 2, text.len() - 2] {
        let line = text[..cut].matches('\n').count() + 1;
        let message = Document::read(&text[..cut]).unwrap_err().to_string();
        assert_eq!(
            message,
            format!("can't read the result: it is cut off at line {line}; {remedy}"),
            "{cut}"
        );
    }
}

#[test]
fn a_changed_result_is_refused_with_the_place_and_the_remedy() {
    let text = Made::damage().document().to_json().unwrap();
    let remedy = "the file was changed, or another version of floodwall wrote it; take an \
        unchanged copy, use that version, or repeat the run";
    // Programs without null write NaN.
    let nan = text.replacen("\"seconds\": 1.0,", "\"seconds\": NaN,", 1);
    let line = 1 + nan.lines().position(|line| line.contains("NaN")).unwrap();
    let message = Document::read(&nan).unwrap_err().to_string();
    assert!(message.contains(&format!("expected value at line {line} column")), "{message}");
    assert!(message.ends_with(remedy), "{message}");

    let mut v = json(&Made::damage().document());
    v["trials"][1]["phases"][2]["intervals"][4]["victim"]["sync_hdr"] = "AAAA".into();
    let damaged = serde_json::to_string_pretty(&v).unwrap();
    let message = Document::read(&damaged).unwrap_err().to_string();
    assert!(
        message.starts_with("can't read the result: sync_hdr: histogram is not in"),
        "{message}"
    );
    assert!(message.ends_with(remedy), "{message}");
    // The place is the end of the object that has it.
    let place = message.split(" at line ").nth(1).unwrap();
    let line: usize = place.split(' ').next().unwrap().parse().unwrap();
    let before: Vec<&str> =
        damaged.lines().take(line).filter(|line| line.contains("sync_hdr")).collect();
    assert_eq!(before.last().unwrap().trim(), "\"sync_hdr\": \"AAAA\",");
}

#[test]
fn a_baseline_from_elsewhere_is_noticed() {
    let (here, mut there) = (Made::damage().document(), Made::damage().document());
    assert_eq!(here.differences(&there), Vec::<String>::new());
    there.run.host.kernel = Some("5.10.0".into());
    there.run.device = None;
    there.scenario["burst_bytes"] = Value::from(1);
    assert_eq!(
        here.differences(&there),
        [
            "kernel: 6.18.5 here, 5.10.0 there",
            "device: sda (ATA ST1000DM003) here, unknown there",
            "the scenario's burst differ"
        ]
    );
}

/// Takes JSON and remembers how much came at once.
struct Pieces {
    largest: usize,
    total: usize,
    room: usize,
}

impl io::Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.total + bytes.len() > self.room {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.largest = self.largest.max(bytes.len());
        self.total += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_long_result_is_written_interval_by_interval() {
    let mut document = Made::damage().document();
    let phase = &mut document.trials[0].phases[0];
    let one = phase.intervals[0].clone();
    phase.intervals = std::iter::repeat_n(one, 2_000).collect();
    let mut out = Pieces { largest: 0, total: 0, room: usize::MAX };
    document.write_json(&mut out).unwrap();
    assert_eq!(out.total, document.to_json().unwrap().len());
    assert!(out.total > 1_000_000 && out.largest < 64 << 10, "{} of {}", out.largest, out.total);
    // Through a trait object too, and a full disk is told as such.
    let full: &mut dyn io::Write = &mut Pieces { largest: 0, total: 0, room: 500_000 };
    let error = document.write_json(full).unwrap_err();
    assert!(
        matches!(&error, SchemaError::Io(e) if e.kind() == io::ErrorKind::StorageFull),
        "{error}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_numbers_read_back_exactly(
        start_s in 0.0..1e6f64,
        seconds in 0.0..100.0f64,
        ops in prop::collection::vec(any::<u32>(), 0..4),
        bytes in 0..u64::MAX / 4,
        latencies in prop::collection::vec(0u64..1 << 45, 0..40),
        dirty in prop::option::of(any::<u64>()),
    ) {
        let mut document = Made::damage().document();
        let phase = &mut document.trials[0].phases[2];
        phase.start_s = start_s;
        phase.seconds = seconds;
        let interval = &mut phase.intervals[3];
        interval.seconds = seconds / 3.0;
        interval.victim_ops = ops;
        interval.flood_bytes = bytes;
        interval.latencies.read = LatencyCounts::from_values(latencies);
        interval.host.dirty_bytes = dirty;
        interval.host.device = None;
        document.summary = document.recomputed_summary();
        let back = Document::read(&document.to_json().unwrap()).unwrap();
        prop_assert_eq!(&back.recomputed_summary(), &back.summary);
        prop_assert_eq!(back, document);
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in "\\PC{0,80}") {
        let _ = Document::read(&text);
    }
}

#[test]
fn what_is_possible_alone_counts_for_all_settings_of_a_round_if_it_is_measured_once() {
    let mut once = crate::synthetic::contest(false);
    let rows = once.contest.as_ref().unwrap().contenders.clone();
    let mut copied = once.clone();
    for (theirs, ours) in rows[0].trials.iter().zip(&rows[1].trials) {
        let alone: Vec<_> =
            once.trials[*theirs].phases.iter().filter(|p| p.kind.is_alone()).cloned().collect();
        for document in [&mut once, &mut copied] {
            document.trials[*ours].phases.retain(|p| !p.kind.is_alone());
        }
        copied.trials[*ours].phases.extend(alone);
    }
    once.judge();
    copied.judge();
    let summary = |document: &Document| {
        document.contest.as_ref().unwrap().contenders[1].summary.clone().unwrap()
    };
    assert_eq!(summary(&once), summary(&copied));
    assert_eq!(summary(&once).rounds, 5);
    assert!(summary(&once).victim_kept.is_some_and(|kept| kept.ends().is_some()));
}
