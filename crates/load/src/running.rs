//! A load while it runs: its threads or its command, their counts, and their end.
//!
//! ```text
//! start ─▶ threads set up ─▶ all ready: the gate opens, that is the begin
//!   ─▶ operations … ─▶ flag raised, or a thread failed
//!      │ sample()      │ finish(): join
//!      ▼               ▼
//!    Delta           Finished
//! ```
//!
//! A thread that fails leaves its error behind and raises the flag for the others. Nothing is lost
//! by dropping a [`Running`]: that stops it and waits for it too.

use std::num::NonZeroU64;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use floodwall_model::LatencyCounts;
use floodwall_model::trial::OpLatencies;
pub use floodwall_stats::recorder::Delta;
use floodwall_stats::recorder::{Recorder, Sampler};
use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use crate::apart::FloodProcess;
use crate::command::CommandRun;
use crate::error::LoadError;
use crate::finished::Finished;
use crate::lock::lock;
use crate::pace::Tickets;

/// A load that runs. Dropping it stops it and waits for it.
#[derive(Debug)]
pub struct Running {
    inner: Inner,
    sampled_ops: u64,
}

#[derive(Debug)]
enum Inner {
    Threads(Threads),
    Command(CommandRun),
    Process(FloodProcess),
}

impl Running {
    /// The completed part since the last sample (or the start): operations, bytes and, for victims
    /// that are not commands, latencies.
    pub fn sample(&mut self) -> Delta {
        let delta = match &mut self.inner {
            Inner::Threads(threads) => threads.sampler.sample(),
            Inner::Command(command) => command.sample(),
            Inner::Process(process) => process.sample(),
        };
        self.sampled_ops += delta.ops;
        delta
    }

    /// Why the load ended before it was asked to, once it has.
    #[must_use]
    pub fn failure(&self) -> Option<LoadError> {
        match &self.inner {
            Inner::Threads(threads) => threads.shared.failure.get().cloned(),
            Inner::Command(command) => command.failure(),
            Inner::Process(process) => process.failure(),
        }
    }

    /// When the first operation could begin.
    #[must_use]
    pub fn begin(&self) -> Instant {
        match &self.inner {
            Inner::Threads(threads) => threads.begin,
            Inner::Command(command) => command.begin(),
            Inner::Process(process) => process.begin(),
        }
    }

    /// For a command, the kernel's number of the thread that starts it, again and again: the
    /// command or a child of it was started by this thread. `None` for anything else.
    #[must_use]
    pub fn command_thread(&self) -> Option<u32> {
        match &self.inner {
            Inner::Threads(_) | Inner::Process(_) => None,
            Inner::Command(command) => command.supervisor(),
        }
    }

    /// Asks the load to stop, without waiting: no further operation begins. A command gets SIGTERM.
    pub fn ask_to_stop(&mut self) {
        match &mut self.inner {
            Inner::Threads(threads) => threads.ask_to_stop(),
            Inner::Command(command) => command.ask_to_stop(),
            Inner::Process(process) => process.ask_to_stop(),
        }
    }

    /// Stops the load, waits until the last operation is done and returns the remaining results.
    ///
    /// A thread in a system call can't be interrupted: an fsync behind a long queue is waited for.
    /// A command has 5 s after SIGTERM before it gets SIGKILL.
    #[must_use]
    pub fn finish(mut self) -> Finished {
        self.ask_to_stop();
        let mut finished = match &mut self.inner {
            Inner::Threads(threads) => threads.finish(),
            Inner::Command(command) => command.finish(),
            Inner::Process(process) => process.finish(),
        };
        finished.total_ops = self.sampled_ops + finished.last.ops;
        finished
    }

    pub(crate) fn of_process(process: FloodProcess) -> Self {
        Self { inner: Inner::Process(process), sampled_ops: 0 }
    }

    pub(crate) fn of_command(command: CommandRun) -> Self {
        Self { inner: Inner::Command(command), sampled_ops: 0 }
    }
}

/// What the threads of one load share.
#[derive(Debug)]
struct Shared {
    stop: AtomicBool,
    /// When the load was asked to stop.
    asked: OnceLock<Instant>,
    failure: OnceLock<LoadError>,
    gate: Mutex<Gate>,
    gate_moved: Condvar,
    cpu_us: AtomicU64,
    /// Tickets of an open loop that threads took and, told to stop, gave back.
    given_back: Mutex<Vec<u64>>,
}

#[derive(Debug, Default)]
struct Gate {
    /// Threads that are set up, or have failed to be.
    ready: usize,
    opened: Option<Instant>,
}

/// What a worker thread has to do with the rest of its load.
pub(crate) struct Worker<'a> {
    shared: &'a Shared,
    /// The thread's own counters.
    pub(crate) recorder: &'a Recorder,
    arrived: bool,
    cpu_before: Duration,
}

