//! Requests of a job by io_uring: as many in flight as it asks for.
//!
//! ```text
//! request ─▶ idle slot ─ submit at once ─▶ in flight; all slots taken: wait for one
//! ```
//!
//! A wait for the rate is a wait for everything in flight before, as fio does it.

use std::os::fd::AsFd;
use std::time::Instant;

use floodwall_model::scenario::SyncMethod;
use rustix::io::Errno;

use super::counts::one_more;
use super::order::{Kind, Op};
use super::plan::JobPlan;
use super::session::{Next, Session, Times, blocks, make_stable, read_buffer};
use crate::error::LoadError;
use crate::ring::{Buffers, Done, Flight, Kernel};

/// A job's ring and its entries.
pub(super) struct Queue {
    flight: Flight<Kernel>,
    /// By slot: what is in flight there.
    entries: Vec<Option<(Op, Times)>>,
    free: Vec<usize>,
}

impl Queue {
    pub(super) fn new(plan: &JobPlan, depth: u32) -> Result<Self, LoadError> {
        let ring = Kernel::new(depth).map_err(|e| LoadError::NoUring {
            errno: Errno::from_io_error(&e).unwrap_or(Errno::NOSYS),
        })?;
        let buffers = (0..depth).map(|slot| Buffers {
            // The stamps tell the blocks of a pool of one block apart.
            blocks: blocks(plan, u64::from(slot), 0),
            read: read_buffer(plan),
        });
        let flight = Flight::new(ring, buffers);
        let slots = flight.slots();
        Ok(Self { flight, entries: vec![None; slots], free: (0..slots).rev().collect() })
    }

    fn in_flight(&self) -> usize {
        self.entries.len() - self.free.len()
    }

    /// A pass. What is in flight at its end belongs to it.
    pub(super) fn pass(&mut self, session: &mut Session<'_>) -> Result<(), LoadError> {
        let result = self.requests(session);
        result.and(self.drain(session))
    }

    fn requests(&mut self, session: &mut Session<'_>) -> Result<(), LoadError> {
        loop {
            let op = match session.next() {
                Next::Go(op) => op,
                Next::Over => return Ok(()),
                Next::At(is_write, due) => {
                    self.drain(session)?;
                    match session.wait(is_write, due) {
                        Next::Go(op) => op,
                        _ => return Ok(()),
                    }
                }
            };
            session.submitted(self.in_flight() + 1);
            if session.plan.plain_syncs && matches!(op.kind, Kind::Sync | Kind::SyncData) {
                let begun = Instant::now();
                make_stable(&session.files[op.file], op.kind)?;
                session.ended(op, Times { begun, submitted: begun, ended: Instant::now() })?;
                continue;
            }
            self.begin(session, op)?;
            if self.free.is_empty() {
                self.reap(session)?;
                one_more(&mut session.counts.completions, 1);
            }
        }
    }

    /// Queues a request and submits it.
    fn begin(&mut self, session: &Session<'_>, op: Op) -> Result<(), LoadError> {
        let broken = |errno| LoadError::Ring { errno };
        let slot = self.free.pop().ok_or(broken(Errno::NOBUFS))?;
        let begun = Instant::now();
        let (fd, len) = (session.files[op.file].fd.as_fd(), op.len as u32);
        let queued = match op.kind {
            Kind::Read => self.flight.read(slot, fd, len, op.offset),
            // That of the open flag: no sync follows the write.
            Kind::Write => self.flight.write(slot, fd, len, op.offset, SyncMethod::ODsync),
            Kind::Sync => self.flight.sync(slot, fd, SyncMethod::Fsync),
            Kind::SyncData => self.flight.sync(slot, fd, SyncMethod::Fdatasync),
        };
        queued.and_then(|()| self.flight.submit()).map_err(broken)?;
        let submitted = Instant::now();
        self.entries[slot] = Some((op, Times { begun, submitted, ended: submitted }));
        Ok(())
    }

    /// Waits for a request, and counts it. Others that have ended by then are taken later, one at a
    /// time, as fio takes them: so many are in flight.
    fn reap(&mut self, session: &mut Session<'_>) -> Result<(), LoadError> {
        loop {
            if let Some(done) = self.flight.next() {
                return self.complete(session, done);
            }
            self.flight.wait(None).map_err(|errno| LoadError::Ring { errno })?;
        }
    }

    /// Waits for everything in flight.
    fn drain(&mut self, session: &mut Session<'_>) -> Result<(), LoadError> {
        let (in_flight, mut result) = (self.in_flight(), Ok(()));
        while self.in_flight() > 0 {
            match self.reap(session) {
                Err(error @ LoadError::Ring { .. }) => return result.and(Err(error)),
                done => result = result.and(done),
            }
        }
        if in_flight > 0 {
            one_more(&mut session.counts.completions, in_flight);
        }
        result
    }

    fn complete(&mut self, session: &mut Session<'_>, done: Done) -> Result<(), LoadError> {
        self.free.push(done.slot);
        let Some((op, times)) = self.entries[done.slot].take() else { return Ok(()) };
        let mut ended = Instant::now();
        let is_whole = done.outcome >= 0 && done.outcome.cast_unsigned() as u64 == op.len;
        if !is_whole {
            self.finish(session, done, op)?;
            ended = Instant::now();
        }
        session.ended(op, Times { ended, ..times })
    }

    /// A request that failed, or whose rest is to be done by a plain call.
    fn finish(&mut self, session: &Session<'_>, done: Done, op: Op) -> Result<(), LoadError> {
        let file = &session.files[op.file];
        let operation = match op.kind {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Sync => "fsync",
            Kind::SyncData => "fdatasync",
        };
        if done.outcome < 0 {
            match Errno::from_raw_os_error(-done.outcome) {
                Errno::INTR | Errno::AGAIN => {}
                errno => return Err(file.failed(operation, errno)),
            }
        }
        let broken = LoadError::Ring { errno: Errno::BUSY };
        let buffers = self.flight.buffers(done.slot).ok_or(broken)?;
        match op.kind {
            Kind::Read => {
                file.read_exact_at(&mut buffers.read.bytes_mut()[..op.len as usize], op.offset)
            }
            Kind::Write => file.write_all_at(buffers.blocks.next(op.len as usize), op.offset),
            kind => make_stable(file, kind),
        }
    }
}
