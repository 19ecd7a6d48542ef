//! Up, down, and everything between that can go wrong.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use floodwall_lab::{Filesystem, LabError, LabState, Overflow};
use floodwall_model::Bytes;
use floodwall_testing::process::run;
use floodwall_testing::{ensure, said};
use rustix::process::{Pid, Signal, kill_process};

use crate::Test;
use crate::runner::{GO_ON, Load, MAKER, Runner, lab, options};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "every filesystem is made, mounted, used and gone again",
        needs: &["mkfs.xfs", "mkfs.ext4", "mkfs.btrfs"],
        seconds: 60,
        body: filesystems,
    },
    Test { name: "the queue says what the model is", needs: &[], seconds: 30, body: queue },
    Test { name: "several labs at once, and all down", needs: &[], seconds: 30, body: several },
    Test {
        name: "what can't be is refused before anything is made",
        needs: &["mkfs.ext4", "mkfs.btrfs"],
        seconds: 30,
        body: refused,
    },
    Test {
        name: "a command runs in the filesystem and the lab goes with it",
        needs: &["mkfs.ext4"],
        seconds: 30,
        body: runs,
    },
    Test { name: "a full memory says no space, or spills", needs: &[], seconds: 30, body: full },
    Test {
        name: "down works from every half-made state",
        needs: &["mkfs.ext4", "losetup"],
        seconds: 90,
        body: half_made,
    },
    Test {
        name: "a maker killed at any moment leaves what can be taken down",
        needs: &["mkfs.xfs"],
        seconds: 120,
        body: maker_killed,
    },
    Test {
        name: "who sits in the filesystem is named, and down works when they left",
        needs: &["mkfs.xfs"],
        seconds: 60,
        body: sat_in,
    },
    Test {
        name: "who is about to leave is waited for",
        needs: &["mkfs.xfs"],
        seconds: 60,
        body: about_to_leave,
    },
    Test {
        name: "a mount in another namespace is named",
        needs: &["mkfs.xfs", "unshare"],
        seconds: 60,
        body: mounted_elsewhere,
    },
    Test {
        name: "memory that other devices may still take is not given away twice",
        needs: &[],
        seconds: 30,
        body: promised,
    },
    Test { name: "a busy filesystem goes down too", needs: &["mkfs.xfs"], seconds: 60, body: busy },
    Test {
        name: "the recording has what reached the device",
        needs: &[],
        seconds: 30,
        body: recording,
    },
    Test {
        name: "the rescue script needs nobody",
        needs: &["mkfs.ext4", "losetup"],
        seconds: 60,
        body: rescued,
    },
];

fn filesystems() -> Result<(), String> {
    for filesystem in [Filesystem::Xfs, Filesystem::Ext4, Filesystem::Btrfs] {
        let runner = Runner::new()?;
        let up = runner.up("null", 320, Some(filesystem))?;
        ensure(up.state == LabState::Up, || format!("{up:?}"))?;
        let dir = up.mounts.first().ok_or("not mounted")?;
        let contents: Vec<u8> = (0..3_000_000u32).map(|n| (n % 251) as u8).collect();
        let file = dir.join("file");
        File::create(&file)
            .and_then(|mut f| f.write_all(&contents).and_then(|()| f.sync_all()))
            .map_err(said("write"))?;
        drop_caches()?;
        ensure(fs::read(&file).map_err(said("read"))? == contents, || "read back differs".into())?;
        runner.lab.down("null").map_err(said("down"))?;
        runner.wait_clean()?;
    }
    Ok(())
}

/// So that reads come from the device.
fn drop_caches() -> Result<(), String> {
    let caches = File::options().write(true).open("/proc/sys/vm/drop_caches");
    caches.and_then(|mut f| f.write_all(b"1")).map_err(said("drop_caches"))
}