impl Worker<'_> {
    /// Reports this thread ready and waits until all are. Returns when the load began, or `None` if
    /// it did not.
    pub(crate) fn arrive(&mut self) -> Option<Instant> {
        self.arrived = true;
        let mut gate = lock(&self.shared.gate);
        gate.ready += 1;
        self.shared.gate_moved.notify_all();
        let opened = loop {
            if self.stopping() {
                return None;
            }
            match gate.opened {
                Some(opened) => break opened,
                None => {
                    gate = self.shared.gate_moved.wait(gate).unwrap_or_else(PoisonError::into_inner)
                }
            }
        };
        self.cpu_before = cpu_time();
        Some(opened)
    }

    /// Whether no further operation may begin.
    #[inline]
    pub(crate) fn stopping(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    /// The stop flag itself, for waiting.
    pub(crate) fn stop_flag(&self) -> &AtomicBool {
        &self.shared.stop
    }

    /// Gives back an open-loop ticket that was taken and not served.
    pub(crate) fn give_back(&self, ticket: u64) {
        lock(&self.shared.given_back).push(ticket);
    }
}

/// CPU time of the calling thread.
fn cpu_time() -> Duration {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec.max(0).cast_unsigned(), t.tv_nsec.clamp(0, 999_999_999) as u32)
}

/// What one thread does: set up, [`Worker::arrive`], then work until [`Worker::stopping`].
pub(crate) type Work = Box<dyn FnOnce(&mut Worker<'_>) -> Result<(), LoadError> + Send>;

/// How latencies of unserved operations of an open loop are counted.
#[derive(Clone, Debug)]
pub(crate) struct OpenLoop {
    pub(crate) tickets: Arc<Tickets>,
    /// Share of reads among the operations, in percent.
    pub(crate) read_percent: u32,
}

/// The threads of a load.
#[derive(Debug)]
struct Threads {
    shared: Arc<Shared>,
    handles: Vec<JoinHandle<()>>,
    sampler: Sampler,
    begin: Instant,
    open_loop: Option<OpenLoop>,
}

/// Starts a thread for each piece of work, named `fw-victim-0` and so on, and lets them begin
/// together.
///
/// # Errors
/// The first error of a thread's setup, or [`LoadError::Thread`]. No thread is left then. What
/// fails later is [`Running::failure`].
pub(crate) fn start(
    role: &str,
    work: Vec<(Recorder, Work)>,
    open_loop: Option<OpenLoop>,
) -> Result<Running, LoadError> {
    let shared = Arc::new(Shared {
        stop: AtomicBool::new(false),
        asked: OnceLock::new(),
        failure: OnceLock::new(),
        gate: Mutex::new(Gate::default()),
        gate_moved: Condvar::new(),
        cpu_us: AtomicU64::new(0),
        given_back: Mutex::new(Vec::new()),
    });
    let (recorders, work): (Vec<_>, Vec<_>) =
        work.into_iter().map(|(r, w)| (Arc::new(r), w)).unzip();
    let count = work.len();
    let mut threads = Threads {
        shared: Arc::clone(&shared),
        handles: Vec::with_capacity(count),
        sampler: Sampler::new(recorders.iter().cloned()),
        begin: Instant::now(),
        open_loop,
    };
    for (i, (work, recorder)) in work.into_iter().zip(recorders).enumerate() {
        let shared = Arc::clone(&shared);
        // Dropping `threads` on the way out stops those that did start.
        let handle = thread::Builder::new()
            .name(format!("fw-{role}-{i}"))
            .spawn(move || run(&shared, &recorder, work))
            .map_err(|e| LoadError::Thread {
                errno: Errno::from_io_error(&e).unwrap_or(Errno::AGAIN),
            })?;
        threads.handles.push(handle);
    }
    let failed_setup = {
        let mut gate = lock(&shared.gate);
        while gate.ready < count {
            gate = shared.gate_moved.wait(gate).unwrap_or_else(PoisonError::into_inner);
        }
        let failure = shared.failure.get().cloned();
        if failure.is_none() {
            threads.begin = Instant::now();
            gate.opened = Some(threads.begin);
            shared.gate_moved.notify_all();
        }
        failure
    };
    match failed_setup {
        Some(failure) => Err(failure),
        None => Ok(Running { inner: Inner::Threads(threads), sampled_ops: 0 }),
    }
}

/// One thread from begin to end.
fn run(shared: &Shared, recorder: &Recorder, work: Work) {
    // Paced operations must begin when they fall due, not up to 50 µs (the default slack) later. An
    // older kernel is merely less exact.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let mut worker = Worker { shared, recorder, arrived: false, cpu_before: cpu_time() };
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(&mut worker)))
        .unwrap_or(Err(LoadError::Panicked));
    let used = cpu_time().saturating_sub(worker.cpu_before);
    shared.cpu_us.fetch_add(used.as_micros() as u64, Ordering::Relaxed);
    let arrived = worker.arrived;
    if let Err(error) = result {
        // The first failure counts; those that follow from it do not.
        let _ = shared.failure.set(error);
        shared.stop.store(true, Ordering::Relaxed);
    }
    if !arrived {
        lock(&shared.gate).ready += 1;
        shared.gate_moved.notify_all();
    }
}

