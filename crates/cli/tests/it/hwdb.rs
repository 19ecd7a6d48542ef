//! `report --submit`, `hwdb merge` and the line of `status`: from results to a first guess.

use std::fs;
use std::path::Path;

use floodwall_testing::tree::{copy, host, put};
use serde_json::{Value, json};

use crate::{floodwall, stderr, stdout, tmpfs};

/// A name that must not leave the machine.
const OWNER: &str = "jane";

/// A result of a simulated run that passes for one of a disk, with names of its owner wherever a
/// result has texts.
fn measured(dir: &Path) -> Value {
    let simulated = dir.join("simulated.json");
    let output = floodwall(&[
        "sim",
        "--device",
        "hdd-7200",
        "--rounds",
        "3",
        "--measure",
        "4s",
        "--victim",
        "commit,size=64MiB",
        "--flood",
        "seq",
        "--out",
        simulated.to_str().unwrap(),
    ]);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{}", stderr(&output));
    let mut result: Value = serde_json::from_str(&fs::read_to_string(&simulated).unwrap()).unwrap();
    result["command"] = json!("bench");
    result["started_at_unix_s"] = json!(1_795_000_000.0);
    result["host"]["kernel"] = json!("6.18.5-jane");
    result["host"]["distribution"] = json!("jane's Linux");
    result["device"]["name"] = json!("jane");
    result["device"]["model"] = json!("WDC WD40EFRX-68N");
    result["device"]["firmware"] = json!("0A82");
    result["device"]["size_bytes"] = json!(4_000_787_030_016_u64);
    result["filesystem"]["path"] = json!("/home/jane");
    result["filesystem"]["mount_options"] = json!("rw,jane");
    result["warnings"] = json!(["jane's disk is full"]);
    result["scenario"]["name"] = json!("jane");
    result["scenario"]["description"] = json!("jane");
    result
}

