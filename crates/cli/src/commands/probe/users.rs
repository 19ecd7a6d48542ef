//! A probe's window, as findings and refusals conclude from it: who waited for a disk, who wrote.
//!
//! ```text
//! commits, reads that ended ────────────┬─▶ of each kind: median, oldest ─▶ the longer one
//! the oldest under way ─ stacks ─ kind ─┘
//! ```

use floodwall_host::SysRoot;
use floodwall_host::findings::DiskUser;
use floodwall_host::workload::Workloads;
use floodwall_model::LatencyCounts;
use floodwall_model::latency::bucket_high_ns;
use floodwall_probe::{OTHERS, ProcessUse, Snapshot};

/// Threads whose stacks are read; each takes some 10 µs.
const THREADS: usize = 256;
/// Functions of the kernel in which a thread waits for its commit: fsync, fdatasync, msync
/// and writes to `O_SYNC` files (the first two), syncfs, sync, `sync_file_range`.
const COMMITS: [&str; 5] =
    ["vfs_fsync_range", "do_fsync", "sync_filesystem", "ksys_sync", "sync_file_range"];

/// The processes that waited for a disk or wrote, each with its control group now and what it runs
/// in.
pub(crate) fn disk_users(
    root: &SysRoot,
    seen: &Snapshot,
    workloads: &mut Workloads,
) -> Vec<DiskUser> {
    let user = |process| disk_user(root, process, seen, workloads);
    seen.processes.iter().filter_map(user).collect()
}

/// What a process did to a disk; `None` if it neither waited nor wrote, or is not one process.
fn disk_user(
    root: &SysRoot,
    process: &ProcessUse,
    seen: &Snapshot,
    workloads: &mut Workloads,
) -> Option<DiskUser> {
    let disk = process.device?;
    let under_way_s = process.oldest.min(seen.window).as_secs_f64();
    let commits = process.commits();
    let ended_s = commits.sum_ns() as f64 / 1e9;
    let waited_s = ended_s + process.reads.sum_ns() as f64 / 1e9 + under_way_s;
    let dirtied_bytes = process.dirtied_bytes.unwrap_or(0);
    if process.pid == OTHERS || (waited_s == 0.0 && dirtied_bytes == 0) {
        return None;
    }
    let is_commit = process.waiting > 0 && (process.reads.is_empty() || commits_now(root, process));
    let is_read = process.waiting > 0 && !is_commit;
    let of = |ended: &LatencyCounts, is_under_way: bool| {
        let median_s = median_by_time_ns(ended).map(|ns| ns as f64 / 1e9);
        (median_s, if is_under_way { process.oldest.as_secs_f64() } else { 0.0 })
    };
    let (of_commits, of_reads) = (of(&commits, is_commit), of(&process.reads, is_read));
    let longest = |(median, oldest): (Option<f64>, f64)| median.unwrap_or(0.0).max(oldest);
    let waits_for_commits = longest(of_commits) >= longest(of_reads);
    let (median_s, oldest_s) = if waits_for_commits { of_commits } else { of_reads };
    let (group, workload) = workloads.of(process.pid, seen.at);
    Some(DiskUser {
        pid: process.pid,
        name: process.name.clone(),
        disk,
        waited_s,
        committing_s: ended_s + if is_commit { under_way_s } else { 0.0 },
        commits: commits.count() + if is_commit { u64::from(process.waiting) } else { 0 },
        waits_for_commits,
        median_s,
        oldest_s,
        dirtied_bytes,
        earlier_bytes: 0,
        group,
        workload,
    })
}

/// Half of the time that was waited went into waits that were no longer than this. A transaction is
/// several commits: three that end at once hide the one that takes a second from a plain median.
fn median_by_time_ns(waits: &LatencyCounts) -> Option<u64> {
    let of = |(bucket, n): (usize, u64)| (bucket_high_ns(bucket).min(waits.max_ns()), n);
    let sum: u128 = waits.buckets().map(of).map(|(ns, n)| u128::from(ns) * u128::from(n)).sum();
    let mut passed = 0;
    waits.buckets().map(of).find_map(|(ns, n)| {
        passed += u128::from(ns) * u128::from(n);
        (2 * passed >= sum).then_some(ns)
    })
}

/// Whether a thread of a process that also reads waits for a commit now. The probe tells the kind
/// of the longest call under way alone. Short waits may have ended since: they do not matter.
fn commits_now(root: &SysRoot, process: &ProcessUse) -> bool {
    let tasks = format!("/proc/{}/task", process.pid);
    let threads = root.list(&tasks).into_value().unwrap_or_default();
    threads.iter().take(THREADS).any(|thread| {
        let stack = root.read(&format!("{tasks}/{thread}/stack")).into_value().unwrap_or_default();
        stack.lines().any(is_inside_commit)
    })
}

