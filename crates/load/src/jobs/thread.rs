//! A job's thread: its passes, by plain calls or by a ring, and its end.
//!
//! ```text
//! delay ─▶ open ─▶ pass: (sync │ wait for the rate, read │ write) … ─ syncs at the end ─▶ close
//!                   ▲       until its bytes are done, its time is up, or it is told to stop
//!                   └─────── next pass
//! ```

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use rustix::fs::{self as rfs, Advice, Mode, OFlags};

use super::counts::JobCounts;
use super::plain::Plain;
use super::plan::JobPlan;
use super::queue::Queue;
use super::session::{Live, Session};
use crate::error::LoadError;
use crate::file::NamedFile;
use crate::pace::sleep_until;

/// Of a file that is made, before the mask of the process.
const MODE: Mode = Mode::from_raw_mode(0o600);

/// How requests are made.
enum Engine {
    Plain(Plain),
    Queue(Box<Queue>),
}

/// The whole job.
pub(super) fn work(
    plan: &JobPlan,
    live: &Live,
    stop: &AtomicBool,
) -> (JobCounts, Result<(), LoadError>) {
    if !plan.delay.is_zero() && !sleep_until(Instant::now() + plan.delay, stop) {
        return (JobCounts::default(), Ok(()));
    }
    let mut session = Session::new(plan, live, stop);
    let result = passes(&mut session);
    session.close();
    (session.counts, result)
}

fn passes(session: &mut Session<'_>) -> Result<(), LoadError> {
    let plan = session.plan;
    session.files =
        plan.files.iter().map(|file| open(plan, &file.path)).collect::<Result<_, _>>()?;
    let mut engine = match plan.depth {
        Some(depth) => Engine::Queue(Box::new(Queue::new(plan, depth)?)),
        None => Engine::Plain(Plain::new(plan)),
    };
    let mut passes = 0;
    loop {
        // A pass begins with its files, in its time, as fio opens them for each.
        session.begin_pass();
        advise(session)?;
        let before = session.order.issued;
        let done = match &mut engine {
            Engine::Plain(plain) => plain.pass(session),
            Engine::Queue(queue) => queue.pass(session),
        };
        passes += 1;
        let synced = done.and_then(|()| end_pass(session));
        session.count_time();
        synced?;
        let goes_on = match plan.bytes {
            _ if plan.is_timed => true,
            Some(_) => !session.order.is_complete(),
            None => passes < plan.loops,
        };
        let is_idle = session.order.issued == before;
        if !goes_on || is_idle || session.is_over(Instant::now()) {
            break;
        }
    }
    Ok(())
}

/// What the kernel may know of the pass to come.
fn advise(session: &Session<'_>) -> Result<(), LoadError> {
    for file in &session.files {
        if session.plan.drops_cache {
            file.evict(0, 0)?;
        }
        file.expect(if session.plan.is_random { Advice::Random } else { Advice::Sequential })?;
    }
    Ok(())
}

/// Syncs that are a part of the pass, though not of its figures.
fn end_pass(session: &Session<'_>) -> Result<(), LoadError> {
    let plan = session.plan;
    let has_end = plan.writes && (plan.sync_at_end || plan.sync_on_close);
    if has_end { session.files.iter().try_for_each(NamedFile::sync) } else { Ok(()) }
}

fn open(plan: &JobPlan, path: &Path) -> Result<NamedFile, LoadError> {
    let access = if plan.writes { OFlags::RDWR | OFlags::CREATE } else { OFlags::RDONLY };
    let fd = rfs::open(path, access | plan.flags | OFlags::CLOEXEC, MODE)
        .map_err(|e| LoadError::io("open", path, e))?;
    Ok(NamedFile { fd, path: path.to_owned() })
}
