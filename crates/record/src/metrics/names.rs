//! Dashboard, rules, their tests and the document name the metrics that there are.

use std::collections::BTreeSet;
use std::path::Path;

use floodwall_model::frame::Machine;

use super::tests::{frame, stall};
use super::{Limits, Totals};

/// Every metric's name, with its suffix.
fn there() -> BTreeSet<String> {
    let mut frame = frame();
    let bytes = Some(1);
    let machine = frame.machine;
    frame.machine = Machine { writeback_bytes: bytes, background_limit_bytes: bytes, ..machine };
    let mut totals = Totals::new(Limits::default());
    totals.frame(&frame);
    totals.stall_ended(&stall());
    let text = totals.exposition();
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples.filter_map(|line| line.split(['{', ' ']).next()).map(str::to_owned).collect()
}

/// The names of metrics in a file.
fn used(file: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
    let text = std::fs::read_to_string(path).unwrap();
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !is_name(c));
    words.filter(|word| word.starts_with("floodwall_")).map(str::to_owned).collect()
}

#[test]
fn dashboard_and_rules_name_only_metrics_that_there_are() {
    let there = there();
    for file in [
        "packaging/grafana/floodwall.json",
        "packaging/prometheus/floodwall.rules.yml",
        "packaging/prometheus/floodwall.rules.test.yml",
    ] {
        let used = used(file);
        assert!(used.len() > 5, "{file} uses {used:?}");
        let missing: Vec<_> = used.difference(&there).collect();
        assert!(missing.is_empty(), "{file} uses {missing:?}");
    }
}

#[test]
fn the_documented_metrics_are_those_that_there_are() {
    assert_eq!(used("docs/metrics.md"), there());
}
