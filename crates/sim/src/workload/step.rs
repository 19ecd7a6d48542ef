//! Loads begin and end, and a task goes on from state to state.

use floodwall_device::Nanos;
use rand_pcg::Pcg64Mcg;

use super::meter::Meter;
use super::read_ahead::ReadAhead;
use super::task::{Load, Operation, Program, State, Task};
use crate::fs::SyncJob;
use crate::machine::{Machine, Role};
use crate::page_cache::InodeId;
use crate::throttle::{Dirtier, Ruling, TaskTraits, Verdict};
use crate::writeback::{Pass, Progress, Why};

impl Machine {
    /// Adds a load in a control group, by its number; its tasks follow.
    pub(crate) fn add_load(&mut self, group: u32, block: u64, files: Vec<InodeId>) -> usize {
        let logs = vec![0; files.len()];
        self.loads.push(Load {
            meter: Meter::default(),
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
    pub(super) fn spend(&mut self, t: usize, cpu: Nanos, state: State) -> bool {
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
