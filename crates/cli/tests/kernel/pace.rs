//! `floodwall pace` beside a process that commits, on virtual disks behind this machine's kernel.

use std::io::Write;
use std::process::{Command, Output};

use floodwall_testing::disk::Disk;
use floodwall_testing::process::{everything, output, text};
use floodwall_testing::{ensure, said};

use crate::{FLOODWALL, FUSE, LOOP, ROOT, Test};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "a paced copy yields to commits, and has the disk when nobody waits",
        needs: &[FUSE, "mkfs.ext4"],
        body: || yields(&format!("{FLOODWALL} pace --status cp SOURCE copy")),
    },
    Test {
        name: "a paced command yields to commits, and has the disk when nobody waits",
        needs: &[FUSE, "mkfs.ext4"],
        // A short command ends before it is looked at.
        body: || {
            let copies = "for i in 1 2 3 4 5 6 7 8; do cat SOURCE; done > copy";
            yields(&format!("{FLOODWALL} pace --status -- sh -c '{copies}'"))
        },
    },
    Test {
        name: "a command is paced on the disk that gets its data",
        needs: &[ROOT, LOOP, "mkfs.ext4", "tar"],
        body: finds_the_disk,
    },
];

/// Of two disks that its arguments name.
fn finds_the_disk() -> Result<(), String> {
    let (source, target) = (Disk::new("ext4", 256)?, Disk::new("ext4", 256)?);
    let (from, to) = (source.path().display(), target.path().display());
    let directory = source.path().join("directory");
    std::fs::create_dir(&directory).map_err(said("a directory"))?;
    std::fs::write(directory.join("data"), vec![7; 32 << 20]).map_err(said("a file"))?;
    for words in [
        format!("cp -rv {from}/directory {to} > {from}/log"),
        // The last argument is a source.
        format!("tar cf {to}/data.tar {from}/directory"),
        format!("tar c {from}/directory > {to}/data.tar"),
    ] {
        let script = format!("cd {from}; exec {FLOODWALL} pace --max 60MB/s -- {words}");
        let paced = output(Command::new("sh").args(["-c", &script]))?;
        let name = format!(", paced on {}", target.device.name());
        ensure(text(&paced.stderr).contains(&name), || format!("{words}: {}", everything(&paced)))?;
    }
    Ok(())
}

/// Commits one after the other, as a database's log.
const COMMITS: &str = "dd if=/dev/zero of=log bs=4k count=100000 oflag=dsync status=none";

/// A shell's words in a lab with a disk; `SOURCE` is a file of 48 MiB.
fn in_lab(script: &str) -> Result<Output, String> {
    let name = format!("pace-{}", std::process::id());
    let lab = ["lab", "run", "hdd-7200", "--size", "2GiB", "--fs", "ext4", "--name", &name, "--"];
    // In memory: reads of the disk would be a sign of others.
    let source = tempfile::NamedTempFile::new_in("/dev/shm").map_err(said("a file"))?;
    source.as_file().write_all(&vec![7; 48 << 20]).map_err(said("a file"))?;
    let script = script.replace("SOURCE", &source.path().display().to_string());
    output(Command::new(FLOODWALL).args(lab).args(["sh", "-c", &script]))
}

/// A copy tells that it yields beside commits, and does not without them.
fn yields(copy: &str) -> Result<(), String> {
    let commits = format!("{COMMITS} & log=$!; sleep 1");
    let beside = in_lab(&format!("{commits}; timeout 9 {copy}; kill $log; wait $log; true"))?;
    let told = text(&beside.stderr);
    ensure(told.contains("yielding: ") && told.contains(" for loop"), || everything(&beside))?;
    let alone = in_lab(copy)?;
    let told = text(&alone.stderr);
    ensure(told.contains("pace: ") && !told.contains("others wait"), || everything(&alone))
}
