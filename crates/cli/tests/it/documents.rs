//! The documents' commands are run here as far as they are short. Commands about settings run on a
//! copy of a captured machine. Each page and each `apply` gets a new copy, because the `apply`
//! commands of a page are for different machines. The output of a session is compared with the
//! document, numbers left out.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use floodwall_testing::process::{output, text};
use floodwall_testing::tree::{copy, copy_host, put};

use crate::commands_of_documents::{Command as Line, commands};

/// The test's way with a command.
#[derive(Debug)]
enum Done {
    /// It is run, and ends with status 0.
    Run,
    /// The same on a captured machine, with these options more.
    Captured(&'static [&'static str]),
    /// It is only parsed (`src/documents_tests.rs`), for this reason.
    Parsed(&'static str),
}
use Done::{Captured, Parsed, Run};

/// Limits of a unit, which no captured machine has.
const PACED: [&str; 2] =
    ["unit:flood:sda.io.max=wbps=60MB", "unit:backup.service:sda.io.max=wbps=60.5MB"];
const NO_UNIT: &str = "needs a unit of systemd's; tests/it/knobs.rs, tests/kernel/knobs.rs";

/// Commands by their first words and a word that they have: the first row that fits counts.
const TABLE: &[(&str, &str, Done)] = &[
    ("bench", "--list-scenarios", Run),
    ("bench", "", Parsed("loads a disk for minutes; tests/it/bench.rs")),
    ("check", "", Parsed("loads a disk for a minute; tests/it/check.rs")),
    ("compare --kernel", "", Parsed("boots kernels; tests/guest")),
    ("compare", "", Parsed("loads a disk for minutes, as root; tests/kernel/tune.rs")),
    ("compat", "", Parsed("loads a disk, or waits for seconds; tests/compat")),
    ("diff", "", Captured(&[])),
    ("apply", PACED[0], Parsed(NO_UNIT)),
    ("apply", PACED[1], Parsed(NO_UNIT)),
    ("apply", "", Captured(&["--yes"])),
    ("dump", "", Parsed("needs a recording; tests/it/dump.rs")),
    ("explain", "", Run),
    ("fix", "", Parsed("needs a stall, and changes the machine; tests/why")),
    ("guard", "", Parsed("stays on, or needs a guard; tests/it/guard.rs, tests/guard")),
    ("hwdb", "", Parsed("needs results of disks; tests/it/hwdb.rs")),
    ("lab list", "", Run),
    (
        "lab run",
        "",
        Parsed("makes a device, as root, or boots a kernel; tests/kernel, tests/guest"),
    ),
    ("lab seeks", "", Parsed("needs a recording; tests/it/seeks.rs")),
    ("lab", "", Parsed("makes a device, as root; tests/kernel/lab.rs")),
    ("log", "", Captured(&[])),
    ("pace", "", Parsed("copies files; tests/it/pace.rs, tests/kernel/pace.rs")),
    ("persist", "", Captured(&["--yes"])),
    ("probe", "", Parsed("looks for ten seconds, or until Ctrl-C; tests/kernel/probe.rs")),
    ("record", "", Parsed("stays on; tests/watch/recorder.rs")),
    ("report", "--submit", Parsed("needs the result of a disk; tests/it/hwdb.rs")),
    ("report", "--seeks", Parsed("needs a recording of a lab disk; tests/it/seeks.rs")),
    ("report", "--from", Parsed("needs a recording; tests/it/stalls.rs")),
    ("report", "--last", Parsed("needs a recording; tests/it/stalls.rs")),
    ("report", "--png", Parsed("draws for half a minute in a debug build; tests/browser")),
    ("report -", "", Parsed("reads a result from a pipe; tests/it/report.rs")),
    ("report", "", Run),
    ("rollback --to", "", Parsed("names a change that `apply` has told; tests/it/knobs.rs")),
    ("rollback", "", Captured(&[])),
    ("sim --device hdd-7200", "--quick", Run),
    ("sim sweep", "", Parsed("needs its file; tests/it/sweep.rs")),
    ("sim", "", Parsed("takes half a minute in a debug build; tests/it/sim.rs")),
    ("size --link", "", Run),
    ("size --rate", "", Run),
    ("size", "", Parsed("loads a disk; tests/kernel/size.rs")),
    ("stalls", "", Parsed("needs a recording; tests/it/stalls.rs")),
    ("status --watch", "", Parsed("goes on until Ctrl-C; tests/it/status.rs")),
    ("status", "", Run),
    ("tune", "", Parsed("loads a disk for minutes, as root; tests/it/tune.rs")),
    ("unpersist", "", Captured(&["--yes"])),
    ("watch", "", Parsed("needs a terminal; tests/watch")),
    ("why", "", Parsed("names disks and processes of no machine; tests/it/why.rs, tests/why")),
    ("", "", Parsed("ends with 1 while something stalls; tests/it/why.rs, tests/why")),
];

