//! The machine: all stages and the loop that lets time pass.
//!
//! ```text
//! loop:  processes that can go on ─▶ step each, until none can
//!        the next moment: a timer, or the block layer ─▶ what is done wakes processes
//! ```
//!
//! A process is a workload's thread, the flusher or the journal's thread. Each is a small state
//! machine. The method [`Machine::step`] lets it go on until it has to wait: for time, I/O, a
//! request slot or the wbt gate. Nothing recurses: a woken process goes into a queue, in order.

mod groups;
mod md;
mod pages;
mod process;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use floodwall_device::{Device, Nanos};
use floodwall_model::Priority;

use crate::block::{BlockLayer, Done, End, QueueParams};
use crate::elevator::Elevator;
use crate::event::{Event, EventQueue};
use crate::explain::Explainer;
use crate::fs::{Filesystem, FsKind, NfsClient};
use crate::groups::GroupLimits;
use crate::kernel::Generation;
use crate::limits::{BdiLimits, DirtyKnobs, Memory};
use crate::page_cache::PageCache;
use crate::settings::Priorities;
use crate::throttle::Throttle;
use crate::workload::{Load, Task};

use groups::Kthrotld;
pub(crate) use groups::Wb;
use md::Md;
pub(crate) use process::{Process, ProcessIndex, Role};

/// A fraction of RAM in thousandths.
const fn share(pages: u64, thousandths: u64) -> u64 {
    pages * thousandths / 1000
}

/// The machine's memory while little else runs. A 6.18 machine of 24 GiB had 98.5 % of its RAM in
/// the page allocator. Less 2.6 % in use and 1.2 % reserve, 94.7 % were dirtyable.
#[must_use]
pub(crate) fn memory_of(ram_pages: u64) -> Memory {
    let total = share(ram_pages, 985);
    let anon = share(ram_pages, 20);
    let mapped = share(ram_pages, 6);
    Memory {
        total,
        free: total - anon - mapped,
        reserve: share(ram_pages, 12),
        file: 0,
        anon,
        mapped,
        swap_free: false,
    }
}

/// How a machine is put together.
pub(crate) struct MachineParams {
    pub(crate) generation: Generation,
    pub(crate) hz: u32,
    pub(crate) cpus: u32,
    pub(crate) ram_pages: u64,
    pub(crate) knobs: DirtyKnobs,
    pub(crate) bdi: BdiLimits,
    pub(crate) device: Box<dyn Device + Send>,
    pub(crate) elevator: Box<dyn Elevator>,
    pub(crate) throttle: Box<dyn Throttle>,
    pub(crate) queue: QueueParams,
    pub(crate) fs: FsKind,
    pub(crate) read_ahead_pages: u64,
    /// Whether the device is a software RAID, with separate queues for each member.
    pub(crate) software_raid: bool,
    /// What the CPU's part costs, in percent of what `cost` says.
    pub(crate) cpu_percent: u32,
    /// Control groups beside the root group; mostly none.
    pub(crate) groups: Vec<GroupLimits>,
    /// I/O priorities of the victims' threads and of the journal's.
    pub(crate) priorities: Priorities,
}

