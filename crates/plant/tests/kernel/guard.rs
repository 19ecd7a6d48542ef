//! The real law over the real kernel: a flood and a process that commits, on a disk of the lab.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use floodwall_guard::{Config, Guard};
use floodwall_plant::{HostPlant, Options, Which};
use floodwall_testing::{ensure, said};

use crate::Test;
use crate::disk::knobs;
use crate::lab::Device;
use crate::sense::GO_ON;
use crate::worker::Worker;

pub(crate) const TESTS: &[Test] = &[Test {
    name: "the_guard_protects_who_commits_and_gives_everything_back",
    seconds: 480,
    body: protects,
}];

const TICK: Duration = Duration::from_millis(250);

/// Ticks for so long, or until something holds. The knobs that were written.
fn steer(
    guard: &mut Guard,
    plant: &mut HostPlant,
    time: Duration,
    until: impl Fn(&HostPlant) -> bool,
) -> Result<BTreeMap<String, u32>, String> {
    let end = Instant::now() + time;
    let mut written = BTreeMap::new();
    while Instant::now() < end && !until(plant) {
        plant.wait(TICK, &GO_ON).map_err(said("wait"))?;
        let report = guard.tick(plant).map_err(said("tick"))?;
        ensure(report.left_alone.is_empty(), || format!("{:?}", report.left_alone))?;
        for write in report.writes {
            *written.entry(write.knob).or_insert(0) += 1;
        }
    }
    Ok(written)
}

/// The flusher looks every five seconds whether there is too much.
const FLUSHER: Duration = Duration::from_secs(30);
/// Bytes a second from which the device is flooded.
const FLOODED: f64 = 30e6;

/// Commits and bytes written in a stretch of time.
struct Window(Instant, u64, u64);

impl Window {
    fn new(device: &Device, committer: &Worker) -> Self {
        Self(Instant::now(), committer.done(), written(device))
    }

    /// Both a second.
    fn end(self, device: &Device, committer: &Worker) -> (f64, f64) {
        let seconds = self.0.elapsed().as_secs_f64();
        let (commits, bytes) = (committer.done() - self.1, written(device) - self.2);
        (commits as f64 / seconds, bytes as f64 / seconds)
    }
}

/// Bytes written to the device since it appeared.
fn written(device: &Device) -> u64 {
    let stat = fs::read_to_string(format!("/sys/dev/block/{}/stat", device.id)).unwrap_or_default();
    stat.split_whitespace().nth(6).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0) * 512
}

fn protects() -> Result<(), String> {
    let device = Device::up("hdd-7200", 1_024)?;
    // The flusher begins with the first tens of MiB, whatever RAM the machine has: a flood need not
    // be larger than the disk.
    fs::write(format!("/sys/class/bdi/{}/max_ratio_fine", device.id), "20000")
        .map_err(said("max_ratio"))?;
    let original = knobs(device.id);
    let options = Options {
        devices: Which::Named(vec![device.id.to_string()]),
        ..Options::new(device.journal(), "a test")
    };
    let mut plant = HostPlant::open(&options).map_err(said("open"))?;
    let mut guard = Guard::new(Config::default());
    let committer = Worker::start(&["commit", &device.file("c")])?;
    let written = steer(&mut guard, &mut plant, Duration::from_secs(5), |_| false)?;
    ensure(written.is_empty(), || format!("nobody floods, and it has written {written:?}"))?;

    let flood = Worker::start(&["flood", &device.file("f"), "600"])?;
    let mut written = steer(&mut guard, &mut plant, FLUSHER, |plant| !plant.held().is_empty())?;
    ensure(!plant.held().is_empty(), || "nothing is in force while it floods".to_owned())?;
    written.extend(steer(&mut guard, &mut plant, Duration::from_secs(2), |_| false)?);
    let window = Window::new(&device, &committer);
    steer(&mut guard, &mut plant, Duration::from_secs(10), |_| false)?;
    let guarded = window.end(&device, &committer);

    // The flood goes on until its backlog is on the disk. Under an elevator that prefers commits
    // that may take minutes.
    drop(flood);
    let ended = Instant::now();
    steer(&mut guard, &mut plant, Duration::from_secs(240), |plant| plant.held().is_empty())?;
    eprintln!("given back {:.1?} after the flood's end", ended.elapsed());
    ensure(knobs(device.id) == original, || {
        format!("{:?} became {:?}", original, knobs(device.id))
    })?;

    // The same without, once the flusher has begun.
    let _flood = Worker::start(&["flood", &device.file("f"), "600"])?;
    let end = Instant::now() + FLUSHER;
    loop {
        let window = Window::new(&device, &committer);
        std::thread::sleep(Duration::from_secs(1));
        if window.end(&device, &committer).1 > FLOODED {
            break;
        }
        ensure(Instant::now() < end, || "the flusher does not begin".to_owned())?;
    }
    let window = Window::new(&device, &committer);
    std::thread::sleep(Duration::from_secs(10));
    let alone = window.end(&device, &committer);
    eprintln!(
        "commits/s, bytes/s written: {guarded:.1?} guarded, {alone:.1?} without; {written:?}"
    );
    ensure(guarded.0 > 1.5 * alone.0, || format!("{guarded:.1?} guarded, {alone:.1?} without"))?;
    let closed = plant.close(Duration::from_secs(60));
    ensure(closed.is_complete(), || format!("{closed:?}"))?;
    ensure(knobs(device.id) == original, || format!("{:?} became {:?}", original, knobs(device.id)))
}
