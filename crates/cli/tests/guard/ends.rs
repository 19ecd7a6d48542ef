//! Every way in which a guard can end while it holds something: afterwards the administrator's
//! settings are in force.

use std::collections::BTreeMap;

use rustix::process::Signal;

use crate::Test;
use crate::bed::{Device, GOAL, Guard, differences, kill, lives, until};
use crate::load::Load;

pub(crate) const TESTS: &[Test] = &[
    test("told to stop: everything is put back", || each(stopped)),
    test("worker killed: its parent puts everything back and starts another", || {
        each(worker_killed)
    }),
    test("worker hangs: its parent kills it and puts everything back", || each(worker_hangs)),
    test("parent killed: the worker puts everything back", || each(parent_killed)),
    test("both killed: restore puts everything back", || each(both_killed)),
];

const fn test(name: &'static str, body: fn() -> Result<(), String>) -> Test {
    Test { name, needs: &["mkfs.xfs"], kernel: true, body }
}

/// Reacts fast and drains fast, so that many ends fit into a minute.
const PRESET: &str = "sata-ssd";
/// How often each end is tried.
const ENDS: u32 = 3;

/// How often a worker is ended until one look falls before the next worker begins. Fewer than the
/// deaths after which a guard gives up.
const TRIES: u32 = 3;
/// What the parent logs when it has put everything back, and a worker when it begins.
const PUT_BACK: &str = "what it held is put back";
const BEGUN: &str = "looking through";

/// A guard that holds something, and the values from before.
struct Scene {
    guard: Guard,
    device_name: String,
    before: BTreeMap<String, String>,
}

impl Scene {
    fn knobs_are_back(&self, device: &Device) -> bool {
        differences(&self.before, &device.knobs()).is_empty()
    }

    fn holds_something(&self, device: &Device) -> Result<(), String> {
        self.guard.until("it holds something", || !self.knobs_are_back(device))
    }

    /// Sends a worker that holds something a signal. Checks what the parent has put back before the
    /// parent starts another worker, which would put the rest back, or hold it again.
    fn parent_puts_back(&self, device: &Device, signal: Signal) -> Result<(), String> {
        let times = |words: &str| self.guard.log().matches(words).count();
        for _ in 0..TRIES {
            self.holds_something(device)?;
            let worker = self.guard.worker().ok_or("no worker")?;
            let (back, begun) = (times(PUT_BACK), times(BEGUN));
            kill(worker, signal)?;
            self.guard
                .until("the parent says that everything is put back", || times(PUT_BACK) > back)?;
            // It can't start another one while it is stopped.
            kill(self.guard.parent(), Signal::STOP)?;
            let wrong = differences(&self.before, &device.knobs());
            let alone = times(BEGUN) == begun;
            kill(self.guard.parent(), Signal::CONT)?;
            match wrong.as_slice() {
                _ if !alone => {}
                [] => return Ok(()),
                wrong => return Err(format!("{wrong:?}\n{}", self.guard.log())),
            }
        }
        Err(format!(
            "another worker began each time before anybody could look\n{}",
            self.guard.log()
        ))
    }
}

/// Ends a guard that holds something, again and again. `end` gives back a guard that still runs.
fn each(end: fn(Scene, &Device) -> Result<Option<Guard>, String>) -> Result<(), String> {
    let ends =
        std::env::var("FLOODWALL_GUARD_ENDS").ok().and_then(|n| n.parse().ok()).unwrap_or(ENDS);
    let device = Device::up(PRESET)?;
    let before = device.knobs();
    let _loads =
        [Load::start("victim", &device.directory)?, Load::start("flood", &device.directory)?];
    for n in 1..=ends {
        let guard = Guard::start(&device.name, &GOAL)?;
        let said = |e: String| format!("end {n} of {ends}: {e}");
        let scene = Scene { guard, device_name: device.name.clone(), before: before.clone() };
        scene.holds_something(&device).map_err(said)?;
        let left = end(scene, &device).map_err(said)?;
        if let Some(guard) = left {
            guard.stop().map_err(said)?;
        }
        let wrong = differences(&before, &device.knobs());
        if !wrong.is_empty() {
            return Err(said(format!("{wrong:?}")));
        }
    }
    println!("{ends} of {ends} ends left {}'s {} settings as they were", device.name, before.len());
    Ok(())
}

fn stopped(scene: Scene, _: &Device) -> Result<Option<Guard>, String> {
    let name = scene.device_name;
    let log = scene.guard.stop()?;
    let told = log.contains(&format!("{name}: ")) && log.contains(" → ") && log.contains("wrote ");
    if told { Ok(None) } else { Err(format!("the log does not say what was written: {log}")) }
}

fn worker_killed(scene: Scene, device: &Device) -> Result<Option<Guard>, String> {
    let worker = scene.guard.worker().ok_or("no worker")?;
    scene.parent_puts_back(device, Signal::KILL)?;
    let log = scene.guard.log();
    if !log.contains("the worker died (signal: 9 (SIGKILL))") {
        return Err(log);
    }
    scene
        .guard
        .until("another worker steers", || scene.guard.worker().is_some_and(|pid| pid != worker))?;
    Ok(Some(scene.guard))
}

fn worker_hangs(scene: Scene, device: &Device) -> Result<Option<Guard>, String> {
    scene.parent_puts_back(device, Signal::STOP)?;
    let log = scene.guard.log();
    if !log.contains("gave no sign for 5 s and was killed") {
        return Err(log);
    }
    Ok(Some(scene.guard))
}

fn parent_killed(mut scene: Scene, device: &Device) -> Result<Option<Guard>, String> {
    let worker = scene.guard.worker().ok_or("no worker")?;
    kill(scene.guard.parent(), Signal::KILL)?;
    scene.guard.child.wait().map_err(|e| e.to_string())?;
    until("the worker has ended", || !lives(worker))?;
    if scene.knobs_are_back(device) { Ok(None) } else { Err("not everything is put back".into()) }
}

fn both_killed(mut scene: Scene, device: &Device) -> Result<Option<Guard>, String> {
    let worker = scene.guard.worker().ok_or("no worker")?;
    // Stopped first: it must not have the time to put anything back.
    kill(scene.guard.parent(), Signal::STOP)?;
    kill(worker, Signal::KILL)?;
    kill(scene.guard.parent(), Signal::KILL)?;
    scene.guard.child.wait().map_err(|e| e.to_string())?;
    until("the worker is gone", || !lives(worker))?;
    // A dry run would take the present values for the administrator's.
    let dry = scene.guard.dry_run_for_a_second(&scene.device_name)?;
    if !dry.contains("a guard that was killed has left ") || !dry.contains("guard restore puts ") {
        return Err(format!("the dry run said: {dry}"));
    }
    let said = scene.guard.restore()?;
    if scene.knobs_are_back(device) { Ok(None) } else { Err(format!("restore said: {said}")) }
}
