//! Silences: short times without a write of the command, which show how others use the disk.

use std::collections::VecDeque;
use std::time::Duration;

use super::seen::{SURE, Seen, Waits};

/// The longest time before a silence begins: for the command's own requests to end, and then for a
/// request that was made meanwhile. That one may wait for the command's data in the disk's cache,
/// or be the command's flush.
const DRAIN: Duration = Duration::from_secs(1);
/// Length of a silence …
const LEAST: Duration = Duration::from_millis(200);
/// … which goes on if it has an operation of others, but fewer than this, …
const OPS: f64 = 5.0;
/// … up to this.
const MOST: Duration = Duration::from_millis(400);
/// Length of a glance. It finds others that wait behind the command's data. Once the disk has that
/// data, their next request follows the last one at once.
const GLANCE: Duration = Duration::from_millis(30);
/// So many operations tell their rate to about 9 % (1/√120). The averages of [`super::share`] even
/// that out before more operations come.
const ENOUGH: f64 = 120.0;
/// Silences that are remembered.
const KEPT: usize = 5;
/// In the quietest silence others wait as they do without the command. Where they waited more than
/// so many times as long, an array's cache still wrote the command's data, or others caught up.
/// Silences with fewer operations than [`SURE`] are not compared.
const DISTURBED: f64 = 2.0;

/// The kind of a silence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Silence {
    #[default]
    Full,
    /// It ends after some milliseconds without a request of others.
    Glance,
}

/// One silence.
#[derive(Clone, Debug, Default)]
pub(super) struct Listen {
    kind: Silence,
    draining: Duration,
    /// Whether the command's requests have ended.
    ended: bool,
    silent: bool,
    heard: Seen,
    /// Time without a request at the end.
    quiet: Duration,
}

impl Listen {
    pub(super) fn new(kind: Silence) -> Self {
        Self { kind, ..Self::default() }
    }

    pub(super) fn kind(&self) -> Silence {
        self.kind
    }

    pub(super) fn observe(&mut self, seen: &Seen) {
        if self.silent {
            self.heard = self.heard.plus(seen);
            let is_quiet = seen.others_ops() < 1.0 && seen.in_flight == 0;
            self.quiet = if is_quiet { self.quiet + seen.elapsed } else { Duration::ZERO };
            return;
        }
        self.draining += seen.elapsed;
        let is_drained = self.ended && seen.others_ops() >= 1.0;
        self.ended |= seen.own_under_way == 0;
        let is_idle = self.ended && seen.in_flight == 0;
        self.silent = is_drained || is_idle || self.draining >= DRAIN;
    }

    /// Whether no request came for as long as a silence, whatever came before: the filesystem's log
    /// is written in several parts, now and then without a commit of others.
    pub(super) fn has_ended(&self) -> bool {
        self.quiet >= if self.kind == Silence::Glance { GLANCE } else { LEAST }
    }

    pub(super) fn is_over(&self) -> bool {
        let few = (1.0..OPS).contains(&self.heard.others_ops());
        self.silent && self.heard.elapsed >= if few { MOST } else { LEAST }
    }

    pub(super) fn heard(&self) -> Seen {
        self.heard
    }
}

/// The measurements of the last silences.
#[derive(Clone, Debug, Default)]
pub(super) struct Heard {
    silences: VecDeque<Seen>,
    /// Whether the first one is among them.
    has_first: bool,
}

impl Heard {
    pub(super) fn is_known(&self) -> bool {
        !self.silences.is_empty()
    }

    /// Whether only the first one is known. During that one the disk's cache may still have been
    /// busy with our data.
    pub(super) fn is_first(&self) -> bool {
        self.has_first && self.silences.len() == 1
    }

    pub(super) fn learn(&mut self, heard: &Seen) {
        if self.is_first() {
            self.silences.clear();
            self.has_first = false;
        } else if self.silences.is_empty() {
            self.has_first = true;
        }
        self.silences.push_back(*heard);
        if self.silences.len() > KEPT {
            self.silences.pop_front();
        }
    }

    /// The silences that show how others use the disk without the command.
    fn undisturbed(&self) -> impl DoubleEndedIterator<Item = &Seen> {
        let mean_s = |heard: &Seen| {
            let waits = heard.others();
            waits.mean_s().filter(|_| waits.ops as f64 >= SURE)
        };
        let least = self.silences.iter().filter_map(mean_s).fold(f64::INFINITY, f64::min);
        let is_base = move |mean_s| mean_s <= DISTURBED * least;
        self.silences.iter().filter(move |heard| mean_s(heard).is_none_or(is_base))
    }

    /// The part of the last undisturbed silence in which the disk was busy, from 0 to 1.
    pub(super) fn busy(&self) -> f64 {
        let last = self.undisturbed().next_back().filter(|heard| !heard.elapsed.is_zero());
        last.map_or(0.0, |heard| {
            (heard.busy.as_secs_f64() / heard.elapsed.as_secs_f64()).clamp(0.0, 1.0)
        })
    }

    /// The mean wait of a kind of operation in these silences, in seconds.
    pub(super) fn base_s(&self, kind: impl Fn(&Seen) -> Waits) -> Option<f64> {
        self.undisturbed().map(kind).fold(Waits::default(), Waits::plus).mean_s()
    }

    /// The time in which the disk serves an operation of others without the command, with all
    /// requests that belong to it. In seconds.
    pub(super) fn service_s(&self) -> Option<f64> {
        let ops: f64 = self.undisturbed().map(Seen::others_ops).sum();
        let busy: Duration = self.undisturbed().map(|heard| heard.busy).sum();
        (ops > 0.0).then(|| busy.as_secs_f64() / ops)
    }

    /// Operations of others per second in these silences; none if too few of them are known.
    pub(super) fn known_ops_per_s(&self) -> Option<f64> {
        let ops: f64 = self.undisturbed().map(Seen::others_ops).sum();
        let elapsed: Duration = self.undisturbed().map(|heard| heard.elapsed).sum();
        (ops >= ENOUGH).then(|| ops / elapsed.as_secs_f64())
    }

    /// Operations of others per second in the last silence.
    pub(super) fn ops_per_s(&self) -> f64 {
        let last = self.silences.back().filter(|heard| !heard.elapsed.is_zero());
        last.map_or(0.0, |heard| heard.others_ops() / heard.elapsed.as_secs_f64())
    }
}
