//! Processes that have told that they are floods that pace themselves.
//!
//! ```text
//! told: process, unit ─▶ for 3 s ─▶ its actors and those of its children pace themselves;
//!                                   one that does nothing in a look is an actor all the same
//! ```
//!
//! A number that another process has by now has told nothing.

use std::collections::BTreeMap;
use std::time::Duration;

use floodwall_host::SysRoot;
use floodwall_model::DeviceId;
use floodwall_model::plant::{Actor, Claimant};
use floodwall_model::proc_stat::ProcStat;

/// A process's word counts for so long.
const COUNTS: Duration = Duration::from_secs(3);
/// Generations between a process and its ancestor, at most.
const GENERATIONS: usize = 64;

/// One process's word about one unit.
struct Word {
    /// When the process started, in clock ticks since boot.
    start_ticks: u64,
    /// Whether it was given since the last look.
    is_new: bool,
    /// The look after it was given.
    heard: Duration,
    /// The actor that did something last.
    who: String,
    /// Whether one did since the last look.
    is_active: bool,
}

/// See the [module](self).
#[derive(Default)]
pub(crate) struct Paced(BTreeMap<(DeviceId, u32), Word>);

impl Paced {
    /// A process tells that it floods a unit and paces itself. One that has ended tells nothing.
    pub(crate) fn tell(&mut self, root: &SysRoot, pid: u32, unit: DeviceId) {
        let Some((_, start_ticks)) = parent_and_start(root, pid, &mut Vec::new()) else { return };
        let name = || {
            let name = root.read_line(&format!("/proc/{pid}/comm")).into_value();
            format!("{} ({pid})", name.unwrap_or_default())
        };
        let new = || Word {
            start_ticks,
            is_new: true,
            heard: Duration::ZERO,
            who: name(),
            is_active: false,
        };
        let word = self.0.entry((unit, pid)).or_insert_with(new);
        if word.start_ticks != start_ticks {
            *word = new();
        }
        word.is_new = true;
    }

    /// A look begins.
    pub(crate) fn look(&mut self, at: Duration) {
        for word in self.0.values_mut().filter(|word| word.is_new) {
            (word.heard, word.is_new) = (at, false);
        }
        self.0.retain(|_, word| at.saturating_sub(word.heard) < COUNTS);
    }

    /// The process that has told for another one: itself, or one that it descends from. `who`: the
    /// name of its actor.
    pub(crate) fn claimant(
        &mut self,
        root: &SysRoot,
        pid: u32,
        unit: DeviceId,
        who: impl FnOnce() -> String,
    ) -> Option<Claimant> {
        let (unit, claimant) = self.find(root, pid, |of| of == unit)?;
        let word = self.0.get_mut(&(unit, claimant.pid))?;
        (word.who, word.is_active) = (who(), true);
        Some(claimant)
    }

    /// The unit for which it has told, where it is not known which one a process uses.
    pub(crate) fn unit(&self, root: &SysRoot, pid: u32) -> Option<DeviceId> {
        self.find(root, pid, |_| true).map(|(unit, _)| unit)
    }

    fn find(
        &self,
        root: &SysRoot,
        pid: u32,
        is_meant: impl Fn(DeviceId) -> bool,
    ) -> Option<(DeviceId, Claimant)> {
        if !self.0.keys().any(|(of, _)| is_meant(*of)) {
            return None;
        }
        let (mut next, mut buffer) = (pid, Vec::new());
        for _ in 0..GENERATIONS {
            // One that has just ended has its number still.
            let stat = parent_and_start(root, next, &mut buffer);
            let is_its = |word: &Word| stat.is_none_or(|(_, start)| start == word.start_ticks);
            let told = self
                .0
                .iter()
                .find(|((of, pid), word)| *pid == next && is_meant(*of) && is_its(word));
            if let Some(((unit, pid), word)) = told {
                return Some((*unit, Claimant { pid: *pid, start_ticks: word.start_ticks }));
            }
            next = stat.map(|(parent, _)| parent).filter(|parent| *parent > 1)?;
        }
        None
    }

    /// Those of a unit that did nothing since the last look.
    pub(crate) fn resting(&mut self, unit: DeviceId) -> impl Iterator<Item = Actor> {
        let its = self.0.range_mut((unit, 0)..=(unit, u32::MAX));
        its.filter_map(|((_, pid), word)| {
            let is_active = std::mem::take(&mut word.is_active);
            let paced_by = Some(Claimant { pid: *pid, start_ticks: word.start_ticks });
            let who = word.who.clone();
            (!is_active).then(|| Actor { who, paced_by, ..Actor::default() })
        })
    }
}

