//! What a process has dirtied since its start, if it has flooded all its life.

use std::time::Duration;

use floodwall_host::SysRoot;
use floodwall_host::task::{read_threads_written, start_ticks};
use floodwall_model::status::FIRST_GUESS;

/// An older process may have dirtied its bytes long ago: the kernel writes what is older than half
/// a minute (`vm.dirty_expire_centisecs`).
const YOUNG: Duration = Duration::from_secs(60);
/// A process that dirtied so much all its life is a flood, in bytes a second.
const FLOODS: f64 = 0.25 * FIRST_GUESS;

/// The bytes that a process has dirtied since its start. `None` unless it is young and has flooded
/// all its life.
pub(in crate::commands) fn flooded_since_start(
    root: &SysRoot,
    pid: u32,
    since_boot: Duration,
) -> Option<u64> {
    let stat = root.read(&format!("/proc/{pid}/stat")).into_value()?;
    let ticks_per_s = rustix::param::clock_ticks_per_second() as f64;
    let began_s = start_ticks(stat.as_bytes())? as f64 / ticks_per_s;
    let lived_s = (since_boot.as_secs_f64() - began_s).max(1.0 / ticks_per_s);
    if lived_s > YOUNG.as_secs_f64() {
        return None;
    }
    let bytes = read_threads_written(root, pid, &mut Vec::new())?;
    (bytes as f64 >= FLOODS * lived_s).then_some(bytes)
}

/// The boot's clock, which counts sleep too, as starts of processes do.
pub(in crate::commands) fn since_boot() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}