fn queue() -> Result<(), String> {
    let runner = Runner::new()?;
    for (preset, rotational, cache) in
        [("hdd-7200", "1\n", "write back\n"), ("null", "0\n", "write through\n")]
    {
        let up = runner.up(preset, 64, None)?;
        let device = up.device.ok_or("no device")?;
        let name = device.file_name().ok_or("no name")?.to_string_lossy().into_owned();
        let read = |attribute: &str| {
            fs::read_to_string(format!("/sys/block/{name}/{attribute}")).map_err(said("sysfs"))
        };
        let found = [
            read("queue/rotational")?,
            read("queue/write_cache")?,
            read("loop/dio")?,
            read("size")?,
        ];
        let expected = [rotational, cache, "1\n", "131072\n"];
        ensure(found == expected, || format!("{preset}: {found:?}"))?;
    }
    let mut options = options("hdd-7200", 64);
    options.name = Some("elevator".into());
    options.scheduler = Some("mq-deadline".into());
    let up = runner.lab.up(&options, &GO_ON).map_err(said("up"))?;
    let device = up.device.ok_or("no device")?;
    let name = device.file_name().ok_or("no name")?.to_string_lossy().into_owned();
    let chosen = fs::read_to_string(format!("/sys/block/{name}/queue/scheduler"))
        .map_err(said("scheduler"))?;
    ensure(chosen.contains("[mq-deadline]"), || chosen)?;
    options.name = Some("none-such".into());
    options.scheduler = Some("anticipatory".into());
    match runner.lab.up(&options, &GO_ON) {
        Err(LabError::Elevator { offered, .. }) => {
            ensure(offered.contains("mq-deadline, "), || offered.clone())?;
        }
        other => return Err(format!("{other:?}")),
    }
    ensure(runner.lab.list().map_err(said("list"))?.len() == 3, || {
        "a half-made device is left".into()
    })
}

fn several() -> Result<(), String> {
    let runner = Runner::new()?;
    let mut options = options("null", 64);
    options.name = None;
    for expected in ["null", "null-2", "null-3"] {
        let up = runner.lab.up(&options, &GO_ON).map_err(said("up"))?;
        ensure(up.name == expected, || format!("{} instead of {expected}", up.name))?;
        // Each has its own contents.
        let device = File::options()
            .write(true)
            .open(up.device.ok_or("no device")?)
            .map_err(said("open"))?;
        device.write_all_at(expected.as_bytes(), 4096).map_err(said("write"))?;
        device.sync_all().map_err(said("fsync"))?;
    }
    for lab in runner.list() {
        let mut read = vec![0; lab.name.len()];
        let device = File::open(lab.device.ok_or("no device")?).map_err(said("open"))?;
        device.read_exact_at(&mut read, 4096).map_err(said("read"))?;
        ensure(read == lab.name.as_bytes(), || format!("{read:?} on {}", lab.name))?;
    }
    let down = runner.lab.down_all().map_err(said("down --all"))?;
    ensure(down.len() == 3 && down.iter().all(|(_, d)| d.is_ok()), || format!("{down:?}"))?;
    runner.wait_clean()
}

