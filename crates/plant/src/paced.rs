//! Processes that have told that they are floods that pace themselves.
//!
//! ```text
//! told: process, unit ─▶ for 3 s ─▶ its actors and those of its children pace themselves;
//!                                   one that does nothing in a look is an actor all the same
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use floodwall_host::{SysRoot, task};
use floodwall_model::DeviceId;
use floodwall_model::plant::Actor;

/// A process's word counts for so long.
const COUNTS: Duration = Duration::from_secs(3);
/// Generations between a process and its ancestor, at most.
const GENERATIONS: usize = 64;

/// One process's word about one unit.
struct Word {
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
    /// A process tells that it floods a unit and paces itself.
    pub(crate) fn tell(&mut self, root: &SysRoot, pid: u32, unit: DeviceId) {
        let name = || {
            let name = root.read_line(&format!("/proc/{pid}/comm")).into_value();
            format!("{} ({pid})", name.unwrap_or_default())
        };
        let word = self.0.entry((unit, pid)).or_insert_with(|| Word {
            is_new: true,
            heard: Duration::ZERO,
            who: name(),
            is_active: false,
        });
        word.is_new = true;
    }

    /// A look begins.
    pub(crate) fn look(&mut self, at: Duration) {
        for word in self.0.values_mut().filter(|word| word.is_new) {
            (word.heard, word.is_new) = (at, false);
        }
        self.0.retain(|_, word| at.saturating_sub(word.heard) < COUNTS);
    }

    /// Whether a process, or one that it descends from, has told. `who`: its actor's name.
    pub(crate) fn includes(
        &mut self,
        root: &SysRoot,
        pid: u32,
        unit: DeviceId,
        who: impl FnOnce() -> String,
    ) -> bool {
        if !self.0.keys().any(|(of, _)| *of == unit) {
            return false;
        }
        let (mut next, mut buffer) = (pid, Vec::new());
        for _ in 0..GENERATIONS {
            if let Some(word) = self.0.get_mut(&(unit, next)) {
                (word.who, word.is_active) = (who(), true);
                return true;
            }
            match task::read_stat(root, next, &mut buffer) {
                Some(stat) if stat.parent > 1 => next = stat.parent,
                _ => return false,
            }
        }
        false
    }

    /// Those of a unit that did nothing since the last look.
    pub(crate) fn resting(&mut self, unit: DeviceId) -> impl Iterator<Item = Actor> {
        let its = self.0.range_mut((unit, 0)..=(unit, u32::MAX));
        its.filter_map(|(_, word)| {
            let is_active = std::mem::take(&mut word.is_active);
            let who = word.who.clone();
            (!is_active).then(|| Actor { who, paces_itself: true, ..Actor::default() })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::put;

    const DISK: DeviceId = DeviceId { major: 8, minor: 0 };
    const OTHER: DeviceId = DeviceId { major: 8, minor: 16 };

    fn process(tree: &std::path::Path, pid: u32, parent: u32, name: &str) {
        let stat = format!("{pid} ({name}) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 5 0 0");
        put(tree, &format!("proc/{pid}/stat"), &stat);
        put(tree, &format!("proc/{pid}/comm"), name);
    }

    #[test]
    fn a_process_and_its_children_count_for_three_seconds_after_its_word() {
        let dir = tempfile::tempdir().unwrap();
        for (pid, parent, name) in [(10, 1, "sh"), (20, 10, "floodwall"), (30, 20, "tar")] {
            process(dir.path(), pid, parent, name);
        }
        process(dir.path(), 31, 30, "gzip");
        let root = SysRoot::new(dir.path()).unwrap();
        let mut paced = Paced::default();
        paced.tell(&root, 20, DISK);
        let second = Duration::from_secs(1);
        let who = |paced: &mut Paced| paced.resting(DISK).map(|a| a.who).collect::<Vec<_>>();
        paced.look(10 * second);
        assert_eq!(who(&mut paced), ["floodwall (20)"]);
        let includes = |paced: &mut Paced, pid, unit| {
            paced.includes(&root, pid, unit, || format!("x ({pid})"))
        };
        for (pid, unit, is) in [
            (10, DISK, false),
            (20, DISK, true),
            (30, DISK, true),
            (31, DISK, true),
            (31, OTHER, false),
            (99, DISK, false),
        ] {
            assert_eq!(includes(&mut paced, pid, unit), is, "{pid} on {unit}");
        }
        assert!(who(&mut paced).is_empty());
        // The last one that did something stands for them.
        assert_eq!(who(&mut paced), ["x (31)"]);
        paced.tell(&root, 20, DISK);
        paced.look(11 * second);
        paced.look(13 * second);
        assert!(includes(&mut paced, 31, DISK));
        paced.look(14 * second);
        assert!(!includes(&mut paced, 31, DISK) && who(&mut paced).is_empty());
    }
}
