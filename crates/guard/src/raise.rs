//! Which processes are put before the flood by I/O priority: those that commit and do not flood.
//!
//! ```text
//! actors ─┬─ commits, does not flood ─▶ known for a minute ─┐
//!         └─ floods ─▶ not raised for as long               ├─▶ pid:N.ioprio, if the plant has it
//!                                       ext4's journal ─────┘   and no administrator has set it
//! ```
//!
//! The plant has these knobs only while the elevator in force puts commits before a flood by
//! priority (bfq with group support). A write of them freezes no queue. A process that only reads
//! is not raised: it may be the reading half of a backup.

use std::collections::BTreeMap;
use std::time::Duration;

use floodwall_model::Setting;
use floodwall_model::plant::Actor;
use floodwall_model::setting::JOURNAL_PRIORITY;

use crate::config::{MOST_RAISED, RAISE_AFTER, RAISED_FOR};
use crate::look::Now;
use crate::who::{is_flood, is_victim};

/// The priority of raised threads: the first of the usual class. A real-time class could starve
/// writeback, until the dirty limit stops the victims' own writes.
pub(crate) const RAISED: &str = "be/0";
/// The priorities of processes for which no administrator has set one. `be/4` is the same as `none`
/// at nice 0 (block/ioprio.c). A value that lists single threads was set by another program.
const UNSET: [&str; 2] = ["none", "be/4"];
/// The same of the threads that commit ext4's journals (fs/ext4/super.c `DEFAULT_JOURNAL_IOPRIO`).
const JOURNAL_UNSET: &str = "be/3";

/// When a process was seen first and last.
#[derive(Clone, Copy, Debug)]
struct Seen {
    first: Duration,
    last: Duration,
}

/// The processes that commit on a device, and those that flood it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Committers {
    commit: BTreeMap<String, Seen>,
    flood: BTreeMap<String, Duration>,
}

impl Committers {
    /// Takes in one look.
    pub(crate) fn look(&mut self, now: &Now<'_>, actors: &[Actor]) {
        let (at, tick) = (now.seen.at, now.tick);
        for actor in actors {
            let Some(process) = &actor.process else { continue };
            if is_flood(actor, tick) {
                // Its commits may be unseen.
                if !now.seen.missed_waits {
                    self.flood.insert(process.clone(), at);
                }
            } else if is_victim(actor, tick) && actor.commits.count() > 0 {
                let seen =
                    self.commit.entry(process.clone()).or_insert(Seen { first: at, last: at });
                seen.last = at;
            }
        }
        self.commit.retain(|_, seen| at - seen.last < RAISED_FOR);
        self.flood.retain(|_, seen| at - *seen < RAISED_FOR);
    }

    /// The priorities that may be raised, with the journal's if there is any.
    pub(crate) fn knobs(&self, now: Duration) -> Vec<String> {
        let stays = |seen: &Seen| now - seen.first >= RAISE_AFTER;
        let all = self
            .commit
            .iter()
            .filter(|(process, seen)| stays(seen) && !self.flood.contains_key(*process));
        let mut knobs: Vec<String> =
            all.map(|(process, _)| format!("{process}.ioprio")).take(MOST_RAISED).collect();
        if !knobs.is_empty() {
            knobs.push(JOURNAL_PRIORITY.to_owned());
        }
        knobs
    }
}

/// Whether no administrator has set a priority. `own`: the values before the guard's first write.
pub(crate) fn is_unset(knob: &str, own: &Setting) -> bool {
    own.get(knob).is_some_and(|value| match knob {
        JOURNAL_PRIORITY => value == JOURNAL_UNSET,
        _ => UNSET.contains(&value),
    })
}

#[cfg(test)]
mod tests {
    use floodwall_model::LatencyCounts;
    use floodwall_model::plant::Observation;

    use super::*;

    const TICK: Duration = Duration::from_millis(250);

    fn actor(process: &str, commits: usize, mib: u64) -> Actor {
        let commits = LatencyCounts::from_values(vec![1_000_000; commits]);
        let dirtied_bytes = mib << 20;
        Actor { process: Some(process.to_owned()), commits, dirtied_bytes, ..Actor::default() }
    }

    /// The raised processes after looks a second apart.
    fn raised(looks: &[Vec<Actor>]) -> Vec<String> {
        let looks: Vec<(bool, Vec<Actor>)> =
            looks.iter().map(|actors| (false, actors.clone())).collect();
        raised_after(&looks)
    }

    /// The same after looks that have missed waits, or have not.
    fn raised_after(looks: &[(bool, Vec<Actor>)]) -> Vec<String> {
        let (mut committers, mut at) = (Committers::default(), Duration::ZERO);
        for (missed_waits, actors) in looks {
            at += Duration::from_secs(1);
            let seen = Observation { at, missed_waits: *missed_waits, ..Observation::default() };
            committers.look(&Now::new(&seen, TICK), actors);
        }
        committers.knobs(at)
    }

    #[test]
    fn who_commits_and_does_not_flood_is_raised() {
        let db = || actor("pid:7", 9, 0);
        assert_eq!(raised(&[vec![db()], vec![db()]]), ["pid:7.ioprio", "journal.ioprio"]);
        assert!(raised(&[vec![db()]]).is_empty(), "it may end at once");
        let both = [vec![db(), actor("pid:8", 0, 90)], vec![db(), actor("pid:8", 0, 90)]];
        assert_eq!(raised(&both), ["pid:7.ioprio", "journal.ioprio"]);
        // A thread of it floods while another commits.
        let mixed = || vec![db(), actor("pid:7", 0, 90)];
        assert!(raised(&[mixed(), mixed()]).is_empty());
        assert!(raised(&[vec![db()], mixed(), vec![db()]]).is_empty(), "it may go on");
        let reads = LatencyCounts::from_values(vec![1_000_000; 9]);
        let reader = || Actor { reads: reads.clone(), ..actor("pid:7", 0, 0) };
        assert!(raised(&[vec![reader()], vec![reader()]]).is_empty());
        let nameless = || Actor { process: None, ..db() };
        assert!(raised(&[vec![nameless()], vec![nameless()]]).is_empty());
    }

    #[test]
    fn who_dirties_while_commits_are_unseen_is_raised_when_they_are_seen() {
        let (db, unseen) = (|| vec![actor("pid:7", 90, 9)], vec![actor("pid:7", 0, 9)]);
        let all = [(true, unseen), (false, db()), (true, db()), (false, db())];
        assert_eq!(raised_after(&all), ["pid:7.ioprio", "journal.ioprio"]);
    }

    #[test]
    fn who_commits_no_more_is_forgotten() {
        let mut looks = vec![vec![actor("pid:7", 9, 0)]];
        looks.resize(RAISED_FOR.as_secs() as usize, vec![]);
        assert_eq!(raised(&looks).len(), 2);
        looks.push(vec![]);
        assert!(raised(&looks).is_empty());
    }

    #[test]
    fn what_an_administrator_has_set_is_told() {
        let unset = |knob: &str, value: &str| {
            is_unset(knob, &[(knob.to_owned(), value.to_owned())].into_iter().collect())
        };
        for (value, is_so) in [
            ("none", true),
            ("be/4", true),
            ("be/3", false),
            ("be/6", false),
            ("idle", false),
            ("rt/0", false),
            ("none 9@109=idle", false),
        ] {
            assert_eq!(unset("pid:7.ioprio", value), is_so, "{value}");
        }
        assert!(unset("journal.ioprio", "be/3") && !unset("journal.ioprio", "be/1"));
        assert!(!is_unset("pid:7.ioprio", &Setting::default()));
    }
}
