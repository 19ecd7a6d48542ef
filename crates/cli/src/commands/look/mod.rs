//! One look at this machine: a probe's window between two observations. `why` and `status` diagnose
//! from it.
//!
//! ```text
//! two observations ─▶ Status ───┐
//! probe ─▶ Snapshot ─▶ users ───┼▶ Seen ─▶ host::findings::Look
//! control groups, guard's socket┘
//! ```

mod guarded;
mod own;
mod since_start;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use floodwall_host::SysRoot;
use floodwall_host::cgroup::read_memory_besides_cache;
use floodwall_host::findings::{About, DiskUser, Look, diagnose};
use floodwall_host::status::{Observation, status};
use floodwall_host::workload::Workloads;
use floodwall_model::diagnosis::{Disk, Verdict};
use floodwall_model::status::Status;
use floodwall_model::{DeviceId, Reading};
use floodwall_probe::{Probe, ProcessUse, Snapshot, SourceKind};

pub(super) use guarded::{Guarded, ask_guard, in_background};
pub(super) use own::{keep_users, own};
pub(super) use since_start::{flooded_since_start, since_boot};

use crate::commands::probe::disk_users;

/// How long the look lasts: with the probe's warm-up, what it takes to open it and to read
/// counters, the answer is there within three seconds.
const WINDOW: Duration = Duration::from_millis(1250);

/// How long it lasts once more.
const AGAIN: Duration = Duration::from_secs(1);

/// A call that has not ended at a look's end is followed for so many seconds.
pub(super) const FOLLOWED_S: u32 = 6;

/// Where control groups of version 2 are mounted.
const CGROUPS: &str = "/sys/fs/cgroup";

/// What the look saw.
pub(super) struct Seen {
    users: Vec<DiskUser>,
    own: Vec<u32>,
    group_memory: BTreeMap<String, u64>,
    limited_groups: BTreeSet<String>,
    /// `None` if the guard did not answer.
    guarded: Option<Vec<String>>,
    source: &'static str,
    is_root: bool,
    sees_waits: bool,
    waited_percent: Reading<f64>,
    unseen: Vec<String>,
}

impl Seen {
    /// What a probe's window adds to a status of the same time. What root would add is noted in the
    /// status, too.
    pub(super) fn new(
        root: &SysRoot,
        status: &mut Status,
        snapshot: &Snapshot,
        unseen: Vec<String>,
        guarded: Guarded,
        is_root: bool,
        workloads: &mut Workloads,
    ) -> Self {
        let sees_waits = snapshot.source != SourceKind::Proc;
        let users = threads_apart(disk_users(root, snapshot, workloads), snapshot);
        let waited_percent = snapshot.pressure.map_or_else(
            || Reading::Absent("the kernel does not tell pressure".to_owned()),
            |waited| Reading::Value((100.0 * waited.as_secs_f64() / status.window_s).min(100.0)),
        );
        let mut unseen = if sees_waits || is_root {
            unseen
        } else {
            status.root_would_add.insert(0, "who waits for a disk, and how long".to_owned());
            vec!["that needs root".to_owned()]
        };
        let guarded = guarded.by_now();
        if guarded.is_none() {
            unseen.push("which disks a guard steers: it did not answer during the look".to_owned());
        }
        let groups = writing_groups(&users);
        Self {
            own: own(root, &snapshot.processes),
            group_memory: group_memory(root, &groups),
            limited_groups: groups.into_iter().filter(|group| is_limited(root, group)).collect(),
            guarded,
            source: snapshot.source.name(),
            users,
            is_root,
            sees_waits,
            waited_percent,
            unseen,
        }
    }

    /// Adds what processes had dirtied before the look that wait in their first commit.
    pub(super) fn with_earlier(mut self, root: &SysRoot) -> Self {
        let now = since_boot();
        for user in &mut self.users {
            let is_first = user.commits == 1 && user.median_s.is_none() && user.oldest_s > 0.0;
            if is_first && user.waits_for_commits {
                user.earlier_bytes = flooded_since_start(root, user.pid, now).unwrap_or(0);
            }
        }
        self
    }

