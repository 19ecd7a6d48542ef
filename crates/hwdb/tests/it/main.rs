//! The shipped file, and systemd's own program that reads files as Floodwall does.
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "a test's own files"
)]

use std::path::Path;
use std::process::Command;

use floodwall_hwdb::{Evidence, Submission, digest, merge};
use floodwall_testing::{lacks, run, tests};
use jiff::civil::date;

const PROGRAM: &str = "systemd-hwdb";

/// What systemd-hwdb finds for a key in a root directory.
fn query(root: &Path, key: &str) -> String {
    let root = format!("--root={}", root.display());
    let output = Command::new(PROGRAM).args([&root, "query", key]).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn compile(text: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let place = dir.path().join("etc/udev/hwdb.d");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("60-floodwall.hwdb"), text).unwrap();
    let root = format!("--root={}", dir.path().display());
    let output = Command::new(PROGRAM).args([&root, "--strict", "update"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && said.is_empty(), "{said}");
    dir
}

fn a_key_gives_its_properties_and_no_other_key_does() {
    let text = |source: char, model: &str| {
        let name = source.to_string().repeat(16);
        format!(
            r#"{{"schema": "floodwall/device-result/1", "source": "{name}", "model": "{model}",
                "firmware": "RVT0 2B", "size_class": "512GB", "kernel": "6.18.5",
                "ram_gib": {source}, "filesystem": "ext4", "date": "2026-11-27",
                "drain_bytes_per_s": {{"value": 3e8, "low": 2.9e8, "high": 3.1e8, "rounds": 5}},
                "best": {{"victim": "read", "setting": "nr_requests=8,scheduler=bfq",
                  "victim_kept": {{"value": 0.8, "low": 0.7, "high": 0.9, "rounds": 5}},
                  "flood_kept": {{"value": 0.8, "low": 0.7, "high": 0.9, "rounds": 5}}}}}}"#
        )
    };
    let models = ["Samsung SSD 860 EVO 500GB", "A-B_C./+(1)"];
    let all: Vec<Evidence> = models
        .iter()
        .flat_map(|model| ['1', '2'].map(|source| text(source, model)))
        .map(|text| Evidence {
            hash: digest(text.as_bytes()),
            submission: Submission::read(text.as_bytes(), date(2026, 11, 28)).unwrap(),
        })
        .collect();
    let merged = merge(&all).database;
    let dir = compile(&merged.to_text());
    for model in models {
        let key = format!("floodwall:block:name:{model}:fwrev:RVT0 2B:size:512GB");
        let found = query(dir.path(), &key);
        let mut lines: Vec<&str> = found.lines().collect();
        lines.sort_unstable();
        assert_eq!(lines.len(), 3, "{found}");
        assert_eq!(lines[0], "FLOODWALL_DRAIN_BPS=300000000");
        assert!(lines[1].starts_with("FLOODWALL_EVIDENCE=") && lines[1].contains(",n=2,"));
        assert_eq!(lines[2], "FLOODWALL_SETTING_READ=nr_requests=8,scheduler=bfq");
        for other in [key.replace("512GB", "1TB"), key.replace("RVT0", "RVT1"), key + "x"] {
            assert_eq!(query(dir.path(), &other), "", "{other}");
        }
    }
}

fn the_shipped_file_is_compiled_without_a_complaint() {
    let dir = compile(floodwall_hwdb::SHIPPED);
    for entry in floodwall_hwdb::Database::read(floodwall_hwdb::SHIPPED).0.entries() {
        let firmware = entry.firmware.as_deref().unwrap_or("any revision");
        let key =
            format!("floodwall:block:name:{}:fwrev:{firmware}:size:{}", entry.model, entry.size);
        let found = query(dir.path(), &key);
        let rate = entry.drain_bytes_per_s.map(|rate| format!("FLOODWALL_DRAIN_BPS={rate}"));
        assert!(rate.is_none_or(|rate| found.contains(&rate)), "{key}: {found}");
        assert!(found.contains("FLOODWALL_EVIDENCE="), "{key}: {found}");
    }
}

fn the_shipped_file_is_the_merge_of_its_evidence() {
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("evidence");
    let mut all = Vec::new();
    for file in std::fs::read_dir(place).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        let submission = Submission::read(&bytes, date(2100, 1, 1)).unwrap();
        assert!(submission.modelled_by.is_some(), "it must be told where a measured one is from");
        all.push(Evidence { hash: digest(&bytes), submission });
    }
    assert_eq!(merge(&all).database.to_text(), floodwall_hwdb::SHIPPED);
}

fn main() {
    let mut all = tests![the_shipped_file_is_the_merge_of_its_evidence];
    all.extend(tests![
        || lacks(&[PROGRAM]) =>
        a_key_gives_its_properties_and_no_other_key_does,
        the_shipped_file_is_compiled_without_a_complaint,
    ]);
    run(all);
}
