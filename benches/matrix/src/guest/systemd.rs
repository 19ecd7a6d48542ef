//! The guard as a service of a real systemd, beside a victim and a flood on a lab disk. It is
//! started, reloaded, hung, killed, upgraded and stopped. Then control groups: a weight of `apply`,
//! through systemd.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::files::read;
use super::guard::{differences, lab_knobs};
use super::knobs::floodwall;
use super::lab::{Lab, disks_elevator};
use super::line::Line;
use super::worker::Worker;
use crate::said::{Outcome, Said};

/// systemd, of this machine.
const SYSTEMD: &str = "/usr/lib/systemd/systemd";
/// The service that runs the checks.
const SERVICE: &str = "matrix.service";
/// After udev has seen the disk, and settings of the boot are in force.
const CHECKS: &str = "[Unit]\nAfter=basic.target systemd-udev-trigger.service \
    systemd-sysctl.service\n\
    SuccessAction=poweroff-force\nFailureAction=poweroff-force\n\
    [Service]\nType=oneshot\nExecStart=/matrix guest-checks\nEnvironment=PATH=/usr/sbin:/usr/bin\n\
    StandardOutput=journal+console\n";
/// Units whose programs the guest lacks.
const MASKED: [&str; 4] =
    ["systemd-logind.service", "getty.target", "systemd-hwdb-update.service", "tmp.mount"];
/// Debian empties /tmp at a boot, and the repository may be there.
const TMP: (&str, &str) = ("/etc/tmpfiles.d/tmp.conf", "d /tmp 1777 root root -\n");
/// The unit in the repository, and where an administrator puts it.
const PACKAGED: &str =
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/systemd/floodwall-guard.service");
pub(crate) const UNITS: &str = "/etc/systemd/system";
pub(crate) const UNIT: &str = "floodwall-guard.service";
const PROGRAM: &str = "/usr/bin/floodwall";
pub(crate) const CONFIG: &str = "/etc/floodwall/guard.toml";
/// As an administrator would with `systemctl edit`: the emulated processor's time is short.
const SHORTER: &str = "[Service]\nWatchdogSec=10\nRestartSec=5\n";
/// How long each state is waited for.
pub(crate) const PATIENCE: Duration = Duration::from_secs(150);
pub(crate) const POLL: Duration = Duration::from_millis(250);
/// A unit of systemd's whose group is set by both.
const NEIGHBOUR: &str = "matrix-neighbour.service";

/// Whether this machine had a systemd for the guest.
pub(crate) fn is_here() -> bool {
    Path::new(SYSTEMD).exists()
}

/// Becomes systemd, which runs the checks as a service.
///
/// # Errors
/// Why it could not; otherwise this does not return.
pub(crate) fn become_it() -> anyhow::Result<()> {
    let units = Path::new(UNITS);
    let wants = units.join("multi-user.target.wants");
    std::fs::create_dir_all(&wants)?;
    std::fs::write(units.join(SERVICE), CHECKS)?;
    let link = |to: &str, at: PathBuf| {
        let _ = std::fs::remove_file(&at);
        symlink(to, at)
    };
    link(&format!("../{SERVICE}"), wants.join(SERVICE))?;
    link("/usr/lib/systemd/system/multi-user.target", units.join("default.target"))?;
    for unit in MASKED {
        link("/dev/null", units.join(unit))?;
    }
    std::fs::create_dir_all("/etc/tmpfiles.d")?;
    std::fs::write(TMP.0, TMP.1)?;
    // With one, systemd takes the boot for no first boot, and asks nothing.
    std::fs::write("/etc/machine-id", "0123456789abcdef0123456789abcdef\n")?;
    Err(Command::new(SYSTEMD).env_clear().exec()).context("can't start systemd")
}

pub(crate) fn check(line: &Line) -> anyhow::Result<Outcome> {
    if !is_here() {
        return Ok(Outcome::LeftOut(format!("needs {SYSTEMD} of this machine")));
    }
    let release = systemctl(&["--version"])?;
    let release = release.split_whitespace().nth(1).unwrap_or("?").to_owned();
    line.say(&Said::Has { what: "systemd in the check".to_owned(), how: release });
    install()?;
    let service = Service::up()?;
    let done = service.life();
    let done = done.with_context(|| {
        let journal = Command::new("journalctl")
            .args(["-u", UNIT, "-n", "8", "-o", "cat", "--no-pager"])
            .output();
        let journal =
            journal.map(|output| String::from_utf8_lossy(&output.stdout).replace('\n', " / "));
        format!("the guard's last lines: {}", journal.unwrap_or_default())
    })?;
    drop(service);
    let groups = beside_systemd().context("io.weight beside systemd's own")?;
    Ok(Outcome::Passed(format!("the guard's service {done}; {groups}")))
}