    /// As the diagnosis takes it, beside the status of the same time.
    pub(super) fn as_look<'a>(&'a self, status: &'a Status) -> Look<'a> {
        Look {
            status,
            users: &self.users,
            own: &self.own,
            group_memory: &self.group_memory,
            limited_groups: &self.limited_groups,
            guarded: self.guarded.as_deref().unwrap_or_default(),
            source: self.source,
            is_root: self.is_root,
            sees_waits: self.sees_waits,
            waited_percent: &self.waited_percent,
            unseen: &self.unseen,
        }
    }
}

/// Looks for [`WINDOW`], and once more where a process waits for a backlog that nothing adds to. A
/// flood that waits for a full limit or for a journal's commit dirties nothing for a second or two.
/// Returns the probe too, so that the caller closes it when it likes.
///
/// # Errors
/// If not even counters can be read.
pub(super) fn look(root: &SysRoot) -> anyhow::Result<(Status, Seen, Probe)> {
    let is_root = rustix::process::geteuid().is_root();
    let mut probe = Probe::open(None)?;
    // A signal ends the process: there is nothing to clean up.
    if probe.source() != SourceKind::Proc {
        probe.warm_up(&AtomicBool::new(false))?;
    }
    let guarded = Guarded::ask(root, is_root);
    let mut workloads = Workloads::new(root);
    let (status, seen) = window(root, &mut probe, WINDOW, guarded, is_root, &mut workloads)?;
    let lacks_a_flood = worst(&status, &seen).is_some_and(|disk| {
        disk.verdict == Verdict::Stalling
            && disk.floods.is_empty()
            && (disk.is_backlogged || disk.has_unknown_backlog())
    });
    if lacks_a_flood {
        let guarded = Guarded::Known(seen.guarded.clone());
        let (status, seen) = window(root, &mut probe, AGAIN, guarded, is_root, &mut workloads)?;
        if worst(&status, &seen).is_some_and(|disk| !disk.floods.is_empty()) {
            return Ok((status, seen, probe));
        }
    }
    Ok((status, seen, probe))
}

/// Looks on until a process' call that is under way has ended, or for [`FOLLOWED_S`] seconds.
/// Returns its longest wait in that time, in seconds: a call that a look saw under way may take
/// many times longer than the look saw. `None` if it did not wait.
///
/// # Errors
/// If the probe can't be read.
pub(super) fn longest_until_it_ends(
    root: &SysRoot,
    probe: &mut Probe,
    pid: u32,
    disk: DeviceId,
) -> anyhow::Result<Option<f64>> {
    let mut workloads = Workloads::new(root);
    let (mut longest, mut under_way_s) = (None, 0.0);
    for _ in 0..FOLLOWED_S {
        probe.wait(AGAIN, &AtomicBool::new(false))?;
        let users = disk_users(root, &probe.snapshot()?, &mut workloads);
        let Some(user) = users.iter().find(|user| user.pid == pid && user.disk == disk) else {
            break;
        };
        longest = longest.into_iter().chain(user.longest_s()).reduce(f64::max);
        if user.oldest_s <= under_way_s {
            break;
        }
        under_way_s = user.oldest_s;
    }
    Ok(longest)
}

fn window(
    root: &SysRoot,
    probe: &mut Probe,
    length: Duration,
    guarded: Guarded,
    is_root: bool,
    workloads: &mut Workloads,
) -> anyhow::Result<(Status, Seen)> {
    let before = Observation::read(root);
    probe.wait(length, &AtomicBool::new(false))?;
    let mut snapshot = probe.snapshot()?;
    let after = before.read_again(root);
    let mut status = status(root, &before, &after, snapshot.window.as_secs_f64(), is_root);
    keep_users(&mut snapshot);
    let unseen = unseen(probe);
    let seen = Seen::new(root, &mut status, &snapshot, unseen, guarded, is_root, workloads);
    Ok((status, seen.with_earlier(root)))
}

/// The disk that is worst off.
fn worst(status: &Status, seen: &Seen) -> Option<Disk> {
    diagnose(seen.as_look(status), &About::Machine).disks.into_iter().next()
}

/// What a probe can't see, each with its reason.
pub(super) fn unseen(probe: &Probe) -> Vec<String> {
    probe.blind().iter().map(ToString::to_string).collect()
}

