//! The process that is killed: applies or rolls back, and before each write says so and waits to be
//! told to go on.

use std::cell::Cell;
use std::io::{Read, Write};
use std::path::Path;

use floodwall_host::SysRoot;
use floodwall_knobs::catalogue::{Knob, find};
use floodwall_knobs::journal::{DiskStore, JournalError, boot_id};
use floodwall_knobs::{Change, Device, KernelFiles, Session, SystemClock, Target, Who};

use crate::gate::{Gate, GatedFiles, GatedStore};

/// Steers to the end …
pub(crate) const STEER: &str = "steer";
/// … or writes some knobs, says so, and holds them until its stdin is closed. It yields those that
/// are named there, a line each, and says so.
pub(crate) const HOLD: &str = "hold";

/// Counts writes of all kinds, and stops before them.
#[derive(Default)]
struct Stop {
    writes: Cell<u64>,
    /// Stops before this one; the earlier ones pass.
    before: u64,
}

impl Gate for Stop {
    fn pass(&self) -> bool {
        let write = self.writes.get();
        self.writes.set(write + 1);
        if write == self.before {
            let mut out = std::io::stdout().lock();
            out.write_all(b"stopped\n").unwrap();
            out.flush().unwrap();
            // Ends when the parent does, or never: it kills us here.
            let _ = std::io::stdin().lock().read(&mut [0]);
        }
        true
    }
}

/// The writes of the process that steers: up and down, elevators there and back, one after the
/// other.
const STEERED: [&str; 16] = [
    "nr_requests=8",
    "max_sectors_kb=128",
    "nr_requests=16",
    "bdi.max_ratio_fine=30000",
    "bdi.strict_limit=1",
    "max_sectors_kb=32",
    "bdi.max_ratio_fine=5000",
    "nr_requests=100",
    "scheduler=bfq",
    "nr_requests=8",
    "iosched.low_latency=0",
    "bdi.strict_limit=0",
    "scheduler=mq-deadline",
    "wbt_lat_usec=0",
    "max_sectors_kb=512",
    "nr_requests=4",
];

/// Steers until its writes are through and ends, or holds them until its stdin is closed. The
/// journal's lock is held for one step at a time.
fn steer(
    gate: &Stop,
    journal: &Path,
    root: &SysRoot,
    device: &Device,
    waits: bool,
) -> Result<(), String> {
    let files = KernelFiles::new(root).map_err(|e| e.to_string())?;
    let files = GatedFiles(gate, &files);
    let who = Who::this_process(&files);
    let locked = || loop {
        match DiskStore::open(journal, &who.describe()) {
            Err(JournalError::Held { .. }) => {
                std::thread::sleep(std::time::Duration::from_millis(1))
            }
            other => return other.map(|store| GatedStore(gate, store)).map_err(|e| e.to_string()),
        }
    };
    fn on<'a>(
        files: &'a GatedFiles<'_, Stop>,
        store: &'a GatedStore<'_, Stop>,
        who: &Who,
    ) -> Session<'a> {
        Session { files, store, clock: &SystemClock, who: who.clone(), boot_id: boot_id(files) }
    }
    let (mut hold, _) = on(&files, &locked()?, &who).hold("a test").map_err(|e| e.to_string())?;
    let target = Target::Device(device.clone());
    let ahead = ["scheduler", "nr_requests", "max_sectors_kb", "bdi.max_ratio_fine"];
    let cells: Vec<_> =
        ahead.iter().filter_map(|name| Some((find(name)?, target.clone()))).collect();
    on(&files, &locked()?, &who).save(&mut hold, &cells).map_err(|e| e.to_string())?;
    for text in &STEERED[..if waits { 5 } else { STEERED.len() }] {
        let change = Change::parse(root, Some(device), text).map_err(|e| e.to_string())?;
        let prepared = on(&files, &locked()?, &who)
            .prepare(&mut hold, &change)
            .map_err(|e| format!("{text}: {e}"))?;
        if let Some(prepared) = prepared {
            let performed = prepared.perform(&files, &SystemClock);
            on(&files, &locked()?, &who)
                .finish(&mut hold, prepared, performed)
                .map_err(|e| format!("{text}: {e}"))?;
        }
    }
    if waits {
        let say = |line: &[u8]| {
            let mut out = std::io::stdout().lock();
            out.write_all(line).and_then(|()| out.flush()).map_err(|e| e.to_string())
        };
        say(b"stopped\n")?;
        for knob in std::io::stdin().lines().map_while(Result::ok) {
            let store = locked()?;
            let session = on(&files, &store, &who);
            let is_it = |its: &Knob, _: &Target| its.name == knob;
            for index in session.order_back(&hold, is_it) {
                if let Some(prepared) =
                    session.prepare_back(&mut hold, index).map_err(|e| e.to_string())?
                {
                    let performed = prepared.perform(&files, &SystemClock);
                    session.finish(&mut hold, prepared, performed).map_err(|e| e.to_string())?;
                }
            }
            session.yield_cells(&mut hold, is_it).map_err(|e| e.to_string())?;
            drop(store);
            say(b"yielded\n")?;
        }
    }
    let undone = on(&files, &locked()?, &who).close(&mut hold);
    if undone.closed { Ok(()) } else { Err(undone.to_string()) }
}

/// `JOURNAL DEVICE STOP_BEFORE (rollback | steer | hold | CHANGE…)`; a STOP_BEFORE of `never` goes
/// through.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let [journal, device, stop_before, what @ ..] = arguments else {
        return Err("usage".to_owned());
    };
    let gate = Stop { before: stop_before.parse().unwrap_or(u64::MAX), ..Stop::default() };
    let root = SysRoot::live().map_err(|e| e.to_string())?;
    let device = Device::find(&root, device).map_err(|e| e.to_string())?;
    if what == [STEER] || what == [HOLD] {
        return steer(&gate, Path::new(journal), &root, &device, what == [HOLD]);
    }
    let files = KernelFiles::new(&root).map_err(|e| e.to_string())?;
    let files = GatedFiles(&gate, &files);
    let who = Who::this_process(&files);
    let store = DiskStore::open(Path::new(journal), &who.describe()).map_err(|e| e.to_string())?;
    let store = GatedStore(&gate, store);
    let boot_id = boot_id(&files);
    let session = Session { files: &files, store: &store, clock: &SystemClock, who, boot_id };
    if what == ["rollback"] {
        let (recovery, undone) = session.rollback(0).map_err(|e| e.to_string())?;
        let complete =
            recovery.undone.iter().chain(&undone).all(floodwall_knobs::Undone::is_complete);
        return if complete { Ok(()) } else { Err(format!("{recovery:?} {undone:?}")) };
    }
    let changes = what
        .iter()
        .map(|text| Change::parse(&root, Some(&device), text))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| e.to_string())?;
    session.apply(&changes, "a test").map(drop).map_err(|e| e.to_string())
}
