//! How much page cache the processes of a window dirtied, where, and with which threads.

use std::cmp::Reverse;
use std::time::Duration;

use super::{Probe, now_ns};
use crate::aggregator::Limits;
use crate::dirtied;
use crate::snapshot::{ByDevice, OTHERS, ProcessUse};
use crate::writers::Dirtied;

/// A process that waits and dirties less between two looks is not asked which of its threads does.
const MUCH: u64 = 256 << 10;

impl Probe {
    /// Adds what processes dirtied: what the kernel's programs counted, and beyond that the bytes
    /// of /proc, for the device that a process is believed to write to.
    pub(super) fn add_dirtied(
        &mut self,
        processes: &mut Vec<ProcessUse>,
        counted: Option<&ByDevice>,
    ) {
        let mut throttled: Vec<u32> =
            processes.iter().filter(|p| !p.throttled.is_zero()).map(|p| p.pid).collect();
        throttled.sort_unstable();
        let may_skip = self.sparing && throttled.is_empty() && self.writers.may_skip(&self.root);
        let mut bytes =
            if may_skip { Dirtied::default() } else { self.writers.look(&self.root, &throttled) };
        if self.writers.missing().is_none() || counted.is_some() {
            processes.iter_mut().for_each(|p| p.dirtied_bytes = Some(0));
        }
        if let Some(counted) = counted {
            dirtied::add_counted(processes, counted);
            let next = self.source.bpf().map(|bpf| bpf.dirtied_so_far()).unwrap_or_default();
            let writers = &self.writers;
            bytes = self.beyond.end_window(&bytes, counted, &next, |pid| writers.lives(pid));
        } else {
            self.beyond = crate::beyond::Beyond::default();
        }
        let most = Limits::default().uses;
        dirtied::add(processes, bytes, most, &mut |pid| self.files.target(pid));
        self.tell_threads_apart(processes);
    }

    /// Where a process both waits and dirties much.
    fn tell_threads_apart(&mut self, processes: &mut [ProcessUse]) {
        self.threads.begin();
        let waits = |p: &ProcessUse| p.waiting > 0 || p.reads.count() + p.commits().count() > 0;
        let much = |p: &ProcessUse| p.dirtied_bytes.is_some_and(|bytes| bytes >= MUCH);
        // Of a process that uses several devices, the one that it waits for and writes to.
        let mut order: Vec<usize> =
            (0..processes.len()).filter(|i| processes[*i].pid != OTHERS).collect();
        order.sort_by_cached_key(|i| {
            let process = &processes[*i];
            (process.pid, !(much(process) && waits(process)), Reverse(process.dirtied_bytes))
        });
        order.dedup_by_key(|i| processes[*i].pid);
        let mut inside: Option<Vec<(u32, u32)>> = None;
        for i in order {
            let process = &mut processes[i];
            if !waits(process) || !much(process) && !self.threads.are_apart(process.pid) {
                continue;
            }
            let inside = inside.get_or_insert_with(|| self.calls_for(now_ns(), Duration::ZERO));
            let of = inside.iter().filter(|(pid, _)| *pid == process.pid).map(|(_, tid)| *tid);
            let flooded = self.threads.flooded(&self.root, process.pid, &of.collect::<Vec<_>>());
            // /proc counts for all devices, and until now.
            let dirtied = process.dirtied_bytes.unwrap_or(u64::MAX);
            process.flooded_bytes = flooded.map(|flooded| flooded.min(dirtied));
        }
    }
}
