//! One thread: takes a request, makes its call, counts it; then the syncs at the end.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use floodwall_stats::recorder::Op;

use super::arrivals::Queue;
use super::counts::Counters;
use super::files::FileSet;
use super::order::{Call, Order, Request};
use super::plan::{EndSync, Plan};
use crate::buffer::AlignedBuf;
use crate::error::LoadError;
use crate::file::NamedFile;
use crate::lock::lock;
use crate::running::Worker;

/// What all threads take from.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) plan: Plan,
    pub(super) files: FileSet,
    pub(super) order: Mutex<Order>,
    /// `None`: as fast as it goes.
    pub(super) queue: Option<Queue>,
    /// By thread.
    pub(super) counters: Vec<Counters>,
}

/// What a thread writes and where it reads to.
struct Buffers {
    zeros: AlignedBuf,
    read: AlignedBuf,
}

/// One thread.
pub(super) fn run(
    stream: &Arc<Stream>,
    thread: usize,
    worker: &mut Worker<'_>,
) -> Result<(), LoadError> {
    let Stream { plan, files, order, .. } = &**stream;
    let counters = &stream.counters[thread];
    let block = plan.block as usize;
    let mut buffers = Buffers {
        zeros: AlignedBuf::zeroed(if plan.writes() { block } else { 0 }),
        read: AlignedBuf::zeroed(if plan.reads() { block } else { 0 }),
    };
    if worker.arrive().is_none() {
        return Ok(());
    }
    while let Some(due) = stream.turn(worker) {
        let Some(request) = lock(order).next() else { break };
        let start = Instant::now();
        stream.make(request, &mut buffers, counters)?;
        let took = due.unwrap_or(start).elapsed();
        lock(order).completed(request.call);
        let op = match request.call {
            Call::Read => Op::Read,
            Call::Write => Op::Commit,
            Call::Sync if !plan.syncs_are_events => continue,
            Call::Sync => Op::Sync,
        };
        let ns = nanoseconds(took);
        worker.recorder.record(op, ns);
        counters.event(ns);
    }
    if plan.end_sync == EndSync::ByThread && plan.writes() {
        for file in &files.files {
            stream.sync(file)?;
            counters.call(Call::Sync, 0);
        }
    }
    Ok(())
}

fn nanoseconds(took: Duration) -> u64 {
    took.as_secs() * 1_000_000_000 + u64::from(took.subsec_nanos())
}

impl Stream {
    /// Waits until an event falls due. `None`: the run was told to stop. `Some(None)`: its latency
    /// counts from its call.
    fn turn(&self, worker: &Worker<'_>) -> Option<Option<Instant>> {
        match &self.queue {
            Some(queue) => queue.take(worker).map(Some),
            None => (!worker.stopping()).then_some(None),
        }
    }

    fn make(
        &self,
        request: Request,
        buffers: &mut Buffers,
        counters: &Counters,
    ) -> Result<(), LoadError> {
        let Request { call, file, offset, len } = request;
        let file = &self.files.files[file as usize];
        match call {
            Call::Read => {
                file.read_exact_at(&mut buffers.read.bytes_mut()[..len as usize], offset)?
            }
            Call::Write => file.write_all_at(&buffers.zeros.bytes()[..len as usize], offset)?,
            Call::Sync => self.sync(file)?,
        }
        counters.call(call, len);
        if call == Call::Write && self.plan.sync_each {
            self.sync(file)?;
            counters.call(Call::Sync, 0);
        }
        Ok(())
    }

    fn sync(&self, file: &NamedFile) -> Result<(), LoadError> {
        if self.plan.data_only { file.sync_data() } else { file.sync() }
    }
}