fn refused() -> Result<(), String> {
    let runner = Runner::new()?;
    let up = |change: &dyn Fn(&mut floodwall_lab::UpOptions)| {
        let mut options = options("null", 64);
        change(&mut options);
        match runner.lab.up(&options, &GO_ON) {
            Ok(lab) => Err(format!("{lab:?} came up")),
            Err(e) => Ok(e),
        }
    };
    let dir = tempfile::tempdir().map_err(said("directory"))?;
    let missing = dir.path().join("missing");
    let wrong = [
        up(&|o| o.name = Some("../x".into()))?,
        up(&|o| o.size = Some(Bytes(1_000_001)))?,
        up(&|o| o.size = Some(Bytes(1 << 60)))?,
        up(&|o| o.block_size = 1000)?,
        up(&|o| o.text = "disk = 7".into())?,
        up(&|o| o.mount = Some((Filesystem::Btrfs, None)))?,
        up(&|o| o.overflow = Overflow::Spill(missing.clone()))?,
        up(&|o| {
            let preset = floodwall_device::preset_text("raid10-bbwc-2010").unwrap_or_default();
            o.text = preset.replace("\nsize = \"512MiB\"", "\nsize = \"4TiB\"");
        })?,
        up(&|o| o.mount = Some((Filesystem::Ext4, Some("/proc".into()))))?,
        up(&|o| o.mount = Some((Filesystem::Ext4, Some(missing.clone()))))?,
    ];
    for e in wrong {
        ensure(e.is_wrong_use(), || format!("not called a wrong use: {e}"))?;
    }
    let memory = up(&|o| o.memory = Some(Bytes(1 << 50)))?;
    ensure(memory.is_missing_requirement(), || memory.to_string())?;
    ensure(matches!(runner.lab.stats("nobody"), Err(LabError::Unknown { .. })), || {
        "nobody is known".into()
    })?;
    runner.up("null", 64, None)?;
    let taken = up(&|_| ())?;
    ensure(matches!(taken, LabError::NameTaken { half_made: false, .. }), || taken.to_string())?;
    runner.lab.down("null").map_err(said("down"))?;
    // A step that fails late takes the rest with it: nothing of the filesystem can be written.
    let late = up(&|o| (o.mount, o.memory) = (Some((Filesystem::Ext4, None)), Some(Bytes(0))))?;
    ensure(matches!(late, LabError::MkfsFailed { .. }), || late.to_string())?;
    let stopped = AtomicBool::new(true);
    let interrupted = runner.lab.up(&options("null", 64), &stopped);
    ensure(matches!(interrupted, Err(LabError::Interrupted)), || format!("{interrupted:?}"))?;
    runner.wait_clean()
}

fn runs() -> Result<(), String> {
    let runner = Runner::new()?;
    let mut options = options("null", 64);
    options.mount = Some((Filesystem::Ext4, None));
    let out = runner.root().join("out");
    let script = format!(
        "stat -f -c %T . > {0}; echo $FLOODWALL_LAB $FLOODWALL_LAB_DEVICE >> {0}; exit 7",
        out.display()
    );
    let ran = runner
        .lab
        .run(&options, Command::new("sh").args(["-c", &script]), &GO_ON)
        .map_err(said("run"))?;
    ensure(ran.status.code() == Some(7) && ran.stats.is_some_and(|s| s.name == "null"), || {
        format!("{}", ran.status)
    })?;
    let told = fs::read_to_string(&out).map_err(said("output"))?;
    ensure(told.starts_with("ext2/ext3\nnull /dev/loop"), || told.clone())?;
    // A stop ends the command, and the lab with it.
    let stop = AtomicBool::new(false);
    let status = thread::scope(|scope| {
        scope.spawn(|| {
            while runner.list().iter().all(|l| l.mounts.is_empty()) {
                thread::sleep(Duration::from_millis(5));
            }
            stop.store(true, Ordering::Relaxed);
        });
        runner.lab.run(&options, Command::new("sleep").arg("600"), &stop).map_err(said("run"))
    })?
    .status;
    ensure(!status.success(), || format!("{status}"))?;
    runner.wait_clean()
}

fn full() -> Result<(), String> {
    let runner = Runner::new()?;
    let mut options = options("null", 64);
    options.memory = Some(Bytes::mib(8));
    let fill = |device: &Path| {
        let device = File::options().read(true).write(true).open(device).map_err(said("open"))?;
        let contents: Vec<u8> = (0..16u32 << 20).map(|n| (n / 4096 % 255 + 1) as u8).collect();
        let written = device.write_all_at(&contents, 0).and_then(|()| device.sync_all());
        drop_caches()?;
        let mut read = vec![0; contents.len()];
        let same = device.read_exact_at(&mut read, 0).is_ok() && read == contents;
        Ok::<_, String>((written, same))
    };
    let up = runner.lab.up(&options, &GO_ON).map_err(said("up"))?;
    let (written, _) = fill(&up.device.ok_or("no device")?)?;
    ensure(written.is_err(), || "16 MiB went into 8".into())?;
    runner.lab.down("null").map_err(said("down"))?;
    options.overflow = Overflow::Spill(runner.root().into());
    let up = runner.lab.up(&options, &GO_ON).map_err(said("up"))?;
    let (written, same) = fill(&up.device.ok_or("no device")?)?;
    ensure(written.is_ok() && same, || format!("{written:?}, same: {same}"))?;
    let store = runner.lab.stats("null").map_err(said("stats"))?.store;
    ensure((store.memory_bytes, store.spilled_bytes) == (8 << 20, 8 << 20), || format!("{store:?}"))
}

