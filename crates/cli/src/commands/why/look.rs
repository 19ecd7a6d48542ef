//! One look at this machine: a probe's window between two observations.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use floodwall_host::SysRoot;
use floodwall_host::findings::{DiskUser, Look};
use floodwall_host::status::{Observation, status};
use floodwall_model::Reading;
use floodwall_model::status::Status;
use floodwall_probe::{Probe, SourceKind};

use crate::commands::bench;
use crate::commands::probe::disk_users;

/// How long the look lasts: with the probe's warm-up, what it takes to open it and to read
/// counters, the answer is there within three seconds.
const WINDOW: Duration = Duration::from_millis(1500);

/// Commands of Floodwall's that load a disk on purpose. All others look or steer.
const LOADS: [&str; 5] = ["bench", "compare", "tune", "size", bench::FLOOD_COMMAND];

/// What the look saw.
pub(super) struct Seen {
    status: Status,
    users: Vec<DiskUser>,
    own: Vec<u32>,
    source: &'static str,
    is_root: bool,
    sees_waits: bool,
    waited_percent: Reading<f64>,
    unseen: Vec<String>,
}

impl Seen {
    /// As the diagnosis takes it.
    pub(super) fn as_look(&self) -> Look<'_> {
        Look {
            status: &self.status,
            users: &self.users,
            own: &self.own,
            source: self.source,
            is_root: self.is_root,
            sees_waits: self.sees_waits,
            waited_percent: &self.waited_percent,
            unseen: &self.unseen,
        }
    }
}

/// Looks for [`WINDOW`]. Returns the probe too, so that the caller closes it when it likes.
///
/// # Errors
/// If not even counters can be read.
pub(super) fn look(root: &SysRoot) -> anyhow::Result<(Seen, Probe)> {
    let is_root = rustix::process::geteuid().is_root();
    let mut probe = Probe::open(None)?;
    let sees_waits = probe.source() != SourceKind::Proc;
    // A signal ends the process: there is nothing to clean up.
    let never = AtomicBool::new(false);
    if sees_waits {
        probe.warm_up(&never)?;
    }
    let before = Observation::read(root);
    probe.wait(WINDOW, &never)?;
    let mut snapshot = probe.snapshot()?;
    let after = before.read_again(root);
    let window_s = snapshot.window.as_secs_f64();
    let mut status = status(root, &before, &after, window_s, is_root);
    snapshot.processes.retain(|process| !process.is_flusher());
    let users = disk_users(root, &snapshot);
    let waited_percent = snapshot.pressure.map_or_else(
        || Reading::Absent("the kernel does not tell pressure".to_owned()),
        |waited| Reading::Value((100.0 * waited.as_secs_f64() / window_s).min(100.0)),
    );
    let unseen = if sees_waits || is_root {
        probe.blind().iter().map(ToString::to_string).collect()
    } else {
        status.root_would_add.insert(0, "who waits for a disk, and how long".to_owned());
        vec!["that needs root".to_owned()]
    };
    let own = users.iter().map(|user| user.pid).filter(|pid| is_own(root, *pid)).collect();
    let source = snapshot.source.name();
    Ok((Seen { status, users, own, source, is_root, sees_waits, waited_percent, unseen }, probe))
}

/// Whether a process is Floodwall's and does not load a disk on purpose.
fn is_own(root: &SysRoot, pid: u32) -> bool {
    let text = root.read(&format!("/proc/{pid}/cmdline")).into_value().unwrap_or_default();
    let mut words = text.split('\0');
    let program = words.next().and_then(|path| path.rsplit('/').next());
    program == Some("floodwall") && !words.next().is_some_and(|word| LOADS.contains(&word))
}

#[cfg(test)]
mod tests {
    use floodwall_testing::tree::put;

    use super::*;

    #[test]
    fn a_guard_is_floodwalls_and_a_bench_counts_as_any_load() {
        let dir = tempfile::tempdir().unwrap();
        let processes = [
            (1, "/usr/bin/floodwall\0guard\0--p99\x0020ms\0", true),
            (2, "floodwall\0", true),
            (3, "floodwall\0bench\0/srv\0", false),
            (4, "/usr/bin/floodwall\0flood-process\0", false),
            (5, "cp\0floodwall\0/srv\0", false),
            (6, "", false),
        ];
        for (pid, words, _) in processes {
            put(&dir.path().join(format!("proc/{pid}/cmdline")), words);
        }
        let root = SysRoot::new(dir.path()).unwrap();
        for (pid, words, own) in processes {
            assert_eq!(is_own(&root, pid), own, "{words}");
        }
        assert!(!is_own(&root, 7));
    }
}
