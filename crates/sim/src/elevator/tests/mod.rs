//! What the tests of all elevators share: requests, and ways to drive an elevator.

mod properties;

use floodwall_device::{Nanos, Op};

use super::{Dispatch, Elevator, Merge};
use crate::request::{Flags, IoRequest, NORMAL_LEVEL, PriorityClass, ProcessId};

const PAGE: u64 = 4096;

/// A request of process 1, in pages of 4 KiB.
pub(crate) fn request(id: u64, op: Op, page: u64, pages: u64) -> IoRequest {
    IoRequest {
        id,
        op,
        offset: page * PAGE,
        len: pages * PAGE,
        flags: Flags::default(),
        process: ProcessId(1),
        class: PriorityClass::BestEffort,
        level: NORMAL_LEVEL,
        queued: Nanos::ZERO,
    }
}

pub(crate) fn read(id: u64, page: u64, pages: u64) -> IoRequest {
    request(id, Op::Read, page, pages)
}

pub(crate) fn write(id: u64, page: u64, pages: u64) -> IoRequest {
    request(id, Op::Write { fua: false }, page, pages)
}

/// The same from another process.
pub(crate) fn from(process: u32, request: IoRequest) -> IoRequest {
    IoRequest { process: ProcessId(process), ..request }
}

/// The same with another priority class.
pub(crate) fn classed(class: PriorityClass, request: IoRequest) -> IoRequest {
    IoRequest { class, ..request }
}

/// The same with another priority level.
pub(crate) fn at_level(level: u8, request: IoRequest) -> IoRequest {
    IoRequest { level, ..request }
}

/// The request that was dispatched.
pub(crate) fn request_of(dispatch: Dispatch) -> IoRequest {
    match dispatch {
        Dispatch::Request(request) => request,
        other => panic!("{other:?} instead of a request"),
    }
}

/// The request that is dispatched at this moment, if any, with nothing in the device.
pub(crate) fn dispatched(elevator: &mut dyn Elevator, now: Nanos) -> Option<u64> {
    match elevator.dispatch(now, 0) {
        Dispatch::Request(request) => Some(request.id),
        _ => None,
    }
}

/// Into which request a bio is merged, with no limit of size.
pub(crate) fn merged(elevator: &mut dyn Elevator, bio: &IoRequest) -> Option<u64> {
    elevator.merge(Nanos::ZERO, bio, u64::MAX).map(|merge: Merge| merge.into)
}

/// Serves everything, one request after the other, in no time.
pub(crate) fn drain(elevator: &mut dyn Elevator) -> Vec<u64> {
    drain_at(elevator, Nanos::ZERO)
}

/// The same from a moment on; where the elevator holds back, time passes.
pub(crate) fn drain_at(elevator: &mut dyn Elevator, now: Nanos) -> Vec<u64> {
    let (mut now, mut order) = (now, Vec::new());
    loop {
        match elevator.dispatch(now, 0) {
            Dispatch::Request(request) => {
                order.push(request.id);
                elevator.completed(now, &request);
            }
            Dispatch::Hold(until) => {
                assert!(until > now, "held until {until:?} at {now:?}");
                now = until;
            }
            Dispatch::Wait => panic!("waits with nothing in the device: {order:?}"),
            Dispatch::Empty => return order,
        }
    }
}
