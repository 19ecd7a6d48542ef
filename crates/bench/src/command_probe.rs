//! Operations of victims that are commands: their synchronous calls and reads, and those of their
//! descendants, through the probe.
//!
//! ```text
//! thread that starts the command ─ follow ─▶ Probe ─ followed, a window a sample ─▶ Delta
//!
//! end of the first warm-up ─┬─ calls or reads were seen ─▶ Seen: these are its operations,
//!                           │    with latencies, from then on and in all phases
//!                           └─ none were ─▶ Unseen: its operations are read and write calls
//!                                of any kind, without latencies
//! ```
//!
//! Reads count only if the disks below the measured directory answered them: a command's programs
//! are also read when they start, from any disk. A client of a server started elsewhere waits in a
//! network call, which is not I/O.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use floodwall_host::locate::Location;
use floodwall_host::{SysRoot, block};
use floodwall_load::{Delta, Finished, Running, sleep_until};
use floodwall_model::scenario::VictimKind;
use floodwall_model::status::Missing;
use floodwall_model::trial::OpLatencies;
use floodwall_model::{DeviceId, Scenario};
use floodwall_probe::{Call, Followed, Probe, ProbeError};

/// Samples at the end of a warm-up by which it is judged whether a command is seen to do anything:
/// two seconds.
const JUDGED: usize = 8;
/// Reads from the disk within the last half of that don't come from a program's start.
const READS_JUDGED: usize = JUDGED / 2;

/// How a command's operations are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Visibility {
    Undecided,
    Seen,
    Unseen,
}

/// The operations seen of a scenario's commands, over all phases.
#[derive(Debug, Default)]
pub(crate) struct CommandCounts {
    /// By victim: its name, and how it is counted.
    commands: BTreeMap<usize, (String, Visibility)>,
    /// The disks whose reads count.
    disks: BTreeSet<DeviceId>,
    /// Why nothing can be seen, if it can't.
    blocked: Option<String>,
    lost_events: u64,
    folded: u64,
    unwatched: u32,
}

impl CommandCounts {
    /// Finds out whether the commands of a scenario can be looked at.
    pub(crate) fn new(scenario: &Scenario, root: &SysRoot, location: &Location) -> Self {
        let is_command = |kind: &VictimKind| matches!(kind, VictimKind::Command { .. });
        let victims = scenario.victims.iter().enumerate().filter(|(_, v)| is_command(&v.kind));
        let commands: BTreeMap<_, _> =
            victims.map(|(at, v)| (at, (v.name.clone(), Visibility::Undecided))).collect();
        let disks = disks_below(root, location);
        let mut counts = Self { commands, disks, ..Self::default() };
        if !counts.commands.is_empty() {
            counts.blocked = Probe::open_following(None).err().map(|e| e.to_string());
        }
        counts
    }

    /// The missing values of the commands in a result.
    pub(crate) fn missing(&self) -> Vec<Missing> {
        let missing = |what: String, why: String| Missing { what, why };
        let mut all = Vec::new();
        for (name, how) in self.commands.values() {
            let why = match (&self.blocked, how) {
                (Some(why), _) => why,
                (None, Visibility::Unseen) => {
                    "at the end of its first warm-up no synchronous call of it and no read from \
                     this disk was seen (a client of a server that was \
                     started elsewhere?)"
                }
                _ => continue,
            };
            let instead = "its read and write calls are counted instead, without latencies";
            all.push(missing(
                format!("fsync and its kin of '{name}'"),
                format!("{why}; {instead}"),
            ));
        }
        for (count, what, why) in [
            (self.lost_events, "events", "were more than the kernel had room for"),
            (self.folded, "operations", "were of too many processes to tell apart"),
            (
                u64::from(self.unwatched),
                "threads",
                "write to O_SYNC files beyond those that can be watched",
            ),
        ] {
            if count > 0 {
                all.push(missing(
                    "some operations of commands".into(),
                    format!("{count} {what} {why}"),
                ));
            }
        }
        all
    }
}

/// The disks that requests to a directory go to: device mapper and md have no queue, and hand on
/// their requests.
fn disks_below(root: &SysRoot, location: &Location) -> BTreeSet<DeviceId> {
    let mut disks = BTreeSet::new();
    let mut left = location.queue_devices.clone();
    while let Some(disk) = left.pop() {
        if disks.insert(disk) {
            let below = block::slaves(root, disk).into_iter();
            left.extend(below.filter_map(|id| block::whole_disk(root, id).into_value()));
        }
    }
    disks
}

