//! Opening and steering one perf event on a tracepoint.
#![allow(unsafe_code, reason = "perf_event_open(2) and its ioctls, which rustix does not have")]

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use perf_event_open_sys::bindings::{
    PERF_FLAG_FD_CLOEXEC, PERF_SAMPLE_RAW, PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_TYPE_TRACEPOINT,
    perf_event_attr,
};
use perf_event_open_sys::{ioctls, perf_event_open};

/// The calls to the kernel; tests answer themselves. Errors are the kernel's; `ENODEV`: the
/// processor is offline.
pub(super) trait Events: std::fmt::Debug + Send {
    /// Opens a tracepoint on one processor, for all processes, switched off. `watermark`: after so
    /// many unread bytes a poll(2) wakes. An event with a leader records only while its leader
    /// does.
    fn open(
        &self,
        tracepoint: u16,
        processor: u32,
        watermark: u32,
        leader: Option<&OwnedFd>,
    ) -> io::Result<OwnedFd>;
    /// Switches an event on.
    fn enable(&self, event: &OwnedFd) -> io::Result<()>;
    /// Switches an event off, and those that it leads.
    fn disable(&self, event: &OwnedFd) -> io::Result<()>;
    /// Sends an event's records into another's ring.
    fn send_to(&self, event: &OwnedFd, leader: i32) -> io::Result<()>;
    /// Lets through only what an expression over the record's fields holds for
    /// (Documentation/trace/events.rst, "Event filtering"). The filter belongs to this event, not
    /// to the tracepoint.
    fn filter(&self, event: &OwnedFd, expression: &str) -> io::Result<()>;
}

/// The running kernel.
#[derive(Debug)]
pub(super) struct Kernel;

impl Events for Kernel {
    fn open(
        &self,
        tracepoint: u16,
        processor: u32,
        watermark: u32,
        leader: Option<&OwnedFd>,
    ) -> io::Result<OwnedFd> {
        open(tracepoint, processor, watermark, leader.map_or(-1, AsRawFd::as_raw_fd))
    }

    fn enable(&self, event: &OwnedFd) -> io::Result<()> {
        // SAFETY: no pointer.
        done(unsafe { ioctls::ENABLE(event.as_raw_fd(), 0) })
    }

    fn disable(&self, event: &OwnedFd) -> io::Result<()> {
        // SAFETY: no pointer.
        done(unsafe { ioctls::DISABLE(event.as_raw_fd(), 0) })
    }

    fn send_to(&self, event: &OwnedFd, leader: i32) -> io::Result<()> {
        // SAFETY: no pointer; both descriptors are open.
        done(unsafe { ioctls::SET_OUTPUT(event.as_raw_fd(), leader) })
    }

    fn filter(&self, event: &OwnedFd, expression: &str) -> io::Result<()> {
        let text = CString::new(expression)?;
        // SAFETY: a text that ends with a zero byte and outlives the call, which copies it.
        done(unsafe { ioctls::SET_FILTER(event.as_raw_fd(), text.as_ptr().cast_mut()) })
    }
}

/// Runs a program of the kernel's at a tracepoint, on all processors, until the event is closed.
/// The event itself stays off: its records have no reader.
pub(super) fn run_at(
    tracepoint: u16,
    processor: u32,
    program: BorrowedFd<'_>,
) -> io::Result<OwnedFd> {
    let event = open(tracepoint, processor, 0, -1)?;
    // SAFETY: no pointer; both descriptors are open.
    done(unsafe { ioctls::SET_BPF(event.as_raw_fd(), program.as_raw_fd() as u32) })?;
    Ok(event)
}

fn open(tracepoint: u16, processor: u32, watermark: u32, leader: i32) -> io::Result<OwnedFd> {
    let mut attr = perf_event_attr {
        type_: PERF_TYPE_TRACEPOINT,
        size: size_of::<perf_event_attr>() as u32,
        config: u64::from(tracepoint),
        sample_type: u64::from(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_RAW),
        clockid: libc::CLOCK_MONOTONIC,
        ..perf_event_attr::default()
    };
    attr.__bindgen_anon_1.sample_period = 1;
    attr.__bindgen_anon_2.wakeup_watermark = watermark;
    attr.set_watermark(1);
    attr.set_use_clockid(1);
    attr.set_disabled(1);
    // SAFETY: the attributes are initialised and of the size that they say.
    let fd = unsafe {
        perf_event_open(
            &raw mut attr,
            -1,
            processor as i32,
            leader,
            u64::from(PERF_FLAG_FD_CLOEXEC),
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: a descriptor that the kernel has just given us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn done(result: i32) -> io::Result<()> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
