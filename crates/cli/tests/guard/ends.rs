//! Every way in which a guard can end while it holds something: afterwards the administrator's settings are in force.

use std::collections::BTreeMap;

use rustix::process::Signal;

use crate::Test;
use crate::bed::{Device, GOAL, Guard, differences, kill, lives, until};
use crate::load::Load;

pub(crate) const TESTS: &[Test] = &[
    test("told to stop: everything is put back", || each(stopped)),
    test("worker killed: its parent puts everything back and starts another", || each(worker_killed)),
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

/// A guard that holds something, and what was there before.
struct Scene {
    guard: Guard,
    device_name: String,
    before: BTreeMap<String, String>,
}

impl Scene {
    fn knobs_are_back(&self, device: &Device) -> bool {
        differences(&self.before, &device.knobs()).is_empty()
    }

    /// Waits until the parent has put everything back, before another worker begins.
    fn put_back_by_parent(&self, device: &Device) -> Result<(), String> {
        self.guard
            .until("everything is put back", || self.guard.log().contains("what it held is put back"))?;
        let wrong = differences(&self.before, &device.knobs());
        let log = self.guard.log();
        // Read after the knobs: if no other worker had begun by now, nobody can have written them again.
        if !wrong.is_empty() && log.matches("looking through").count() == 1 {
            return Err(format!("{wrong:?}\n{log}"));
        }
        Ok(())
    }
}

/// Ends a guard that holds something, again and again. `end` gives back a guard that still runs.
fn each(end: fn(Scene, &Device) -> Result<Option<Guard>, String>) -> Result<(), String> {
    let ends = std::env::var("FLOODWALL_GUARD_ENDS").ok().and_then(|n| n.parse().ok()).unwrap_or(ENDS);
    let device = Device::up(PRESET)?;
    let before = device.knobs();
    let _loads = [Load::start("victim", &device.directory)?, Load::start("flood", &device.directory)?];
    for n in 1..=ends {
        let guard = Guard::start(&device.name, &GOAL)?;
        let said = |e: String| format!("end {n} of {ends}: {e}");
        guard
            .until("it holds something", || !differences(&before, &device.knobs()).is_empty())
            .map_err(said)?;
        let scene = Scene { guard, device_name: device.name.clone(), before: before.clone() };
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
    kill(worker, Signal::KILL)?;
    scene.put_back_by_parent(device)?;
    let log = scene.guard.log();
    if !log.contains("the worker died (signal: 9 (SIGKILL))") {
        return Err(log);
    }
    scene.guard.until("another worker steers", || scene.guard.worker().is_some_and(|pid| pid != worker))?;
    Ok(Some(scene.guard))
}

fn worker_hangs(scene: Scene, device: &Device) -> Result<Option<Guard>, String> {
    let worker = scene.guard.worker().ok_or("no worker")?;
    kill(worker, Signal::STOP)?;
    scene.put_back_by_parent(device)?;
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
    let said = scene.guard.restore()?;
    if scene.knobs_are_back(device) { Ok(None) } else { Err(format!("restore said: {said}")) }
}