impl Threads {
    fn ask_to_stop(&self) {
        let _ = self.shared.asked.set(Instant::now());
        self.shared.stop.store(true, Ordering::Relaxed);
        // Those that still wait for the gate look at the flag under its lock.
        drop(lock(&self.shared.gate));
        self.shared.gate_moved.notify_all();
    }

    fn join(&mut self) {
        for handle in self.handles.drain(..) {
            if handle.join().is_err() {
                let _ = self.shared.failure.set(LoadError::Panicked);
            }
        }
    }

    fn finish(&mut self) -> Finished {
        self.join();
        let mut last = self.sampler.sample();
        let mut unserved_ops = 0;
        if let (Some(open), Some(asked)) = (&self.open_loop, self.shared.asked.get()) {
            let given_back = lock(&self.shared.given_back);
            let waiting =
                open.tickets.unserved(asked.saturating_duration_since(self.begin), &given_back);
            unserved_ops = waiting.count();
            last.latencies.merge(&by_kind(&waiting, open.read_percent));
        }
        Finished {
            last,
            total_ops: 0,
            unserved_ops,
            cpu_us: Some(self.shared.cpu_us.load(Ordering::Relaxed)),
            command_runs: None,
            failure: self.shared.failure.get().cloned(),
        }
    }
}

impl Drop for Threads {
    fn drop(&mut self) {
        self.ask_to_stop();
        self.join();
    }
}

/// Divides operations of unknown kind among reads and commits by their share.
fn by_kind(waiting: &LatencyCounts, read_percent: u32) -> OpLatencies {
    let share = u64::from(read_percent.min(100));
    let mut carry = 0;
    let split: Vec<(usize, u64, u64)> = waiting
        .buckets()
        .map(|(bucket, n)| {
            carry += n * share;
            let reads = (carry / 100).min(n);
            carry -= reads * 100;
            (bucket, reads, n - reads)
        })
        .collect();
    let reads = split.iter().map(|(_, reads, _)| reads).sum::<u64>();
    let (total, sum) = (waiting.count().max(1), waiting.sum_ns());
    let read_sum = (u128::from(sum) * u128::from(reads) / u128::from(total)) as u64;
    // The longest wait belongs to the larger kind.
    let (read_max, commit_max) =
        if share > 50 { (waiting.max_ns(), 0) } else { (0, waiting.max_ns()) };
    OpLatencies {
        read: LatencyCounts::from_buckets(split.iter().map(|s| (s.0, s.1)), read_sum, read_max),
        commit: LatencyCounts::from_buckets(
            split.iter().map(|s| (s.0, s.2)),
            sum - read_sum,
            commit_max,
        ),
        ..OpLatencies::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_thread_stops_the_others_and_is_reported() {
        let failing: Work = Box::new(|worker| {
            worker.arrive();
            Err(LoadError::io("write", "/x", Errno::NOSPC))
        });
        let waiting: Work = Box::new(|worker| {
            worker.arrive();
            while !worker.stopping() {
                thread::yield_now();
            }
            Ok(())
        });
        let running =
            start("test", vec![(Recorder::new(&[]), waiting), (Recorder::new(&[]), failing)], None)
                .unwrap();
        let finished = running.finish();
        assert_eq!(finished.failure, Some(LoadError::io("write", "/x", Errno::NOSPC)));
    }

    #[test]
    fn a_failed_setup_is_the_error_of_start_and_leaves_no_thread() {
        let failing: Work = Box::new(|_| Err(LoadError::Interrupted));
        let waiting: Work = Box::new(|worker| {
            assert!(worker.arrive().is_none() || worker.stopping());
            Ok(())
        });
        let work = vec![(Recorder::new(&[]), waiting), (Recorder::new(&[]), failing)];
        assert_eq!(start("test", work, None).map(|_| ()).unwrap_err(), LoadError::Interrupted);
    }

    #[test]
    fn a_panic_is_a_failure_and_not_a_hang() {
        let work: Work = Box::new(|_| panic!("on purpose"));
        let error = start("test", vec![(Recorder::new(&[]), work)], None).map(|_| ()).unwrap_err();
        assert_eq!(error, LoadError::Panicked);
    }

    #[test]
    fn unserved_operations_of_both_kinds_are_divided_by_share() {
        let waiting = LatencyCounts::from_values((0..1000).map(|n| n * 1000));
        let split = by_kind(&waiting, 70);
        assert_eq!((split.read.count(), split.commit.count()), (700, 300));
        assert_eq!(split.operations().count(), 1000);
        assert_eq!(by_kind(&waiting, 100).read, waiting);
        assert_eq!(by_kind(&waiting, 0).commit, waiting);
    }
}
