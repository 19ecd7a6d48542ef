//! `floodwall dump`: recordings for other programs.

use std::fs;

use serde_json::Value;

use crate::{floodwall, stderr, stdout};

/// Seven frames from 2026-11-27 00:00:05 to 00:00:25 UTC, and `frames.jsonl` with the same.
pub(crate) const RECORDING: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/recordings/format-1");

/// `floodwall dump` of the stored recording.
fn dump(options: &[&str]) -> std::process::Output {
    floodwall(&[&["dump", "--dir", RECORDING], options].concat())
}

#[test]
fn json_has_the_recorded_frames_a_line_each() {
    let output = dump(&["--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let values = |text: &str| -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let stored = fs::read_to_string(format!("{RECORDING}/frames.jsonl")).unwrap();
    assert_eq!(values(&stdout(&output)), values(&stored));
    // Names that a terminal would obey are in it.
    assert!(stored.contains('\u{202e}') && !stdout(&output).contains('\u{202e}'));
    assert_eq!(stderr(&output), "");
}

#[test]
fn a_time_is_from_a_moment_up_to_before_another_one() {
    let times = ["--from", "2026-11-27T00:00:10.003Z", "--to", "2026-11-27T00:00:20.003Z"];
    let output = dump(&[&times[..], &["--json"]].concat());
    let moments: Vec<u64> = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["at_unix_ms"].as_u64().unwrap())
        .collect();
    assert_eq!(moments, [1_795_737_610_003, 1_795_737_615_004]);
    let rows = stdout(&dump(&[&times[..], &["--csv", "--device", "nvme0n1"]].concat()));
    assert!(rows.lines().count() > 1, "{rows}");
    let metrics = stdout(&dump(&[&times[..], &["--openmetrics"]].concat()));
    assert!(metrics.contains("floodwall_frames_total 1 1795737610.003\n"), "{metrics}");
    assert!(metrics.ends_with("# EOF\n"), "{metrics}");
}

#[test]
fn without_a_format_the_frames_are_counted() {
    let output = dump(&[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.starts_with("7 frames, 2026-11-2"), "{text}");
    assert!(text.ends_with("; --json, --csv or --openmetrics prints them\n"), "{text}");
}

#[test]
fn nothing_to_print_is_a_sentence_and_a_failure() {
    for (options, part) in [
        (&["--from", "2001-01-01", "--to", "2001-01-02"][..], "has recordings from 20"),
        (&["--unit", "x.y"], "has a unit, container or pod with 'x.y' in it"),
        (&["--device", "nvme0n1", "--unit", "x.y"], "has the disk 'nvme0n1' and a unit, "),
    ] {
        let output = dump(&[&["--json"], options].concat());
        assert_eq!(output.status.code(), Some(1), "{options:?}");
        assert_eq!(stdout(&output), "");
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
        assert_eq!(stderr(&output).lines().count(), 1);
    }
}

#[test]
fn wrong_use_is_told() {
    for (options, part) in [
        (&["--from", "noon"][..], "--from: 'noon' is not a moment; write 03:10"),
        (&["--last", "soon"], "--last: 'soon' is not a time span"),
        (&["--json", "--csv"], "--csv"),
        (&["--to", "03:10"], "--from"),
        (&["--device", "/dev/sdz"], "--device: there is no disk '/dev/sdz' in 7 frames; disks the"),
    ] {
        let output = dump(options);
        assert_eq!(output.status.code(), Some(2), "{options:?}");
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
}

#[test]
fn damaged_frames_are_told_and_the_others_printed() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["2026-11-27.frames", "2026-11-27.index"] {
        fs::copy(format!("{RECORDING}/{name}"), dir.path().join(name)).unwrap();
    }
    let path = dir.path().join("2026-11-27.frames");
    let mut bytes = fs::read(&path).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&path, bytes).unwrap();
    let output = floodwall(&["dump", "--json", "--dir", dir.path().to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert_eq!(stdout(&output).lines().count(), 6);
    assert_eq!(
        stderr(&output),
        "floodwall: frames that can't be read: 1 (its checksum is wrong)\n"
    );
}
