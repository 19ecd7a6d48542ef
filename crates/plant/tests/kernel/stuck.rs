//! A process that steers is killed while it waits for a queue that does not run dry. The queue is
//! that of a loop device whose file is on a frozen filesystem.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use floodwall_model::DeviceId;
use floodwall_model::plant::{KnobWrite, Plant};
use floodwall_model::proc_stat::ProcStat;
use floodwall_plant::{HostPlant, Options, SourceKind, Which, restore};
use floodwall_testing::disk::{Frozen, Loop, Saved, read};
use floodwall_testing::process::Process;
use floodwall_testing::{ensure, said, until};

use crate::Test;
use crate::disk::{Disk, knobs};
use crate::steer::{apply, differs, disk, rollback};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "of_a_killed_process_all_but_a_stuck_queue_comes_back_at_once",
        seconds: 120,
        body: killed,
    },
    Test { name: "a_stuck_queue_keeps_no_other_from_being_given_back", seconds: 120, body: ends },
];

/// First argument of this binary when it steers and gets stuck.
pub(crate) const STUCK: &str = "plant-stuck";
/// The longest time for a step that the kernel makes at once.
const SOON: Duration = Duration::from_secs(20);

/// `JOURNAL DEVICE STUCK_DEVICE`: writes knobs of both devices and says so. When it is told to, it
/// writes the knob that gets stuck, and says so. When its stdin is closed, it puts everything back.
pub(crate) fn steer(arguments: &[String]) -> Result<(), String> {
    let [journal, device, hanging] = arguments else { return Err("usage".to_owned()) };
    let options = Options {
        devices: Which::Named(vec![device.clone(), hanging.clone()]),
        source: Some(SourceKind::Proc),
        ..Options::new(journal, "a test")
    };
    let mut plant = HostPlant::open(&options).map_err(said("open"))?;
    plant.observe().map_err(said("observe"))?;
    let id = |plant: &HostPlant, name: &str| {
        plant.units().iter().find(|unit| unit.name == name).map(|unit| unit.id).ok_or("no unit")
    };
    let ids = (id(&plant, device)?, id(&plant, hanging)?);
    for (id, knob, value) in [
        (ids.0, "nr_requests", "8"),
        (ids.0, "bdi.max_ratio_fine", "30000"),
        (ids.1, "max_sectors_kb", "128"),
        (ids.1, "bdi.strict_limit", "1"),
    ] {
        let write = KnobWrite { device: Some(id), knob: knob.to_owned(), value: value.to_owned() };
        plant.write(&write).map_err(said("write"))?;
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "steering").map_err(said("stdout"))?;
    let _ = std::io::stdin().lock().read(&mut [0]);
    let write =
        KnobWrite { device: Some(ids.1), knob: "nr_requests".to_owned(), value: "8".to_owned() };
    plant.write(&write).map_err(said("write"))?;
    writeln!(out, "stuck").map_err(said("stdout"))?;
    let _ = std::io::stdin().lock().read_to_end(&mut Vec::new());
    let closed = plant.close(2 * SOON);
    ensure(closed.is_complete(), || format!("{closed:?}"))
}

/// A loop device over a file on a disk's filesystem.
struct Inner {
    _found: Saved,
    device: Loop,
}

impl Inner {
    fn new(disk: &Disk) -> Result<Self, String> {
        let device = Loop::over(disk.file("inner").as_ref(), 16)?;
        let queue = Path::new("/sys/block").join(device.name()).join("queue");
        // An elevator first, because it resets later knobs.
        let own = [("scheduler", "mq-deadline"), ("nr_requests", "100"), ("max_sectors_kb", "512")];
        let found = Saved::of(own.map(|(knob, _)| queue.join(knob)));
        for (knob, value) in own {
            fs::write(queue.join(knob), value).map_err(said(knob))?;
        }
        Ok(Self { _found: found, device })
    }

    fn is_in_flight(&self) -> bool {
        let path = format!("/sys/block/{}/inflight", self.device.name());
        read(path.as_ref()).split_whitespace().any(|number| number != "0")
    }
}

/// The states of a process's threads, its leader's first.
fn states(pid: u32) -> Vec<char> {
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let mut threads: Vec<_> = threads.flatten().map(|thread| thread.path()).collect();
    threads.sort_by_key(|path| path.file_name().map(|name| *name != *pid.to_string()));
    let state = |path: &PathBuf| ProcStat::parse(&fs::read(path.join("stat")).ok()?)?.state();
    threads.iter().filter_map(state).collect()
}

