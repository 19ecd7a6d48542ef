//! This machine, beside what other tools say of it. A tool that is not installed skips its part, and says so.

use std::path::Path;
use std::process::Command;

use floodwall_host::locate::free_space;
use floodwall_host::status::{Observation, status};
use floodwall_host::{SysRoot, block, locate, memory};
use floodwall_model::Reading;

/// A tool's output without the last line end; `None`, and the reason on the test's output, if there is none.
#[expect(clippy::disallowed_macros, reason = "a test says what it skips")]
fn run(tool: &str, args: &[&str]) -> Option<String> {
    match Command::new(tool).args(args).output() {
        Ok(output) if output.status.success() => {
            Some(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
        }
        Ok(output) => {
            println!("skipped: {tool} {}: {}", args.join(" "), output.status);
            None
        }
        Err(e) => {
            println!("skipped: {tool}: {e}");
            None
        }
    }
}

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn findmnt_agrees_on_the_mount() {
    let location = locate(&SysRoot::live().unwrap(), here()).unwrap();
    let target = here().to_string_lossy();
    let Some(text) = run("findmnt", &["-n", "-r", "-o", "TARGET,FSTYPE,MAJ:MIN", "-T", &target]) else {
        return;
    };
    let mount = &location.mount;
    assert_eq!(text, format!("{} {} {}", mount.mountpoint.display(), mount.fs_type, mount.device));
}

#[test]
fn df_agrees_on_the_space() {
    let target = here().to_string_lossy();
    let before = free_space(here()).unwrap();
    let Some(text) = run("df", &["-B1", "--output=size,avail", &target]) else { return };
    let after = free_space(here()).unwrap();
    let numbers: Vec<u64> =
        text.lines().last().unwrap().split_whitespace().map(|n| n.parse().unwrap()).collect();
    assert_eq!(numbers[0], before.total.0);
    // Others write meanwhile.
    let slack = 1 << 30;
    let (low, high) = (before.available.0.min(after.available.0), before.available.0.max(after.available.0));
    assert!(numbers[1] + slack >= low && numbers[1] <= high + slack, "{} not in {low}..{high}", numbers[1]);
}

#[test]
fn stat_agrees_on_the_blocks() {
    let target = here().to_string_lossy();
    let Some(text) = run("stat", &["-f", "-c", "%S %b", &target]) else { return };
    let numbers: Vec<u64> = text.split(' ').map(|n| n.parse().unwrap()).collect();
    assert_eq!(numbers[0] * numbers[1], free_space(here()).unwrap().total.0);
}

#[test]
fn lsblk_agrees_on_every_disk() {
    let Some(text) = run("lsblk", &["-n", "-r", "-b", "-d", "-o", "MAJ:MIN,KNAME,SIZE"]) else { return };
    let root = SysRoot::live().unwrap();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let [number, name, size] = words[..] else { continue };
        let id = number.parse().unwrap();
        let Reading::Value(device) = block::read_device(&root, id) else { continue };
        assert_eq!(device.name, name);
        assert_eq!(device.size_bytes, Reading::Value(size.parse().unwrap()), "{name}");
        assert_eq!(block::by_path(&root, &format!("/dev/{name}")), Reading::Value(id));
    }
}

#[test]
fn uname_and_nproc_agree() {
    let root = SysRoot::live().unwrap();
    if let Some(text) = run("uname", &["-r"]) {
        assert_eq!(memory::read_kernel(&root), Reading::Value(text));
    }
    if let Some(text) = run("getconf", &["_NPROCESSORS_ONLN"]) {
        assert_eq!(memory::read_cpus(&root), Reading::Value(text.parse().unwrap()));
    }
}

#[test]
fn a_status_of_this_machine_can_be_made() {
    let root = SysRoot::live().unwrap();
    let before = Observation::read(&root);
    let after = Observation::read(&root);
    let status = status(&root, &before, &after, 1.0, false);
    assert!(status.machine.ram_bytes.value().is_some_and(|ram| *ram > 0));
    assert!(status.writers.readable_processes > 0 || status.writers.missing.is_some());
}
