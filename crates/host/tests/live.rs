//! This machine, beside what other tools say of it. A test whose tool does not work here is ignored
//! with the reason.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

use std::path::Path;

use floodwall_host::locate::free_space;
use floodwall_host::status::{Observation, status};
use floodwall_host::{SysRoot, block, locate, memory};
use floodwall_model::Reading;
use floodwall_testing::test;

const FINDMNT: &[&str] = &["findmnt", "-n", "-r", "-o", "TARGET,FSTYPE,MAJ:MIN", "-T", HERE];
const DF: &[&str] = &["df", "-B1", "--output=size,avail", HERE];
const STAT: &[&str] = &["stat", "-f", "-c", "%S %b", HERE];
const LSBLK: &[&str] = &["lsblk", "-n", "-r", "-b", "-d", "-o", "MAJ:MIN,KNAME,SIZE"];
const UNAME: &[&str] = &["uname", "-r"];
const GETCONF: &[&str] = &["getconf", "_NPROCESSORS_ONLN"];

const HERE: &str = env!("CARGO_MANIFEST_DIR");

fn main() {
    let beside = |name, tool: &'static [&'static str], body: fn(&str)| {
        test(name, || run(tool).err(), move || body(&run(tool).unwrap()))
    };
    floodwall_testing::run(vec![
        beside("findmnt agrees on the mount", FINDMNT, mount),
        beside("df agrees on the space", DF, space),
        beside("stat agrees on the blocks", STAT, blocks),
        beside("lsblk agrees on every disk", LSBLK, disks),
        beside("uname agrees on the kernel", UNAME, kernel),
        beside("getconf agrees on the processors", GETCONF, processors),
        test("a status of this machine can be made", || None, whole_status),
    ])
}

/// What a tool prints, or why it does not work here.
fn run(words: &[&str]) -> Result<String, String> {
    floodwall_testing::process::run(words[0], &words[1..])
}

fn here() -> &'static Path {
    Path::new(HERE)
}

fn mount(text: &str) {
    let location = locate(&SysRoot::live().unwrap(), here()).unwrap();
    let mount = &location.mount;
    assert_eq!(text, format!("{} {} {}", mount.mountpoint.display(), mount.fs_type, mount.device));
}

fn space(text: &str) {
    let free = free_space(here()).unwrap();
    let numbers: Vec<u64> =
        text.lines().last().unwrap().split_whitespace().map(|n| n.parse().unwrap()).collect();
    assert_eq!(numbers[0], free.total.0);
    // Others write meanwhile.
    let slack = 1 << 30;
    assert!(numbers[1].abs_diff(free.available.0) <= slack, "{} {}", numbers[1], free.available.0);
}

fn blocks(text: &str) {
    let numbers: Vec<u64> = text.split(' ').map(|n| n.parse().unwrap()).collect();
    assert_eq!(numbers[0] * numbers[1], free_space(here()).unwrap().total.0);
}

fn disks(text: &str) {
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

fn kernel(text: &str) {
    assert_eq!(memory::read_kernel(&SysRoot::live().unwrap()), Reading::Value(text.to_owned()));
}

fn processors(text: &str) {
    assert_eq!(memory::read_cpus(&SysRoot::live().unwrap()), Reading::Value(text.parse().unwrap()));
}

fn whole_status() {
    let root = SysRoot::live().unwrap();
    let before = Observation::read(&root);
    let after = Observation::read(&root);
    let status = status(&root, &before, &after, 1.0, false);
    assert!(status.machine.ram_bytes.value().is_some_and(|ram| *ram > 0));
    assert!(status.writers.readable_processes > 0 || status.writers.missing.is_some());
}
