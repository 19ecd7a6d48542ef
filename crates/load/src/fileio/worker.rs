//! One thread: takes a request, makes its call, counts it; then the syncs at the end.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use floodwall_stats::recorder::Op;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use super::arrivals::Queue;
use super::counts::Counters;
use super::files::FileSet;
use super::order::{Call, Order, Request};
use super::plan::{EndSync, Pause, Plan};
use crate::buffer::{AlignedBuf, rng};
use crate::error::LoadError;
use crate::file::NamedFile;
use crate::lock::lock;
use crate::pace::{nanoseconds, sleep_until};
use crate::running::Worker;

/// Keeps the random numbers of pauses apart from others; a thread's number is added.
const PAUSES: u64 = 2 << 32;

/// What all threads take from.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) plan: Plan,
    /// `None`: the next request follows at once.
    pub(super) pause: Option<Pause>,
    pub(super) files: FileSet,
    pub(super) order: Mutex<Order>,
    /// `None`: as fast as it goes.
    pub(super) queue: Option<Queue>,
    /// By thread.
    pub(super) counters: Vec<Counters>,
}

/// What a thread writes and where it reads to.
struct Buffers {
    write: AlignedBuf,
    read: AlignedBuf,
}

impl Buffers {
    fn new(plan: &Plan, pattern: &[u8]) -> Self {
        let block = plan.block as usize;
        let mut write = AlignedBuf::zeroed(if plan.writes() { block } else { 0 });
        for (byte, next) in write.bytes_mut().iter_mut().zip(pattern.iter().cycle()) {
            *byte = *next;
        }
        Self { write, read: AlignedBuf::zeroed(if plan.reads() { block } else { 0 }) }
    }
}

/// One thread.
pub(super) fn run(
    stream: &Arc<Stream>,
    thread: usize,
    worker: &mut Worker<'_>,
) -> Result<(), LoadError> {
    let Stream { plan, files, order, .. } = &**stream;
    let counters = &stream.counters[thread];
    let mut buffers = Buffers::new(plan, &files.pattern);
    let mut random = rng(plan.seed, PAUSES + thread as u64);
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
        if let Some(pause) = stream.pause {
            let end = Instant::now() + pause.draw(&mut random);
            // Told to stop meanwhile, it sees that when it looks for its next turn.
            let _ = sleep_until(end, worker.stop_flag());
        }
    }
    if plan.end_sync == EndSync::ByThread && plan.writes() {
        for file in &files.files {
            stream.sync(file)?;
            counters.call(Call::Sync, 0);
        }
    }
    Ok(())
}

impl Pause {
    fn draw(self, random: &mut Pcg64Mcg) -> Duration {
        let span = self.most.saturating_sub(self.least).as_nanos() + 1;
        let more = (u128::from(random.next_u64()) * span) >> 64;
        self.least + Duration::from_nanos(more as u64)
    }
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
        let offset = self.files.from + offset;
        match call {
            Call::Read => {
                file.read_exact_at(&mut buffers.read.bytes_mut()[..len as usize], offset)?
            }
            Call::Write => file.write_all_at(&buffers.write.bytes()[..len as usize], offset)?,
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