/// See the [module](self).
pub(crate) struct Machine {
    pub(crate) now: Nanos,
    pub(crate) generation: Generation,
    /// Timer ticks a second.
    hz: u32,
    pub(crate) cpus: u32,
    pub(crate) memory: Memory,
    pub(crate) knobs: DirtyKnobs,
    pub(crate) cache: PageCache,
    pub(crate) throttle: Box<dyn Throttle>,
    /// Writeback contexts: the root group's, then one for each control group.
    pub(crate) wbs: Vec<Wb>,
    /// The control groups' limits, in the order of [`crate::groups::NAMES`]; none without groups.
    pub(crate) groups: Vec<GroupLimits>,
    pub(crate) block: BlockLayer,
    pub(crate) fs: Filesystem,
    pub(crate) nfs: NfsClient,
    pub(crate) processes: Vec<Process>,
    pub(crate) tasks: Vec<Task>,
    pub(crate) loads: Vec<Load>,
    pub(crate) read_ahead_pages: u64,
    /// What the CPU's part costs, in percent of what `cost` says.
    pub(crate) cpu_percent: u64,
    /// What victims' threads submit with.
    pub(crate) victims: Priority,
    pub(crate) explainer: Option<Explainer>,
    /// Pages dirty and under writeback that belong to other devices of the same memory.
    pub(crate) elsewhere: (u64, u64),
    events: EventQueue,
    ready: VecDeque<ProcessIndex>,
    done: Vec<Done>,
    /// Processes that wait for a queue to leave congestion, with their tokens.
    congestion_waiters: Vec<(ProcessIndex, u32)>,
    /// The thread of a software RAID, where there is one.
    md: Option<Md>,
    /// The groups' `io.max`, where any is set.
    kthrotld: Option<Kthrotld>,
    woken: Vec<ProcessIndex>,
    /// What victims were told is stable: first byte on the device, length, when it was written
    /// into the page cache, when it was said.
    #[cfg(test)]
    pub(crate) served: Option<Vec<(u64, u64, Nanos, Nanos)>>,
}

impl Machine {
    pub(crate) fn new(p: MachineParams) -> Self {
        let memory = memory_of(p.ram_pages);
        let mut throttle = p.throttle;
        throttle.set_knobs(p.knobs, &memory);
        let bdi = throttle.add_bdi(p.bdi);
        let wb = throttle.add_wb(bdi, None);
        let capacity = p.device.capacity();
        let block = BlockLayer::new(p.device, p.elevator, p.queue);
        let mut machine = Self {
            now: Nanos::ZERO,
            generation: p.generation,
            hz: p.hz,
            cpus: p.cpus,
            memory,
            knobs: p.knobs,
            cache: PageCache::default(),
            throttle,
            wbs: vec![Wb::new(wb, ProcessIndex(0))],
            groups: Vec::new(),
            block,
            fs: Filesystem::new(p.fs, p.generation, p.hz, capacity, ProcessIndex(1)),
            nfs: NfsClient::new(p.ram_pages),
            processes: Vec::new(),
            tasks: Vec::new(),
            loads: Vec::new(),
            read_ahead_pages: p.read_ahead_pages,
            cpu_percent: u64::from(p.cpu_percent),
            victims: p.priorities.victims,
            explainer: None,
            elsewhere: (0, 0),
            events: EventQueue::default(),
            ready: VecDeque::new(),
            done: Vec::new(),
            congestion_waiters: Vec::new(),
            md: None,
            kthrotld: None,
            woken: Vec::new(),
            #[cfg(test)]
            served: None,
        };
        machine.add_process(Role::Flusher(0));
        let journal = machine.add_process(Role::Journal);
        machine.block.set_priority(journal, p.priorities.journal);
        if p.software_raid && p.generation == Generation::K2_6_32 {
            machine.add_md(p.hz);
        }
        machine.add_groups(bdi, p.groups);
        machine.fs_start();
        machine
    }

    /// The priority of a load's threads; `None`: the journal's.
    pub(crate) fn priority(&self, load: Option<usize>) -> Option<Priority> {
        let process = match load {
            Some(load) => self.tasks.iter().find(|task| task.load == load)?.process,
            None => self.fs.journal.process(),
        };
        Some(self.block.priority(process))
    }

    /// Sets that priority.
    pub(crate) fn prioritise(&mut self, load: Option<usize>, priority: Priority) {
        if load.is_none() {
            self.block.set_priority(self.fs.journal.process(), priority);
        }
        for task in self.tasks.iter().filter(|task| Some(task.load) == load) {
            self.block.set_priority(task.process, priority);
        }
    }

    /// Lets time pass up to and including `until`.
    pub(crate) fn run_until(&mut self, until: Nanos) {
        while self.advance(until) {}
        self.now = until;
    }

    /// Lets time pass until something is so, but not beyond a moment. Says whether it is.
    pub(crate) fn run_while(&mut self, limit: Nanos, goes_on: impl Fn(&Self) -> bool) -> bool {
        loop {
            self.settle();
            if !goes_on(self) {
                return true;
            }
            if !self.advance(limit) {
                self.now = limit;
                return false;
            }
        }
    }

