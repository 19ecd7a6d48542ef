//! Limits of the command's group while others wait for the disk.
//!
//! ```text
//! alone      memory.high and io.max are `max`
//! silence    both stay as they are
//! yielding   io.max      twice the pacer's rate, and at least what the window needs
//!            memory.high what is no page cache, known dirty data, and a margin; once too much
//!                        else is dirty
//! ```
//!
//! The files that pace finds are written back by its own thread, at the pacer's rate. These limits
//! are for other data, which the kernel's flusher writes: at twice the rate at most.
//!
//! In a silence the pieces under way have to end soon, and a commit of others may wait for them
//! (ext4's ordered data). So no limit is lowered then.
//!
//! While this process is stopped, no thread adapts the limits. They are lifted before the stop.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use floodwall_host::SysRoot;
use floodwall_host::cgroup::{read_backlog, read_memory_besides_cache};
use floodwall_model::DeviceId;

use super::files::{GroupFiles, Limits, Writes};
use crate::law::State;
use crate::pacer::Pacer;

/// Time between two looks at the pacer.
const EVERY: Duration = Duration::from_millis(100);
/// The least `io.max`, in bytes per second.
const LEAST_PER_S: f64 = 1e6;
/// A time slice of blk-throttle (`DFL_THROTL_SLICE_HD`, block/blk-throttle.c), in seconds. The
/// window has to pass within one: a lower limit would delay each piece, and others with it.
const SLICE_S: f64 = 0.1;
/// `io.max` is so many times the pacer's rate. It acts on the pieces as well, which have waited for
/// their turn already. At the pacer's rate it would delay each burst again.
const TIMES_RATE: f64 = 2.0;
/// So many dirty bytes besides the known ones are those of files that were not found.
const DIRTY: u64 = 16 << 20;
/// Memory above what is no page cache: at least this …
const MARGIN: u64 = 64 << 20;
/// … and a part of what is none, which may grow until the next look.
const MARGIN_PART: u64 = 4;
/// A value is written if it differs by more than one part in so many.
const CHANGE: u64 = 20;

/// The inputs of [`wanted`].
#[derive(Clone, Copy, Debug)]
struct Seen {
    state: State,
    /// The paced disk, if it has a number.
    disk: Option<DeviceId>,
    rate: Option<f64>,
    /// Bytes dirty or under way at most ([`crate::Window::in_flight`]).
    in_flight: u64,
    /// Memory besides page cache, and dirty bytes, of the group.
    besides_cache: Option<u64>,
    dirty: u64,
    /// Those among them that will be written at the pacer's rate, or never.
    known_dirty: u64,
}

/// The limits from now on. The writes to a disk that is not paced any more have none.
fn wanted(before: Limits, seen: &Seen) -> Limits {
    let writes = before.writes.filter(|writes| Some(writes.disk) == seen.disk);
    let before = Limits { writes, ..before };
    match seen.state {
        State::Alone | State::Fixed => Limits::default(),
        State::Listening => before,
        State::Yielding => {
            let least = LEAST_PER_S.max(seen.in_flight as f64 / SLICE_S);
            let is_limited = before.memory.is_some() || seen.dirty > seen.known_dirty + DIRTY;
            let memory = |bytes: u64| bytes + seen.known_dirty + MARGIN.max(bytes / MARGIN_PART);
            Limits {
                memory: seen.besides_cache.filter(|_| is_limited).map(memory),
                writes: seen.disk.zip(seen.rate).map(|(disk, rate)| {
                    let per_s = (rate * TIMES_RATE).max(least) as u64;
                    Writes { disk, per_s }
                }),
            }
        }
    }
}

/// Whether a value is to be written.
fn differs(before: Option<u64>, now: Option<u64>) -> bool {
    match (before, now) {
        (Some(before), Some(now)) => before.abs_diff(now) > before / CHANGE,
        (before, now) => before != now,
    }
}

/// Keeps the limits of a group until `ended` is closed. Then it lifts them. `guarded` tells whether
/// a guardian would lift them if this process were killed.
///
/// Before Linux 6.16 a write to memory.high may take long, since it reclaims memory. Therefore a
/// thread does this.
pub(in crate::command) fn keep(
    files: &GroupFiles,
    root: &SysRoot,
    pacer: &Pacer,
    guarded: &dyn Fn() -> bool,
    ended: &Receiver<()>,
) {
    while matches!(ended.recv_timeout(EVERY), Err(RecvTimeoutError::Timeout)) {
        // First: a stop of this process has the lock of the guardian before that of the limits.
        let is_guarded = guarded();
        let mut in_force = files.in_force();
        let now = if is_guarded { step(files, root, pacer, *in_force) } else { Limits::default() };
        *in_force = apply(files, *in_force, now);
    }
    lifted(files, || {});
}

