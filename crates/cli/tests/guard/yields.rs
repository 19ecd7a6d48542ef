//! Commands that change settings beside a guard: it yields the knobs that it holds, and without its
//! answer nothing is changed.

use rustix::process::Signal;
use serde_json::Value;

use crate::Test;
use crate::bed::{Device, GOAL, Guard, differences, kill};
use crate::load::Load;

pub(crate) const TESTS: &[Test] = &[
    test("apply has a guard yield what it holds", applied),
    test("a rollback has a guard yield what it has on top", rolled_back),
    test("nothing is changed if the guard does not answer", silent),
];

const fn test(name: &'static str, body: fn() -> Result<(), String>) -> Test {
    Test { name, needs: &["mkfs.xfs"], kernel: true, body }
}

const PRESET: &str = "sata-ssd";
/// The knob that a guard shortens first.
const KNOB: &str = "max_sectors_kb";
const FILE: &str = "queue/max_sectors_kb";

/// A guard that holds the knob, and the load that it holds it for. Dropped from the first to the
/// last.
struct Scene {
    _loads: [Load; 2],
    guard: Guard,
    device: Device,
}

impl Scene {
    /// Changes the knob before the guard's worker begins, if so asked.
    fn new(change: Option<&str>) -> Result<Self, String> {
        let device = Device::up(PRESET)?;
        let guard = Guard::start(&device.name, &GOAL)?;
        if let Some(value) = change {
            guard.beside(&["apply", "--yes", &format!("{}.{KNOB}={value}", device.name)])?;
            let worker = guard.worker().ok_or("no worker")?;
            kill(worker, Signal::KILL)?;
            guard.until("another worker", || {
                guard.worker().is_some_and(|another| another != worker)
            })?;
        }
        let own = device.knobs()[FILE].clone();
        let loads =
            [Load::start("victim", &device.directory)?, Load::start("flood", &device.directory)?];
        let scene = Self { device, guard, _loads: loads };
        scene.guard.until("it holds the knob", || scene.is_held() && scene.value() != own)?;
        Ok(scene)
    }

    fn value(&self) -> String {
        self.device.knobs()[FILE].clone()
    }

    fn is_held(&self) -> bool {
        let status = self.guard.status();
        let held = status["devices"][0]["held"].as_array().cloned().unwrap_or_default();
        held.iter().any(|held| held["knob"] == KNOB)
    }

    /// The guard says that it leaves the knob alone, and does so while it steers on.
    fn is_left_alone(&self, value: &str) -> Result<(), String> {
        let status = self.guard.status();
        let left = status["left_alone"].as_array().cloned().unwrap_or_default();
        let is_it = |left: &Value| {
            left["device"] == self.device.name.as_str()
                && left["knob"] == KNOB
                && left["why"]
                    .as_str()
                    .is_some_and(|why| why.starts_with("another command has asked for it"))
        };
        if left.iter().filter(|left| is_it(left)).count() != 1 || self.is_held() {
            return Err(format!("{status}\n{}", self.guard.log()));
        }
        std::thread::sleep(std::time::Duration::from_secs(5));
        if self.value() == value {
            Ok(())
        } else {
            Err(format!("{}\n{}", self.value(), self.guard.log()))
        }
    }
}

/// The only difference is the knob's value.
fn is_all(differences: &[String], value: &str) -> Result<(), String> {
    match differences {
        [one] if one.starts_with(FILE) && one.ends_with(&format!("→ {value}")) => Ok(()),
        other => Err(format!("{other:?}")),
    }
}

fn applied() -> Result<(), String> {
    let device = Device::up(PRESET)?;
    let before = device.knobs();
    drop(device);
    let scene = Scene::new(None)?;
    scene.guard.beside(&["apply", "--yes", &format!("{}.{KNOB}=76", scene.device.name)])?;
    if scene.value() != "76" {
        return Err(format!("it reads {}\n{}", scene.value(), scene.guard.log()));
    }
    // The value to be put back is the administrator's, not the guard's.
    let log: Value = serde_json::from_str(&scene.guard.beside(&["log", "--json"])?)
        .map_err(|e| e.to_string())?;
    let change =
        log["changes"].as_array().and_then(|changes| changes.last()).cloned().unwrap_or_default();
    if change["state"] != "stands" || change["settings"][0]["old"]["value"] != before[FILE].as_str()
    {
        return Err(format!("{log}"));
    }
    scene.is_left_alone("76")?;
    let Scene { device, guard, _loads } = scene;
    drop(_loads);
    guard.until("the rest is put back", || {
        is_all(&differences(&before, &device.knobs()), "76").is_ok()
    })?;
    guard.beside(&["rollback"])?;
    let log = guard.stop()?;
    let wrong = differences(&before, &device.knobs());
    if wrong.is_empty() { Ok(()) } else { Err(format!("{wrong:?}\n{log}")) }
}

fn rolled_back() -> Result<(), String> {
    let scene = Scene::new(Some("1000"))?;
    let told = scene.guard.beside(&["rollback"])?;
    let own = scene.value();
    if !told.contains(&format!("{KNOB}: {own} again")) || own == "1000" {
        return Err(format!("{told}\n{}", scene.guard.log()));
    }
    scene.is_left_alone(&own)?;
    let Scene { device, guard, _loads } = scene;
    let log = guard.stop()?;
    if device.knobs()[FILE] == own { Ok(()) } else { Err(log) }
}

fn silent() -> Result<(), String> {
    let scene = Scene::new(None)?;
    let (parent, worker) = (scene.guard.parent(), scene.guard.worker().ok_or("no worker")?);
    // The parent first: it would kill a worker that hangs.
    kill(parent, Signal::STOP)?;
    kill(worker, Signal::STOP)?;
    let before = (scene.device.knobs(), scene.guard.beside(&["log"])?);
    let setting = format!("{}.{KNOB}=76", scene.device.name);
    let outcome = scene.guard.beside(&["apply", "--yes", &setting]);
    let after = (scene.device.knobs(), scene.guard.beside(&["log"])?);
    kill(worker, Signal::CONT)?;
    kill(parent, Signal::CONT)?;
    let told = outcome.err().ok_or("it was changed")?;
    for words in [
        "nothing was changed: ",
        &format!("{KNOB} is held by pid"),
        "run floodwall guard pause --socket /",
    ] {
        if !told.contains(words) {
            return Err(told);
        }
    }
    if before != after {
        return Err(format!("{:?}\n{}", differences(&before.0, &after.0), after.1));
    }
    scene.guard.until("it answers again", || !scene.guard.status().is_null())?;
    scene.guard.stop().map(drop)
}
