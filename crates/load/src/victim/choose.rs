//! Which block a victim's next operation touches, and when it may begin.

use std::time::{Duration, Instant};

use floodwall_model::scenario::VictimKind;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use super::files::{Files, Record};
use super::job::Job;
use super::kind::read_percent;
use crate::buffer::rng;
use crate::error::LoadError;
use crate::pace::{Tickets, nanoseconds, sleep_until};
use crate::running::Worker;

/// One operation's place.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    /// Index of the file.
    pub(super) file: usize,
    /// Where in the file, in bytes.
    pub(super) offset: u64,
    /// A read, or else a write.
    pub(super) is_read: bool,
}

/// How a victim goes through its blocks.
enum Way {
    /// Uniformly at random over all blocks of all files, with replacement, like sysbench's rndwr;
    /// this share of them reads.
    Random { read_percent: u64 },
    /// In order through `begin..end` of all blocks of all files, over and over.
    Sequential { next: u64, begin: u64, end: u64 },
    /// The next record of this file's log.
    Append { file: usize },
}

/// Chooses one thread's operations.
pub(super) struct Chooser<'a> {
    files: &'a Files,
    way: Way,
    rng: Pcg64Mcg,
    total: u64,
    /// The record that is being appended.
    record: Option<Record<'a>>,
}

impl<'a> Chooser<'a> {
    pub(super) fn new(job: &'a Job) -> Self {
        let files = &*job.files;
        let total = files.slots * files.files.len() as u64;
        let (thread, threads) = (u64::from(job.thread), u64::from(job.victim.threads.max(1)));
        // Regions of equal length in order: whole files when there are as many files as threads.
        let share =
            |thread: u64| (u128::from(total) * u128::from(thread) / u128::from(threads)) as u64;
        let way = match job.victim.kind {
            VictimKind::Scan { .. } => {
                // With more threads than blocks, some share one.
                let begin = share(thread).min(total - 1);
                Way::Sequential { next: begin, begin, end: share(thread + 1).max(begin + 1) }
            }
            VictimKind::Wal { .. } => Way::Append { file: (thread as usize) % files.files.len() },
            ref kind => Way::Random { read_percent: u64::from(read_percent(kind)) },
        };
        Self { files, way, rng: rng(job.seed, thread), total, record: None }
    }

    /// The files that a sequential reader goes through; all of them otherwise.
    pub(super) fn file_range(&self) -> std::ops::Range<usize> {
        match self.way {
            Way::Sequential { begin, end, .. } => {
                (begin / self.files.slots) as usize..((end - 1) / self.files.slots + 1) as usize
            }
            _ => 0..self.files.files.len(),
        }
    }

    /// File and offset at which a sequential reader's region begins.
    pub(super) fn region_begin(&self) -> (usize, u64) {
        match self.way {
            Way::Sequential { begin, .. } => {
                ((begin / self.files.slots) as usize, begin % self.files.slots * self.files.block)
            }
            _ => (0, 0),
        }
    }

    /// The next operation's place. A log may have to be cut first, which can fail.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Target, LoadError> {
        let (slot, is_read) = match &mut self.way {
            Way::Random { read_percent } => {
                let is_read = match *read_percent {
                    0 => false,
                    percent => (u64::from(self.rng.next_u32()) * 100) >> 32 < percent,
                };
                // Multiply and shift instead of a remainder: fast, and biased by less than 2^-40
                // here.
                ((u128::from(self.rng.next_u64()) * u128::from(self.total)) >> 64, is_read)
            }
            Way::Sequential { next, begin, end } => {
                let slot = *next;
                *next = if slot + 1 == *end { *begin } else { slot + 1 };
                (u128::from(slot), true)
            }
            Way::Append { file } => {
                let file = *file;
                let record = self.files.logs[file].append(&self.files.files[file])?;
                let offset = record.slot * self.files.block;
                self.record = Some(record);
                return Ok(Target { file, offset, is_read: false });
            }
        };
        let slot = slot as u64;
        let (file, slot) = if self.files.files.len() == 1 {
            (0, slot)
        } else {
            ((slot / self.files.slots) as usize, slot % self.files.slots)
        };
        Ok(Target { file, offset: slot * self.files.block, is_read })
    }

    /// The operation is done: a growing log may be cut again.
    #[inline]
    pub(super) fn done(&mut self) {
        self.record = None;
    }
}

/// When a thread's operations may begin.
pub(super) struct Schedule<'a> {
    tickets: Option<&'a Tickets>,
    begin: Instant,
    /// A ticket taken that is not due yet.
    held: Option<u64>,
}

/// Whether an operation may begin.
pub(super) enum Turn {
    /// Now, and its latency counts from now.
    Now,
    /// Now, and its latency counts from when it fell due.
    Since(Instant),
    /// Not before then.
    NotBefore(Instant),
}

