//! Lines about a paced command on stderr.

use std::time::{Duration, Instant};

use floodwall_host::SysRoot;
use floodwall_model::Rate;
use floodwall_model::message::first_of;
use floodwall_model::printable::printable;
use floodwall_model::units::human_duration;
use floodwall_pace::{Pacer, State, Status};

use super::guarded::Guarded;
use super::waiters::{Waiters, waiters};
use crate::output::notice;

/// Time between two lines of `--status`.
const EVERY: Duration = Duration::from_secs(2);

/// Processes that are named at most.
const NAMED: usize = 3;

/// The processes that others are.
#[derive(Debug)]
pub(super) enum Others {
    /// Those that wait for the command's disk, by a guard's word.
    Victims(Vec<String>),
    /// Those that were found.
    Found(Waiters),
}

impl Others {
    /// The guard's word if there is any, else none.
    pub(super) fn by_guard(guarded: &Guarded) -> Self {
        match guarded.victims() {
            victims if victims.is_empty() => Self::Found(Waiters::default()),
            victims => Self::Victims(victims),
        }
    }
}

/// Why it is as fast as it is now.
pub(super) fn why(status: &Status, disk: Option<&str>, others: &Others) -> String {
    let on = disk.map_or_else(String::new, |disk| format!(" on {disk}"));
    let disk = disk.map_or_else(String::new, |disk| format!(" for {disk}"));
    let named = |names: &[String]| printable(&first_of(names, NAMED)).into_owned();
    match status.state {
        State::Alone => {
            let most = status.rate.map(|rate| format!("; --max allows {}", Rate(rate)));
            format!("nobody else waits{disk}{}", most.unwrap_or_default())
        }
        State::Fixed => "at the rate of --to, or of --max if that is lower".to_owned(),
        State::Listening => format!("silent for a moment, to hear who waits{disk}"),
        State::Yielding => {
            let waits = status.wait_ratio.map_or_else(String::new, |ratio| {
                format!(" {ratio:.1} times as long as without it")
            });
            match others {
                Others::Victims(names) if waits.is_empty() => {
                    format!("yielding to {}{on}", named(names))
                }
                Others::Victims(names) => {
                    let wait = if names.len() == 1 { "it waits" } else { "they wait" };
                    format!("yielding to {}{on}: {wait}{waits}", named(names))
                }
                Others::Found(Waiters { here, somewhere }) => {
                    let wait = |names: &[String]| if names.len() == 1 { "waits" } else { "wait" };
                    let who = if here.is_empty() { "others".to_owned() } else { named(here) };
                    let else_where = match somewhere.as_slice() {
                        names if names.is_empty() || !here.is_empty() => String::new(),
                        names => format!(" ({} {} for some disk)", named(names), wait(names)),
                    };
                    format!("yielding: {who} {}{disk}{waits}{else_where}", wait(here))
                }
            }
        }
    }
}

/// The lines of `--status`: one every two seconds.
pub(super) struct StatusLines<'a> {
    pacer: &'a Pacer,
    guarded: &'a Guarded,
    last: Option<(Instant, u64)>,
    has_begun: bool,
}

impl<'a> StatusLines<'a> {
    pub(super) fn new(pacer: &'a Pacer, guarded: &'a Guarded) -> Self {
        Self { pacer, guarded, last: None, has_begun: false }
    }

    /// Prints the means that hold a command, once.
    pub(super) fn means(&mut self, means: &str) {
        if !std::mem::replace(&mut self.has_begun, true) {
            notice(&format!("pace: {means}"));
        }
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
            let others = self.others(&status);
            notice(&format!("pace: {rate}; {}", why(&status, self.pacer.disk(), &others)));
            self.last = Some((now, bytes));
        }
    }

    /// The guard's word if there is any, else those that wait while the command yields.
    fn others(&self, status: &Status) -> Others {
        let root = SysRoot::live().ok().filter(|_| status.state == State::Yielding);
        match (Others::by_guard(self.guarded), root, self.pacer.device()) {
            (Others::Found(_), Some(root), Some(disk)) => Others::Found(waiters(&root, disk)),
            (others, ..) => others,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_a_guard_names_are_yielded_to() {
        let status = Status {
            state: State::Yielding,
            rate: None,
            capacity: 1e8,
            wait_ratio: None,
            yielded: Duration::ZERO,
        };
        let names =
            |names: &[&str]| -> Vec<String> { names.iter().map(|&name| name.to_owned()).collect() };
        let of = |ratio, others| why(&Status { wait_ratio: ratio, ..status }, Some("sda"), &others);
        assert_eq!(
            of(None, Others::Victims(names(&["postgres (41)"]))),
            "yielding to postgres (41) on sda"
        );
        assert_eq!(
            of(Some(1.25), Others::Victims(names(&["a (1)", "b (2)", "c (3)", "d (4)"]))),
            "yielding to a (1), b (2), c (3) and 1 more on sda: they wait 1.2 times as long as \
             without it"
        );
        let found = |here: &[&str], somewhere: &[&str]| {
            Others::Found(Waiters { here: names(here), somewhere: names(somewhere) })
        };
        assert_eq!(
            of(Some(3.0), found(&["dd"], &["cp"])),
            "yielding: dd waits for sda 3.0 times as long as without it"
        );
        assert_eq!(of(None, found(&[], &[])), "yielding: others wait for sda");
        let limited = Status { state: State::Alone, rate: Some(1e7), ..status };
        assert_eq!(
            why(&limited, Some("sda"), &found(&[], &[])),
            "nobody else waits for sda; --max allows 10.0 MB/s"
        );
        assert_eq!(
            of(None, found(&[], &["postgres"])),
            "yielding: others wait for sda (postgres waits for some disk)"
        );
    }
}