/// The row of a command.
fn row(line: &Line) -> usize {
    let words = &line.words[1..];
    let fits = |(first, word, _): &(&str, &str, Done)| {
        let first: Vec<&str> = first.split_whitespace().collect();
        let begins = words.len() >= first.len() && words.iter().zip(&first).all(|(a, b)| a == b);
        let is_bare = first.is_empty() && !words.is_empty();
        begins && !is_bare && (word.is_empty() || words.iter().any(|other| other == word))
    };
    let found = TABLE.iter().position(fits);
    found.ok_or_else(|| format!("{}: no row for {:?}", line.page, line.words)).unwrap()
}

/// Whether a command applies `vm.dirty_bytes`, by itself or from the file of limits.
fn sets_dirty_bytes(line: &Line) -> bool {
    let sets = |word: &String| word == "limits.toml" || word.starts_with("vm.dirty_bytes=");
    line.words[1] == "apply" && line.words.iter().any(sets)
}

/// Words alone, digits as `#`: the terminal's width and a figure make no difference.
fn masked(text: &str) -> String {
    let mut masked = String::new();
    let mut was_number = false;
    for c in text.split_whitespace().collect::<Vec<_>>().join(" ").chars() {
        let is_number = c.is_ascii_digit() || was_number && matches!(c, '.' | ',');
        if !is_number {
            masked.push(c);
        } else if !was_number {
            masked.push('#');
        }
        was_number = is_number;
    }
    masked
}

/// The directory of the captured machine, by the name that the documents use.
const TREE: &str = "DIR";

/// The files that the documents name: stored results, limits, and a captured machine with the disks
/// sda, sdb and vda and an NFS mount's backing device.
fn place(limits: &str) -> Place {
    let place = tempfile::tempdir().unwrap();
    let tree = place.path().canonicalize().unwrap().join(TREE);
    copy_host("vm-virtio-ext4", &tree).unwrap();
    put(&tree.join("usr/lib/udev/rules.d/60-block.rules"), "");
    put(&tree.join("sys/class/block/vda/serial"), "vda\n");
    for (name, number) in [("sda", "8:0"), ("sdb", "8:16")] {
        add_disk(&tree, name, number);
    }
    add_backing_device(&tree, "0:51");
    fs::write(place.path().join("limits.toml"), limits).unwrap();
    let data = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/data"));
    for (stored, name) in [
        ("tune.json", "tune.json"),
        ("sim-quick.json", "before.json"),
        ("sim-quick.json", "after.json"),
    ] {
        fs::copy(data.join(stored), place.path().join(name)).unwrap();
    }
    Place(place)
}

/// A directory with [`TREE`] in it.
struct Place(tempfile::TempDir);

impl Place {
    fn dirty_bytes(&self) -> String {
        fs::read_to_string(self.0.path().join(TREE).join("proc/sys/vm/dirty_bytes")).unwrap()
    }
}

