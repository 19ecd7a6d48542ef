//! Copies to loop devices and to a device that takes its time, and devices that are in use.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::process::Command;
use std::thread;
use std::time::Duration;

use floodwall_stats::estimate::median;
use floodwall_testing::disk::{Disk, Loop};
use floodwall_testing::process::{everything, output, text};
use floodwall_testing::{ensure, equal, said};
use rustix::fs::OFlags;

use super::{Dd, FLOODWALL, bytes, left, seconds};
use crate::lab::Lab;

/// Command lines to a device of 2 MiB.
const TO_DEVICE: [&str; 8] = [
    "if=/dev/zero bs=768k",
    "if=/dev/zero bs=768k oflag=direct",
    "if=a bs=4096 oflag=direct",
    "if=a bs=4096 oflag=direct conv=sync seek=3",
    "if=a bs=4096 conv=fsync,notrunc seek=100",
    "if=/dev/zero bs=1M seek=2 count=1",
    "if=/dev/zero bs=1M seek=5 count=1",
    "if=a obs=7000 seek=290",
];
/// Whose rates are compared, on a device that takes its time.
const RATES: [&str; 4] = [
    "bs=1M count=160 conv=fsync",
    "bs=1M count=160 conv=fdatasync",
    "bs=16k count=400 oflag=dsync",
    "bs=256k count=640 oflag=direct",
];
/// Rounds of both, one after the other.
const ROUNDS: usize = 7;
/// Before each.
const IDLE: Duration = Duration::from_millis(300);
/// How far the median of a rate may be off.
const TOLERANCE: f64 = 0.05;

pub(crate) fn devices() -> Result<(), String> {
    let directory = tempfile::tempdir_in("/dev/shm").map_err(said("a directory"))?;
    let file = directory.path().join("a");
    fs::write(&file, bytes(10_000)).map_err(said("a"))?;
    let device = Loop::over(&directory.path().join("image"), 2)?;
    for line in TO_DEVICE {
        let line = line.replace("if=a", &format!("if={}", file.display()));
        let mut both = Vec::new();
        for dd in [Dd::Ours, Dd::Theirs] {
            fs::write(device.node(), vec![0xff; 2 << 20]).map_err(said("the device"))?;
            let output = output(&mut dd.command(&format!("{line} of={}", device.node())))?;
            let data = fs::read(device.node()).map_err(said("the device"))?;
            both.push(left(&output, BTreeMap::from([("device".to_owned(), data)])));
        }
        let alike = both[0] == both[1];
        ensure(alike, || format!("dd {line}\n{}\n{}", both[0].said, both[1].said))?;
    }
    full_disk()?;
    let lines = TO_DEVICE.len();
    writeln!(io::stdout(), "dd: {lines} lines on a device are alike").map_err(said("stdout"))
}

/// A filesystem that is full gives whole blocks, then parts of one, then none.
fn full_disk() -> Result<(), String> {
    let disk = Disk::new("ext4", 8)?;
    for line in ["bs=1M", "bs=300k conv=fsync", "ibs=100k obs=1M"] {
        let mut both = Vec::new();
        for dd in [Dd::Ours, Dd::Theirs] {
            let path = disk.file("x");
            let output = output(&mut dd.command(&format!("if=/dev/zero of={path} {line}")))?;
            fs::remove_file(&path).map_err(said("x"))?;
            let words: String =
                text(&output.stderr).chars().filter(|c| !c.is_ascii_digit()).collect();
            let words: Vec<String> =
                words.lines().map(|l| l.split('(').next().unwrap_or_default().to_owned()).collect();
            both.push((output.status.code(), words));
        }
        let other = both.pop();
        equal(both.pop(), other)?;
    }
    Ok(())
}

pub(crate) fn rates() -> Result<(), String> {
    let lab = Lab::up("cloud-gp3", &["--raw"])?;
    let mut rows = Vec::new();
    let mut is_near = true;
    for line in RATES {
        let mut rates = [Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
            for at in order {
                let dd = [Dd::Ours, Dd::Theirs][at];
                let line = format!("if=/dev/zero of={} {line}", lab.node);
                // The device saves up a burst while it is idle: both begin with a whole one.
                thread::sleep(IDLE);
                let output = output(&mut dd.command(&line))?;
                ensure(output.status.success(), || everything(&output))?;
                rates[at].push(megabytes(&text(&output.stderr))?);
            }
        }
        let [own, original] = rates.map(|rates| median(rates).unwrap_or_default());
        is_near &= (own - original).abs() <= TOLERANCE * original;
        rows.push(format!("| `{line}` | {own:.1} MB/s | {original:.1} MB/s |"));
    }
    writeln!(io::stdout(), "{}", rows.join("\n")).map_err(said("stdout"))?;
    ensure(is_near, || rows.join("\n"))
}

/// The rate of the last line, from its bytes and seconds: it is printed with three digits.
fn megabytes(text: &str) -> Result<f64, String> {
    let last = text.lines().last().unwrap_or_default();
    let bytes: Option<f64> = last.split(' ').next().and_then(|word| word.parse().ok());
    Ok(bytes.ok_or_else(|| text.to_owned())? / seconds(last)? / 1e6)
}

pub(crate) fn held() -> Result<(), String> {
    let disk = Disk::new("ext4", 8)?;
    let of = format!("of={}", disk.device.node());
    let before = fs::read(disk.device.node()).map_err(said("the device"))?;
    let words = |more: &[&str]| {
        let mut command = Command::new(FLOODWALL);
        command.arg("compat").args(more).args(["if=/dev/zero", "bs=4k", "count=1", &of]);
        output(command.env("LC_ALL", "C"))
    };
    let refused = words(&["dd"])?;
    let at = disk.path().display();
    let why = format!("dd: '{}' is in use: mounted at '{at}'; free it, ", disk.device.node());
    ensure(text(&refused.stderr).starts_with(&why), || everything(&refused))?;
    equal(refused.status.code(), Some(1))?;
    let after = fs::read(disk.device.node()).map_err(said("the device"))?;
    ensure(after == before, "a refused copy has written")?;
    let meant = words(&["--destructive", "dd"])?;
    ensure(meant.status.success(), || everything(&meant))?;
    let device = disk.device.node().to_owned();
    drop(disk.mount);
    // Held without a mount, by whatever opened it alone.
    let alone = OFlags::EXCL.bits().cast_signed();
    let held = OpenOptions::new().read(true).custom_flags(alone).open(&device);
    let held = held.map_err(said("the device"))?;
    let refused = words(&["dd"])?;
    ensure(text(&refused.stderr).contains("is in use: another program holds it"), || {
        everything(&refused)
    })?;
    drop(held);
    let free = words(&["dd"])?;
    ensure(free.status.success(), || everything(&free))
}
