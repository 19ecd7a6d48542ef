//! The processes of an episode: sums for each, of a bounded number of them.
//!
//! ```text
//! processes of frames ─▶ told apart by number and name, 128 at most ─▶ the 16 heaviest, others
//! ```
//!
//! A number may be used again, so the name counts too. A stall may last for days and see any number
//! of processes. Beyond the bound the lightest become one process with number 0, as in frames: sums
//! stay right.

use floodwall_model::frame::{Process, is_kernel_worker};
use floodwall_model::workload::Workload;

/// Victims that a stall names, and floods.
pub const KEPT: usize = 16;

/// Processes that are told apart while it goes on. More than [`KEPT`], so that one that comes late
/// can outgrow the first ones.
const TOLD_APART: usize = 128;

/// The name of all that are not told apart.
const OTHERS: &str = "others";

/// Sums over the frames of a process.
pub(super) trait Sums: Clone + Default {
    /// Adds what the process did in a frame.
    fn add(&mut self, process: &Process);
    /// Adds another process's.
    fn take_in(&mut self, other: &Self);
    /// The lightest process is the first to lose its name.
    fn weight(&self) -> (u64, u64);
}

/// A process and its sums.
#[derive(Clone, Debug, Default)]
pub(super) struct Party<T> {
    pub(super) pid: u32,
    pub(super) name: String,
    pub(super) workload: Workload,
    pub(super) sums: T,
    /// It is in the last frame.
    is_present: bool,
}

/// Processes.
#[derive(Debug, Default)]
pub(super) struct Parties<T>(Vec<Party<T>>);

impl<T: Sums> Parties<T> {
    /// Adds the processes of a frame.
    pub(super) fn add<'a>(&mut self, processes: impl Iterator<Item = &'a Process>) {
        self.0.iter_mut().for_each(|party| party.is_present = false);
        for process in processes {
            let party = party_of(&mut self.0, process);
            party.sums.add(process);
            party.is_present = true;
            if party.workload.is_unknown() {
                party.workload = process.workload.clone();
            }
        }
        bound(&mut self.0, TOLD_APART, |party| (party.is_present, party.sums.weight()));
    }

    /// Those of whom this is true, the heaviest first within their rank: [`KEPT`] at most, then all
    /// others as one.
    pub(super) fn heaviest(&self, is_told: impl Fn(&T) -> bool) -> Vec<Party<T>> {
        let mut told: Vec<_> =
            self.0.iter().filter(|party| is_told(&party.sums)).cloned().collect();
        bound(&mut told, KEPT, |party| (true, party.sums.weight()));
        told.sort_by_key(|party| (party.rank(), std::cmp::Reverse(party.sums.weight())));
        told
    }
}

impl<T> Party<T> {
    pub(super) fn is_others(&self) -> bool {
        self.pid == 0
    }

    /// Processes come first, then the kernel's workers, which act for others, then the sum of all
    /// others.
    pub(super) fn rank(&self) -> (bool, bool) {
        (self.is_others(), is_kernel_worker(&self.name))
    }
}

fn party_of<'a, T: Sums>(parties: &'a mut Vec<Party<T>>, process: &Process) -> &'a mut Party<T> {
    let is_it = |party: &Party<T>| party.pid == process.pid && party.name == process.name;
    let at = parties.iter().position(is_it).unwrap_or_else(|| {
        let (pid, name) = (process.pid, process.name.clone());
        parties.push(Party { pid, name, ..Party::default() });
        parties.len() - 1
    });
    &mut parties[at]
}

/// Makes one of the lightest until so many are left beside it.
fn bound<T: Sums>(
    parties: &mut Vec<Party<T>>,
    most: usize,
    weight: impl Fn(&Party<T>) -> (bool, (u64, u64)),
) {
    let named = parties.iter().filter(|party| !party.is_others()).count();
    for _ in most..named {
        let all = parties.iter().enumerate().filter(|(_, party)| !party.is_others());
        let Some((lightest, _)) = all.min_by_key(|(_, party)| weight(party)) else { return };
        let lightest = parties.swap_remove(lightest);
        let others = Process { name: OTHERS.into(), ..Process::default() };
        party_of(parties, &others).sums.take_in(&lightest.sums);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, Default)]
    struct Dirtied(u64);

    impl Sums for Dirtied {
        fn add(&mut self, process: &Process) {
            self.0 += process.dirtied_bytes.unwrap_or(0);
        }

        fn take_in(&mut self, other: &Self) {
            self.0 += other.0;
        }

        fn weight(&self) -> (u64, u64) {
            (self.0, 0)
        }
    }

    fn process(pid: u32, name: &str, bytes: u64) -> Process {
        Process { pid, name: name.into(), dirtied_bytes: Some(bytes), ..Process::default() }
    }

    fn told(parties: &Parties<Dirtied>) -> Vec<(u32, u64)> {
        parties.heaviest(|_| true).iter().map(|party| (party.pid, party.sums.0)).collect()
    }

    #[test]
    fn a_number_that_is_used_again_is_another_process() {
        let mut parties = Parties::<Dirtied>::default();
        parties.add([process(7, "cp", 1), process(7, "dd", 2)].iter());
        parties.add([process(7, "cp", 4)].iter());
        let told = parties.heaviest(|_| true);
        let told: Vec<_> = told.iter().map(|party| (&*party.name, party.sums.0)).collect();
        assert_eq!(told, [("cp", 5), ("dd", 2)]);
    }

    #[test]
    fn the_lightest_become_one_and_sums_stay() {
        let mut parties = Parties::<Dirtied>::default();
        let many: Vec<Process> = (1..=300).map(|pid| process(pid, "w", u64::from(pid))).collect();
        parties.add(many.iter());
        let told = told(&parties);
        assert_eq!((told[0], told[15].0, told.len()), ((300, 300), 285, 17));
        assert_eq!(told[16].0, 0, "others come last, though they weigh most");
        assert_eq!(told.iter().map(|(_, bytes)| bytes).sum::<u64>(), (1..=300).sum::<u64>());
    }

    #[test]
    fn a_process_that_comes_late_outgrows_those_that_are_gone() {
        let mut parties = Parties::<Dirtied>::default();
        let gone: Vec<Process> = (1..=200).map(|pid| process(pid, "w", 1000)).collect();
        parties.add(gone.iter());
        (0..50).for_each(|_| parties.add([process(999, "late", 100)].iter()));
        assert_eq!(told(&parties)[0], (999, 5000));
    }
}