fn kill(pid: i32, signal: Signal) -> Result<(), String> {
    kill_process(Pid::from_raw(pid).ok_or("no pid")?, signal).map_err(said("kill"))
}

fn guardian_pid(runner: &Runner, name: &str) -> Result<i32, String> {
    let text = fs::read_to_string(runner.root().join(name).join("guardian.json"))
        .map_err(said("guardian"))?;
    let value: serde_json::Value = serde_json::from_str(&text).map_err(said("guardian"))?;
    value["pid"].as_i64().map(|p| p as i32).ok_or_else(|| text.clone())
}

fn half_made() -> Result<(), String> {
    let runner = Runner::new()?;
    let down = |what: &str| {
        let list = runner.list();
        ensure(matches!(list.as_slice(), [l] if matches!(l.state, LabState::HalfMade(_))), || {
            format!("{what}: {list:?}")
        })?;
        runner.lab.down(&list[0].name).map_err(|e| format!("down, {what}: {e}"))?;
        runner.wait_clean().map_err(|e| format!("{what}: {e}"))
    };
    // Its maker died in the first moment.
    fs::create_dir(runner.root().join("first")).map_err(said("mkdir"))?;
    down("only a directory")?;
    // Both processes dead, everything else there.
    let up = runner.up("null", 64, Some(Filesystem::Ext4))?;
    kill(guardian_pid(&runner, "null")?, Signal::KILL)?;
    kill(up.server_pid.ok_or("no server")?, Signal::KILL)?;
    while runner.list().first().is_some_and(|l| l.state == LabState::Up) {
        thread::sleep(Duration::from_millis(5));
    }
    down("no process left")?;
    // The loop device taken away by hand.
    let up = runner.up("null", 64, None)?;
    run("losetup", &["-d", &up.device.ok_or("no device")?.to_string_lossy()])?;
    down("no loop device")?;
    // A server that hangs. `list` finds that it does not answer; `down` must not wait for it.
    let up = runner.up("null", 64, Some(Filesystem::Ext4))?;
    kill(up.server_pid.ok_or("no server")?, Signal::STOP)?;
    let file = up.mounts[0].join("file").to_string_lossy().into_owned();
    let mut waiting = Load::start(
        "dd",
        &["if=/dev/zero", &format!("of={file}"), "bs=4k", "count=1", "conv=fsync"],
    )?;
    down("a server that hangs")?;
    ensure(
        waiting.ended() || {
            thread::sleep(Duration::from_secs(2));
            waiting.ended()
        },
        || "dd is stuck".into(),
    )
}

/// What the maker does.
pub(crate) fn make(root: &Path) -> Result<(), String> {
    let mut options = options("null", 320);
    options.mount = Some((Filesystem::Xfs, None));
    lab(root)?.up(&options, &GO_ON).map(drop).map_err(said("up"))
}

fn maker_killed() -> Result<(), String> {
    let this = std::env::current_exe().map_err(said("this binary"))?.to_string_lossy().into_owned();
    let mut seen = Vec::new();
    for after_ms in [0, 5, 10, 20, 40, 60, 80, 120, 160, 250] {
        let runner = Runner::new()?;
        // Not a process group: what the maker started must be found by `down`.
        let root = runner.root().to_string_lossy().into_owned();
        let mut maker = Command::new(&this).args([MAKER, &root]).spawn().map_err(said("maker"))?;
        while runner.list().is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
        thread::sleep(Duration::from_millis(after_ms));
        maker.kill().and_then(|()| maker.wait()).map_err(said("kill"))?;
        let list = runner.list();
        ensure(list.len() == 1 && list[0].state != LabState::Starting, || {
            format!("after {after_ms} ms: {list:?}")
        })?;
        seen.push(list[0].state == LabState::Up);
        runner
            .lab
            .down("null")
            .map_err(|e| format!("after {after_ms} ms, {:?}: {e}", list[0].state))?;
        runner.wait_clean().map_err(|e| format!("after {after_ms} ms: {e}"))?;
    }
    ensure(seen.contains(&false), || "the maker was always faster than the kill".into())
}

