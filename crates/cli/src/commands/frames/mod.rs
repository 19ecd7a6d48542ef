//! Frames of this machine, one a window: what `watch` shows and `record` stores.
//!
//! ```text
//! probe ─ wait a window ─▶ Snapshot ─┐
//! host::status::Live ─▶ Status ──────┼─ diagnosis ─▶ disks, processes ─┐
//! guard's socket ─▶ guard ───────────┘      │      shares of backlogs ─┼─▶ Frame
//! journal, managers ─▶ findings, now and then ─────────────────────────┘
//! ```

mod disks;
mod earlier;
mod findings;
mod guard;
mod processes;
mod round;
mod shares;
#[cfg(test)]
mod testing;
mod waiters;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use floodwall_host::SysRoot;
use floodwall_host::findings::{About, diagnose};
use floodwall_host::status::Live;
use floodwall_host::workload::Workloads;
use floodwall_model::frame::{Frame, Machine};
use floodwall_model::status::Status;
use floodwall_probe::{Probe, Snapshot};

use crate::commands::look::{Seen, keep_users, since_boot, unseen};
pub(super) use disks::judge;
use earlier::add_earlier;
use findings::Findings;
use guard::GuardWatch;
pub(super) use processes::waited;
use round::rounded;
pub(super) use shares::Shares;
use waiters::Waiters;

/// This machine's frames.
pub(super) struct Frames {
    root: SysRoot,
    origin: Instant,
    probe: Probe,
    live: Live,
    guard: GuardWatch,
    shares: Shares,
    workloads: Workloads,
    machine_name: String,
    is_root: bool,
    findings: Findings,
    has_looked: bool,
    waiters: Waiters,
}

impl Frames {
    /// Opens a probe.
    ///
    /// # Errors
    /// If not even counters can be read.
    pub(super) fn open(root: &SysRoot) -> anyhow::Result<Self> {
        let is_root = rustix::process::geteuid().is_root();
        let mut probe = Probe::open(None)?;
        // A database may hang since before.
        probe.take_in_all_calls_under_way();
        let name = root.read_line("/proc/sys/kernel/hostname").into_value();
        Ok(Self {
            origin: Instant::now(),
            live: Live::new(root, Duration::ZERO),
            guard: GuardWatch::new(is_root && root.is_live()),
            shares: Shares::default(),
            workloads: Workloads::new(root),
            machine_name: name.unwrap_or_default(),
            findings: Findings::default(),
            has_looked: false,
            waiters: Waiters::default(),
            root: root.clone(),
            probe,
            is_root,
        })
    }

    /// Waits for a window and returns its frame; `None` if `stop` was raised meanwhile.
    ///
    /// # Errors
    /// If the probe's source is lost.
    pub(super) fn next(
        &mut self,
        window: Duration,
        stop: &AtomicBool,
    ) -> anyhow::Result<Option<Frame>> {
        self.guard.ask();
        self.probe.wait(window, stop)?;
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let mut snapshot = self.probe.snapshot()?;
        let status = self.live.next(&self.root, self.origin.elapsed(), self.is_root);
        keep_users(&mut snapshot);
        Ok(Some(self.frame(status, &snapshot)))
    }

    /// The frame of a window that has ended.
    fn frame(&mut self, mut status: Status, snapshot: &Snapshot) -> Frame {
        let (guard, guarded) = self.guard.by_now();
        let seen = Seen::new(
            &self.root,
            &mut status,
            snapshot,
            unseen(&self.probe),
            guarded,
            self.is_root,
            &mut self.workloads,
        );
        let diagnosis = diagnose(seen.as_look(&status), &About::Machine);
        let (now, at_unix_ms) = (self.origin.elapsed(), unix_ms());
        let findings =
            self.findings.by_now(&self.root, now, at_unix_ms / 1000, &status, snapshot).to_vec();
        let mut disks = disks::disks(&status, snapshot, &diagnosis);
        let goals = guard.map(|guard| guard.disks.as_slice()).unwrap_or_default();
        let look = seen.as_look(&status);
        let mut processes = processes::processes(snapshot, &diagnosis, look, goals);
        self.waiters.frame(&mut processes);
        let window_ms = snapshot.window.as_millis() as u64;
        if !std::mem::replace(&mut self.has_looked, true) {
            add_earlier(&self.root, &processes, since_boot(), &mut self.shares);
        }
        self.shares.frame(window_ms, &mut disks, &mut processes);
        judge(&mut disks, &processes);
        processes.sort_by(|a, b| (a.pid, &a.disk).cmp(&(b.pid, &b.disk)));
        Frame {
            at_unix_ms,
            window_ms,
            source: snapshot.source.name().to_owned(),
            machine: machine(&self.machine_name, &status, diagnosis.machine.waited_percent.value()),
            disks,
            processes,
            guard: guard.cloned(),
            findings,
            unseen: diagnosis.unseen,
            root_would_add: diagnosis.root_would_add,
            lost_events: snapshot.lost_events,
        }
    }
}

fn machine(name: &str, status: &Status, waited_percent: Option<&f64>) -> Machine {
    let machine = &status.machine;
    Machine {
        name: name.to_owned(),
        ram_bytes: machine.ram_bytes.value().copied(),
        dirty_bytes: machine.dirty_bytes.value().copied(),
        writeback_bytes: machine.writeback_bytes.value().copied(),
        hard_limit_bytes: machine.hard_limit_bytes.value().copied(),
        background_limit_bytes: machine.background_limit_bytes.value().copied(),
        waited_percent: waited_percent.map(|percent| rounded(*percent)),
    }
}

fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_millis() as u64
}
