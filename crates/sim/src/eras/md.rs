//! Software RAID of 2.6.32: one thread submits all writes of the array (drivers/md/raid10.c,
//! raid1.c).
//!
//! ```text
//! write ─▶ pending list, without an end
//!            │ somebody waits for it: at once; else when the array's plug is pulled
//!            ▼
//!          raid10d ─▶ slot ─▶ a member's elevator
//! read ─────────────▶ slot ─▶ a member's elevator
//! ```
//!
//! A writing process never sleeps for a slot. So all pages of a flusher stand in the list at once,
//! however long it is (3.2 bounds it: `max_queued_requests`). The thread goes through the list in
//! order and sleeps for the slots of each member. A commit stands behind all that came before it,
//! whatever the elevators would do. They see one process, and of a write only whether a process
//! waits for it. `REQ_NOIDLE` (no other write will follow) is lost in the clone.

use std::collections::VecDeque;

use crate::block::Bio;
use crate::event::Event;
use crate::machine::Md;
use crate::machine::{Machine, Role};
use crate::request::{Flags, ProcessIndex};
use crate::throttle::jiffies::Clock;

impl Machine {
    /// Writes go through an array's thread from now on.
    pub(crate) fn add_md(&mut self, hz: u32) {
        let process = self.add_process(Role::Md);
        let clock = Clock::new(hz, false);
        self.md = Some(Md { process, pending: VecDeque::new(), clock, plugged: None, plugs: 0 });
    }

    /// Whether a process's writes are the array's to submit.
    pub(crate) fn through_md(&self, process: ProcessIndex) -> bool {
        self.md.as_ref().is_some_and(|md| md.process != process)
    }

    /// `make_request`: a write joins the list.
    pub(crate) fn md_write(&mut self, mut bio: Bio) {
        let now = self.now;
        let Some(md) = &mut self.md else { return };
        bio.times.asked = now;
        let sync = bio.flags.sync;
        bio.flags = Flags { sync, idle: sync, ..Flags::default() };
        md.pending.push_back(bio);
        let process = md.process;
        if sync {
            return self.wake(process);
        }
        if md.plugged.is_none() {
            // blk_plug_device: 3 ms in ticks, at least one.
            md.plugs += 1;
            md.plugged = Some(md.plugs);
            let (at, plug) = (md.clock.timer(now, (3 * md.clock.hz() / 1000).max(1)), md.plugs);
            self.at(at, Event::Unplug { plug });
        }
    }

    /// A process waits for something that may be in the list (`raid10_unplug`).
    pub(crate) fn md_run(&mut self) {
        if let Some(md) = &self.md
            && !md.pending.is_empty()
        {
            let process = md.process;
            self.wake(process);
        }
    }

    /// The plug's time is up.
    pub(crate) fn md_unplug(&mut self, plug: u32) {
        if let Some(md) = &mut self.md
            && md.plugged == Some(plug)
        {
            md.plugged = None;
            let process = md.process;
            self.wake(process);
        }
    }

    /// `flush_pending_writes`: takes the list as it is, submits it, looks again.
    pub(crate) fn md_step(&mut self) {
        loop {
            let Some(md) = &mut self.md else { return };
            let process = md.process;
            if !self.pump(process) {
                return;
            }
            let Some(md) = &mut self.md else { return };
            if md.pending.is_empty() {
                return;
            }
            md.plugged = None;
            let list = std::mem::take(&mut md.pending);
            self.processes[process.0 as usize].queue_all(list);
        }
    }
}

#[cfg(test)]
mod tests {
    use floodwall_device::{DeviceSpec, Nanos, Op};
    use floodwall_model::Setting;

    use super::*;
    use crate::block::End;
    use crate::fs::FsKind;
    use crate::kernel::Generation;
    use crate::options::SimOptions;
    use crate::runner::SimRunner;

    const WAITED_FOR: Flags = Flags { sync: true, idle: false, meta: false, background: false };

    /// An array at 250 ticks a second, 1 ms after a tick, and one of its processes.
    fn array() -> (Machine, ProcessIndex) {
        let options = SimOptions {
            generation: Generation::K2_6_32,
            fs: FsKind::Raw,
            hz: Some(250),
            member_queues: 5,
            ..SimOptions::new(DeviceSpec::preset("raid10-bbwc-2010").unwrap())
        };
        let (mut machine, _) = SimRunner::new(options).build(&Setting::default(), 0).unwrap();
        machine.run_until(Nanos::from_millis(1));
        (machine, ProcessIndex(0))
    }

    fn send(machine: &mut Machine, process: ProcessIndex, op: Op, offset: u64, flags: Flags) {
        machine.put(process, Bio::new(op, offset, 4096, flags, End::Process(process)));
        assert!(machine.pump(process), "nobody sleeps for a slot but the thread");
        machine.settle();
    }

    #[test]
    fn a_write_that_nobody_waits_for_stays_until_the_plug_is_pulled() {
        let (mut machine, process) = array();
        send(&mut machine, process, Op::Write { fua: false }, 0, Flags::default());
        machine.run_until(Nanos(3_999_999));
        assert_eq!(machine.block.outstanding(), 0);
        // 3 ms are a tick of 4: the next one.
        machine.run_until(Nanos::from_millis(4));
        assert_eq!(machine.block.outstanding(), 1);
    }

    #[test]
    fn one_that_is_waited_for_takes_along_what_came_before_and_reads_pass_by() {
        let (mut machine, process) = array();
        for n in 0..1_000 {
            send(&mut machine, process, Op::Write { fua: false }, n << 20, Flags::default());
        }
        send(&mut machine, process, Op::Read, 1 << 40, WAITED_FOR);
        assert_eq!(machine.block.outstanding(), 1, "the read");
        send(&mut machine, process, Op::Write { fua: false }, 5 << 40, WAITED_FOR);
        // The list is longer than there are slots: the thread sleeps, and the write that came last
        // has not even asked.
        assert!(
            (128..1_000).contains(&machine.block.outstanding()),
            "{}",
            machine.block.outstanding()
        );
        machine.run_until(Nanos::from_secs(5));
        assert_eq!(
            (machine.block.outstanding(), machine.processes[process.0 as usize].outstanding),
            (0, 0)
        );
        assert_eq!(machine.block.counters(machine.now).writes, 1_001);
    }
}
