//! What a situation stands on: a lab device with a filesystem, and control groups that are called
//! like units. All of it goes when it is dropped, or the test's process ends.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use floodwall_testing::process::{Log, run};
use floodwall_testing::{said, until};

pub(crate) const FLOODWALL: &str = env!("CARGO_BIN_EXE_floodwall");
/// How long something that takes seconds may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
/// With less, the machine's limit would hold before that of a device.
const LEAST_LIMIT_BYTES: u64 = 600 << 20;
/// How much may wait for a disk where a test limits it, and what must wait before it asks. Below
/// three quarters of the limit the kernel does not throttle a flood (mm/page-writeback.c
/// `dirty_freerun_ceiling`), and a victim still commits now and then.
pub(crate) const LIMIT_MIB: u64 = 300;
pub(crate) const BACKLOG_MIB: u64 = 225;
/// The same of a stick, which drains a sixth of that.
pub(crate) const STICK_LIMIT_MIB: u64 = 100;
pub(crate) const STICK_BACKLOG_MIB: u64 = 75;
/// Where it may be mounted for one look, over any other mount.
pub(crate) const DEBUGFS: &str = "/sys/kernel/debug";
/// Places in a disk's counters.
const SECTORS_WRITTEN: usize = 6;
const FLUSHES: usize = 15;
const PAGE_BYTES: u64 = 4096;
const SECTOR_BYTES: u64 = 512;
/// What `lab run` runs: it tells the device and its filesystem, and ends with its standard input.
const UNTIL_STDIN_ENDS: &str = "echo \"$FLOODWALL_LAB_DEVICE\"; pwd -P; exec cat";

/// A device; taken down when it is dropped, or the test's process ends.
pub(crate) struct Lab {
    process: Child,
    /// `loop3`.
    pub(crate) name: String,
    pub(crate) directory: PathBuf,
    #[expect(dead_code, reason = "dropping it removes the directory")]
    place: tempfile::TempDir,
}

/// What waits for a device, and what it has written, at a moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    at: Instant,
    /// Dirty and under writeback, as debugfs tells (mm/backing-dev.c `bdi_debug_stats_show`).
    pub(crate) backlog_bytes: u64,
    /// By requests that ended (Documentation/block/stat.rst): the disk's counter, not that of its
    /// writeback, which the command reads.
    written_bytes: u64,
}

impl Moment {
    /// What the device wrote between two moments, in bytes a second.
    pub(crate) fn rate_until(&self, later: &Self) -> f64 {
        let written = later.written_bytes.saturating_sub(self.written_bytes);
        written as f64 / later.at.duration_since(self.at).as_secs_f64()
    }
}

impl Lab {
    /// With ext4: its commit waits for the data of other files.
    pub(crate) fn up(preset: &str) -> Result<Self, String> {
        Self::with(preset, "ext4")
    }

    /// With another filesystem.
    pub(crate) fn with(preset: &str, filesystem: &str) -> Result<Self, String> {
        let lab = format!("why-{preset}-{}", std::process::id());
        // A database's user has to get there.
        let all = fs::Permissions::from_mode(0o755);
        let place = tempfile::Builder::new().prefix("why").permissions(all).tempdir();
        let place = place.map_err(said("a directory"))?;
        let mut process = Command::new(FLOODWALL)
            .args([
                "lab", "run", preset, "--size", "3GiB", "--memory", "900MiB", "--fs", filesystem,
            ])
            .args(["--mount", &place.path().to_string_lossy()])
            .args(["--name", &lab, "--", "sh", "-c", UNTIL_STDIN_ENDS])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(said("floodwall lab"))?;
        let log = Log::of(process.stderr.take());
        let mut lines = BufReader::new(process.stdout.take().ok_or("no stdout")?).lines();
        let told = (lines.next(), lines.next());
        let (Some(Ok(device)), Some(Ok(directory))) = told else {
            return Err(format!("no lab ({:?})\n{}", process.wait(), log.text()));
        };
        Ok(Self {
            process,
            name: device.trim_start_matches("/dev/").to_owned(),
            directory: PathBuf::from(directory),
            place,
        })
    }

    /// Limits the dirty data of the device, as on a machine with little memory. A test's writes
    /// would not fill the limit of a large machine. Writeback throttling is off (block/blk-wbt.c),
    /// as with BFQ: it may keep the queue short for commits, and a stall would be chance. Both
    /// settings go with the device.
    pub(crate) fn limited_to(self, mib: u64) -> Result<Self, String> {
        let bdi = Path::new("/sys/block").join(&self.name).join("bdi");
        fs::write(bdi.join("strict_limit"), "1").map_err(said("strict_limit"))?;
        fs::write(bdi.join("max_bytes"), (mib << 20).to_string()).map_err(said("max_bytes"))?;
        let wbt = Path::new("/sys/block").join(&self.name).join("queue/wbt_lat_usec");
        // A kernel without it has none to switch off, and one with BFQ refuses.
        let _ = fs::write(wbt, "0");
        Ok(self)
    }

