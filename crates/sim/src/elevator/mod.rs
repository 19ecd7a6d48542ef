//! Elevators: the order in which requests reach the device, and when waiting requests are held
//! back.
//!
//! ```text
//! bio ─▶ merge? ─ no ─▶ insert ─▶ [ elevator ] ─ dispatch ─▶ device ─▶ completed
//!          └ yes: the request it joined grows
//! ```
//!
//! An elevator only knows requests. The block layer keeps the waiters of bios, plugs, request slots
//! and the depth of the device. Flushes bypass every elevator: they are handed out before anything
//! else (`blk_mq_insert_request`, 6.18; drained barriers before 2.6.37).
//!
//! | file | algorithm |
//! |---|---|
//! | `none` | a queue for each CPU, straight to the device |
//! | `mq_deadline` | deadline by I/O priority class |
//! | `kyber` | as many requests of a kind in the device as its latency allows |
//! | `bfq` | budgets of sectors for each process |
//!
//! These are of 6.x; older kernels' are in [`crate::eras`]. Shared parts: `pool` (requests, queues
//! by age, the merge hash), `sorted` (queues by position, merging), `history` (think times and seek
//! distances). Smaller ones are `jiffies`, `id_map` and `tunable`.
//!
//! [`build`] makes an elevator; [`offered`] says which kernel had which.
//!
//! [`build`]: crate::eras::parts::build
//! [`offered`]: crate::eras::parts::offered

mod bfq;
pub(crate) mod history;
pub(crate) mod id_map;
pub(crate) mod jiffies;
pub(crate) mod kind;
mod kyber;
mod mq_deadline;
mod none;
pub(crate) mod pool;
pub(crate) mod sorted;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod tunable;

use floodwall_device::Nanos;

use crate::request::{IoRequest, ProcessId};
use tunable::{bare_name, unknown};

pub use bfq::{Bfq, BfqTunables};
pub use kind::{ElevatorKind, UnknownElevator};
pub use kyber::{Kyber, KyberTunables};
pub use mq_deadline::{MqDeadline, MqDeadlineTunables};
pub use none::NoElevator;
pub use tunable::TunableError;

/// What [`Elevator::dispatch`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// Send this one to the device.
    Request(IoRequest),
    /// Requests wait, and the elevator holds them back until this moment at the latest (idling,
    /// expiring slices), or until something is inserted or completed. Always in the future.
    Hold(Nanos),
    /// Requests wait, and nothing will be sent before something is completed.
    Wait,
    /// No request waits.
    Empty,
}

/// What became of a bio that was offered for merging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Merge {
    /// The request that grew.
    pub into: u64,
    /// A second request that closed the gap and is now part of `into` as well.
    pub absorbed: Option<u64>,
}

/// The order in which requests reach the device.
///
/// `now` never goes back from one call to the next. Calling [`Elevator::dispatch`] more often than
/// necessary changes nothing.
pub trait Elevator {
    /// As `queue/scheduler` spells it.
    fn name(&self) -> &'static str;

    /// Joins a bio to a waiting request that it touches, if that request stays within `max_bytes`.
    ///
    /// A request that was put together in a plug is offered here too before it is inserted, as
    /// `blk_mq_sched_try_insert_merge` does.
    fn merge(&mut self, now: Nanos, bio: &IoRequest, max_bytes: u64) -> Option<Merge>;

    /// Takes a request in.
    fn insert(&mut self, now: Nanos, request: IoRequest);

    /// Chooses what the device gets next. `in_flight` requests are in the device at this moment.
    fn dispatch(&mut self, now: Nanos, in_flight: u32) -> Dispatch;

    /// A request that was dispatched is done; `request` is what [`Dispatch::Request`] held.
    fn completed(&mut self, now: Nanos, request: &IoRequest) {
        let _ = (now, request);
    }

    /// A process is gone: nothing more will come from it, so there is no point in idling for it.
    fn process_exited(&mut self, now: Nanos, process: ProcessId) {
        let _ = (now, process);
    }

    /// The queue has so many request slots now, for each member (`depth_updated`): when the
    /// elevator comes to a queue, and whenever `nr_requests` is written.
    fn depth_updated(&mut self, nr_requests: u32) {
        let _ = nr_requests;
    }

    /// How many of `nr_requests` slots a request like this one may use (`limit_depth`,
    /// `async_depth`).
    fn depth_limit(&self, request: &IoRequest, nr_requests: u32) -> u32 {
        let _ = request;
        nr_requests
    }

    /// Number of requests that wait.
    fn len(&self) -> usize;

    /// Whether none waits.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets a tunable of `queue/iosched/` by its name (with or without `iosched/` before it) to a
    /// value as one would write it into the file.
    ///
    /// # Errors
    /// [`TunableError`] in three cases: a name that this elevator lacks, a value that is not a
    /// number, a number outside the kernel's range. The kernel itself would clamp such a number
    /// without a word.
    fn set(&mut self, name: &str, value: &str) -> Result<(), TunableError> {
        let _ = value;
        Err(unknown(self.name(), bare_name(name), &[]))
    }

    /// The tunables of `queue/iosched/` and what reading them would show.
    fn tunables(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}
