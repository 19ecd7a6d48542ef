//! The findings of each captured machine: the snapshots show that they stay the same.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;

use floodwall_host::findings::{CHECKS, Facts, JournalFacts, look};
use floodwall_host::status::{Observation, status};
use floodwall_host::{SysRoot, managers};
use floodwall_model::Finding;
use floodwall_testing::tree::host;

use crate::large;
use crate::support::{Machine, scratch};

/// Every stored tree.
const STORED: [&str; 7] = [
    "container-overlay",
    "debian-12",
    "rhel-8",
    "rhel-9",
    "server-md-crypt-lvm",
    "ubuntu-24.04",
    "vm-virtio-ext4",
];
const DISKS: u32 = 64;
const PROCESSES: u32 = 2000;

/// Two observations of a tree, and the findings then.
fn found(tree: &Path, later: impl FnOnce()) -> Vec<Finding> {
    let root = SysRoot::new(tree).unwrap();
    let before = Observation::read(&root);
    later();
    let status = status(&root, &before, &Observation::read(&root), 1.0, true);
    look(Facts {
        status: &status,
        journal: &JournalFacts::default(),
        managers: &managers::read(&root),
        disk_users: &[],
    })
}

fn stored(name: &'static str) -> Vec<Finding> {
    let machine = Machine::copy_of(name);
    found(machine.path(), || machine.later())
}

/// Everything that a finding says; of many subjects the first three.
fn told(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let _ = writeln!(text, "{} {}: {}", finding.id, finding.severity, finding.title);
        for evidence in finding.evidence.iter().take(3) {
            let _ = writeln!(text, "  {evidence}");
        }
        if finding.evidence.len() > 3 {
            let _ = writeln!(text, "  and {} more", finding.evidence.len() - 3);
        }
        let cost_s = finding.cost_s.map(|s| format!("{s:.1} s"));
        let cost_bytes = finding.cost_bytes.map(|bytes| format!("{bytes} B"));
        let costs: Vec<String> = cost_s.into_iter().chain(cost_bytes).collect();
        if !costs.is_empty() {
            let _ = writeln!(text, "  costs {}", costs.join(", "));
        }
        let remedy: String = finding.remedy.chars().take(200).collect();
        let _ = writeln!(text, "  > {remedy}");
    }
    text
}

#[test]
fn a_mounted_zfs_is_found_and_a_read_only_one_is_not() {
    let found_with = |options: &str| {
        let machine = Machine::copy_of("debian-12");
        let mounts = machine.path().join("proc/self/mountinfo");
        let others = std::fs::read_to_string(&mounts).unwrap();
        let line = format!("900 1 0:99 / /tank {options} - zfs tank {options},xattr,noacl\n");
        machine.put("proc/self/mountinfo", &format!("{others}{line}"));
        found(machine.path(), || {})
    };
    let one = found_with("rw").into_iter().find(|finding| finding.id == "FW048").unwrap();
    assert_eq!(one.subjects, ["/tank"]);
    assert!(!found_with("ro").iter().any(|finding| finding.id == "FW048"));
}

#[test]
fn findings_of_every_stored_machine() {
    let mut seen = BTreeSet::new();
    for name in STORED {
        let findings = stored(name);
        insta::assert_snapshot!(name, told(&findings));
        seen.extend(findings.into_iter().map(|finding| finding.id));
    }
    assert!(seen.len() >= 25, "{} of {}: {seen:?}", seen.len(), CHECKS.len());
}

#[test]
fn a_tree_that_stands_still_tells_nothing_of_what_is_written() {
    for name in STORED {
        let machine = Machine::copy_of(name);
        for finding in found(machine.path(), || ()) {
            let told = finding.evidence.join("; ");
            assert!(
                !told.contains("nothing was written") && !told.contains("seen during"),
                "{name}: {told}"
            );
        }
    }
}

#[test]
fn findings_of_a_server_with_64_disks_and_2000_processes() {
    let dir = scratch();
    large::make(dir.path(), DISKS, PROCESSES).unwrap();
    let findings = found(dir.path(), || large::later(dir.path(), DISKS, PROCESSES).unwrap());
    insta::assert_snapshot!("server-64-disks", told(&findings));
    assert!(findings.iter().any(|finding| finding.subjects.len() == DISKS as usize));
}

#[test]
fn every_tree_says_where_it_comes_from() {
    for name in STORED {
        let origin = std::fs::read_to_string(host(name).join("origin")).unwrap();
        let first = origin.lines().next().unwrap();
        assert!(matches!(first, "captured" | "by hand"), "{name}: {first}");
    }
}
