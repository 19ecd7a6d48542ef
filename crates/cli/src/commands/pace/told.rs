//! Lines about a paced command on stderr.

use std::time::{Duration, Instant};

use floodwall_host::SysRoot;
use floodwall_host::blocked::read_blocked;
use floodwall_model::Rate;
use floodwall_model::units::human_duration;
use floodwall_pace::{Pacer, State, Status};

use crate::output::notice;

/// Time between two lines of `--status`.
const EVERY: Duration = Duration::from_secs(2);

/// Processes that are named at most.
const NAMED: usize = 3;

/// Why it is as fast as it is now. `waiters` are the processes that wait for some disk.
pub(super) fn why(status: &Status, disk: Option<&str>, waiters: &[String]) -> String {
    let disk = disk.map_or_else(String::new, |disk| format!(" for {disk}"));
    let others = match waiters {
        [] => "others".to_owned(),
        names => names[..names.len().min(NAMED)].join(", "),
    };
    match status.state {
        State::Alone => format!("nobody else waits{disk}"),
        State::Listening => format!("silent for a moment, to hear who waits{disk}"),
        State::Yielding => {
            let waits = status.wait_ratio.map_or_else(String::new, |ratio| {
                format!(" {ratio:.1} times as long as without it")
            });
            let wait = if waiters.len() == 1 { "waits" } else { "wait" };
            format!("yielding: {others} {wait}{disk}{waits}")
        }
    }
}

/// The processes that wait for some disk, while the command yields.
fn waiters(status: &Status) -> Vec<String> {
    let own = rustix::process::getpgrp().as_raw_nonzero().get();
    match SysRoot::live() {
        Ok(root) if status.state == State::Yielding => read_blocked(&root, own),
        _ => Vec::new(),
    }
}

/// A line every two seconds.
pub(super) struct Told<'a> {
    pacer: &'a Pacer,
    last: Option<(Instant, u64)>,
}

impl<'a> Told<'a> {
    pub(super) fn new(pacer: &'a Pacer) -> Self {
        Self { pacer, last: None }
    }

    /// Takes the bytes so far, and prints a line if one is due.
    pub(super) fn at(&mut self, bytes: u64) {
        let now = Instant::now();
        let Some((since, before)) = self.last else {
            self.last = Some((now, bytes));
            return;
        };
        let elapsed = now - since;
        if elapsed >= EVERY {
            let rate = Rate(bytes.saturating_sub(before) as f64 / elapsed.as_secs_f64());
            let status = self.pacer.status();
            let waiters = waiters(&status);
            notice(&format!("pace: {rate}; {}", why(&status, self.pacer.disk(), &waiters)));
            self.last = Some((now, bytes));
        }
    }
}

/// The part of a summary about others: `; others waited for sda in 12 s of it`.
pub(super) fn yielded(pacer: &Pacer) -> String {
    let time = pacer.status().yielded;
    if time < Duration::from_secs(1) {
        return String::new();
    }
    let disk = pacer.disk().map_or_else(String::new, |disk| format!(" for {disk}"));
    format!("; others waited{disk} in {} of it", human_duration(time))
}