/// A process that is stuck in a write to one device, and holds knobs of it and of another one. The
/// order of the fields is that in which they are dropped: nothing ends while the filesystem is
/// frozen.
struct Scene {
    frozen: Frozen,
    process: Process,
    _request: Process,
    inner: Inner,
    disk: Disk,
    inner_id: DeviceId,
    /// Both devices' knobs before the test.
    original: (Knobs, Knobs),
}

type Knobs = BTreeMap<PathBuf, String>;

impl Scene {
    fn new() -> Result<Self, String> {
        let disk = disk()?;
        let inner = Inner::new(&disk)?;
        let inner_id = inner.device.id()?;
        let original = (disk.knobs(), knobs(inner_id));
        let journal = disk.journal().to_string_lossy().into_owned();
        let steer = [STUCK, &journal, &disk.name, inner.device.name()];
        let mut process = Process::of_this_binary(&steer, Stdio::piped())?;
        process.says("steering")?;
        // Begins when its stdin is closed, by which time nothing comes through.
        let script = "read -r _; exec dd if=/dev/zero of=\"$0\" bs=4k count=1 oflag=direct";
        let child = Command::new("sh")
            .args(["-c", script, inner.device.node()])
            .stdin(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(said("dd"))?;
        let mut request = Process(child);
        let frozen = Frozen::new(disk.path())?;
        drop(request.0.stdin.take());
        let mut scene =
            Self { frozen, process, _request: request, inner, disk, inner_id, original };
        until(SOON, "a request in flight", || scene.inner.is_in_flight())?;
        let stdin = scene.process.0.stdin.as_mut().ok_or("no stdin")?;
        stdin.write_all(b"\n").map_err(said("stdin"))?;
        scene.process.says("stuck")?;
        Ok(scene)
    }

    fn states(&self) -> Vec<char> {
        states(self.process.0.id())
    }

    fn other_is_back(&self) -> Result<(), String> {
        let original = &self.original.0;
        ensure(self.disk.knobs() == *original, || differs(&self.disk, original))
    }
}

fn killed() -> Result<(), String> {
    let mut scene = Scene::new()?;
    let (pid, name, journal) =
        (scene.process.0.id(), scene.inner.device.name().to_owned(), scene.disk.journal());
    scene.process.0.kill().map_err(said("kill"))?;
    until(SOON, "one thread is left", || scene.states() == ['Z', 'D'])?;

    let restored = restore(&journal, Duration::ZERO).map_err(said("restore"))?;
    let told = format!("change 1: {name}.nr_requests: not put back yet (pid {pid} ");
    let lines = restored.lines();
    ensure(lines.iter().any(|line| line.starts_with(&told)), || format!("{lines:?}"))?;
    ensure(!restored.is_complete() && restored.steering.is_empty(), || format!("{restored:?}"))?;
    scene.other_is_back()?;
    let strict = format!("/sys/class/bdi/{}/strict_limit", scene.inner_id);
    let strict = fs::read_to_string(strict).map_err(said("bdi"))?;
    ensure(strict.trim() == "0", || "the stuck queue's limit is still strict".to_owned())?;
    // Others go on with the rest of the machine.
    apply(&scene.disk, "nr_requests=64")?;
    rollback(&scene.disk)?;
    scene.other_is_back()?;
    ensure(scene.states() == ['Z', 'D'], || {
        "it got through meanwhile: nothing was tested".to_owned()
    })?;

    scene.frozen.thaw();
    let restored = restore(&journal, SOON).map_err(said("restore"))?;
    let told = format!("change 1: {name}.nr_requests: 100 again");
    let lines = restored.lines();
    ensure(restored.is_complete() && lines.contains(&told), || format!("{lines:?}"))?;
    let (now, original) = (knobs(scene.inner_id), &scene.original.1);
    ensure(now == *original, || format!("{original:?} became {now:?}"))?;
    scene.other_is_back()
}

fn ends() -> Result<(), String> {
    let mut scene = Scene::new()?;
    drop(scene.process.0.stdin.take());
    until(SOON, "everything else is given back", || scene.other_is_back().is_ok())?;
    ensure(scene.states().contains(&'D'), || {
        "it got through meanwhile: nothing was tested".to_owned()
    })?;
    scene.frozen.thaw();
    let status = scene.process.0.wait().map_err(said("wait"))?;
    ensure(status.success(), || "it could not put everything back".to_owned())?;
    let (now, original) = (knobs(scene.inner_id), &scene.original.1);
    ensure(now == *original, || format!("{original:?} became {now:?}"))?;
    scene.other_is_back()
}
