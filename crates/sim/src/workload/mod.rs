//! Workloads: victims and floods as processes of the machine.
//!
//! ```text
//! Load: a victim or flood of the scenario ── its Tasks: one a thread or stream
//!
//! task:  Next ─▶ Copy (CPU) ─▶ dirty ─▶ over a limit? ─▶ Balance: sleep, write out,
//!                                          │             or wait for congestion ─▶ …
//!                                          └▶ victims: Sync ─▶ done, counted ─▶ Next
//! ```
//!
//! A write of one block and a run of many are the same to the machine. A flood dirties as many
//! pages at once as the throttle allows before its next look, so the cost of `dd bs=1k` does not
//! depend on `bs`.

mod choose;
mod flood;
mod meter;
mod pace;
mod read;
mod victim;

use floodwall_device::Nanos;
use floodwall_model::scenario::{Access, SyncMethod};
use rand_pcg::Pcg64Mcg;

use crate::fs::SyncJob;
use crate::machine::{Machine, ProcessIndex, Role};
use crate::page_cache::InodeId;
use crate::throttle::{Dirtier, Ruling, TaskTraits, Verdict};
use crate::writeback::{Pass, Progress, Why};

pub(crate) use choose::{Chooser, Way, seeded};
pub(crate) use meter::{Delta, Meter};
pub(crate) use pace::{Limit, Tickets};
pub(crate) use read::ReadAhead;

/// What a thread does.
#[derive(Clone, Debug)]
pub(crate) enum Program {
    /// A victim's operations.
    Victim(VictimProgram),
    /// A flood's stream.
    Flood(FloodProgram),
    /// Writes so many bytes in blocks of 1 MiB and ends.
    Burst { left: u64 },
    /// syncfs(2): everything that is dirty, file by file, then the journal.
    SyncAll { inode: u32 },
}

/// What a victim's thread does.
#[derive(Clone, Debug)]
pub(crate) struct VictimProgram {
    /// How writes are made stable.
    pub(crate) sync: SyncMethod,
    /// Writes go past the page cache.
    pub(crate) direct: bool,
    /// What the page cache does for reads.
    pub(crate) access: Access,
    pub(crate) chooser: Chooser,
}

/// What a flood's stream does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FloodKind {
    /// From begin to end, over and over.
    Sequential,
    /// Random blocks.
    Random,
    /// Small files of so many bytes each.
    Files { bytes: u64 },
    /// From begin to end through a mapping.
    Mapped,
    /// Reads one file and writes another.
    Copy { source: InodeId },
}

/// See [`Program::Flood`].
#[derive(Clone, Debug)]
pub(crate) struct FloodProgram {
    pub(crate) kind: FloodKind,
    pub(crate) block: u64,
    /// Bytes in which it goes round.
    pub(crate) space: u64,
    pub(crate) cursor: u64,
    /// Bytes of a block that is not complete yet.
    pub(crate) partial: u64,
}

/// Where a task is.
#[derive(Clone, Copy, Debug)]
pub(crate) enum State {
    /// Not started, or over.
    Stopped,
    /// Chooses what to do next.
    Next,
    /// Waits until its next operation falls due.
    Due,
    /// Copies bytes into the page cache: pages `begin..end`.
    Copy { begin: u64, end: u64, bytes: u64 },
    /// Sleeps in `balance_dirty_pages`.
    Balance,
    /// Writes out for `balance_dirty_pages` (2.6).
    WriteOut(Pass),
    /// Its write is accepted.
    Written,
    /// Makes it stable.
    Sync(SyncJob),
    /// A direct write is on its way.
    DirectWrite,
    /// A read is on its way.
    Read,
    /// Pages are being read for it.
    ReadPages { page: u64, end: u64 },
}

/// What one operation of a victim touches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operation {
    pub(crate) inode: InodeId,
    /// In bytes.
    pub(crate) offset: u64,
    pub(crate) is_read: bool,
    /// From when its latency counts: when it fell due, or when it began.
    pub(crate) since: Nanos,
    /// When its first call began.
    pub(crate) began: Nanos,
    /// When its data was in the page cache.
    #[cfg(test)]
    pub(crate) copied: Nanos,
    /// When its write call returned.
    pub(crate) written: Nanos,
}

/// A thread or stream.
#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) process: ProcessIndex,
    /// Index of its load.
    pub(crate) load: usize,
    pub(crate) who: Dirtier,
    pub(crate) program: Program,
    pub(crate) state: State,
    pub(crate) file: InodeId,
    pub(crate) op: Operation,
    pub(crate) rng: Pcg64Mcg,
    /// CPU time spent since the machine last knew of it: charged with the next copy.
    pub(crate) cpu: Nanos,
    /// CPU time in all.
    pub(crate) cpu_total: Nanos,
    pub(crate) read_ahead: ReadAhead,
    /// Time that the current operation slept in `balance_dirty_pages`, and since when it sleeps
    /// there.
    pub(crate) throttled: Nanos,
    pub(crate) throttled_since: Nanos,
    /// Whether an operation is under way.
    pub(crate) busy: bool,
}

