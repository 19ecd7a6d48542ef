//! Processes: the bios that they have to submit and those that they wait for.

use std::collections::VecDeque;

use floodwall_device::Nanos;

use crate::block::{Bio, End, Submitted, Times};
use crate::event::Event;
use crate::machine::Machine;

/// Names a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProcessIndex(pub(crate) u32);

/// What a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A workload's thread.
    Task(u32),
    /// pdflush, or the flusher of the writeback context with this number.
    Flusher(u32),
    /// kjournald, jbd2, or another process that writes the log.
    Journal,
    /// raid10d.
    Md,
    /// The worker that submits what `io.max` has held back.
    Kthrotld,
}

/// A process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) role: Role,
    /// Number of its control group; 0 is the root group.
    pub(crate) group: u32,
    /// Bios that it has made and not submitted yet: it goes on when all are submitted.
    fifo: VecDeque<Bio>,
    /// It sleeps for a slot or at the gate.
    pub(crate) blocked: bool,
    /// It was woken to try again.
    pub(crate) granted: bool,
    /// Submitted bios whose end it waits for.
    pub(crate) outstanding: u32,
    /// It sleeps until none is outstanding.
    pub(crate) waits: bool,
    /// Tells its timers that still count from those that do not.
    pub(crate) token: u32,
    /// When the last bio that it waited for passed each stage.
    pub(crate) last: Times,
}

impl Process {
    /// Adds a bio whose end is reported elsewhere.
    pub(crate) fn queue(&mut self, bio: Bio) {
        self.fifo.push_back(bio);
    }

    /// Adds many, the first first, behind those that it has.
    pub(super) fn queue_all(&mut self, bios: VecDeque<Bio>) {
        match self.fifo.is_empty() {
            true => self.fifo = bios,
            false => self.fifo.extend(bios),
        }
    }
}

impl Machine {
    pub(crate) fn add_process(&mut self, role: Role) -> ProcessIndex {
        self.processes.push(Process {
            role,
            group: 0,
            fifo: VecDeque::new(),
            blocked: false,
            granted: false,
            outstanding: 0,
            waits: false,
            token: 0,
            last: Times::default(),
        });
        self.block.add_process();
        ProcessIndex((self.processes.len() - 1) as u32)
    }

    /// A process goes on as soon as the others that can have.
    pub(crate) fn wake(&mut self, process: ProcessIndex) {
        self.ready.push_back(process);
    }

    /// A process sleeps until a moment.
    pub(crate) fn sleep_until(&mut self, process: ProcessIndex, at: Nanos) {
        let p = &mut self.processes[process.0 as usize];
        p.token += 1;
        let token = p.token;
        self.at(at.max(self.now), Event::Wake { process: process.0, token });
    }

    /// A process sleeps until a queue leaves congestion, but not longer than to a moment
    /// (`blk_congestion_wait`).
    pub(crate) fn wait_for_congestion(&mut self, process: ProcessIndex, at: Nanos) {
        self.sleep_until(process, at);
        let token = self.processes[process.0 as usize].token;
        self.congestion_waiters.push((process, token));
    }

    /// Hands a bio to a process to submit.
    pub(crate) fn put(&mut self, process: ProcessIndex, bio: Bio) {
        let p = &mut self.processes[process.0 as usize];
        p.outstanding += u32::from(bio.end == End::Process(process));
        p.fifo.push_back(bio);
    }

    /// Submits what a process has made. `false`: it sleeps for a slot or at the gate, and is
    /// stepped again when it may go on.
    pub(crate) fn pump(&mut self, process: ProcessIndex) -> bool {
        let now = self.now;
        let md = self.through_md(process);
        loop {
            let p = &mut self.processes[process.0 as usize];
            let Some(mut bio) = p.fifo.pop_front() else { break };
            if md && bio.op.is_write() {
                self.md_write(bio);
                continue;
            }
            if !self.within_io_max(process, &mut bio) {
                continue;
            }
            let p = &mut self.processes[process.0 as usize];
            let woken = std::mem::take(&mut p.granted);
            match self.block.submit(now, process, &mut bio, woken, &mut self.done) {
                Submitted::Taken => {}
                Submitted::Wait => {
                    let p = &mut self.processes[process.0 as usize];
                    p.fifo.push_front(bio);
                    p.blocked = true;
                    return false;
                }
            }
        }
        self.block.flush_plug(now, process);
        true
    }

    /// Whether a process has to sleep until its bios are done; it is stepped again when they are.
    pub(crate) fn must_wait(&mut self, process: ProcessIndex) -> bool {
        let p = &mut self.processes[process.0 as usize];
        p.waits = p.outstanding > 0;
        p.waits
    }
}