fn write(path: &Path, value: &Value) -> String {
    fs::write(path, value.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_result_becomes_a_submission_and_two_sources_an_entry() {
    let dir = tmpfs();
    let path = |name: &str| dir.path().join(name);
    let mut result = measured(dir.path());
    let file = write(&path("result.json"), &result);
    let evidence = path("evidence");
    fs::create_dir(&evidence).unwrap();
    let mine = evidence.join("mine.json");
    let output = floodwall(&["report", &file, "--submit", mine.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let shown = stdout(&output);
    assert_eq!(fs::read_to_string(&mine).unwrap(), shown, "it was shown as it was written");
    assert!(!shown.contains(OWNER), "{shown}");
    assert!(stderr(&output).contains("nothing was sent anywhere"), "{}", stderr(&output));
    let only = floodwall(&["report", &file, "--submit", "-"]);
    assert_eq!(stdout(&only), shown);
    let submission: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(submission["kernel"], "6.18.5");
    assert_eq!(submission["date"], "2026-11-18");
    let drain = submission["drain_bytes_per_s"]["value"].as_f64().unwrap();
    assert!((5e7..2e8).contains(&drain), "a disk of 7,200 rpm: {drain}");

    let merge = |out: &str| {
        let output = floodwall(&["hwdb", "merge", evidence.to_str().unwrap(), "--out", out]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        (fs::read_to_string(out).unwrap(), stderr(&output))
    };
    let merged = path("60-floodwall.hwdb");
    let merged = merged.to_str().unwrap();
    let mut one = submission.clone();
    one["source"] = json!("1111111111111111");
    write(&mine, &one);
    let (text, said) = merge(merged);
    assert!(!text.contains("floodwall:block"), "{text}");
    assert!(said.contains("drain rate stays a candidate: one source"), "{said}");

    let mut other = submission.clone();
    other["source"] = json!("2222222222222222");
    write(&evidence.join("other.json"), &other);
    let said = merge(merged).1;
    assert!(said.contains("drain rate stays a candidate: one source"), "a copy: {said}");
    other["ram_gib"] = json!(submission["ram_gib"].as_u64().unwrap() + 1);
    write(&evidence.join("other.json"), &other);
    other["model"] = json!("*");
    write(&evidence.join("hostile.json"), &other);
    fs::write(evidence.join("huge.json"), " ".repeat(1 << 20)).unwrap();
    std::os::unix::fs::symlink("/dev/zero", evidence.join("endless.json")).unwrap();
    let (text, said) = merge(merged);
    assert!(text.contains("floodwall:block:name:WDC WD40EFRX-68N:fwrev:0A82:size:4TB\n"), "{text}");
    assert!(text.contains(&format!("\n FLOODWALL_DRAIN_BPS={}\n", drain.round())), "{text}");
    for (name, part) in [
        ("hostile.json", "model '*': the character * is not allowed"),
        ("huge.json", "more than 16 KiB"),
        ("endless.json", "it is a device"),
    ] {
        let told = said.lines().find(|line| line.contains(name)).unwrap_or(&said);
        assert!(told.contains("is refused") && told.contains(part), "{told}");
    }

    let mut model = submission.clone();
    model["modelled_by"] = json!("hdd-7200");
    model["firmware"] = Value::Null;
    model["model"] = json!("ST31000528AS");
    model["size_class"] = json!("1TB");
    write(&evidence.join("model.json"), &model);
    let (unmodelled, said) = merge(merged);
    assert_eq!(unmodelled, text);
    assert!(said.contains("a model's result, which needs --models"), "{said}");
    let output = floodwall(&["hwdb", "merge", "--models", evidence.to_str().unwrap()]);
    assert!(stdout(&output).contains("name:ST31000528AS:fwrev:*"), "{}", stdout(&output));
    fs::remove_file(evidence.join("model.json")).unwrap();

    let refused = path("refused");
    fs::create_dir(&refused).unwrap();
    fs::copy(evidence.join("hostile.json"), refused.join("hostile.json")).unwrap();
    let output = floodwall(&["hwdb", "merge", refused.to_str().unwrap(), "--out", merged]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("every submission is refused"), "{}", stderr(&output));
    assert_eq!(fs::read_to_string(merged).unwrap(), text, "the old file stays");

    // What the merge says, status says of such a disk.
    let root = path("machine");
    copy(&host("debian-12"), &root, &|_| false).unwrap();
    let disk = "sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/target0:0:0/0:0:0:0/block/sda";
    put(&root.join(disk).join("device/rev"), "0A82\n");
    let status = || {
        let output = floodwall(&["status", "--seconds", "0.1", "--root", root.to_str().unwrap()]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        stdout(&output)
    };
    assert!(!status().contains("sda: others with this disk"));
    put(&root.join("etc/udev/hwdb.d/60-floodwall.hwdb"), &text);
    let line = "sda: others with this disk (WDC WD40EFRX-68N) found: drains ";
    assert!(status().contains(line), "{}", status());

    for (pointer, value, part) in [
        ("/device/model", Value::Null, "has no model"),
        ("/device/firmware", Value::Null, "measure again"),
        ("/device/leaves", json!([{"name": "sda"}, {"name": "sdb"}]), "several disks"),
        ("/status", json!({"state": "partial", "why": "interrupted"}), "did not come to its end"),
    ] {
        let old = std::mem::replace(result.pointer_mut(pointer).unwrap(), value);
        let file = write(&path("result.json"), &result);
        let output = floodwall(&["report", &file, "--submit", "-"]);
        assert_eq!(output.status.code(), Some(2), "{pointer}");
        assert!(stderr(&output).contains(part), "{pointer}: {}", stderr(&output));
        *result.pointer_mut(pointer).unwrap() = old;
    }
    write(&path("result.json"), &result);
    let output = floodwall(&["report", &file, "--submit", &file]);
    assert!(stderr(&output).contains("would be overwritten"), "{}", stderr(&output));
    let notes = path("notes.txt");
    fs::write(&notes, "mine").unwrap();
    let output = floodwall(&["report", &file, "--submit", notes.to_str().unwrap()]);
    assert!(stderr(&output).contains("is no submission"), "{}", stderr(&output));
}

#[test]
fn a_directory_without_submissions_is_told_how_to_get_one() {
    let dir = tmpfs();
    let output = floodwall(&["hwdb", "merge", dir.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--submit"), "{}", stderr(&output));
}
