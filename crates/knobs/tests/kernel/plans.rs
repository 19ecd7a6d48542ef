//! Random plans on a captured tree, cut short at random writes. The shipped code writes the journal
//! on disk and the tree's files. Every knob is read afterwards.
//!
//! A case: random values before → a random plan, killed before some write → its undoing, killed
//! before some write → undone. A process that is killed writes nothing more; here each of its
//! writes fails from then on.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::Path;

use floodwall_host::SysRoot;
use floodwall_knobs::journal::{DiskStore, boot_id};
use floodwall_knobs::{Change, Clock, Files, KernelFiles, Session, Who, plan};
use floodwall_testing::tree::copy_host;

use crate::gate::{Gate, GatedFiles, GatedStore};

const VM: &str = "/proc/sys/vm";
const QUEUE: &str = "/sys/dev/block/254:0/queue";
const BDI: &str = "/sys/class/bdi/254:0";

/// Every knob that a plan here may change, or that the kernel could change with it.
const KNOBS: [(&str, &[&str]); 3] = [
    (
        VM,
        &[
            "dirty_background_bytes",
            "dirty_background_ratio",
            "dirty_bytes",
            "dirty_expire_centisecs",
            "dirty_ratio",
            "dirty_writeback_centisecs",
        ],
    ),
    (
        QUEUE,
        &[
            "max_sectors_kb",
            "nomerges",
            "nr_requests",
            "read_ahead_kb",
            "rq_affinity",
            "scheduler",
            "wbt_lat_usec",
            "iosched/async_depth",
            "iosched/fifo_batch",
            "iosched/front_merges",
            "iosched/prio_aging_expire",
            "iosched/read_expire",
            "iosched/write_expire",
            "iosched/writes_starved",
        ],
    ),
    (BDI, &["max_ratio", "max_ratio_fine", "min_ratio", "min_ratio_fine", "strict_limit"]),
];

/// Changes to pick from; at most one of each group, so that no cell is named twice.
const CHANGES: [&[&str]; 16] = [
    &[
        "vm.dirty_bytes=15MB",
        "vm.dirty_bytes=1GiB",
        "vm.dirty_ratio=40",
        "vm.dirty_ratio=5",
        "vm.dirty_ratio=20",
    ],
    &[
        "vm.dirty_background_bytes=5MB",
        "vm.dirty_background_ratio=3",
        "vm.dirty_background_bytes=1GiB",
    ],
    &["vm.dirty_expire_centisecs=100", "vm.dirty_expire_centisecs=6000"],
    &["vm.dirty_writeback_centisecs=0", "vm.dirty_writeback_centisecs=100"],
    &["scheduler=bfq", "scheduler=none", "scheduler=kyber"],
    &["nr_requests=8", "nr_requests=100"],
    &["max_sectors_kb=128", "max_sectors_kb=1024"],
    &["read_ahead_kb=128", "read_ahead_kb=4096"],
    &["wbt_lat_usec=0", "wbt_lat_usec=2ms", "wbt_lat_usec=100"],
    &["rq_affinity=2", "rq_affinity=0"],
    &["nomerges=2", "nomerges=1"],
    &["bdi.max_ratio_fine=30000", "bdi.max_ratio=50", "bdi.max_bytes=200MB"],
    &["bdi.min_ratio=1", "bdi.min_ratio_fine=20000"],
    &["bdi.strict_limit=1"],
    &["iosched.fifo_batch=1", "iosched.read_expire=101"],
    &["iosched.async_depth=9", "iosched.writes_starved=7"],
];

/// Values that a machine may have before.
const BEFORE: [&[(&str, &str, &str)]; 5] = [
    &[],
    &[(VM, "dirty_bytes", "50000000"), (VM, "dirty_background_bytes", "10000000")],
    &[(QUEUE, "scheduler", "none"), (QUEUE, "nr_requests", "32"), (QUEUE, "wbt_lat_usec", "0")],
    &[
        (QUEUE, "nr_requests", "100"),
        (QUEUE, "iosched/fifo_batch", "4"),
        (QUEUE, "read_ahead_kb", "512"),
    ],
    &[
        (BDI, "max_ratio_fine", "250000"),
        (BDI, "min_ratio_fine", "5000"),
        (BDI, "strict_limit", "1"),
    ],
];

/// How many cases, and how many processes in them were cut short.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) plans: u32,
    pub(crate) kills: u32,
}

/// Runs `cases` cases, half of them in a second thread.
///
/// # Errors
/// The first case after which a knob is not what it was, with its number.
pub(crate) fn run(cases: u32) -> Result<Counts, String> {
    let half = |seed: u64, cases: u32| {
        let machine = Machine::new()?;
        let mut counts = Counts::default();
        let mut random = Random(seed);
        for number in 0..cases {
            let kills = machine
                .survives(&mut random)
                .map_err(|why| format!("case {seed}-{number}: {why}"))?;
            counts = Counts { plans: counts.plans + 1, kills: counts.kills + kills };
        }
        Ok(counts)
    };
    let (one, two) = std::thread::scope(|scope| {
        let other = scope.spawn(move || half(2, cases / 2));
        (
            half(1, cases - cases / 2),
            other.join().unwrap_or_else(|_| Err("a thread panicked".to_owned())),
        )
    });
    let (one, two): (Counts, Counts) = (one?, two?);
    Ok(Counts { plans: one.plans + two.plans, kills: one.kills + two.kills })
}

/// xorshift64*: the same cases every time.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) % end
    }
}

/// How many writes are left before the process is killed; `None` for one that lives.
struct Fuse(Cell<Option<u64>>);

