//! Every knob of the catalogue is read. If it exists, it is written through `floodwall apply`, read
//! back from its file, and put back by `floodwall rollback`. Then every file reads as before.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command};

use anyhow::{Context, bail};
use floodwall_host::SysRoot;
use floodwall_knobs::catalogue::{self, Knob, Scope, Unit};
use floodwall_knobs::cell::{Cell, State};
use floodwall_knobs::{Device, KernelFiles, Process, Target};
use floodwall_model::Reading;

use super::files::{chosen, read};
use super::line::Line;
use crate::said::{Outcome, Said};

const QUEUE: &str = "/sys/block/vda/queue";
const GROUPS: &str = "/sys/fs/cgroup";
/// A group of the check's own.
const GROUP: &str = "matrix";
/// Controllers that a kernel may have.
const CONTROLLERS: [&str; 4] = ["cpu", "io", "memory", "pids"];

pub(crate) fn check(line: &Line) -> anyhow::Result<Outcome> {
    let group = format!("{GROUPS}/{GROUP}");
    for controller in CONTROLLERS {
        let switched =
            std::fs::write(format!("{GROUPS}/cgroup.subtree_control"), format!("+{controller}"));
        let how = switched.map_or_else(|e| e.to_string(), |()| "yes".to_owned());
        line.say(&Said::Has { what: format!("cgroup v2 controller {controller}"), how });
    }
    std::fs::create_dir_all(&group).context("can't make a control group")?;
    let root = SysRoot::live()?;
    let files = KernelFiles::new(&root)?;
    let device = Device::find(&root, "vda")?;
    let mut run = Run { files, device, wrong: Vec::new(), written: 0, absent: Vec::new() };
    let schedulers = read(format!("{QUEUE}/scheduler")).context("the disk has no elevators")?;
    let first = chosen(&schedulers).to_owned();
    let mut found = BTreeMap::new();
    let elevators: Vec<&str> =
        schedulers.split_whitespace().map(|name| name.trim_matches(['[', ']'])).collect();
    for elevator in elevators {
        line.say(&Said::Has { what: format!("elevator {elevator}"), how: "yes".to_owned() });
        std::fs::write(format!("{QUEUE}/scheduler"), elevator)?;
        for knob in catalogue::knobs() {
            let here = matches!(knob.scope, Scope::Elevator(of) if of.contains(&elevator));
            if here && run.knob(knob, &run.on_device()) {
                let under: &mut Vec<&str> = found.entry(knob.name).or_default();
                under.push(elevator);
            }
        }
    }
    // Without an elevator the kernel refuses async_depth.
    std::fs::write(format!("{QUEUE}/scheduler"), "mq-deadline")?;
    let sleeper = Sleeper::start()?;
    for knob in catalogue::knobs() {
        let target = match knob.scope {
            Scope::Elevator(_) => continue,
            Scope::Threads => Target::Process(Process::find(&root, &sleeper.0.id().to_string())?),
            Scope::Global => Target::Machine,
            Scope::Queue | Scope::Bdi | Scope::Scsi | Scope::Journal => run.on_device(),
            Scope::CgroupValue => Target::group(GROUP, None)?,
            // A device has a separate weight only while a policy of its queue uses it.
            Scope::Cgroup if knob.has_default_line() => Target::group(GROUP, None)?,
            Scope::Cgroup => Target::group(GROUP, Some(run.device.clone()))?,
            Scope::RootCgroup => Target::group("", Some(run.device.clone()))?,
        };
        if run.knob(knob, &target) {
            found.insert(knob.name, Vec::new());
        }
    }
    std::fs::write(format!("{QUEUE}/scheduler"), first)?;
    for knob in catalogue::knobs() {
        let how = match found.get(knob.name) {
            None => "no".to_owned(),
            Some(under) if under.is_empty() => "yes".to_owned(),
            Some(under) => under.join(", "),
        };
        line.say(&Said::Has { what: knob.name.to_owned(), how });
    }
    let _ = std::fs::remove_dir(&group);
    if !run.wrong.is_empty() {
        bail!("{}", run.wrong.join("; "));
    }
    Ok(Outcome::Passed(format!(
        "{} knobs written, read back and put back; absent: {}",
        run.written,
        if run.absent.is_empty() { "none".to_owned() } else { run.absent.join(", ") }
    )))
}

/// A process whose priority is changed; it ends with this.
struct Sleeper(Child);

