//! A run: its threads, its counts so far, and its end.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Instant;

use floodwall_model::LatencyCounts;
use floodwall_stats::recorder::{Delta, Op, Recorder};

use super::arrivals::{Arrivals, Queue};
use super::counts::{Counters, Counts, ThreadCounts};
use super::files::FileSet;
use super::order::Order;
use super::plan::{Pause, Plan};
use super::worker::{self, Stream};
use crate::error::LoadError;
use crate::lock::lock;
use crate::running::{self, Running, Work};

/// Threads at work.
#[derive(Debug)]
pub struct FileRun {
    running: Running,
    stream: Arc<Stream>,
    ending: Arc<Ending>,
}

/// How far a run is.
#[derive(Clone, Debug, Default)]
pub struct FileSample {
    /// Since the begin.
    pub counts: Counts,
    /// Since the begin, by thread.
    pub threads: Vec<ThreadCounts>,
    /// Of the events since the last sample.
    pub latencies: LatencyCounts,
    /// The shortest of them; `u64::MAX` if there are none.
    pub min_ns: u64,
}

/// The counts of a run that goes on.
#[derive(Clone, Debug)]
pub struct FileProgress(Arc<Stream>);

impl FileProgress {
    /// Since the begin.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.0.counters.iter().for_each(|counters| counters.add_to(&mut counts));
        counts
    }
}

/// When the last thread ended.
#[derive(Debug)]
struct Ending {
    state: Mutex<(u32, Option<Instant>)>,
    moved: Condvar,
}

impl Ending {
    fn one_more(&self) {
        let mut state = lock(&self.state);
        state.0 = state.0.saturating_sub(1);
        if state.0 == 0 {
            state.1 = Some(Instant::now());
        }
        self.moved.notify_all();
    }
}

/// Counts a thread as ended, whatever ends it.
struct Part(Arc<Ending>);

impl Drop for Part {
    fn drop(&mut self) {
        self.0.one_more();
    }
}

impl FileRun {
    /// Starts the threads of a plan.
    ///
    /// # Errors
    /// [`LoadError::Thread`].
    pub fn start(files: FileSet, plan: Plan) -> Result<Self, LoadError> {
        Self::start_with_pauses(files, plan, None)
    }

    /// The same, with a pause of each thread after each request.
    ///
    /// # Errors
    /// [`LoadError::Thread`].
    pub fn start_with_pauses(
        files: FileSet,
        plan: Plan,
        pause: Option<Pause>,
    ) -> Result<Self, LoadError> {
        let threads = plan.threads;
        let arrivals = plan.rate.map(|rate| Arrivals::new(rate, plan.seed));
        let order = Order::new(&plan, files.files.len() as u32, files.len);
        let stream = Arc::new(Stream {
            order: Mutex::new(order),
            queue: plan.rate.map(|_| Queue::default()),
            counters: (0..threads).map(|_| Counters::new()).collect(),
            files,
            plan,
            pause,
        });
        let ending = Arc::new(Ending { state: Mutex::new((threads, None)), moved: Condvar::new() });
        let work = (0..threads as usize).map(|thread| {
            let (stream, part) = (Arc::clone(&stream), Part(Arc::clone(&ending)));
            let work: Work = Box::new(move |worker| {
                let _part = part;
                worker::run(&stream, thread, worker)
            });
            (Recorder::new(&[Op::Commit, Op::Sync, Op::Read]), work)
        });
        let filler = arrivals.map(|arrivals| {
            let stream = Arc::clone(&stream);
            let work: Work = Box::new(move |worker| match &stream.queue {
                Some(queue) => queue.fill(arrivals, worker),
                None => Ok(()),
            });
            (Recorder::new(&[]), work)
        });
        let running = running::start("fileio", work.chain(filler).collect(), None)?;
        Ok(Self { running, stream, ending })
    }

    /// When the first request could begin.
    #[must_use]
    pub fn begin(&self) -> Instant {
        self.running.begin()
    }

    /// Waits for a moment, or for the end of the last thread. Returns when that was, once it is.
    #[must_use]
    pub fn wait_until(&self, moment: Option<Instant>) -> Option<Instant> {
        let mut state = lock(&self.ending.state);
        loop {
            let left = moment.map(|moment| moment.saturating_duration_since(Instant::now()));
            if state.1.is_some() || left.is_some_and(|left| left.is_zero()) {
                return state.1;
            }
            state = match left {
                Some(left) => {
                    let waited = self.ending.moved.wait_timeout(state, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.ending.moved.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }

    /// The counts so far.
    pub fn sample(&mut self) -> FileSample {
        let delta = self.running.sample();
        sample(&self.stream, delta)
    }

    /// Its counts, for another thread.
    #[must_use]
    pub fn progress(&self) -> FileProgress {
        FileProgress(Arc::clone(&self.stream))
    }

    /// No further request begins. The syncs at the end do.
    pub fn ask_to_stop(&mut self) {
        self.running.ask_to_stop();
    }

    /// Stops it, waits for the last call, and returns the rest of the counts.
    ///
    /// # Errors
    /// The one that ended it.
    pub fn finish(self) -> Result<FileSample, LoadError> {
        let finished = self.running.finish();
        match finished.failure {
            Some(failure) => Err(failure),
            None => Ok(sample(&self.stream, finished.last)),
        }
    }
}

fn sample(stream: &Stream, delta: Delta) -> FileSample {
    let mut sample = FileSample { min_ns: u64::MAX, ..FileSample::default() };
    for counters in &stream.counters {
        counters.add_to(&mut sample.counts);
        sample.threads.push(counters.thread());
        sample.min_ns = sample.min_ns.min(counters.take_min_ns());
    }
    sample.latencies = delta.latencies.operations();
    sample.latencies.merge(&delta.latencies.sync);
    sample
}
