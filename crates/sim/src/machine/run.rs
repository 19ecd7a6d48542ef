//! Time passes: processes go on, submit their bios, and sleep.

use std::collections::VecDeque;

use floodwall_device::Nanos;
use floodwall_model::Priority;

use super::process::{Process, Role};
use super::state::Machine;
use crate::block::{Bio, Done, End, Submitted, Times};
use crate::event::Event;
use crate::request::ProcessIndex;

impl Machine {
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