impl Sleeper {
    fn start() -> std::io::Result<Self> {
        Command::new("sleep").arg("600").spawn().map(Self)
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Run {
    files: KernelFiles,
    device: Device,
    wrong: Vec<String>,
    written: usize,
    absent: Vec<&'static str>,
}

impl Run {
    fn on_device(&self) -> Target {
        Target::Device(self.device.clone())
    }

    /// Checks one; whether it is there.
    fn knob(&mut self, knob: &'static Knob, target: &Target) -> bool {
        let label = target.label(knob);
        let cell = Cell::of(knob, target, &self.files);
        let state = match cell.read(&self.files) {
            Reading::Value(state) => state,
            Reading::Absent(_) => {
                if !self.absent.contains(&knob.name) {
                    self.absent.push(knob.name);
                }
                return false;
            }
            Reading::Unreadable(why) => {
                self.wrong.push(format!("{label} can't be read: {why}"));
                return true;
            }
        };
        let Some(value) = another(knob, &state.value) else {
            self.wrong.push(format!("{label} = '{}' has no other value to try", state.value));
            return true;
        };
        match self.write(&label, &value, &cell, &state) {
            Ok(()) => self.written += 1,
            Err(e) => self.wrong.push(format!("{label}={value} (was {}): {e:#}", state.value)),
        }
        true
    }

    fn write(&self, label: &str, value: &str, cell: &Cell, old: &State) -> anyhow::Result<()> {
        let before = everything();
        let is_old = || cell.read(&self.files).value().is_some_and(|now| cell.same(now, old));
        floodwall(&["apply", "--yes", &format!("{label}={value}")])?;
        let applied = !is_old();
        floodwall(&["rollback"])?;
        if !applied {
            bail!("its file still reads '{}'", old.value);
        }
        if !is_old() {
            bail!("after the rollback it is {:?}", cell.read(&self.files));
        }
        unchanged_since(&before)
    }
}

/// An error that names every file that reads otherwise than `before`.
pub(crate) fn unchanged_since(before: &BTreeMap<PathBuf, String>) -> anyhow::Result<()> {
    let after = everything();
    let differ: Vec<String> = before
        .iter()
        .filter(|(path, old)| after.get(*path) != Some(old))
        .map(|(path, old)| format!("{} was {old:?}, is {:?}", path.display(), after.get(path)))
        .collect();
    anyhow::ensure!(differ.is_empty(), "after the rollback {}", differ.join(", "));
    Ok(())
}

/// A value that differs from the present one, as people write it.
fn another(knob: &Knob, now: &str) -> Option<String> {
    match knob.unit {
        Unit::Elevator => {
            let all = read(format!("{QUEUE}/scheduler"))?;
            all.split_whitespace().find(|name| !name.starts_with('[')).map(str::to_owned)
        }
        Unit::IoPriority => Some("be/1".to_owned()),
        Unit::Flag => Some(if now == "0" { "1" } else { "0" }.to_owned()),
        Unit::Keys(_) => Some(
            match knob.name {
                "io.max" => "wbps=10MB",
                "io.latency" => "target=20000",
                "io.cost.qos" => "enable=1 rpct=90 rlat=50000 wpct=90 wlat=50000 min=50 max=150",
                "io.cost.model" => {
                    "ctrl=user model=linear rbps=1GB rseqiops=10000 rrandiops=9000 wbps=900MB \
                     wseqiops=8000 wrandiops=7000"
                }
                _ => return None,
            }
            .to_owned(),
        ),
        unit => {
            let now = now.split_whitespace().last()?.parse::<i64>().unwrap_or(0);
            let other = match (knob.name, now) {
                // Bytes are in force where the ratio reads 0.
                ("vm.dirty_bytes", _) => 256 << 20,
                ("vm.dirty_background_bytes", _) => 64 << 20,
                ("bdi.max_bytes", _) => 128 << 20,
                ("io.weight", _) => 50,
                ("memory.high", _) => 1 << 30,
                // Kept in millionths where the kernel has those.
                ("bdi.max_ratio", _) => 50,
                ("bdi.min_ratio", _) => 1,
                (_, now) if now / 2 >= knob.min.max(1) => now / 2,
                (_, now) => (now + 1).min(knob.max),
            };
            let suffix = if matches!(unit, Unit::Bytes | Unit::BytesOrMax) { "B" } else { "" };
            Some(format!("{other}{suffix}"))
        }
    }
}

/// Runs a command of floodwall that has to succeed.
pub(crate) fn floodwall(words: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("floodwall").args(words).output()?;
    if !output.status.success() {
        bail!(
            "floodwall {} ended with {}: {}",
            words[0],
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Every file that a knob could be, as it reads; those of io.cost get a line that stays.
pub(crate) fn everything() -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    let dirs = [
        "/proc/sys/vm",
        QUEUE,
        "/sys/block/vda/queue/iosched",
        "/sys/block/vda/bdi",
        "/sys/fs/cgroup/matrix",
    ];
    for dir in dirs {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_knob = match dir {
                "/proc/sys/vm" => name.starts_with("dirty"),
                "/sys/fs/cgroup/matrix" => {
                    ["io.max", "io.weight", "io.bfq.weight", "io.latency", "memory.high"]
                        .contains(&name.as_str())
                }
                // Counters, and what follows the free memory.
                _ => {
                    !["io_timeout", "stat", "max_bytes", "min_bytes"].contains(&name.as_str())
                        && path.is_file()
                }
            };
            if let Some(text) = is_knob.then(|| read(&path)).flatten() {
                all.insert(path, text);
            }
        }
    }
    all
}