fn sat_in() -> Result<(), String> {
    let runner = Runner::new()?;
    let up = runner.up("null", 320, Some(Filesystem::Xfs))?;
    let mut sitter = Command::new("sleep")
        .arg("600")
        .current_dir(&up.mounts[0])
        .spawn()
        .map_err(said("sleep"))?;
    let refused = runner.lab.down("null");
    let pid = sitter.id();
    sitter.kill().and_then(|()| sitter.wait()).map_err(said("kill"))?;
    match refused {
        Err(LabError::Busy { pids, .. }) if pids == [pid as i32] => {}
        other => return Err(format!("{other:?} instead of busy with {pid}")),
    }
    runner.lab.down("null").map_err(said("down"))?;
    runner.wait_clean()
}

fn about_to_leave() -> Result<(), String> {
    let runner = Runner::new()?;
    let up = runner.up("null", 320, Some(Filesystem::Xfs))?;
    let there = runner.root().join("there");
    // It still writes before it goes, and leaves word outside if it could.
    let script = format!(
        "cd '{}' && sleep 0.5 && echo last > file && touch '{}'",
        up.mounts[0].display(),
        there.display()
    );
    let mut leaving = Load::start("sh", &["-c", &script])?;
    thread::sleep(Duration::from_millis(100));
    runner.lab.down("null").map_err(said("down"))?;
    ensure(leaving.ended() && there.exists(), || {
        "the filesystem went before its last user".into()
    })?;
    runner.wait_clean()
}

fn mounted_elsewhere() -> Result<(), String> {
    let runner = Runner::new()?;
    runner.up("null", 320, Some(Filesystem::Xfs))?;
    // Its namespace gets a copy of every mount.
    let elsewhere = Load::start("unshare", &["--mount", "sleep", "600"])?;
    let namespace =
        |pid: &str| fs::read_link(format!("/proc/{pid}/ns/mnt")).map_err(said("namespace"));
    while namespace(&elsewhere.pid().to_string())? == namespace("self")? {
        thread::sleep(Duration::from_millis(5));
    }
    match runner.lab.down("null") {
        Err(LabError::Busy { pids, .. }) if pids == [elsewhere.pid() as i32] => {}
        other => return Err(format!("{other:?} instead of busy with {}", elsewhere.pid())),
    }
    drop(elsewhere);
    runner.lab.down("null").map_err(said("down"))?;
    runner.wait_clean()
}

fn promised() -> Result<(), String> {
    let runner = Runner::new()?;
    let mut all = options("null", 64);
    all.name = Some("all".into());
    // What may still be taken is at most the size, so that is what has to be large.
    let text = fs::read_to_string("/proc/meminfo").map_err(said("meminfo"))?;
    let available_kib: u64 = text
        .lines()
        .find_map(|l| {
            l.strip_prefix("MemAvailable:")?.trim().strip_suffix("kB")?.trim().parse().ok()
        })
        .ok_or("no MemAvailable")?;
    all.memory = Some(Bytes::mib(available_kib / 1024 * 3 / 4));
    all.size = all.memory;
    runner.lab.up(&all, &GO_ON).map_err(said("up"))?;
    let more = floodwall_lab::UpOptions { name: Some("more".into()), ..all.clone() };
    match runner.lab.up(&more, &GO_ON) {
        Err(LabError::Memory { promised, .. }) if Some(promised) == all.memory => {}
        other => return Err(format!("{other:?}")),
    }
    let modest = floodwall_lab::UpOptions { memory: Some(Bytes::mib(64)), ..more };
    runner.lab.up(&modest, &GO_ON).map(drop).map_err(said("up, with less"))
}