impl Fuse {
    fn is_blown(&self) -> bool {
        self.0.get() == Some(0)
    }
}

impl Gate for Fuse {
    fn pass(&self) -> bool {
        match self.0.get() {
            None => true,
            Some(0) => false,
            Some(left) => {
                self.0.set(Some(left - 1));
                true
            }
        }
    }

    /// Killed within this very write: a part of the line is there.
    fn torn(&self, bytes: usize) -> Option<usize> {
        (self.0.get() == Some(1)).then(|| {
            self.0.set(Some(0));
            bytes * (bytes % 4) / 4
        })
    }
}

struct NoTime;

impl Clock for NoTime {
    fn now_unix_s(&self) -> u64 {
        1_700_000_000
    }

    fn sleep(&self, _: std::time::Duration) {}
}

/// A copy of the captured tree.
struct Machine {
    directory: tempfile::TempDir,
    root: SysRoot,
    files: KernelFiles,
}

impl Machine {
    fn new() -> Result<Self, String> {
        let shm = Path::new("/dev/shm");
        let directory = if shm.is_dir() { tempfile::tempdir_in(shm) } else { tempfile::tempdir() };
        let directory = directory.map_err(|e| e.to_string())?;
        let tree = directory.path().join("tree");
        copy_host("vm-virtio-ext4", &tree).map_err(|e| e.to_string())?;
        calm(&tree.join("proc/vmstat")).map_err(|e| e.to_string())?;
        let root = SysRoot::new(&tree).map_err(|e| e.to_string())?;
        let files = KernelFiles::new(&root).map_err(|e| e.to_string())?;
        Ok(Self { directory, root, files })
    }

    fn all(&self) -> BTreeMap<String, String> {
        let paths = KNOBS
            .iter()
            .flat_map(|(at, names)| names.iter().map(move |name| format!("{at}/{name}")));
        // The kernel ends a list of elevators with a blank, a tree that was written to does not.
        let text =
            |path: &str| self.files.read(path).unwrap_or_else(|e| e.to_string()).trim().to_owned();
        paths.map(|path| (path.clone(), text(&path))).collect()
    }

    /// A process: it acts, and is killed before write number `fuse` if it comes to that. Says
    /// whether it was.
    fn process(&self, fuse: Option<u64>, act: impl FnOnce(&Session<'_>)) -> Result<bool, String> {
        let fuse = Fuse(Cell::new(fuse));
        let journal =
            self.directory.path().canonicalize().map_err(|e| e.to_string())?.join("journal");
        let store = DiskStore::open(&journal, "a test").map_err(|e| e.to_string())?;
        let (files, store) = (GatedFiles(&fuse, &self.files), GatedStore(&fuse, store));
        let who =
            Who { pid: 7, pid_start_ticks: 7, socket: None, uid: 0, command: "a test".to_owned() };
        act(&Session {
            files: &files,
            store: &store,
            clock: &NoTime,
            who,
            boot_id: boot_id(&files),
        });
        Ok(fuse.is_blown())
    }

    /// One case. Gives the number of kills.
    fn survives(&self, random: &mut Random) -> Result<u32, String> {
        let _ = std::fs::remove_dir_all(self.directory.path().join("journal"));
        let fresh = self.all();
        for (at, name, value) in BEFORE[random.below(BEFORE.len() as u64) as usize] {
            self.files.write(&format!("{at}/{name}"), value).map_err(|e| e.to_string())?;
        }
        let original = self.all();
        let picked = CHANGES.iter().filter_map(|group| {
            let pick = random.below(group.len() as u64 * 2) as usize;
            group.get(pick).map(|text| format!("vda.{text}").replace("vda.vm.", "vm."))
        });
        let changes: Result<Vec<Change>, _> =
            picked.map(|text| Change::parse(&self.root, None, &text)).collect();
        let mut changes = changes.map_err(|e| e.to_string())?;
        // Changes that would be refused (a tunable of another elevator, a limit below another) are
        // left out.
        while plan(&changes, &self.files).is_err() {
            changes.pop();
        }
        let mut kills = 0;
        kills += u32::from(self.process(Some(random.below(50)), |session| {
            let _ = session.apply(&changes, "a test");
        })?);
        kills += u32::from(self.process(Some(random.below(40)), |session| {
            let _ = session.rollback(0);
        })?);
        let mut undone = Err("it did not run".to_owned());
        self.process(None, |session| {
            undone = session.rollback(0).map(drop).map_err(|e| e.to_string())
        })?;
        undone?;
        let now = self.all();
        if now != original {
            let differs: Vec<_> =
                original.iter().filter(|(path, value)| now.get(*path) != Some(*value)).collect();
            let labels: Vec<String> = changes.iter().map(Change::label).collect();
            return Err(format!("{labels:?}: not as before: {differs:?}"));
        }
        // For the next case.
        for (path, text) in &fresh {
            if now.get(path) != Some(text) {
                std::fs::write(
                    self.root.path().join(path.trim_start_matches('/')),
                    format!("{text}\n"),
                )
                .map_err(|e| e.to_string())?;
            }
        }
        Ok(kills)
    }
}

/// Takes the backlog out of the tree: it would never drain, and lowering a limit waits for it.
fn calm(vmstat: &Path) -> std::io::Result<()> {
    let text = std::fs::read_to_string(vmstat)?;
    let calm = |line: &str| match line.split_once(' ') {
        Some((name @ ("nr_dirty" | "nr_writeback"), _)) => format!("{name} 100\n"),
        _ => format!("{line}\n"),
    };
    std::fs::write(vmstat, text.lines().map(calm).collect::<String>())
}
