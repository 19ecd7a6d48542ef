//! A command from its start to its end.

use std::io::pipe;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use floodwall_host::SysRoot;
use rustix::io::Errno;
use rustix::process::{
    Pid, WaitOptions, WaitStatus, child_subreaper, getpid, kill_process, set_child_subreaper,
    waitpid,
};

use super::drain::Drain;
use super::engine::{Engine, Parts};
use super::error::{CommandError, status_of};
use super::group::Group;
use super::group::limits::keep;
use super::guardian::Guardian;
use super::hold::{Hold, lock, watch};
use super::look::{Ended, Look};
use super::nested::{OUTER, is_nested};
use super::roots::roots;
use super::signals::{Came, Signals};
use super::start::{Paced, Reach, start};
use super::strict::{Strict, Supervisor};
use super::sys::default_effect;
use super::tree::Tree;
use crate::pacer::Pacer;

/// Time between two looks at the data that an ended command left dirty.
const REST: Duration = Duration::from_millis(5);
/// A signal has asked a command to end if it ends within this time.
const ASKED: Duration = Duration::from_secs(2);
/// The longest sleep while an outer pace paces.
const LONG: Duration = Duration::from_secs(1);

/// Runs a command, and paces its writes to the files in `reach`. `report` is called at every look,
/// up to a few hundred times a second. It may change the pacer's disk, and with it `reach`.
///
/// The command has the terminal, standard files, process group and environment of this process.
/// When the command has ended, its last data is written back at the same pace. A signal leaves that
/// to the kernel. Then this returns. Processes that the command leaves behind run on unpaced. So
/// does a thread of this process, if the disk does not answer ([`Ended::has_pieces_under_way`]).
///
/// `signals.rs` lists the effects of signals. Afterwards they have no effect on this process.
///
/// # Errors
/// [`CommandError`] if the command can't be started, or if a signal came before.
pub fn run(
    paced: &Paced<'_>,
    pacer: &Arc<Pacer>,
    root: &SysRoot,
    reach: Reach<'_>,
    report: &mut dyn FnMut(&Look<'_>),
) -> Result<Ended, CommandError> {
    let (begin, own) = (Instant::now(), getpid());
    let signals = Signals::catch().map_err(CommandError::Signals)?;
    if is_nested(root, paced.outer, own.as_raw_pid().unsigned_abs()) {
        let status = only_run(paced, &signals)?;
        let seconds = begin.elapsed().as_secs_f64();
        return Ok(Ended { status, seconds, ..Ended::default() });
    }
    let _subreaper = Subreaper::begin(own);
    // First, since a group with another process in it passes no controllers on.
    let group = Group::make(root, &pacer.charged(), paced.runtime_directory);
    let group_files = group.as_ref().ok().map(Group::files);
    let guardian = Guardian::spawn(group_files).ok();
    let strict = match paced.strict {
        Some(keeper) => Some(Strict::new(keeper, signals.ring().map_err(CommandError::Signals)?)?),
        None => None,
    };
    let strict = strict.as_ref();
    // The guardian and the keeper are no part of the command.
    let tree = Tree::below(root, own.as_raw_pid());
    let (sender, ranges) = channel();
    let drain = Arc::new(Drain::default());
    let drained = drain.spawn(pacer, ranges).map_err(CommandError::Thread)?;
    let (working, finished) = channel::<()>();
    let ((listener, listeners), (ends, ended)) = (channel(), channel());
    let (limited, unlimited) = channel::<()>();
    let hold = Mutex::new(Hold::new(&tree, guardian, group_files));
    let group = group.as_ref().map_err(String::as_str);
    let parts = Parts { root, own, tree: &tree, pacer, drain: &drain, reach, strict, group };
    let roots = roots(paced.arguments, std::env::current_dir().ok());
    thread::scope(|scope| {
        let (drain, hold) = (parts.drain, &hold);
        thread::Builder::new()
            .name("fw-pace-watch".into())
            .spawn_scoped(scope, move || watch(hold, &finished))
            .map_err(CommandError::Thread)?;
        if let Some(files) = group_files {
            let is_guarded = || lock(hold).is_guarded();
            thread::Builder::new()
                .name("fw-pace-limit".into())
                .spawn_scoped(scope, move || keep(files, root, pacer, &is_guarded, &unlimited))
                .map_err(CommandError::Thread)?;
        }
        let mut calls = None;
        if let Some(strict) = strict {
            let (end, pipe) = pipe().map_err(CommandError::Pipe)?;
            calls = Some(pipe);
            let is_paced = reach.paced;
            let supervisor = Supervisor { strict, pacer, drain, is_paced, end };
            thread::Builder::new()
                .name("fw-pace-calls".into())
                .spawn_scoped(scope, move || {
                    let _ends = ends;
                    supervisor.run(&listeners);
                })
                .map_err(CommandError::Thread)?;
        }
        let mut engine = Engine::new(parts, sender, hold, &roots);
        let variable = (OUTER, own.to_string());
        let entrance = engine.entrance();
        let started = signals.none_ends().and_then(|()| match strict {
            Some(strict) => strict.start(scope, paced, variable, entrance, listener, ended),
            None => start(paced, Some(variable), entrance.as_ref()),
        });
        let status =
            started.and_then(|command| follow(paced, command, &mut engine, &signals, report));
        let ended_by = match &status {
            Ok(end) if !end.is_asked => write_rest(&mut engine, &signals, report),
            _ => None,
        };
        let seconds = begin.elapsed().as_secs_f64();
        drop(limited);
        drain.close();
        // This drops the sender of the ranges, so the thread ends.
        let totals = engine.end();
        // The keeper continues calls of processes that the command left behind.
        drop(calls);
        drop(working);
        let has_pieces_under_way = !drain.ends(&drained);
        let end = status?;
        let left_bytes = if end.is_asked || ended_by.is_some() { totals.left_bytes } else { 0 };
        let status = ended_by.unwrap_or(end.status);
        Ok(Ended { status, seconds, left_bytes, has_pieces_under_way, ..totals })
    })
}

/// The end of a command.
struct End {
    status: u8,
    /// Whether a signal asked it to end, or ended it.
    is_asked: bool,
}

/// Paces the command to its end.
fn follow(
    paced: &Paced<'_>,
    command: Pid,
    engine: &mut Engine<'_>,
    signals: &Signals,
    report: &mut dyn FnMut(&Look<'_>),
) -> Result<End, CommandError> {
    let mut came = signals.came_before_start();
    engine.begin(command);
    let mut next = Instant::now() + engine.pause();
    let mut asked_at = None;
    loop {
        if !came.passed_on.is_empty() || came.ends.is_some() {
            engine.release();
        }
        if came.asks_to_end().is_some() {
            asked_at = Some(Instant::now());
        }
        pass_on(&came, command);
        if came.stops {
            engine.suspend();
        }
        if let Some(status) = engine.wait_for(command).map_err(|e| waiting(paced, e))? {
            let is_recent = asked_at.is_some_and(|at| at.elapsed() < ASKED);
            let is_asked = is_recent || status.signaled();
            return Ok(End { status: exit_status(status), is_asked });
        }
        if came.is_readable {
            engine.note_open();
        }
        if next <= Instant::now() || engine.is_wanted() || came.is_readable {
            report(&engine.look(command));
            next = Instant::now() + engine.pause();
        }
        let pause = next.saturating_duration_since(Instant::now());
        came = signals.wait_also(pause, engine.next_open());
    }
}

/// Writes back what the ended command left dirty. Returns the status of a shell for the signal that
/// ended that, if one did.
fn write_rest(
    engine: &mut Engine<'_>,
    signals: &Signals,
    report: &mut dyn FnMut(&Look<'_>),
) -> Option<u8> {
    engine.hand_over_rest();
    while !engine.has_written_rest() {
        report(&engine.rest());
        let came = signals.wait(REST);
        if let Some(signal) = came.asks_to_end() {
            return Some(status_of(signal));
        }
        if came.stops {
            engine.suspend();
        }
    }
    None
}

/// Runs the command without pacing it, and returns its status.
fn only_run(paced: &Paced<'_>, signals: &Signals) -> Result<u8, CommandError> {
    signals.none_ends()?;
    let command = start(paced, None, None)?;
    let mut came = signals.came_before_start();
    loop {
        pass_on(&came, command);
        if came.stops {
            default_effect(libc::SIGTSTP);
        }
        let waited = waitpid(Some(command), WaitOptions::NOHANG).map_err(|e| waiting(paced, e))?;
        if let Some((_, status)) = waited {
            return Ok(exit_status(status));
        }
        came = signals.wait(LONG);
    }
}

fn pass_on(came: &Came, command: Pid) {
    for signal in &came.passed_on {
        // The process has not been waited for, so its number is not used again.
        let _ = kill_process(command, *signal);
    }
}

fn waiting(paced: &Paced<'_>, errno: Errno) -> CommandError {
    CommandError::Wait { program: paced.program.to_owned(), errno }
}

/// The status in the form of a shell.
fn exit_status(status: WaitStatus) -> u8 {
    let code = match (status.exit_status(), status.terminating_signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => 1,
    };
    u8::try_from(code).unwrap_or(u8::MAX)
}

/// Orphans become children of this process instead of init's, as long as this lives.
struct Subreaper {
    was: Option<Pid>,
}

impl Subreaper {
    fn begin(own: Pid) -> Self {
        let was = child_subreaper().unwrap_or_default();
        let _ = set_child_subreaper(Some(own));
        Self { was }
    }
}

impl Drop for Subreaper {
    fn drop(&mut self) {
        let _ = set_child_subreaper(self.was);
    }
}