    /// When something next happens that takes time.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        [self.events.next(), self.block.next_event()].into_iter().flatten().min()
    }

    /// Everything that can happen now, and then the next thing that takes time. `false`: nothing
    /// happens up to `until`.
    pub(crate) fn advance(&mut self, until: Nanos) -> bool {
        self.settle();
        let (timer, io) = (self.events.next(), self.block.next_event());
        let Some(next) = [timer, io].into_iter().flatten().min().filter(|t| *t <= until) else {
            return false;
        };
        self.now = next;
        if io == Some(next) {
            self.block.advance(next, &mut self.done);
        } else if let Some(event) = self.events.pop() {
            self.happen(event);
        }
        true
    }

    /// Sets a timer of the machine's.
    pub(crate) fn at(&mut self, at: Nanos, event: Event) {
        self.events.push(at, event);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Wake { process, token } => {
                let p = &mut self.processes[process as usize];
                if p.token == token {
                    p.token += 1;
                    self.ready.push_back(ProcessIndex(process));
                }
            }
            Event::Flusher { wb } => self.flusher_timer(wb as usize),
            Event::Commit => self.commit_timer(),
            Event::Unplug { plug } => self.md_unplug(plug),
            Event::Bandwidth { wb } => {
                let seen = self.seen(wb as usize);
                let wb = &mut self.wbs[wb as usize];
                wb.bandwidth_due = false;
                self.throttle.writepages_end(wb.id, self.now, &seen);
            }
            Event::IoMax { timer } => self.io_max_timer(timer),
        }
    }

    /// Everything that can happen without time passing.
    pub(crate) fn settle(&mut self) {
        loop {
            if !self.done.is_empty() {
                let mut done = std::mem::take(&mut self.done);
                for d in done.drain(..) {
                    self.finish(&d);
                }
                // What came up meanwhile stands behind it.
                std::mem::swap(&mut done, &mut self.done);
                self.done.append(&mut done);
            }
            if !self.block.woken.is_empty() {
                for i in 0..self.block.woken.len() {
                    let process = self.block.woken[i];
                    let p = &mut self.processes[process.0 as usize];
                    p.granted = true;
                    p.blocked = false;
                    self.ready.push_back(process);
                }
                self.block.woken.clear();
            }
            if self.block.left_congestion {
                self.block.left_congestion = false;
                self.congestion_left();
            }
            match self.ready.pop_front() {
                Some(process) => self.step(process),
                None if self.done.is_empty() && self.block.woken.is_empty() => return,
                None => {}
            }
        }
    }

    /// A bio is done.
    fn finish(&mut self, done: &Done) {
        match done.end {
            End::Pages { inode, begin, pages } => {
                self.pages_written(inode, begin, u64::from(pages), done.times)
            }
            End::Process(process) => {
                let p = &mut self.processes[process.0 as usize];
                p.last = done.times;
                p.outstanding -= 1;
                if p.outstanding == 0 && p.waits {
                    p.waits = false;
                    self.ready.push_back(process);
                }
            }
            End::Fill { inode, begin, pages } => {
                self.pages_read(inode, begin, begin + u64::from(pages))
            }
            End::Committed(inode) => self.nfs_committed(inode, done.times),
            End::Record(commit) => self.record_written(commit),
        }
    }

    /// Processes that wait for a queue to leave congestion go on.
    pub(crate) fn congestion_left(&mut self) {
        for (process, token) in std::mem::take(&mut self.congestion_waiters) {
            let p = &mut self.processes[process.0 as usize];
            if p.token == token {
                p.token += 1;
                self.ready.push_back(process);
            }
        }
    }

    /// Lets a process go on.
    fn step(&mut self, process: ProcessIndex) {
        if self.processes[process.0 as usize].blocked {
            return;
        }
        match self.processes[process.0 as usize].role {
            Role::Task(task) => self.task_step(task),
            Role::Flusher(wb) => self.flusher_step(wb as usize),
            Role::Journal => self.journal_step(),
            Role::Md => self.md_step(),
            Role::Kthrotld => self.kthrotld_step(),
        }
    }
}