/// The operations seen of one command in this phase.
#[derive(Debug, Default)]
struct Seen {
    operations: u64,
    /// Commits and reads of the last [`JUDGED`] samples.
    last: VecDeque<(u64, u64)>,
}

impl Seen {
    fn add(&mut self, latencies: &OpLatencies) {
        let (commits, reads) = (latencies.commit.count(), latencies.read.count());
        self.operations += commits + reads;
        if self.last.len() == JUDGED {
            self.last.pop_front();
        }
        self.last.push_back((commits, reads));
    }

    /// Whether it is at work, and not only begun.
    fn is_at_work(&self) -> bool {
        let commits = self.last.iter().any(|(commits, _)| *commits > 0);
        let late = self.last.iter().skip(self.last.len().saturating_sub(READS_JUDGED));
        commits || late.map(|(_, reads)| reads).sum::<u64>() > 0
    }
}

/// The probe of the commands in one phase.
#[derive(Debug)]
pub(crate) struct CommandProbe {
    probe: Probe,
    /// By victim.
    seen: BTreeMap<usize, Seen>,
}

impl CommandProbe {
    /// Opens the probe, if there is a command to look at and it can be looked at; call it before
    /// the command is started.
    ///
    /// # Errors
    /// Why it can't any more: phases whose operations are not of one kind can't be compared.
    pub(crate) fn open(counts: &mut CommandCounts) -> Result<Option<Self>, String> {
        let wanted = counts.commands.values().any(|(_, how)| *how != Visibility::Unseen);
        if !wanted || counts.blocked.is_some() {
            return Ok(None);
        }
        match Probe::open_following(None) {
            Ok(probe) => Ok(Some(Self { probe, seen: BTreeMap::new() })),
            Err(e) if counts.commands.values().any(|(_, how)| *how == Visibility::Seen) => {
                Err(format!("the command can't be looked at any more: {e}"))
            }
            Err(e) => {
                counts.blocked = Some(e.to_string());
                Ok(None)
            }
        }
    }

    /// The victims have just been started.
    pub(crate) fn follow(&mut self, victims: &[Running]) {
        for (at, victim) in victims.iter().enumerate() {
            if let Some(thread) = victim.command_thread() {
                self.probe.follow(thread, at as u32);
                self.seen.insert(at, Seen::default());
            }
        }
    }

    /// Sleeps, and takes in what happens meanwhile. `false` if `stop` was raised.
    ///
    /// # Errors
    /// [`ProbeError`] if the probe failed.
    pub(crate) fn sleep_until(
        &mut self,
        end: Instant,
        stop: &AtomicBool,
    ) -> Result<bool, ProbeError> {
        self.probe.wait(end.saturating_duration_since(Instant::now()), stop)?;
        Ok(sleep_until(end, stop))
    }

    /// Replaces the counters' values by the operations seen since the last call.
    pub(crate) fn replace(&mut self, victims: &mut [Delta], counts: &mut CommandCounts) {
        for (at, latencies) in self.take(counts) {
            if let Some(delta) = victims.get_mut(at) {
                delta.ops = latencies.operations().count();
                delta.latencies = latencies;
            }
        }
    }

    /// The warm-up is over: a command without seen operations is not counted by the probe.
    pub(crate) fn decide(&self, counts: &mut CommandCounts) {
        for (at, (_, how)) in &mut counts.commands {
            if *how == Visibility::Undecided {
                let seen = self.seen.get(at).is_some_and(Seen::is_at_work);
                *how = if seen { Visibility::Seen } else { Visibility::Unseen };
            }
        }
    }

    /// The victims are about to be stopped: only what is under way counts from now on.
    pub(crate) fn stopping(&mut self) {
        self.probe.follow_no_further();
    }

    /// The victims have ended.
    pub(crate) fn finish(mut self, victims: &mut [Finished], counts: &mut CommandCounts) {
        for (at, latencies) in self.take(counts) {
            if let Some(finished) = victims.get_mut(at) {
                finished.last.ops = latencies.operations().count();
                finished.last.latencies = latencies;
                finished.total_ops = self.seen.get(&at).map_or(0, |seen| seen.operations);
            }
        }
    }