/// Whether a line of a stack (`[<0>] do_fsync+0x38/0x60`) is of such a function. A compiler may
/// have added a suffix to its name.
fn is_inside_commit(line: &str) -> bool {
    let name = line.split(' ').nth(1).and_then(|place| place.split(['+', '.']).next());
    name.is_some_and(|name| COMMITS.contains(&name))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use floodwall_model::DeviceId;
    use floodwall_probe::{Call, SourceKind};
    use floodwall_testing::tree::put;

    use super::*;

    fn counts(ms: &[u64]) -> LatencyCounts {
        LatencyCounts::from_values(ms.iter().map(|ms| ms * 1_000_000))
    }

    /// A process with one commit or read under way for seven seconds, seen for one.
    fn process() -> ProcessUse {
        ProcessUse {
            pid: 7,
            device: Some(DeviceId { major: 8, minor: 0 }),
            calls: [(Call::Fsync, counts(&[100, 100]))].into(),
            waiting: 1,
            oldest: Duration::from_secs(7),
            ..ProcessUse::default()
        }
    }

    fn user(root: &SysRoot, process: &ProcessUse) -> Option<DiskUser> {
        let window = Duration::from_secs(1);
        let seen = Snapshot {
            at: window,
            window,
            attached: window,
            sampled_by: None,
            source: SourceKind::Perf,
            lost_events: 0,
            folded_operations: 0,
            unwatched_threads: 0,
            pressure: None,
            devices: Vec::new(),
            processes: vec![process.clone()],
        };
        disk_users(root, &seen, &mut Workloads::new(root)).pop()
    }

    fn figures(root: &SysRoot, process: &ProcessUse) -> (u64, u64, u64) {
        let user = user(root, process).unwrap();
        let ms = |seconds: f64| (seconds * 1e3).round() as u64;
        (ms(user.waited_s), ms(user.committing_s), user.commits)
    }

    /// A tree in which threads of process 7 have these stacks.
    fn stacks(stacks: &[&str]) -> (tempfile::TempDir, SysRoot) {
        let dir = tempfile::tempdir().unwrap();
        for (thread, stack) in (7..).zip(stacks) {
            put(&dir.path().join(format!("proc/7/task/{thread}/stack")), stack);
        }
        let root = SysRoot::new(dir.path()).unwrap();
        (dir, root)
    }

    const READS: &str = "[<0>] folio_wait_bit_common+0x1/0x2\n[<0>] vfs_read+0xbb/0x360\n";
    const SYNCS: &str = "[<0>] jbd2_log_wait_commit+0x1/0x2\n[<0>] ext4_sync_file+0x1/0x2\n\
        [<0>] do_fsync.isra.0+0x38/0x60\n";

    #[test]
    fn what_is_under_way_is_a_commit_of_a_process_that_does_not_read() {
        let (_dir, root) = stacks(&[]);
        let mut process = process();
        assert_eq!(figures(&root, &process), (1200, 1200, 3));
        process.reads = counts(&[50]);
        assert_eq!(figures(&root, &process), (1250, 200, 2));
        process.pid = OTHERS;
        assert_eq!(user(&root, &process), None);
    }

    #[test]
    fn a_user_has_its_group_and_what_it_runs_in() {
        let (dir, root) = stacks(&[]);
        put(&dir.path().join("proc/7/cgroup"), "0::/lxc.payload.web/system.slice/db.service\n");
        let user = user(&root, &process()).unwrap();
        let group = "/lxc.payload.web/system.slice/db.service";
        assert_eq!(user.group.value().map(String::as_str), Some(group));
        let parts = (user.workload.unit.as_deref(), user.workload.container.as_deref());
        assert_eq!(parts, (Some("db.service"), Some("web")));
    }

    #[test]
    fn a_stuck_commit_of_a_process_that_reads_is_told_by_its_stack() {
        let process = ProcessUse { reads: counts(&[50; 30]), ..process() };
        let told = |threads: &[&str]| {
            let (_dir, root) = stacks(threads);
            let user = user(&root, &process).unwrap();
            (user.waits_for_commits, user.commits, user.median_s.unwrap() < 0.07, user.oldest_s)
        };
        assert_eq!(told(&[READS, SYNCS]), (true, 3, false, 7.0));
        assert_eq!(told(&[READS, READS]), (false, 2, true, 7.0));
    }

    #[test]
    fn a_process_waits_for_what_takes_it_longest() {
        let (_dir, root) = stacks(&[]);
        let ended = ProcessUse { waiting: 0, oldest: Duration::ZERO, ..process() };
        // Many threads may read meanwhile.
        let many = ProcessUse { reads: counts(&[20; 300]), ..ended.clone() };
        assert!(user(&root, &many).unwrap().waits_for_commits);
        let slow = ProcessUse { reads: counts(&[400]), ..ended };
        assert!(!user(&root, &slow).unwrap().waits_for_commits);
    }

    #[test]
    fn one_slow_commit_among_quick_ones_is_what_is_waited_for() {
        let median_ms = |ms: &[u64]| median_by_time_ns(&counts(ms)).map(|ns| ns / 1_000_000);
        assert_eq!(median_ms(&[10, 10, 30, 40, 900]), Some(900));
        // A short stall among many commits does not count.
        assert_eq!(median_ms(&[[5; 100].as_slice(), &[60]].concat()), Some(5));
        assert_eq!(
            (median_ms(&[7, 7, 7]), median_ms(&[0, 0]), median_ms(&[])),
            (Some(7), Some(0), None)
        );
    }

    #[test]
    fn functions_that_commit_have_their_names_alone_or_with_a_suffix() {
        let inside = |name: &str| is_inside_commit(&format!("[<0>] {name}+0x38/0x60"));
        for name in ["do_fsync", "vfs_fsync_range", "ksys_sync", "sync_file_range"] {
            assert!(inside(name), "{name}");
        }
        assert!(inside("sync_filesystem.part.0"));
        for name in ["vfs_read", "do_fsync_not", "ksys_sync_helper"] {
            assert!(!inside(name), "{name}");
        }
        assert!(!is_inside_commit("") && !is_inside_commit("[<0>]"));
    }
}