/// A process counts as two users of its disk if some of its threads flood while others wait.
fn threads_apart(users: Vec<DiskUser>, snapshot: &Snapshot) -> Vec<DiskUser> {
    let apart = |mut waits: DiskUser| {
        let same = |p: &&ProcessUse| p.pid == waits.pid && p.device == Some(waits.disk);
        let process = snapshot.processes.iter().find(same);
        let flooded = process.and_then(|process| process.flooded_bytes).unwrap_or(0);
        let floods = (flooded > 0).then(|| DiskUser {
            waited_s: 0.0,
            committing_s: 0.0,
            commits: 0,
            waits_for_commits: true,
            median_s: None,
            oldest_s: 0.0,
            dirtied_bytes: flooded,
            ..waits.clone()
        });
        waits.dirtied_bytes = waits.dirtied_bytes.saturating_sub(flooded);
        std::iter::once(waits).chain(floods)
    };
    users.into_iter().flat_map(apart).collect()
}

/// Memory besides page cache of groups.
fn group_memory(root: &SysRoot, groups: &BTreeSet<String>) -> BTreeMap<String, u64> {
    let memory = groups.iter().filter_map(|group| {
        let used = read_memory_besides_cache(root, &format!("{CGROUPS}/{group}")).into_value()?;
        Some((group.clone(), used))
    });
    memory.collect()
}

/// The groups whose processes wrote, without slashes at their ends.
fn writing_groups(users: &[DiskUser]) -> BTreeSet<String> {
    let wrote = users.iter().filter(|user| user.dirtied_bytes > 0);
    wrote.filter_map(|user| Some(user.group.value()?.trim_matches('/').to_owned())).collect()
}

/// Whether a group's writes or memory are limited already.
fn is_limited(root: &SysRoot, group: &str) -> bool {
    let file = |name: &str| root.read(&format!("{CGROUPS}/{group}/{name}")).into_value();
    file("io.max").is_some_and(|lines| !lines.trim().is_empty())
        || file("memory.high").is_some_and(|high| high.trim() != "max")
}

#[cfg(test)]
mod tests {
    use floodwall_testing::tree::put;

    use floodwall_model::workload::Workload;

    use super::*;

    const DISK: DeviceId = DeviceId { major: 8, minor: 0 };

    fn user(pid: u32, name: &str) -> DiskUser {
        DiskUser {
            pid,
            name: name.to_owned(),
            disk: DISK,
            waited_s: 1.0,
            committing_s: 1.0,
            commits: 3,
            waits_for_commits: true,
            median_s: Some(0.3),
            oldest_s: 0.0,
            dirtied_bytes: 100,
            earlier_bytes: 0,
            group: Reading::Absent(String::new()),
            workload: Workload::default(),
        }
    }

    #[test]
    fn a_process_that_waits_and_floods_counts_twice() {
        let user = user(7, "mysqld");
        let parts = |flooded_bytes: Option<u64>| {
            let device = Some(DISK);
            let process = ProcessUse { pid: 7, device, flooded_bytes, ..ProcessUse::default() };
            let window = Duration::from_secs(1);
            let snapshot = Snapshot {
                at: window,
                window,
                attached: window,
                sampled_by: None,
                source: SourceKind::Bpf,
                lost_events: 0,
                folded_operations: 0,
                unwatched_threads: 0,
                pressure: None,
                devices: Vec::new(),
                processes: vec![process],
            };
            let users = threads_apart(vec![user.clone()], &snapshot);
            users.iter().map(|user| (user.commits, user.dirtied_bytes)).collect::<Vec<_>>()
        };
        assert_eq!(parts(Some(90)), [(3, 10), (0, 90)]);
        assert_eq!(parts(Some(0)), [(3, 100)]);
        assert_eq!(parts(None), [(3, 100)]);
    }

    #[test]
    fn a_group_with_a_limit_on_writes_or_memory_is_limited() {
        let dir = tempfile::tempdir().unwrap();
        let groups = [
            ("free", "", "max\n", false),
            ("writes", "8:0 wbps=1000000\n", "max\n", true),
            ("memory", "", "67108864\n", true),
        ];
        for (group, max, high, _) in groups {
            put(&dir.path().join(format!("sys/fs/cgroup/{group}/io.max")), max);
            put(&dir.path().join(format!("sys/fs/cgroup/{group}/memory.high")), high);
        }
        let root = SysRoot::new(dir.path()).unwrap();
        for (group, .., limited) in groups {
            assert_eq!(is_limited(&root, group), limited, "{group}");
        }
        assert!(!is_limited(&root, "none"), "a group without these controllers");
    }
}
