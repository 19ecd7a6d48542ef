//! The device model, and the requests in it.

use std::collections::{BTreeSet, HashMap};

use floodwall_device::{Completion, Device, Nanos, Op};

/// Which clock requests obey.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// The model's.
    Modelled,
    /// None: everything is done at once and the model does not hear of it. For making a filesystem,
    /// and for taking a device down.
    Instant,
}

/// A request in the model.
pub(super) struct Pending<R> {
    pub(super) reply: R,
    pub(super) op: Op,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) arrived: Nanos,
    /// When the model heard of it: later than its arrival if copying its data took so long that
    /// the model had moved on.
    pub(super) submitted: Nanos,
    pub(super) depth: u32,
}

/// A request with its outcome.
pub(super) struct Done<R> {
    pub(super) pending: Pending<R>,
    pub(super) completed: Nanos,
    pub(super) previous: Nanos,
    pub(super) ok: bool,
}

/// What the lock protects.
pub(super) struct Model<R> {
    pub(super) device: Box<dyn Device>,
    pub(super) pace: Pace,
    pub(super) power: bool,
    /// Goes up with every power cut: a process that opened the device before it is cut off for
    /// good.
    pub(super) generation: u64,
    pub(super) pending: HashMap<u64, Pending<R>>,
    /// Ids order writes and are their versions.
    pub(super) next_id: u64,
    /// Versions of writes that are in the store and not acknowledged; kept for volatile caches
    /// only.
    pub(super) unacknowledged: BTreeSet<u64>,
    /// Whether old contents were ever kept (a cache can become volatile when its battery fails).
    pub(super) keeps: bool,
    /// Completions since old contents were last forgotten.
    pub(super) unforgotten: u32,
    /// When the timing thread wakes by itself; zero while it is awake.
    pub(super) alarm: Nanos,
    pub(super) last_completion: Nanos,
    /// The moment to which the model was last advanced.
    pub(super) advanced: Nanos,
    pub(super) stopping: bool,
}

/// With a volatile cache, the completions that may pass before asking for the stable part.
const FORGET_EVERY: u32 = 256;

impl<R> Model<R> {
    pub(super) fn new(device: Box<dyn Device>) -> Self {
        Self {
            device,
            pace: Pace::Instant,
            power: true,
            generation: 1,
            pending: HashMap::new(),
            next_id: 1,
            unacknowledged: BTreeSet::new(),
            keeps: false,
            unforgotten: 0,
            alarm: Nanos::ZERO,
            last_completion: Nanos::ZERO,
            advanced: Nanos::ZERO,
            stopping: false,
        }
    }

    /// The next request's id, and its version if it is a write that a power cut could take.
    pub(super) fn number(&mut self, op: Op) -> (u64, Option<u64>) {
        self.next_id += 1;
        let id = self.next_id;
        let keep = self.pace == Pace::Modelled && op.is_write() && self.device.volatile_cache();
        if keep {
            self.unacknowledged.insert(id);
            self.keeps = true;
        }
        (id, keep.then_some(id))
    }

    /// Moves requests that are completed by `now` out.
    pub(super) fn collect(&mut self, now: Nanos, done: &mut Vec<Done<R>>) {
        let mut completions: Vec<Completion> = Vec::new();
        self.advanced = now;
        self.device.advance(self.advanced, &mut completions);
        for completion in completions {
            let Some(pending) = self.pending.remove(&completion.id) else { continue };
            self.unacknowledged.remove(&completion.id);
            self.unforgotten += if pending.op == Op::Flush { FORGET_EVERY } else { 1 };
            done.push(Done {
                pending,
                completed: completion.at,
                previous: self.last_completion,
                ok: completion.result.is_ok(),
            });
            self.last_completion = completion.at;
        }
    }

    /// The version below which all writes are stable; asked for often enough only.
    pub(super) fn forgettable(&mut self) -> Option<u64> {
        if !self.keeps || self.unforgotten < FORGET_EVERY {
            return None;
        }
        self.unforgotten = 0;
        let bounds = [self.device.oldest_volatile(), self.unacknowledged.first().copied()];
        bounds.into_iter().flatten().min().or(Some(self.next_id + 1))
    }
}