/// A victim or flood.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) meter: Meter,
    /// Its tasks begin new operations.
    pub(crate) running: bool,
    pub(crate) began: Nanos,
    /// Number of its control group; 0 is the root group.
    pub(crate) group: u32,
    /// Bytes of each operation.
    pub(crate) block: u64,
    pub(crate) files: Vec<InodeId>,
    /// Where each log goes on, in records; shared by the threads that append to it.
    pub(crate) logs: Vec<u64>,
    /// An open loop's operations.
    pub(crate) tickets: Option<Tickets>,
    /// A flood's rate limit over all its streams.
    pub(crate) limit: Option<Limit>,
    /// A growing log is cut to nothing at the beginning of each lap.
    pub(crate) cuts_logs: bool,
    /// Its file can stay in the page cache.
    pub(crate) fits_in_memory: bool,
}

impl Machine {
    /// Adds a load in a control group, by its number; its tasks follow.
    pub(crate) fn add_load(&mut self, group: u32, block: u64, files: Vec<InodeId>) -> usize {
        let logs = vec![0; files.len()];
        self.loads.push(Load {
            meter: Meter::new(),
            running: false,
            began: Nanos::ZERO,
            group,
            block,
            files,
            logs,
            tickets: None,
            limit: None,
            cuts_logs: false,
            fits_in_memory: true,
        });
        self.loads.len() - 1
    }

    /// Adds a thread or stream to a load.
    pub(crate) fn add_task(
        &mut self,
        load: usize,
        program: Program,
        file: InodeId,
        rng: Pcg64Mcg,
    ) -> u32 {
        let number = self.tasks.len() as u32;
        let process = self.add_process(Role::Task(number));
        let group = self.loads[load].group;
        self.processes[process.0 as usize].group = group;
        let wb = self.wbs[group as usize].id;
        let throttled = self.throttle.add_task(TaskTraits::default());
        self.tasks.push(Task {
            process,
            load,
            who: Dirtier { task: throttled, cpu: number % self.cpus, wb },
            program,
            state: State::Stopped,
            file,
            op: Operation {
                inode: file,
                offset: 0,
                is_read: false,
                since: Nanos::ZERO,
                began: Nanos::ZERO,
                #[cfg(test)]
                copied: Nanos::ZERO,
                written: Nanos::ZERO,
            },
            rng,
            cpu: Nanos::ZERO,
            cpu_total: Nanos::ZERO,
            read_ahead: ReadAhead::default(),
            throttled: Nanos::ZERO,
            throttled_since: Nanos::ZERO,
            busy: false,
        });
        number
    }

    /// Lets a load's tasks begin.
    pub(crate) fn start_load(&mut self, load: usize) {
        let now = self.now;
        let l = &mut self.loads[load];
        (l.running, l.began) = (true, now);
        l.meter.since_start = 0;
        if let Some(tickets) = &mut l.tickets {
            tickets.restart();
        }
        if let Some(limit) = &mut l.limit {
            limit.restart();
        }
        for i in 0..self.tasks.len() {
            if self.tasks[i].load == load {
                self.tasks[i].state = State::Next;
                self.tasks[i].cpu_total = Nanos::ZERO;
                self.wake(self.tasks[i].process);
            }
        }
    }

    /// Tells a load's tasks to begin nothing more. Those that wait for their next operation stop at
    /// once.
    pub(crate) fn stop_load(&mut self, load: usize) {
        self.loads[load].running = false;
        for i in 0..self.tasks.len() {
            if self.tasks[i].load == load && matches!(self.tasks[i].state, State::Due) {
                self.tasks[i].state = State::Stopped;
            }
        }
    }

    /// Whether all tasks of a load have stopped.
    pub(crate) fn load_stopped(&self, load: usize) -> bool {
        self.tasks.iter().filter(|t| t.load == load).all(|t| matches!(t.state, State::Stopped))
    }

