//! Power cuts under a flood: the filesystem must mount again and hold every file that was fsynced.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use floodwall_lab::{Filesystem, LabState};
use floodwall_testing::process::run;
use floodwall_testing::{ensure, said};

use crate::runner::{Load, Runner};
use crate::{POWER_CUTS_EACH, Test};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "ext4 keeps every fsynced file through power cuts",
        needs: &["mkfs.ext4", "fsck.ext4"],
        seconds: 150,
        body: ext4,
    },
    Test {
        name: "xfs keeps every fsynced file through power cuts",
        needs: &["mkfs.xfs", "xfs_repair"],
        seconds: 150,
        body: xfs,
    },
    Test { name: "a protected cache loses nothing", needs: &[], seconds: 30, body: protected },
    Test {
        name: "a device without power answers nothing",
        needs: &[],
        seconds: 30,
        body: no_power,
    },
];

fn ext4() -> Result<(), String> {
    cut("hdd-7200", Filesystem::Ext4, &["fsck.ext4", "-fn"])
}

fn xfs() -> Result<(), String> {
    cut("sata-ssd", Filesystem::Xfs, &["xfs_repair", "-n"])
}

/// Files made and fsynced before each cut.
const FILES: usize = 6;
const WRITERS: usize = 2;

/// `preset` has a volatile cache.
fn cut(preset: &str, filesystem: Filesystem, check: &[&str]) -> Result<(), String> {
    let runner = Runner::new()?;
    let up = runner.up(preset, 400, Some(filesystem))?;
    let dir = up.mounts[0].clone();
    let mut durable: Vec<(PathBuf, Vec<u8>)> = Vec::new();
    let (mut lost, mut in_flight) = (0, 0);
    for round in 0..POWER_CUTS_EACH {
        let flood = format!("of={}", dir.join("flood").display());
        let mut flood = Load::start(
            "dd",
            &["if=/dev/urandom", &flood, "bs=256k", "count=320", "conv=notrunc"],
        )?;
        let written = Mutex::new(Vec::new());
        let stop = AtomicBool::new(false);
        let cut = thread::scope(|scope| {
            for writer in 0..WRITERS {
                let (dir, written, stop) = (&dir, &written, &stop);
                scope.spawn(move || write_files(dir, round, writer, written, stop));
            }
            let deadline = Instant::now() + Duration::from_secs(20);
            while written.lock().unwrap().len() < FILES && Instant::now() < deadline {
                thread::sleep(Duration::from_millis(1));
            }
            // At another moment of the flood each time.
            thread::sleep(Duration::from_millis(round as u64 * 7 % 40));
            let cut = runner.lab.powercut(preset).map_err(said("powercut"));
            stop.store(true, Ordering::Relaxed);
            cut
        })?;
        lost += cut.lost_bytes;
        in_flight += cut.in_flight;
        let written = written.into_inner().unwrap();
        ensure(written.len() >= FILES, || {
            format!("round {round}: only {} files in time", written.len())
        })?;
        durable.extend(written);
        let deadline = Instant::now() + Duration::from_secs(10);
        while !flood.ended() {
            ensure(Instant::now() < deadline, || format!("round {round}: dd is stuck"))?;
            thread::sleep(Duration::from_millis(5));
        }
        let up = runner.lab.powerup(preset).map_err(|e| format!("round {round}: powerup: {e}"))?;
        ensure(up.state == LabState::Up && up.mounts == [dir.clone()], || {
            format!("round {round}: {up:?}")
        })?;
        for (file, contents) in &durable {
            let found =
                fs::read(file).map_err(|e| format!("round {round}: {}: {e}", file.display()))?;
            ensure(&found == contents, || format!("round {round}: {} differs", file.display()))?;
        }
    }
    // The cuts must have cost something, or this test proves nothing.
    ensure(lost > 0, || {
        format!("{POWER_CUTS_EACH} cuts lost nothing ({in_flight} requests in flight)")
    })?;
    // Unmounted in order, the filesystem is without fault.
    rustix::mount::unmount(&dir, rustix::mount::UnmountFlags::empty()).map_err(said("unmount"))?;
    let device = runner.list()[0].device.clone().ok_or("no device")?.to_string_lossy().into_owned();
    run(check[0], &[&check[1..], &[&device]].concat())?;
    runner.lab.down(preset).map_err(said("down"))?;
    runner.wait_clean()
}

/// Writes files and notes those whose fsync, and their directory's, came back; ends with the first
/// error.
fn write_files(
    dir: &Path,
    round: usize,
    writer: usize,
    written: &Mutex<Vec<(PathBuf, Vec<u8>)>>,
    stop: &AtomicBool,
) {
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let path = dir.join(format!("{round}-{writer}-{number}"));
        let contents =
            vec![(round * 31 + writer * 7 + number) as u8 | 1; 1000 + number * 5000 % 40_000];
        let kept = File::create(&path)
            .and_then(|mut f| f.write_all(&contents).and_then(|()| f.sync_all()))
            .and_then(|()| File::open(dir)?.sync_all());
        if kept.is_err() {
            return;
        }
        written.lock().unwrap().push((path, contents));
    }
}

fn protected() -> Result<(), String> {
    let runner = Runner::new()?;
    let preset = "raid10-bbwc-2010";
    let up = runner.up(preset, 64, None)?;
    let contents: Vec<u8> = (0..8u32 << 20).map(|n| (n % 253) as u8).collect();
    // Direct, and never flushed: acknowledged by the controller, most of it still in its cache.
    let file = runner.root().join("contents");
    fs::write(&file, &contents).map_err(said("write"))?;
    let device = up.device.ok_or("no device")?.to_string_lossy().into_owned();
    run(
        "dd",
        &[&format!("if={}", file.display()), &format!("of={device}"), "bs=1M", "oflag=direct"],
    )?;
    runner.lab.powercut(preset).map_err(said("powercut"))?;
    let up = runner.lab.powerup(preset).map_err(said("powerup"))?;
    let found = fs::read(up.device.ok_or("no device")?).map_err(said("read"))?;
    ensure(found.starts_with(&contents), || "acknowledged writes are gone".into())
}

fn no_power() -> Result<(), String> {
    let runner = Runner::new()?;
    let up = runner.up("sata-ssd", 64, None)?;
    let device = up.device.ok_or("no device")?.to_string_lossy().into_owned();
    let write = |device: &str| {
        run("dd", &["if=/dev/urandom", &format!("of={device}"), "bs=4k", "count=4", "oflag=direct"])
    };
    write(&device)?;
    runner.lab.powercut("sata-ssd").map_err(said("powercut"))?;
    ensure(runner.list()[0].state == LabState::NoPower, || format!("{:?}", runner.list()))?;
    ensure(write(&device).is_err(), || "a write without power".into())?;
    ensure(runner.lab.powercut("sata-ssd").is_err(), || "cut twice".into())?;
    let up = runner.lab.powerup("sata-ssd").map_err(said("powerup"))?;
    write(&up.device.ok_or("no device")?.to_string_lossy())?;
    ensure(runner.lab.powerup("sata-ssd").is_err(), || "powered twice".into())
}