/// A process's parent, and when it started.
fn parent_and_start(root: &SysRoot, pid: u32, buffer: &mut Vec<u8>) -> Option<(u32, u64)> {
    root.read_attribute_into(&format!("/proc/{pid}/stat"), buffer).ok()?;
    let stat = ProcStat::parse(buffer)?;
    Some((stat.parent()?, stat.start_ticks()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::put;

    const DISK: DeviceId = DeviceId { major: 8, minor: 0 };
    const OTHER: DeviceId = DeviceId { major: 8, minor: 16 };
    const SECOND: Duration = Duration::from_secs(1);

    fn process(tree: &std::path::Path, pid: u32, parent: u32, name: &str, start: u64) {
        let stat =
            format!("{pid} ({name}) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 {start} 0 0");
        put(tree, &format!("proc/{pid}/stat"), &stat);
        put(tree, &format!("proc/{pid}/comm"), name);
    }

    /// 20 paces 30, which has a child; 10 has started 20.
    fn machine() -> (tempfile::TempDir, SysRoot) {
        let dir = tempfile::tempdir().unwrap();
        for (pid, parent, name) in
            [(10, 1, "sh"), (20, 10, "floodwall"), (30, 20, "tar"), (31, 30, "gzip")]
        {
            process(dir.path(), pid, parent, name, 5);
        }
        let root = SysRoot::new(dir.path()).unwrap();
        (dir, root)
    }

    fn resting(paced: &mut Paced) -> Vec<String> {
        paced.resting(DISK).map(|actor| actor.who).collect()
    }

    fn includes(paced: &mut Paced, root: &SysRoot, pid: u32, unit: DeviceId) -> bool {
        let claimant = paced.claimant(root, pid, unit, || format!("x ({pid})"));
        assert!(claimant.is_none_or(|one| one == Claimant { pid: 20, start_ticks: 5 }));
        claimant.is_some()
    }

    #[test]
    fn a_process_and_its_children_count_for_three_seconds_after_its_word() {
        let (_dir, root) = machine();
        let mut paced = Paced::default();
        paced.tell(&root, 20, DISK);
        paced.look(10 * SECOND);
        assert_eq!(resting(&mut paced), ["floodwall (20)"]);
        for (pid, unit, is) in [
            (10, DISK, false),
            (20, DISK, true),
            (30, DISK, true),
            (31, DISK, true),
            (31, OTHER, false),
            (99, DISK, false),
        ] {
            assert_eq!(includes(&mut paced, &root, pid, unit), is, "{pid} on {unit}");
        }
        assert_eq!((paced.unit(&root, 31), paced.unit(&root, 10)), (Some(DISK), None));
        assert!(resting(&mut paced).is_empty());
        // The last one that did something stands for them.
        assert_eq!(resting(&mut paced), ["x (31)"]);
        paced.tell(&root, 20, DISK);
        paced.look(11 * SECOND);
        paced.look(13 * SECOND);
        assert!(includes(&mut paced, &root, 31, DISK));
        paced.look(14 * SECOND);
        assert!(!includes(&mut paced, &root, 31, DISK) && resting(&mut paced).is_empty());
    }

    #[test]
    fn a_number_that_is_used_again_has_told_nothing() {
        let (dir, root) = machine();
        let mut paced = Paced::default();
        paced.tell(&root, 20, DISK);
        paced.tell(&root, 99, DISK);
        paced.look(10 * SECOND);
        assert_eq!(resting(&mut paced), ["floodwall (20)"], "99 has ended");
        // It ends, and its bytes are its own still.
        std::fs::remove_file(dir.path().join("proc/20/stat")).unwrap();
        assert!(includes(&mut paced, &root, 20, DISK));
        process(dir.path(), 20, 10, "dd", 6);
        assert!(!includes(&mut paced, &root, 20, DISK) && !includes(&mut paced, &root, 30, DISK));
        // The other one tells as well.
        paced.tell(&root, 20, DISK);
        let by = paced.claimant(&root, 30, DISK, String::new);
        assert_eq!(by, Some(Claimant { pid: 20, start_ticks: 6 }));
    }
}