    /// A task goes on until it has to wait.
    pub(crate) fn task_step(&mut self, task: u32) {
        let t = task as usize;
        loop {
            let goes_on = match self.tasks[t].state {
                State::Stopped => false,
                State::Due | State::Next => self.begin_operation(t),
                State::Copy { begin, end, bytes } => self.copied(t, begin, end, bytes),
                State::Balance => {
                    let seen = self.seen(self.group_of(t));
                    let ruling = self.throttle.resume(self.tasks[t].who, self.now, 0, &seen);
                    self.obey(t, ruling)
                }
                State::WriteOut(mut pass) => {
                    let progress = self.advance_pass(self.tasks[t].process, &mut pass);
                    self.tasks[t].state = State::WriteOut(pass);
                    match progress {
                        Progress::Finished | Progress::Congested => {
                            let seen = self.seen(self.group_of(t));
                            let who = self.tasks[t].who;
                            let ruling = self.throttle.resume(who, self.now, pass.written, &seen);
                            self.obey(t, ruling)
                        }
                        Progress::Blocked => false,
                    }
                }
                State::Written => self.accepted(t),
                State::Sync(mut job) => {
                    let done = self.advance_sync(self.tasks[t].process, &mut job);
                    self.tasks[t].state = State::Sync(job);
                    done && self.synced(t, &job)
                }
                State::DirectWrite => {
                    let process = self.tasks[t].process;
                    self.pump(process) && !self.must_wait(process) && self.direct_written(t)
                }
                State::Read => {
                    let process = self.tasks[t].process;
                    self.pump(process) && !self.must_wait(process) && self.read_done(t)
                }
                State::ReadPages { page, end } => self.read_pages(t, page, end),
            };
            if !goes_on {
                return;
            }
        }
    }

    /// Number of a task's control group.
    pub(crate) fn group_of(&self, t: usize) -> usize {
        self.loads[self.tasks[t].load].group as usize
    }

    fn begin_operation(&mut self, t: usize) -> bool {
        if !self.loads[self.tasks[t].load].running {
            self.tasks[t].state = State::Stopped;
            return false;
        }
        match self.tasks[t].program {
            Program::Victim(_) => self.begin_victim(t),
            Program::Flood(_) => self.begin_flood(t),
            Program::Burst { left } => self.begin_burst(t, left),
            Program::SyncAll { inode } => self.sync_next(t, inode),
        }
    }

    /// Spends CPU time and then goes on in another state.
    fn spend(&mut self, t: usize, cpu: Nanos, state: State) -> bool {
        let task = &mut self.tasks[t];
        let cpu = cpu + std::mem::take(&mut task.cpu);
        let cpu = Nanos(cpu.0 * self.cpu_percent / 100);
        task.cpu_total += cpu;
        task.state = state;
        let process = task.process;
        self.sleep_until(process, self.now + cpu);
        false
    }

    /// Bytes are in the page cache: their pages are dirty, and the limits may want a word.
    fn copied(&mut self, t: usize, begin: u64, end: u64, bytes: u64) -> bool {
        let task = &self.tasks[t];
        let (who, inode) = (task.who, task.op.inode);
        let group = self.group_of(t);
        let visits = self.visits(t, bytes).max(end - begin);
        let look = self.dirty_pages(who, group as u32, inode, begin, end, visits);
        self.count_flood(t, bytes);
        #[cfg(test)]
        {
            self.tasks[t].op.copied = self.now;
        }
        self.tasks[t].state = State::Written;
        if !look {
            return true;
        }
        self.tasks[t].throttled_since = self.now;
        let seen = self.seen(group);
        let ruling = self.throttle.balance(who, self.now, &seen);
        self.obey(t, ruling)
    }

    /// Does what the throttle says.
    fn obey(&mut self, t: usize, ruling: Ruling) -> bool {
        if ruling.start_background {
            self.start_background(self.group_of(t));
        }
        let process = self.tasks[t].process;
        match ruling.verdict {
            Verdict::Go { .. } => {
                let task = &mut self.tasks[t];
                task.throttled += self.now.since(task.throttled_since);
                task.state = State::Written;
                true
            }
            Verdict::Sleep { until } => {
                self.block.writer_sleeps(self.now);
                self.tasks[t].state = State::Balance;
                self.sleep_until(process, until);
                false
            }
            Verdict::CongestionWait { until } => {
                self.tasks[t].state = State::Balance;
                self.wait_for_congestion(process, until);
                false
            }
            Verdict::WriteOut { pages } => {
                self.tasks[t].state = State::WriteOut(Pass::new(0, Why::Throttled, pages, None));
                true
            }
        }
    }

    /// The bytes of a write are accepted.
    fn accepted(&mut self, t: usize) -> bool {
        match self.tasks[t].program {
            Program::Victim(_) => self.victim_written(t),
            Program::Flood(_) | Program::Burst { .. } | Program::SyncAll { .. } => {
                self.tasks[t].state = State::Next;
                true
            }
        }
    }

    /// Its data is stable.
    fn synced(&mut self, t: usize, job: &SyncJob) -> bool {
        match self.tasks[t].program {
            Program::Victim(_) => self.victim_synced(t, job),
            _ => {
                self.tasks[t].state = State::Next;
                true
            }
        }
    }
}
