//! A probe's window, as findings and refusals conclude from it: who waited for a disk, who wrote.

use floodwall_host::SysRoot;
use floodwall_host::findings::DiskUser;
use floodwall_host::task::read_group;
use floodwall_probe::{OTHERS, ProcessUse, Snapshot};

/// The processes that waited for a disk or wrote, each with its control group now.
pub(crate) fn disk_users(root: &SysRoot, seen: &Snapshot) -> Vec<DiskUser> {
    seen.processes.iter().filter_map(|process| disk_user(root, process, seen)).collect()
}

/// What a process did to a disk; `None` if it neither waited nor wrote, or is not one process.
fn disk_user(root: &SysRoot, process: &ProcessUse, seen: &Snapshot) -> Option<DiskUser> {
    let under_way_s = process.oldest.min(seen.window).as_secs_f64();
    let commits = process.commits();
    let ended_s = commits.sum_ns() as f64 / 1e9;
    let waited_s = ended_s + process.reads.sum_ns() as f64 / 1e9 + under_way_s;
    let dirtied_bytes = process.dirtied_bytes.unwrap_or(0);
    if process.pid == OTHERS || (waited_s == 0.0 && dirtied_bytes == 0) {
        return None;
    }
    // The operation under way is a commit or a read. A process that reads waits for its reads.
    let reads = !process.reads.is_empty();
    let mut user = DiskUser {
        pid: process.pid,
        name: process.name.clone(),
        disk: process.device?,
        waited_s,
        committing_s: ended_s + if reads { 0.0 } else { under_way_s },
        commits: commits.count() + if reads { 0 } else { u64::from(process.waiting) },
        median_s: None,
        oldest_s: process.oldest.as_secs_f64(),
        dirtied_bytes,
        group: read_group(root, process.pid),
    };
    let ended = if user.waits_for_commits() { &commits } else { &process.reads };
    user.median_s = ended.nearest_rank_ns(0.5).map(|ns| ns as f64 / 1e9);
    Some(user)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use floodwall_model::{DeviceId, LatencyCounts};
    use floodwall_probe::{Call, SourceKind};

    use super::*;

    fn counts(ms: &[u64]) -> LatencyCounts {
        LatencyCounts::from_values(ms.iter().map(|ms| ms * 1_000_000))
    }

    #[test]
    fn what_is_under_way_is_a_commit_of_a_process_that_does_not_read() {
        let mut process = ProcessUse {
            pid: std::process::id(),
            device: Some(DeviceId { major: 8, minor: 0 }),
            calls: [(Call::Fsync, counts(&[100, 100]))].into(),
            waiting: 1,
            oldest: Duration::from_secs(7),
            ..ProcessUse::default()
        };
        let figures = |process: &ProcessUse| {
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
            let users = disk_users(&SysRoot::live().unwrap(), &seen);
            users.first().map(|user| {
                let ms = |seconds: f64| (seconds * 1e3).round() as u64;
                (ms(user.waited_s), ms(user.committing_s), user.commits)
            })
        };
        assert_eq!(figures(&process), Some((1200, 1200, 3)));
        process.reads = counts(&[50]);
        assert_eq!(figures(&process), Some((1250, 200, 2)));
        process.pid = OTHERS;
        assert_eq!(figures(&process), None);
    }
}
