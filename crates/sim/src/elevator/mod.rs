//! Elevators: in which order requests reach the device, and when none does although some wait.
//!
//! ```text
//! bio ─▶ merge? ─ no ─▶ insert ─▶ [ elevator ] ─ dispatch ─▶ device ─▶ completed
//!          └ yes: the request it joined grows
//! ```
//!
//! An elevator only knows requests; who waits for which bio is the block layer's business.

use floodwall_device::Nanos;

use crate::request::IoRequest;

/// What [`Elevator::dispatch`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// Send this one to the device.
    Request(IoRequest),
    /// Requests wait, and the elevator holds them back until this moment at the latest (idling, expiring slices), or until something is inserted or completed.
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
pub trait Elevator {
    /// As `queue/scheduler` spells it.
    fn name(&self) -> &'static str;

    /// Joins a bio to a waiting request that it touches, if that request stays within `max_bytes`.
    fn merge(&mut self, now: Nanos, bio: &IoRequest, max_bytes: u64) -> Option<Merge>;

    /// Takes a request in.
    fn insert(&mut self, now: Nanos, request: IoRequest);

    /// Chooses what the device gets next. `in_flight` requests are in the device at this moment.
    fn dispatch(&mut self, now: Nanos, in_flight: u32) -> Dispatch;

    /// A request that was dispatched is done.
    fn completed(&mut self, now: Nanos, request: &IoRequest);

    /// How many of `nr_requests` slots a request like this one may use (`limit_depth`, `async_depth`).
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
}
