//! What processes dirtied before the first window. A flood that waits for its own data by then
//! would look like a victim of somebody else.

use std::time::Duration;

use floodwall_host::SysRoot;
use floodwall_host::task::{read_threads_written, start_ticks};
use floodwall_model::frame::Process;

use super::shares::Shares;

/// An older process may have dirtied its bytes long ago: the kernel writes what is older than half a
/// minute (`vm.dirty_expire_centisecs`).
const YOUNG: Duration = Duration::from_secs(60);
/// A process that dirtied so much all its life is a flood, in bytes a second: a quarter of the
/// kernel's first guess of a drain rate (mm/backing-dev.c `INIT_BW`).
const FLOODS: f64 = 25e6;

/// Adds what the processes of the first window had dirtied before it, at a moment of the boot's
/// clock.
pub(super) fn add_earlier(
    root: &SysRoot,
    processes: &[Process],
    since_boot: Duration,
    shares: &mut Shares,
) {
    for process in processes {
        if let Some(bytes) = dirtied(root, process, since_boot) {
            shares.add_earlier(process, bytes - process.dirtied_bytes.unwrap_or(0).min(bytes));
        }
    }
}

/// The bytes that a process has dirtied since its start. `None` unless it is young and has flooded
/// all its life. What a process has committed is written.
fn dirtied(root: &SysRoot, process: &Process, since_boot: Duration) -> Option<u64> {
    if process.waits.iter().any(|waits| waits.call != "read") {
        return None;
    }
    let stat = root.read(&format!("/proc/{}/stat", process.pid)).into_value()?;
    let ticks_per_s = rustix::param::clock_ticks_per_second() as f64;
    let began_s = start_ticks(stat.as_bytes())? as f64 / ticks_per_s;
    let lived_s = (since_boot.as_secs_f64() - began_s).max(1.0 / ticks_per_s);
    if lived_s > YOUNG.as_secs_f64() {
        return None;
    }
    let bytes = read_threads_written(root, process.pid, &mut Vec::new())?;
    (bytes as f64 >= FLOODS * lived_s).then_some(bytes)
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