/// As docs/guard.md says.
pub(crate) fn install() -> anyhow::Result<()> {
    let unit = Path::new(UNITS).join(UNIT);
    std::fs::copy(PACKAGED, &unit).with_context(|| format!("can't copy '{PACKAGED}'"))?;
    let dir = unit.with_extension("service.d");
    std::fs::create_dir_all(&dir)?;
    std::fs::write(dir.join("matrix.conf"), SHORTER)?;
    std::fs::create_dir_all("/etc/floodwall")?;
    // A link so far; a service's program is a file.
    replace_program()?;
    systemctl(&["daemon-reload"]).map(drop)
}

/// Puts a new file in the program's place, as a package manager does.
fn replace_program() -> anyhow::Result<()> {
    let new = format!("{PROGRAM}.new");
    std::fs::copy(PROGRAM, &new)?;
    std::fs::rename(&new, PROGRAM)?;
    Ok(())
}

/// The guard's service on a lab disk. Both are gone when it is dropped.
struct Service {
    lab: Lab,
    original: BTreeMap<PathBuf, String>,
}

impl Service {
    fn up() -> anyhow::Result<Self> {
        let lab = Lab::up("hdd-7200", "ext4", disks_elevator())?;
        // The flusher begins with the first tens of MiB.
        std::fs::write(format!("/sys/block/{}/bdi/max_ratio", lab.name), "2")
            .context("can't set max_ratio")?;
        configure(&lab, false)?;
        let original = lab_knobs(&lab.name);
        Ok(Self { lab, original })
    }

    /// All that happens to a service; in words.
    fn life(&self) -> anyhow::Result<&'static str> {
        systemctl(&["start", UNIT])?;
        let _committer = Worker::start(&["commit", &self.lab.file("commits")])?;
        let _flood = Worker::start(&["flood", &self.lab.file("flood")])?;
        self.until(false, "started")?;
        // The guard's line for `systemctl status` comes every few seconds.
        let begin = Instant::now();
        while systemctl(&["show", "-p", "StatusText", "--value", UNIT])?.trim().is_empty() {
            anyhow::ensure!(
                begin.elapsed() < PATIENCE,
                "`systemctl status` has no line of the guard's"
            );
            std::thread::sleep(POLL);
        }

        configure(&self.lab, true)?;
        systemctl(&["reload", UNIT])?;
        self.until(true, "reloaded with dry_run")?;
        configure(&self.lab, false)?;
        systemctl(&["reload", UNIT])?;
        self.until(false, "reloaded without dry_run")?;

        let main = self.main()?;
        kill("STOP", main)?;
        self.another_than(main, "hung, and systemd's watchdog")?;
        self.until(false, "ended by the watchdog and restarted")?;

        let main = self.main()?;
        systemctl(&["kill", "--signal=KILL", UNIT])?;
        self.another_than(main, "killed with its worker")?;
        self.until(false, "killed and restarted")?;

        let before = program_of(self.main()?)?;
        replace_program()?;
        systemctl(&["restart", UNIT])?;
        anyhow::ensure!(
            program_of(self.main()?)? != before,
            "the old program runs after an upgrade"
        );
        self.until(false, "upgraded")?;

