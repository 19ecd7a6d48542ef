//! What processes dirtied before the first window. A flood that waits for its own data by then
//! would look like a victim of somebody else.

use std::time::Duration;

use floodwall_host::SysRoot;
use floodwall_model::frame::Process;

use super::shares::Shares;
use crate::commands::look::flooded_since_start;

/// Adds what the processes of the first window had dirtied before it, at a moment of the boot's
/// clock. What a process has committed is written.
pub(super) fn add_earlier(
    root: &SysRoot,
    processes: &[Process],
    since_boot: Duration,
    shares: &mut Shares,
) {
    let commits = |process: &&Process| process.waits.iter().any(|waits| waits.call != "read");
    for process in processes.iter().filter(|process| !commits(process)) {
        if let Some(bytes) = flooded_since_start(root, process.pid, since_boot) {
            shares.add_earlier(process, bytes - process.dirtied_bytes.unwrap_or(0).min(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use floodwall_model::frame::{Disk, Waits};
    use floodwall_testing::tree::put;

    use super::*;

    /// The share that a process has of a backlog of 200 MB, by what it had dirtied before. It began
    /// at second 100.
    fn percent(second: u64, dirtied: u64, process: &Process) -> Option<f32> {
        let dir = tempfile::tempdir().unwrap();
        let ticks = 100 * rustix::param::clock_ticks_per_second();
        let zeros = "0 ".repeat(18);
        put(&dir.path().join("proc/7/stat"), &format!("7 (dd) D {zeros}{ticks} 0 0\n"));
        let io = format!("rchar: 0\nwrite_bytes: {dirtied}\ncancelled_write_bytes: 0\n");
        put(&dir.path().join("proc/7/task/7/io"), &io);
        let root = SysRoot::new(dir.path()).unwrap();
        let mut processes = vec![process.clone()];
        let mut shares = Shares::default();
        add_earlier(&root, &processes, Duration::from_secs(second), &mut shares);
        let disk = Disk { name: "sda".into(), backlog_bytes: Some(200_000_000), ..Disk::default() };
        shares.frame(60, &mut [disk], &mut processes);
        processes[0].backlog_percent
    }

    #[test]
    fn a_young_process_may_have_flooded_before_the_first_window() {
        let waits = Process { pid: 7, waiting: 1, disk: Some("sda".into()), ..Process::default() };
        assert_eq!(percent(104, 100_000_000, &waits), Some(50.0));
        assert_eq!(percent(104, 99_999_999, &waits), None, "a quarter of the first guess");
        assert_eq!(percent(160, 9_000_000_000, &waits), Some(100.0));
        assert_eq!(percent(161, 9_000_000_000, &waits), None, "a minute");
        let commits = Process { waits: vec![Waits::default()], ..waits.clone() };
        assert_eq!(percent(104, 100_000_000, &commits), None, "a call has ended");
        // What it dirtied within the window is in the same counter.
        let writes = Process { waiting: 0, dirtied_bytes: Some(20_000_000), ..waits };
        assert_eq!(percent(104, 100_000_000, &writes), Some(50.0));
    }
}