    /// The operations of the commands counted by the probe.
    fn take(&mut self, counts: &mut CommandCounts) -> Vec<(usize, OpLatencies)> {
        let mut window = self.probe.followed();
        counts.lost_events += window.lost_events;
        counts.folded += window.folded_operations;
        counts.unwatched = counts.unwatched.max(window.unwatched_threads);
        let mut all = Vec::new();
        for (at, seen) in &mut self.seen {
            let followed = window.by_tag.remove(&(*at as u32)).unwrap_or_default();
            let latencies = latencies(&followed, &counts.disks);
            seen.add(&latencies);
            let is_counted = match counts.commands.get(at).map(|(_, how)| *how) {
                Some(Visibility::Seen) => true,
                Some(Visibility::Undecided) => seen.is_at_work(),
                _ => false,
            };
            if is_counted {
                all.push((*at, latencies));
            }
        }
        all
    }
}

/// A call that makes earlier writes stable is a commit; so is a write past the page cache. Reads
/// are requests that these disks answered.
fn latencies(followed: &Followed, disks: &BTreeSet<DeviceId>) -> OpLatencies {
    let mut all = OpLatencies::default();
    for (_, reads) in followed.reads.iter().filter(|(disk, _)| disks.contains(disk)) {
        all.read.merge(reads);
    }
    for (call, counts) in &followed.calls {
        let kind = match call {
            Call::SyncWrite | Call::DirectWrite => &mut all.write,
            _ => &mut all.sync,
        };
        kind.merge(counts);
        all.commit.merge(counts);
    }
    all
}

#[cfg(test)]
mod tests {
    use floodwall_model::LatencyCounts;

    use super::*;

    fn one(ns: u64) -> LatencyCounts {
        LatencyCounts::from_values([ns])
    }

    #[test]
    fn synchronous_writes_are_writes_and_commits_and_all_calls_are_operations() {
        let calls = [
            (Call::Fsync, one(1000)),
            (Call::Msync, one(5)),
            (Call::SyncWrite, one(20)),
            (Call::DirectWrite, one(30)),
        ];
        let disk = |minor| DeviceId { major: 8, minor };
        let reads = [(disk(0), one(7)), (disk(16), one(900)), (disk(32), one(9))].into();
        let followed = Followed { calls: calls.into_iter().collect(), reads };
        let latencies = latencies(&followed, &[disk(0), disk(32)].into());
        assert_eq!(
            (latencies.sync, latencies.write),
            (LatencyCounts::from_values([1000, 5]), LatencyCounts::from_values([20, 30]))
        );
        assert_eq!(latencies.commit, LatencyCounts::from_values([1000, 5, 20, 30]));
        assert_eq!(latencies.read, LatencyCounts::from_values([7, 9]));
    }

    #[test]
    fn a_client_that_only_reads_its_program_is_not_at_work_on_the_disk() {
        let reads = |n: usize| OpLatencies {
            read: LatencyCounts::from_values(vec![1; n]),
            ..OpLatencies::default()
        };
        let commits = OpLatencies { commit: one(1), ..OpLatencies::default() };
        let mut client = Seen::default();
        [reads(90), reads(20), reads(0), reads(0), reads(0), reads(0)]
            .iter()
            .for_each(|l| client.add(l));
        assert_eq!((client.is_at_work(), client.operations), (false, 110));
        client.add(&reads(3));
        assert!(client.is_at_work());
        // One that commits every other second is.
        let mut slow = Seen::default();
        slow.add(&commits);
        (0..JUDGED - 1).for_each(|_| slow.add(&reads(0)));
        assert!(slow.is_at_work());
        slow.add(&reads(0));
        assert!(!slow.is_at_work());
    }

    #[test]
    fn what_is_missing_is_named_with_the_command() {
        let mut counts = CommandCounts::default();
        assert_eq!(counts.missing(), []);
        counts.commands =
            [(0, ("db".into(), Visibility::Seen)), (2, ("client".into(), Visibility::Unseen))]
                .into();
        let missing = counts.missing();
        assert_eq!((missing.len(), missing[0].what.as_str()), (1, "fsync and its kin of 'client'"));
        counts.lost_events = 12;
        assert!(counts.missing()[1].why.starts_with("12 events"), "{:?}", counts.missing());
        counts.blocked = Some("can't open a perf event".into());
        assert!(
            counts.missing()[..2]
                .iter()
                .all(|m| m.why.starts_with("can't open a perf event; its read and write"))
        );
    }
}