        systemctl(&["stop", UNIT])?;
        let left = differences(&self.original, &lab_knobs(&self.lab.name));
        anyhow::ensure!(left.is_empty(), "stopped, it left {}", left.join(", "));
        Ok("started, reloaded, ended by the watchdog, killed, upgraded and stopped: it steered \
             again each time, and \
            everything came back")
    }

    /// Waits until the guard holds something, or nothing any more.
    fn until(&self, nothing: bool, when: &str) -> anyhow::Result<()> {
        let begin = Instant::now();
        while (lab_knobs(&self.lab.name) == self.original) != nothing {
            if begin.elapsed() > PATIENCE {
                let held = differences(&self.original, &lab_knobs(&self.lab.name));
                let says = Command::new(PROGRAM).args(["guard", "status"]).output()?;
                let says = String::from_utf8_lossy(&says.stdout).replace('\n', " / ");
                bail!("{when}: it holds [{}]; {says}", held.join(", "));
            }
            std::thread::sleep(POLL);
        }
        Ok(())
    }

    /// Waits for another main process, between which and the old one everything was put back.
    fn another_than(&self, old: u32, when: &str) -> anyhow::Result<()> {
        let begin = Instant::now();
        let mut came_back = false;
        loop {
            match self.main() {
                Ok(now) if now == old => {}
                Ok(_) => break,
                Err(_) => came_back |= lab_knobs(&self.lab.name) == self.original,
            }
            anyhow::ensure!(begin.elapsed() < PATIENCE, "{when}: no other process comes");
            std::thread::sleep(Duration::from_millis(20));
        }
        anyhow::ensure!(
            came_back,
            "{when}: not everything was put back before it was started again"
        );
        Ok(())
    }

    /// The service's main process, if it runs.
    fn main(&self) -> anyhow::Result<u32> {
        let said = systemctl(&["show", "-p", "MainPID", "--value", UNIT])?;
        let pid = said.trim().parse().with_context(|| format!("MainPID is '{}'", said.trim()))?;
        anyhow::ensure!(pid != 0, "the service does not run");
        Ok(pid)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = systemctl(&["stop", UNIT]);
    }
}

fn configure(lab: &Lab, dry_run: bool) -> anyhow::Result<()> {
    let text = format!(
        "devices = [\"{}\"]\nsource = \"perf\"\np99 = \"20ms\"\ndry_run = {dry_run}\n",
        lab.name
    );
    std::fs::write(CONFIG, text).with_context(|| format!("can't write '{CONFIG}'"))
}

/// The file that a process runs; the same name may be another file.
fn program_of(pid: u32) -> anyhow::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    Ok(std::fs::metadata(format!("/proc/{pid}/exe"))
        .context("can't read the guard's /proc/PID/exe")?
        .ino())
}

fn kill(signal: &str, pid: u32) -> anyhow::Result<()> {
    let status = Command::new("kill").args([&format!("-{signal}"), &pid.to_string()]).status()?;
    anyhow::ensure!(status.success(), "can't send SIG{signal} to {pid}");
    Ok(())
}

/// floodwall and systemd set one group. systemd sets its own value again; a rollback leaves that.
fn beside_systemd() -> anyhow::Result<&'static str> {
    let path = format!("/sys/fs/cgroup/system.slice/{NEIGHBOUR}/io.weight");
    systemctl(&["set-property", "--runtime", "system.slice", "IOAccounting=yes"])?;
    let unit = format!("{UNITS}/{NEIGHBOUR}");
    std::fs::write(&unit, "[Service]\nExecStart=/usr/bin/sleep infinity\nIOWeight=200\n")?;
    systemctl(&["daemon-reload"])?;
    systemctl(&["start", NEIGHBOUR])?;
    let weight = || read(&path);
    let is = |value: &str, when: &str| {
        let now = weight();
        anyhow::ensure!(now.as_deref() == Some(value), "{when}: {now:?} instead of '{value}'");
        Ok(())
    };
    is("default 200", "systemd's own")?;
    floodwall(&["apply", "--yes", &format!("system.slice/{NEIGHBOUR}:io.weight=50")])?;
    is("default 50", "after apply")?;
    systemctl(&["daemon-reload"])?;
    is("default 50", "after daemon-reload")?;
    systemctl(&["set-property", "--runtime", NEIGHBOUR, "IOWeight=300"])?;
    is("default 300", "after set-property")?;
    floodwall(&["rollback"])?;
    is("default 300", "after the rollback")?;
    systemctl(&["stop", NEIGHBOUR])?;
    Ok("a weight that apply set is kept by a daemon-reload, and rollback leaves what set-property \
         set since")
}

/// Runs systemctl, which has to succeed; what it printed.
pub(crate) fn systemctl(words: &[&str]) -> anyhow::Result<String> {
    let output = Command::new("systemctl")
        .args(words)
        .arg("--no-pager")
        .output()
        .context("can't run systemctl")?;
    if !output.status.success() {
        bail!(
            "systemctl {}: {}: {}",
            words.join(" "),
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