/// Lifts the limits, and calls `act` while none is in force. [`keep`] goes on after that.
pub(in crate::command) fn lifted(files: &GroupFiles, act: impl FnOnce()) {
    let mut in_force = files.in_force();
    *in_force = apply(files, *in_force, Limits::default());
    act();
}

fn step(files: &GroupFiles, root: &SysRoot, pacer: &Pacer, before: Limits) -> Limits {
    let (window, status) = pacer.limits();
    let mut seen = Seen {
        state: status.state,
        disk: pacer.device(),
        rate: status.rate,
        in_flight: window.in_flight,
        besides_cache: None,
        dirty: 0,
        known_dirty: files.known_dirty(),
    };
    if seen.state == State::Yielding && files.has_memory {
        let backlog = read_backlog(root, &files.name).into_value().unwrap_or_default();
        seen.dirty = backlog.dirty_bytes + backlog.writeback_bytes;
        seen.besides_cache = read_memory_besides_cache(root, &files.name).into_value();
    }
    wanted(before, &seen)
}

/// Writes the values that differ, and returns those in force.
fn apply(files: &GroupFiles, mut before: Limits, now: Limits) -> Limits {
    // First, since before Linux 6.16 a write to memory.high may take long.
    if let Some(old) = before.writes
        && now.writes.is_none_or(|new| new.disk != old.disk)
        && files.set_writes(old.disk, None).is_ok()
    {
        before.writes = None;
    }
    if let Some(new) = now.writes
        && differs(before.writes.map(|writes| writes.per_s), Some(new.per_s))
        && files.set_writes(new.disk, Some(new.per_s)).is_ok()
    {
        before.writes = now.writes;
    }
    if differs(before.memory, now.memory) && files.set_memory(now.memory).is_ok() {
        before.memory = now.memory;
    }
    before
}

#[cfg(test)]
pub(in crate::command) mod testing {
    use super::*;

    pub(in crate::command) const DISK: DeviceId = DeviceId { major: 8, minor: 0 };

