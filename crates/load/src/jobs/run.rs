//! All jobs: their stages, their threads, and the rates of their intervals.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use floodwall_model::Moments;

use super::counts::JobCounts;
use super::plan::{JobPlan, Window};
use super::session::Live;
use super::thread::work;
use crate::error::LoadError;

/// How often the jobs are looked at.
const LOOK: Duration = Duration::from_millis(10);

/// A job that ended.
#[derive(Clone, Debug, PartialEq)]
pub struct JobRun {
    /// What it did.
    pub counts: JobCounts,
    /// What ended it before its end.
    pub failure: Option<LoadError>,
}

/// What all jobs have done together since their figures began, for others to read while they run.
#[derive(Debug, Default)]
pub struct Progress {
    requests: AtomicU64,
    bytes: AtomicU64,
}

impl Progress {
    /// Reads and writes.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Their bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// What earlier stages have done, and the jobs of this one.
    fn set(&self, before: (u64, u64), lives: &[Live]) {
        let sum = |of: fn(&Live) -> &[AtomicU64; 2]| -> u64 {
            lives.iter().flat_map(of).map(|count| count.load(Ordering::Relaxed)).sum()
        };
        self.requests.store(before.0 + sum(|live| &live.requests), Ordering::Relaxed);
        self.bytes.store(before.1 + sum(|live| &live.bytes), Ordering::Relaxed);
    }
}

/// Runs all jobs, and waits for them. Their files are laid out before. Raising `stop` ends them:
/// requests that began are waited for. A job that fails ends alone.
///
/// # Errors
/// [`LoadError::Thread`].
pub fn run(
    plans: &[JobPlan],
    stop: &AtomicBool,
    progress: &Progress,
) -> Result<Vec<JobRun>, LoadError> {
    let mut runs: Vec<Option<JobRun>> = plans.iter().map(|_| None).collect();
    let mut stages: Vec<u32> = plans.iter().map(|plan| plan.stage).collect();
    stages.sort_unstable();
    stages.dedup();
    for stage in stages {
        let numbers: Vec<usize> = (0..plans.len()).filter(|at| plans[*at].stage == stage).collect();
        let done = run_stage(plans, &numbers, stop, progress)?;
        for (at, run) in numbers.into_iter().zip(done) {
            runs[at] = Some(run);
        }
    }
    Ok(runs.into_iter().flatten().collect())
}

fn run_stage(
    plans: &[JobPlan],
    numbers: &[usize],
    stop: &AtomicBool,
    progress: &Progress,
) -> Result<Vec<JobRun>, LoadError> {
    let before = (progress.requests(), progress.bytes());
    let lives: Vec<Live> = numbers.iter().map(|_| Live::default()).collect();
    // Whether the jobs of a group shall end.
    let ended: BTreeMap<u32, AtomicBool> = numbers
        .iter()
        .map(|number| (plans[*number].group, AtomicBool::new(stop.load(Ordering::Relaxed))))
        .collect();
    let end_all = || ended.values().for_each(|ended| ended.store(true, Ordering::Relaxed));
    thread::scope(|scope| {
        let mut handles = Vec::new();
        for (number, live) in numbers.iter().zip(&lives) {
            let plan = &plans[*number];
            let is_ended = &ended[&plan.group];
            let job = move || {
                let result = catch_unwind(AssertUnwindSafe(|| work(plan, live, is_ended)));
                live.is_done.store(true, Ordering::Relaxed);
                if plan.ends_all {
                    is_ended.store(true, Ordering::Relaxed);
                }
                result.unwrap_or_else(|_| (JobCounts::default(), Err(LoadError::Panicked)))
            };
            let name = format!("fw-job-{number}");
            match thread::Builder::new().name(name).spawn_scoped(scope, job) {
                Ok(handle) => handles.push(handle),
                Err(e) => {
                    // The scope waits for those that did start.
                    end_all();
                    let errno = rustix::io::Errno::from_io_error(&e);
                    return Err(LoadError::Thread {
                        errno: errno.unwrap_or(rustix::io::Errno::AGAIN),
                    });
                }
            }
        }
        let mut samplers: Vec<Sampler> =
            numbers.iter().map(|number| Sampler::new(plans[*number].window)).collect();
        while !lives.iter().all(|live| live.is_done.load(Ordering::Relaxed)) {
            if stop.load(Ordering::Relaxed) {
                end_all();
            }
            thread::sleep(LOOK);
            let now = Instant::now();
            lives.iter().zip(&mut samplers).for_each(|(live, sampler)| sampler.look(live, now));
            progress.set(before, &lives);
        }
        progress.set(before, &lives);
        let joined = handles.into_iter().zip(samplers).map(|(handle, sampler)| {
            let (mut counts, result) =
                handle.join().unwrap_or_else(|_| (JobCounts::default(), Err(LoadError::Panicked)));
            for (at, direction) in counts.directions.iter_mut().enumerate() {
                direction.rates = sampler.rates[at];
                direction.request_rates = sampler.request_rates[at];
            }
            JobRun { counts, failure: result.err() }
        });
        Ok(joined.collect())
    })
}

/// The rates of a job's intervals. An interval in which no request ended is left out.
#[derive(Default)]
struct Sampler {
    window: Option<Window>,
    /// When the intervals of bytes and of requests began.
    since: [Option<Instant>; 2],
    bytes: [u64; 2],
    requests: [u64; 2],
    rates: [Moments; 2],
    request_rates: [Moments; 2],
}

impl Sampler {
    fn new(window: Option<Window>) -> Self {
        Self { window, ..Self::default() }
    }

    fn look(&mut self, live: &Live, now: Instant) {
        let (Some(window), Some(begin)) = (self.window, live.counted_from.get()) else { return };
        let [bytes_since, requests_since] = self.since.map(|since| since.unwrap_or(*begin));
        self.since = [Some(bytes_since), Some(requests_since)];
        let spent = now.saturating_duration_since(bytes_since);
        if spent + LOOK >= window.bytes {
            self.since[0] = Some(now);
            for at in 0..2 {
                let done = live.bytes[at].load(Ordering::Relaxed);
                let more = done - std::mem::replace(&mut self.bytes[at], done);
                if more > 0 {
                    self.rates[at].record((more as f64 / spent.as_secs_f64() / 1024.0) as u64);
                }
            }
        }
        let spent = now.saturating_duration_since(requests_since);
        if spent + LOOK >= window.requests {
            self.since[1] = Some(now);
            for at in 0..2 {
                let done = live.requests[at].load(Ordering::Relaxed);
                let more = done - std::mem::replace(&mut self.requests[at], done);
                if more > 0 {
                    self.request_rates[at].record((more as f64 / spent.as_secs_f64()) as u64);
                }
            }
        }
    }
}
