//! Findings as people and scripts meet them: in `floodwall status` and `floodwall explain`.

use floodwall_testing::tree::{copy_host, host};
use serde_json::Value;

use crate::{floodwall, stderr, stdout};

fn status(tree: &str, arguments: &[&str]) -> String {
    let root = host(tree);
    let all =
        [&["status", "--seconds", "0.05", "--root", root.to_str().unwrap()], arguments].concat();
    let output = floodwall(&all);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout(&output)
}

#[test]
fn status_lists_findings_for_people_and_for_programs() {
    let text = status("rhel-9", &[]);
    assert!(text.contains("  FW026 critical  flushes don't reach a volatile cache\n"), "{text}");
    assert!(text.contains("try:  floodwall apply sdb.write_cache=write-back\n"), "{text}");
    let json: Value = serde_json::from_str(&status("rhel-9", &["--json"])).unwrap();
    let findings = json["findings"].as_array().unwrap();
    let lost = findings.iter().find(|finding| finding["id"] == "FW026").unwrap();
    assert_eq!((&lost["severity"], &lost["subjects"][0]), (&"critical".into(), &"sdb".into()));
    for finding in findings {
        for field in ["id", "title", "severity", "remedy"] {
            assert!(finding[field].as_str().is_some_and(|text| !text.is_empty()), "{finding}");
        }
        assert!(!finding["evidence"].as_array().unwrap().is_empty(), "{finding}");
        let page = floodwall(&["explain", finding["id"].as_str().unwrap()]);
        assert!(stdout(&page).contains("\nWhat to do\n"), "{finding}");
    }
}

#[test]
fn a_captured_tree_without_a_later_moment_has_no_device_that_is_stuck() {
    let json: Value = serde_json::from_str(&status("server-md-crypt-lvm", &["--json"])).unwrap();
    let findings = json["findings"].as_array().unwrap();
    let waits = findings.iter().find(|finding| finding["id"] == "FW012").unwrap();
    assert_eq!(waits["severity"], "warning", "{waits}");
    let evidence = waits["evidence"].to_string();
    assert!(
        evidence.contains("(the kernel's estimate)") && !evidence.contains("nothing was written"),
        "{evidence}"
    );
    // What takes time is unknown, not zero.
    for device in json["devices"].as_array().unwrap() {
        assert!(device["written_bytes_per_s"]["absent"].is_string(), "{device}");
    }
    let text = status("server-md-crypt-lvm", &[]);
    assert!(text.contains("the captured tree holds one moment"), "{text}");
}

#[test]
fn a_change_that_stands_is_known_to_status() {
    let dir = tempfile::tempdir().unwrap();
    let tree = dir.path().canonicalize().unwrap().join("tree");
    copy_host("debian-12", &tree).unwrap();
    let root = tree.to_str().unwrap();
    let applied = floodwall(&["apply", "sda.nr_requests=32", "--yes", "--root", root]);
    assert_eq!(applied.status.code(), Some(0), "{}", stderr(&applied));
    let findings = || {
        let output = floodwall(&["status", "--seconds", "0.05", "--json", "--root", root]);
        serde_json::from_str::<Value>(&stdout(&output)).unwrap()["findings"].clone()
    };
    let evidence = |id: &str| -> String {
        let all = findings();
        let found = all.as_array().unwrap().iter().find(|finding| finding["id"] == id).cloned();
        found.map_or_else(String::new, |finding| finding["evidence"].to_string())
    };
    assert!(
        evidence("FW039").contains("sda.nr_requests=32 is in force, set by floodwall"),
        "{}",
        findings()
    );
    assert_eq!(evidence("FW043"), "");
    let queue = tree.join("sys/class/block/sda/queue/nr_requests");
    std::fs::write(&queue, "48\n").unwrap();
    assert!(
        evidence("FW043").contains("sda.nr_requests: change 1 had set 32, it is 48 now"),
        "{}",
        findings()
    );
    // A damaged journal is reported, not believed.
    let journal = tree.join("var/lib/floodwall/journal/000001.jsonl");
    let damaged = std::fs::read_to_string(&journal).unwrap().replace("nr_requests", "nr_requestz");
    std::fs::write(&journal, damaged).unwrap();
    assert!(evidence("FW042").contains("checksum"), "{}", findings());
}

#[test]
fn explain_prints_pages_and_answers_mistyped_identifiers() {
    let page = floodwall(&["explain", "fw001"]);
    assert!(
        stdout(&page).starts_with("FW001: the hard limit takes long to drain\n"),
        "{}",
        stdout(&page)
    );
    let all = stdout(&floodwall(&["explain"]));
    assert!(all.contains("FW001  critical  the hard limit takes long to drain\n"), "{all}");
    assert!(
        all.contains("FW043 ") && all.contains("vm.dirty_bytes ") && all.contains("preset:"),
        "{all}"
    );
    let wrong = floodwall(&["explain", "FW900"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(
        stderr(&wrong).contains("there is no finding 'FW900', they are FW001 to "),
        "{}",
        stderr(&wrong)
    );
    // The last one of the list is the last one that there is, and the nearest.
    let last = all.lines().rfind(|line| line.starts_with("FW")).unwrap().split(' ').next().unwrap();
    assert!(
        stderr(&wrong).contains(&format!("FW001 to {last}; did you mean {last} or ")),
        "{}",
        stderr(&wrong)
    );
    assert!(stderr(&floodwall(&["explain", "18"])).contains("did you mean FW018?"));
    let wrong = floodwall(&["explain", "FWxx"]);
    assert!(stderr(&wrong).ends_with(&format!("FW001 to {last}; floodwall explain lists all\n")));
}