impl<'a> Schedule<'a> {
    pub(super) fn new(job: &'a Job, begin: Instant) -> Self {
        Self { tickets: job.tickets.as_deref(), begin, held: None }
    }

    /// Whether the next operation may begin. An open loop's ticket is kept until it is due.
    #[inline]
    pub(super) fn turn(&mut self) -> Turn {
        let Some(tickets) = self.tickets else { return Turn::Now };
        let ticket = *self.held.get_or_insert_with(|| tickets.take());
        let due = self.due(tickets.due(ticket));
        if due > Instant::now() {
            return Turn::NotBefore(due);
        }
        self.held = None;
        Turn::Since(due)
    }

    /// Waits for the next operation's turn. `None`: the load was told to stop. `Some(None)`: its
    /// latency counts from its first call.
    #[inline]
    pub(super) fn wait_for_turn(&mut self, worker: &Worker<'_>) -> Option<Option<Instant>> {
        if worker.stopping() {
            return None;
        }
        loop {
            match self.turn() {
                Turn::Now => return Some(None),
                Turn::Since(due) => return Some(Some(due)),
                Turn::NotBefore(due) => {
                    if !sleep_until(due, worker.stop_flag()) {
                        return None;
                    }
                }
            }
        }
    }

    /// Gives back a ticket that is still held.
    pub(super) fn close(self, worker: &Worker<'_>) {
        if let Some(ticket) = self.held {
            worker.give_back(ticket);
        }
    }

    fn due(&self, after: Duration) -> Instant {
        // An instant that the clock can't express is as far away as any.
        self.begin
            .checked_add(after)
            .unwrap_or(self.begin + Duration::from_secs(u64::from(u32::MAX)))
    }
}

/// Nanoseconds from one reading of the clock to a later one.
#[inline]
pub(super) fn ns_between(from: Instant, to: Instant) -> u64 {
    nanoseconds(to.saturating_duration_since(from))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use floodwall_model::scenario::parse_victim;

    use super::*;

    fn jobs(dir: &std::path::Path, spec: &str) -> Vec<Job> {
        let victim = parse_victim(spec).unwrap();
        let dir = crate::Dir::open(dir).unwrap();
        let files = Files::prepare(dir, &victim, 1, &mut |_| {}, &AtomicBool::new(false)).unwrap();
        let files = Arc::new(files);
        (0..victim.threads)
            .map(|thread| Job {
                victim: victim.clone(),
                files: Arc::clone(&files),
                tickets: None,
                seed: 1,
                thread,
            })
            .collect()
    }

    /// The block's number, counted over all files.
    fn slot(job: &Job, target: Target) -> usize {
        target.file * job.files.slots as usize + (target.offset / job.files.block) as usize
    }

    #[test]
    fn scanning_threads_share_out_every_block_in_order() {
        for threads in [1, 2, 3, 4, 7, 48, 60] {
            let dir = tempfile::tempdir().unwrap();
            let jobs =
                jobs(dir.path(), &format!("scan,threads={threads},files=3,block=4KiB,size=192KiB"));
            let mut seen = vec![0; 48];
            for job in &jobs {
                let mut chooser = Chooser::new(job);
                let files = chooser.file_range();
                let first = slot(job, chooser.next().unwrap());
                let mut at = first;
                loop {
                    seen[at] += 1;
                    let target = chooser.next().unwrap();
                    assert!(files.contains(&target.file));
                    let next = slot(job, target);
                    if next == first {
                        break;
                    }
                    assert_eq!(next, at + 1);
                    at = next;
                }
            }
            if threads <= 48 {
                assert_eq!(seen, [1; 48], "{threads} threads");
            }
        }
    }

    #[test]
    fn random_offsets_are_uniform_over_all_files() {
        let dir = tempfile::tempdir().unwrap();
        let jobs = jobs(
            dir.path(),
            "mixed,access=cached,read_percent=25,threads=2,files=3,block=4KiB,size=192KiB",
        );
        let (mut seen, mut reads) = (vec![0u32; 48], 0);
        for job in &jobs {
            let mut chooser = Chooser::new(job);
            for _ in 0..24_000 {
                let target = chooser.next().unwrap();
                seen[slot(job, target)] += 1;
                reads += u32::from(target.is_read);
            }
        }
        // 1,000 expected in each of 48 cells: chi-squared with 47 degrees of freedom is under 82.7
        // in 999 of 1,000 cases.
        let chi_squared: f64 = seen.iter().map(|n| (f64::from(*n) - 1000.0).powi(2) / 1000.0).sum();
        assert!(chi_squared < 82.7, "{chi_squared}");
        assert!((11_500..12_500).contains(&reads), "{reads} of 48,000");
    }
}