impl Drop for Place {
    /// Ends the timers of changes `--for` a time, after a failure too.
    fn drop(&mut self) {
        let _ = output(floodwall().args(["rollback", "--root", TREE]).current_dir(self.0.path()));
    }
}

/// Adds a disk like vda to a tree.
fn add_disk(tree: &Path, name: &str, number: &str) {
    let sys = tree.join("sys");
    let disk = sys.join("devices").join(name);
    copy(&sys.join("class/block/vda"), &disk, &|_| false).unwrap();
    for (file, text) in [
        ("dev", format!("{number}\n")),
        ("uevent", format!("DEVNAME={name}\nDEVTYPE=disk\n")),
        ("serial", format!("{name}\n")),
    ] {
        fs::write(disk.join(file), text).unwrap();
    }
    for link in [format!("class/block/{name}"), format!("dev/block/{number}")] {
        symlink(format!("../../devices/{name}"), sys.join(link)).unwrap();
    }
    add_backing_device(tree, number);
}

fn add_backing_device(tree: &Path, number: &str) {
    let of = |number: &str| tree.join("sys/devices/virtual/bdi").join(number);
    copy(&of("254:0"), &of(number), &|_| false).unwrap();
    let link = tree.join("sys/class/bdi").join(number);
    symlink(format!("../../devices/virtual/bdi/{number}"), link).unwrap();
}

fn floodwall() -> Command {
    Command::new(env!("CARGO_BIN_EXE_floodwall"))
}

#[test]
fn short_commands_of_the_documents_run_and_print_what_the_documents_show() {
    let lines = commands();
    let mut fitted = vec![false; TABLE.len()];
    let (mut ran, mut sessions) = (Vec::new(), 0);
    let limits = output(floodwall().args(["size", "--rate", "sda=120MB/s", "--toml"])).unwrap();
    let new = || place(&text(&limits.stdout));
    let mut at: (&str, Place) = ("", new());
    let untouched = at.1.dirty_bytes();
    let mut changed = 0;
    for line in lines.iter().filter(|line| !line.is_part) {
        let row = row(line);
        fitted[row] = true;
        if line.page != at.0 || line.words.get(1).is_some_and(|word| word == "apply") {
            at = (&line.page, new());
        }
        let more: &[&str] = match TABLE[row].2 {
            Parsed(_) => continue,
            Run if line.output.is_empty() && ran.contains(&&line.words) => continue,
            Run => &[],
            Captured(more) => more,
        };
        ran.push(&line.words);
        let mut command = floodwall();
        command.args(&line.words[1..]).args(more).current_dir(at.1.0.path());
        if matches!(TABLE[row].2, Captured(_)) {
            command.args(["--root", TREE]);
        }
        let got = output(&mut command).unwrap();
        let (printed, said) = (text(&got.stdout), text(&got.stderr));
        assert!(got.status.success(), "{}: {:?}: {said}", line.page, line.words);
        if matches!(line.words[1].as_str(), "apply" | "rollback") {
            let is_changed = at.1.dirty_bytes() != untouched;
            assert_eq!(is_changed, sets_dirty_bytes(line), "{}: {:?}", line.page, line.words);
            changed += usize::from(is_changed);
        }
        let printed = masked(&printed);
        for part in line.output.split('…').map(masked).filter(|part| !part.is_empty()) {
            assert!(printed.contains(&part), "{}: '{part}' is not in '{printed}'", line.page);
        }
        sessions += usize::from(!line.output.is_empty());
    }
    assert!(changed >= 2, "no command changed vm.dirty_bytes");
    assert!(ran.len() >= 50 && sessions >= 2, "{sessions} sessions: {ran:#?}");
    for (row, fitted) in TABLE.iter().zip(fitted) {
        assert!(fitted, "no document has a command for the row {row:?}");
        if let Parsed(reason) = row.2 {
            assert!(!reason.is_empty());
        }
    }
}
