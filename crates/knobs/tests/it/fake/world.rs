//! A machine, its processes, and the process that changes settings on it.

use std::cell::RefCell;

use floodwall_knobs::catalogue::{Knob, find};
use floodwall_knobs::value::{Form, check};
use floodwall_knobs::{Change, Device, Hold, Intention, KnobName, Session, Target, Who};

use super::{GROUP, Kernel, Memory};

/// A machine: its kernel and its journal.
pub(crate) struct World {
    pub(crate) kernel: Kernel,
    pub(crate) store: Memory,
    pub(crate) boot: RefCell<String>,
}

impl World {
    pub(crate) fn new() -> Self {
        let kernel = Kernel::new();
        let store = Memory::new(&kernel.fuse);
        Self { kernel, store, boot: RefCell::new("boot-1".to_owned()) }
    }

    pub(crate) fn session(&self) -> Session<'_> {
        self.session_of(7, "test")
    }

    /// A session of another process.
    pub(crate) fn session_of(&self, pid: u32, command: &str) -> Session<'_> {
        Session {
            files: &self.kernel,
            store: &self.store,
            clock: &self.kernel,
            who: Who {
                pid,
                pid_start_ticks: 1,
                socket: (pid != 7).then(|| "/run/guard.sock".into()),
                uid: 0,
                command: command.to_owned(),
            },
            boot_id: self.boot.borrow().clone(),
        }
    }

    /// Makes a process be there, in a state (`S`, `Z` …) and with so many threads; none: it is
    /// gone.
    pub(crate) fn process(&self, pid: u32, state: char, threads: u32) {
        self.kernel.remove(&format!("/proc/{pid}/"));
        if threads > 0 {
            let zeros = "0 ".repeat(18);
            self.kernel
                .put(&format!("/proc/{pid}/stat"), &format!("{pid} (a) b) {state} {zeros}1 0 0"));
        }
        for thread in 0..threads {
            // Only the leader outlives its end.
            let state = if thread == 0 { state } else { 'S' };
            self.thread(pid, pid + thread, state, false);
        }
        // The kernel removes the mark with the last thread.
        let is_over = threads == 0 || (state == 'Z' && threads == 1);
        self.store.marked.set(self.store.marked.get() && !is_over);
    }

    /// A thread, and whether it has been killed.
    pub(crate) fn thread(&self, pid: u32, thread: u32, state: char, killed: bool) {
        let pending = if killed { "0000000000000100" } else { "0000000000000000" };
        let status =
            format!("Name:\ta\nState:\t{state} (so)\nSigPnd:\t{pending}\nShdPnd:\t{pending}");
        self.kernel.put(&format!("/proc/{pid}/task/{thread}/status"), &status);
    }

    /// A process is killed, and one thread beside its leader is still inside a system call about a
    /// file.
    pub(crate) fn killed_inside(&self, pid: u32, file: &str) {
        let marked = self.store.marked.get();
        self.process(pid, 'Z', 1);
        self.thread(pid, pid + 1, 'D', true);
        self.store.marked.set(marked);
        let thread = format!("/proc/{pid}/task/{}", pid + 1);
        self.kernel.put(&format!("{thread}/syscall"), "1 0x5 0x7f17 0x3 0x0 0x0 0x0 0x7ffe 0x7f18");
        self.kernel.put(&format!("{thread}/fd/5"), file);
    }

    /// The holding process yields the knobs that are in the way, as a guard does. `false` without
    /// any, or if it could not.
    pub(crate) fn ask(&self, steering: &Session<'_>, hold: &mut Hold, of: Intention<'_>) -> bool {
        let Ok(Some(asked)) = self.session().in_the_way(of) else { return false };
        let is_asked =
            |knob: &Knob, target: &Target| asked.knobs.contains(&KnobName::of(knob, target));
        for index in steering.order_back(hold, is_asked) {
            if let Ok(Some(prepared)) = steering.prepare_back(hold, index) {
                let performed = prepared.perform(&self.kernel, &self.kernel);
                let _ = steering.finish(hold, prepared, performed);
            }
        }
        steering.yield_cells(hold, is_asked).is_ok()
    }

    pub(crate) fn apply(
        &self,
        texts: &[&str],
    ) -> Result<floodwall_knobs::Applied, floodwall_knobs::ApplyError> {
        let changes: Vec<Change> = texts.iter().map(|text| change(text)).collect();
        self.session().apply(&changes, "a test")
    }

    pub(crate) fn writes(&self) -> Vec<String> {
        self.kernel.writes.borrow().clone()
    }
}

pub(crate) fn sda() -> Device {
    Device { number: "8:0".to_owned(), name: "sda".to_owned(), instance: Some(11) }
}

/// `vm.dirty_bytes=15MB`, a limit of the unit as `b:memory.high=1GiB`, or a knob of `sda`.
pub(crate) fn change(text: &str) -> Change {
    let (name, value) = text.split_once('=').unwrap();
    let limit = name.strip_prefix("b:");
    let knob = find(limit.unwrap_or(name)).unwrap_or_else(|| panic!("no knob {name}"));
    let target = match limit {
        Some(name) => {
            let device = (name == "io.max").then(sda);
            Target::Group { path: GROUP.to_owned(), device, systemd: true }
        }
        None if name.starts_with("vm.") => Target::Machine,
        None => Target::Device(sda()),
    };
    Change { knob, target, value: check(knob, value, Form::Person).unwrap() }
}