fn busy() -> Result<(), String> {
    let runner = Runner::new()?;
    let up = runner.up("hdd-7200", 320, Some(Filesystem::Xfs))?;
    let flood = up.mounts[0].join("flood").to_string_lossy().into_owned();
    let mut flood = Load::start("dd", &["if=/dev/zero", &format!("of={flood}"), "bs=1M"])?;
    while runner.lab.stats("hdd-7200").map_err(said("stats"))?.device.write_bytes < 10 << 20 {
        ensure(!flood.ended(), || "dd ended".into())?;
        thread::sleep(Duration::from_millis(20));
    }
    runner.lab.down("hdd-7200").map_err(said("down"))?;
    runner.wait_clean()?;
    ensure(
        flood.ended() || {
            thread::sleep(Duration::from_secs(2));
            flood.ended()
        },
        || format!("dd {} is stuck", flood.pid()),
    )
}

fn recording() -> Result<(), String> {
    let runner = Runner::new()?;
    let up = runner.up("hdd-7200", 64, None)?;
    let device = File::options()
        .read(true)
        .write(true)
        .open(up.device.ok_or("no device")?)
        .map_err(said("open"))?;
    // Opening the device may have read from it.
    device
        .write_all_at(&[1; 8192], 1 << 20)
        .and_then(|()| device.sync_all())
        .map_err(said("write"))?;
    let mut csv = Vec::new();
    runner.lab.record("hdd-7200", true, false, &mut csv, &GO_ON).map_err(said("record"))?;
    let csv = String::from_utf8(csv).map_err(said("csv"))?;
    let about = csv.lines().nth(1).ok_or("no comment")?;
    ensure(
        about.starts_with("# {\"name\":\"hdd-7200\"") && about.contains("time_zero_unix_s"),
        || about.into(),
    )?;
    let mut lines =
        csv.lines().filter(|l| !l.starts_with('#')).map(|l| l.split(',').collect::<Vec<_>>());
    let header = lines.next().ok_or("no header")?;
    let column = |name: &str| {
        header.iter().position(|c| *c == name).ok_or_else(|| format!("no column {name}"))
    };
    let [offset, size, operation] =
        [column("offset_bytes")?, column("size_bytes")?, column("operation")?];
    let [queue, service] = [column("queue_us")?, column("service_us")?];
    let rows: Vec<Vec<&str>> = lines.collect();
    let written: u64 = rows
        .iter()
        .filter(|r| r[operation] == "write")
        .filter_map(|r| r[size].parse::<u64>().ok())
        .sum();
    ensure(written == 8192, || csv.clone())?;
    let first = rows.iter().find(|r| r[operation] == "write").ok_or("no write")?;
    ensure(first[offset] == "1048576", || csv.clone())?;
    // Its link carries 300 MB/s.
    let latency =
        first[queue].parse::<f64>().unwrap_or(0.0) + first[service].parse::<f64>().unwrap_or(0.0);
    let size: f64 = first[size].parse().map_err(said("size"))?;
    ensure(latency >= size / 300.0, || format!("{latency} µs: {csv}"))?;
    ensure(rows.iter().any(|r| r[operation] == "flush"), || csv.clone())?;
    let timings = runner.lab.stats("hdd-7200").map_err(said("stats"))?.timings;
    ensure(timings.flush.count >= 1 && timings.write.count >= 1, || format!("{timings:?}"))
}

fn rescued() -> Result<(), String> {
    let runner = Runner::new()?;
    let up = runner.up("null", 64, Some(Filesystem::Ext4))?;
    for pid in [guardian_pid(&runner, "null")?, up.server_pid.ok_or("no server")?] {
        kill(pid, Signal::STOP)?;
    }
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/lab-rescue");
    run(script, &[&runner.root().to_string_lossy()])?;
    let left: Vec<String> = runner
        .left()
        .into_iter()
        .filter(|l| l.starts_with("mount") || l.starts_with("/sys"))
        .collect();
    ensure(left.is_empty(), || format!("{left:?}"))
    // The runner's drop finds the rest: two stopped processes and the state.
}