    /// The path of a file on it.
    pub(crate) fn file(&self, name: &str) -> String {
        self.directory.join(name).to_string_lossy().into_owned()
    }

    /// Where it is mounted, as the argument of a command.
    pub(crate) fn mount(&self) -> String {
        self.directory.to_string_lossy().into_owned()
    }

    /// Its state now. debugfs is mounted for this process alone.
    pub(crate) fn now(&self) -> Result<Moment, String> {
        let number = fs::read_to_string(format!("/sys/block/{}/dev", self.name));
        let number = number.map_err(said(&self.name))?;
        let script = format!(
            "mount -t debugfs none '{0}' && cat '{0}/bdi/{1}/stats'",
            DEBUGFS,
            number.trim()
        );
        let stats = run("unshare", &["--mount", "/bin/sh", "-c", &script])?;
        let backlog = ["BdiWriteback:", "BdiReclaimable:"].map(|name| kib_after(&stats, name));
        let [Some(writeback), Some(dirty)] = backlog else { return Err(stats) };
        let written_bytes = self.counter(SECTORS_WRITTEN)? * SECTOR_BYTES;
        Ok(Moment { at: Instant::now(), backlog_bytes: (writeback + dirty) << 10, written_bytes })
    }

    /// Flushes that it has done: a commit sends one or more.
    pub(crate) fn flushes(&self) -> Result<u64, String> {
        self.counter(FLUSHES)
    }

    /// A counter of the kernel's (Documentation/block/stat.rst), by its place from 0.
    fn counter(&self, place: usize) -> Result<u64, String> {
        let counters = fs::read_to_string(format!("/sys/block/{}/stat", self.name));
        let counters = counters.map_err(said("stat"))?;
        let counter = counters.split_whitespace().nth(place).and_then(|n| n.parse().ok());
        counter.ok_or_else(|| format!("no counter {place}: {counters}"))
    }

    /// Waits until so much waits for it.
    pub(crate) fn until_backlog(&self, mib: u64) -> Result<(), String> {
        let waits = || self.now().is_ok_and(|now| now.backlog_bytes >= mib << 20);
        until(PATIENCE, &format!("{mib} MiB wait"), waits)
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        // This closes its standard input first.
        let _ = self.process.wait();
    }
}

/// The number behind a name in a table of the kernel's.
fn kib_after(stats: &str, name: &str) -> Option<u64> {
    let line = stats.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Why situations can't be staged here although all programs and files are here.
pub(crate) fn missing() -> Option<String> {
    let of_machine = fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let pages = of_machine.lines().find_map(|line| line.strip_prefix("nr_dirty_threshold "));
    let bytes = pages.and_then(|pages| pages.trim().parse::<u64>().ok()).unwrap_or(0) * PAGE_BYTES;
    if groups().is_none() {
        Some("needs control groups of version 2".to_owned())
    } else if bytes < LEAST_LIMIT_BYTES {
        Some("needs a dirty limit of 600 MiB or more for the whole machine".to_owned())
    } else {
        None
    }
}

/// Where control groups of version 2 are mounted.
fn groups() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let is_it = |line: &&str| line.contains(" - cgroup2 ");
    mounts.lines().find(is_it)?.split(' ').nth(4).map(PathBuf::from)
}

/// A control group that is called like a unit. Systemd need not be there.
#[derive(Debug)]
pub(crate) struct Unit {
    group: PathBuf,
    pub(crate) name: String,
}

impl Unit {
    pub(crate) fn new(name: &str) -> Result<Self, String> {
        let above = format!("floodwall-why-{}", std::process::id());
        let group = groups().ok_or("no control groups")?.join(above).join(name);
        fs::create_dir_all(&group).map_err(said("a control group"))?;
        Ok(Self { group, name: name.to_owned() })
    }

    /// What it may write and hold in memory, where its controllers are on.
    pub(crate) fn limits(&self) -> Vec<String> {
        let read = |name: &&str| fs::read_to_string(self.group.join(name)).ok();
        ["io.max", "memory.high"].iter().filter_map(read).collect()
    }

    /// Takes a process in, and all that it will start.
    pub(crate) fn takes(&self, pid: u32) -> Result<(), String> {
        fs::write(self.group.join("cgroup.procs"), pid.to_string()).map_err(said("cgroup.procs"))
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        // A killed process leaves its group a moment later.
        let _ = until(PATIENCE, "the group is empty", || fs::remove_dir(&self.group).is_ok());
        let _ = self.group.parent().map(fs::remove_dir);
    }
}
