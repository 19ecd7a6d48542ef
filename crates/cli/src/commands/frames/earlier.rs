//! What a process dirtied before the first window. A flood that waits for its own data by then
//! would look like a victim of somebody else.

use std::time::Duration;

use floodwall_host::SysRoot;
use floodwall_host::task::{read_threads_written, start_ticks};
use floodwall_model::frame::Process;

/// An older process may have dirtied its bytes long ago: the kernel writes what is older than half a
/// minute (`vm.dirty_expire_centisecs`).
const YOUNG: Duration = Duration::from_secs(60);
/// A process that dirtied so much all its life is a flood, in bytes a second: a quarter of the
/// kernel's first guess of a drain rate (mm/backing-dev.c `INIT_BW`).
const FLOODS: f64 = 25e6;

/// The bytes that a process has dirtied since its start, at a moment of the boot's clock. `None`
/// unless it is young, has flooded all its life, and waits in its first call.
pub(super) fn dirtied_earlier(
    root: &SysRoot,
    process: &Process,
    since_boot: Duration,
) -> Option<u64> {
    if process.waiting == 0 || !process.waits.is_empty() {
        return None;
    }
    let stat = root.read(&format!("/proc/{}/stat", process.pid)).into_value()?;
    let ticks_per_s = rustix::param::clock_ticks_per_second() as f64;
    let began_s = start_ticks(stat.as_bytes())? as f64 / ticks_per_s;
    let lived_s = (since_boot.as_secs_f64() - began_s).max(1.0 / ticks_per_s);
    let bytes = read_threads_written(root, process.pid, &mut Vec::new())?;
    let is_flood = bytes as f64 >= FLOODS * lived_s;
    (is_flood && lived_s <= YOUNG.as_secs_f64()).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use floodwall_model::frame::Waits;
    use floodwall_testing::tree::put;

    use super::*;

    /// What a process that began at second 100 had dirtied at a later second.
    fn at(second: u64, dirtied: u64, process: &Process) -> Option<u64> {
        let dir = tempfile::tempdir().unwrap();
        let ticks = 100 * rustix::param::clock_ticks_per_second();
        let zeros = "0 ".repeat(18);
        put(&dir.path().join("proc/7/stat"), &format!("7 (dd) D {zeros}{ticks} 0 0\n"));
        let io = format!("rchar: 0\nwrite_bytes: {dirtied}\ncancelled_write_bytes: 0\n");
        put(&dir.path().join("proc/7/task/7/io"), &io);
        let root = SysRoot::new(dir.path()).unwrap();
        dirtied_earlier(&root, process, Duration::from_secs(second))
    }

    #[test]
    fn a_young_process_that_waits_in_its_first_call_may_have_flooded() {
        let waits = Process { pid: 7, waiting: 1, ..Process::default() };
        assert_eq!(at(104, 100_000_000, &waits), Some(100_000_000));
        assert_eq!(at(104, 99_999_999, &waits), None, "a quarter of the first guess");
        assert_eq!(at(160, 9_000_000_000, &waits), Some(9_000_000_000));
        assert_eq!(at(161, 9_000_000_000, &waits), None, "a minute");
        let commits = Process { waits: vec![Waits::default()], ..waits.clone() };
        assert_eq!(at(104, 100_000_000, &commits), None, "a call has ended");
        assert_eq!(at(104, 100_000_000, &Process { waiting: 0, ..waits }), None);
    }
}