    /// Limits a group as [`keep`] does.
    pub(in crate::command) fn limit(files: &GroupFiles, bytes: u64) {
        let mut in_force = files.in_force();
        let writes = Some(Writes { disk: DISK, per_s: bytes });
        let limits = Limits { memory: Some(bytes), writes };
        *in_force = apply(files, *in_force, limits);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use floodwall_testing::tree::put;

    use super::testing::DISK;
    use super::*;

    const SEEN: Seen = Seen {
        state: State::Yielding,
        disk: Some(DISK),
        rate: Some(5e6),
        in_flight: 200_000,
        besides_cache: Some(100 << 20),
        dirty: 1 << 20,
        known_dirty: 0,
    };

    fn writes(per_s: u64) -> Option<Writes> {
        Some(Writes { disk: DISK, per_s })
    }

    #[test]
    fn alone_it_has_no_limit_and_in_a_silence_that_of_before() {
        let some = Limits { memory: Some(1 << 30), writes: writes(7) };
        assert_eq!(wanted(some, &Seen { state: State::Alone, ..SEEN }), Limits::default());
        let silent = Seen { state: State::Listening, rate: Some(0.0), ..SEEN };
        assert_eq!(
            (wanted(some, &silent), wanted(Limits::default(), &silent)),
            (some, Limits::default())
        );
    }

    #[test]
    fn io_max_is_twice_the_rate_and_lets_the_data_under_way_through() {
        let of =
            |rate, in_flight| wanted(Limits::default(), &Seen { rate, in_flight, ..SEEN }).writes;
        assert_eq!(of(Some(5e6), 200_000), writes(10_000_000));
        assert_eq!(of(Some(10.0), 50_000), writes(1_000_000));
        assert_eq!(of(Some(5e6), 4_000_000), writes(40_000_000));
        assert_eq!(of(None, 4_000_000), None);
        let nfs = Seen { disk: None, ..SEEN };
        assert_eq!(wanted(Limits::default(), &nfs).writes, None);
    }

    #[test]
    fn the_limit_of_a_disk_that_is_not_paced_any_more_is_lifted() {
        let dir = tempfile::tempdir().unwrap();
        let io = dir.path().join("io.max");
        put(&io, "");
        let other = DeviceId { minor: 16, ..DISK };
        let files = GroupFiles::of(&SysRoot::new(dir.path()).unwrap(), "/", &[DISK, other]);
        let before = Limits { writes: writes(5), ..Limits::default() };
        let silent = Seen { state: State::Listening, disk: Some(other), ..SEEN };
        assert_eq!(apply(&files, before, wanted(before, &silent)), Limits::default());
        assert_eq!(fs::read_to_string(&io).unwrap(), "8:0 wbps=max");
        let yields = wanted(before, &Seen { disk: Some(other), ..SEEN });
        let expected = Some(Writes { disk: other, per_s: 10_000_000 });
        assert_eq!(apply(&files, before, yields).writes, expected);
        assert_eq!(fs::read_to_string(&io).unwrap(), "8:16 wbps=10000000");
    }

    #[test]
    fn memory_high_begins_with_too_many_dirty_pages_and_leaves_room() {
        let of = |memory, dirty, besides_cache| {
            let before = Limits { memory, ..Limits::default() };
            wanted(before, &Seen { dirty, besides_cache, ..SEEN }).memory
        };
        assert_eq!(of(None, DIRTY, Some(100 << 20)), None);
        assert_eq!(of(None, DIRTY + 1, Some(100 << 20)), Some(164 << 20));
        assert_eq!(of(None, DIRTY + 1, Some(1 << 30)), Some((1 << 30) + (256 << 20)));
        assert_eq!(of(None, DIRTY + 1, None), None, "its memory is not known");
        assert_eq!(of(Some(1), 0, Some(0)), Some(MARGIN), "it stays while others wait");
        let known = Seen { dirty: 50 + DIRTY, known_dirty: 50, besides_cache: Some(7), ..SEEN };
        assert_eq!(wanted(Limits::default(), &known).memory, None);
        let unknown = Seen { dirty: 51 + DIRTY, ..known };
        assert_eq!(wanted(Limits::default(), &unknown).memory, Some(7 + 50 + MARGIN));
    }

    #[test]
    fn a_file_is_written_when_its_value_changes_by_some_percent() {
        let dir = tempfile::tempdir().unwrap();
        let io = dir.path().join("io.max");
        put(&io, "");
        put(&dir.path().join("memory.high"), "");
        let files = GroupFiles::of(&SysRoot::new(dir.path()).unwrap(), "/", &[DISK]);
        let mut limits = Limits::default();
        let mut written = |per_s: Option<u64>| {
            fs::write(&io, "").unwrap();
            let writes = per_s.and_then(writes);
            limits = apply(&files, limits, Limits { writes, ..Limits::default() });
            fs::read_to_string(&io).unwrap()
        };
        assert_eq!(written(None), "");
        assert_eq!(written(Some(1000)), "8:0 wbps=1000");
        assert_eq!(written(Some(1040)), "");
        assert_eq!(written(Some(1060)), "8:0 wbps=1060");
        assert_eq!(written(Some(500)), "8:0 wbps=500");
        assert_eq!(written(None), "8:0 wbps=max");
        assert_eq!(fs::read_to_string(dir.path().join("memory.high")).unwrap(), "");
    }

    #[test]
    fn limits_are_lifted_for_a_stop_and_come_back_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let text = |name: &str| fs::read_to_string(path(name)).unwrap();
        for name in ["io.max", "memory.high"] {
            put(&path(name), "");
        }
        let files = GroupFiles::of(&SysRoot::new(dir.path()).unwrap(), "/", &[DISK]);
        // A shorter text leaves the rest of the one before here.
        let values = |memory: &str, writes: &str| {
            assert!(text("memory.high").starts_with(memory), "{}", text("memory.high"));
            assert!(text("io.max").starts_with(writes), "{}", text("io.max"));
        };
        testing::limit(&files, 1 << 30);
        values("1073741824", "8:0 wbps=1073741824");
        std::thread::scope(|scope| {
            let mut other = None;
            lifted(&files, || {
                other = Some(scope.spawn(|| testing::limit(&files, 1 << 31)));
                std::thread::sleep(EVERY);
                values("max", "8:0 wbps=max");
            });
            other.unwrap().join().unwrap();
        });
        values("2147483648", "8:0 wbps=2147483648");
    }
}
