//! The guard's state, asked for while a window lasts. A guard that hangs holds nothing up.

use std::sync::mpsc::{Receiver, TryRecvError};

use floodwall_daemon::document::{Device, HeldKnob, Status};
use floodwall_model::frame::{Guard, GuardedDisk};

use super::round::rounded;
use crate::commands::look::{Guarded, ask_guard, in_background};

/// The guard, if it is known: `Some(None)` if none runs, `None` if one did not answer.
type Known = Option<Option<Guard>>;

/// Asks a guard in the background, one question at a time.
pub(super) struct GuardWatch {
    may_ask: bool,
    asked: Option<Receiver<Known>>,
    last: Known,
}

impl GuardWatch {
    /// Nothing is asked yet. Only root may ask; others are told of no guard.
    pub(super) fn new(may_ask: bool) -> Self {
        Self { may_ask, asked: None, last: if may_ask { None } else { Some(None) } }
    }

    /// Asks, unless an earlier question is still open.
    pub(super) fn ask(&mut self) {
        if self.may_ask && self.asked.is_none() {
            self.asked = Some(in_background(guard));
        }
    }

    /// The guard by its last answer, if one runs, and the disks that it steers.
    pub(super) fn by_now(&mut self) -> (Option<&Guard>, Guarded) {
        match self.asked.as_ref().map(Receiver::try_recv) {
            Some(Ok(guard)) => (self.last, self.asked) = (guard, None),
            Some(Err(TryRecvError::Disconnected)) => (self.last, self.asked) = (None, None),
            Some(Err(TryRecvError::Empty)) | None => {}
        }
        let steers =
            self.last.as_ref().map(|guard| guard.as_ref().map(steered).unwrap_or_default());
        (self.last.as_ref().and_then(Option::as_ref), Guarded::Known(steers))
    }
}

/// The disks that a guard steers. One that only rehearses steers none.
fn steered(guard: &Guard) -> Vec<String> {
    let disks = guard.disks.iter().filter(|_| !guard.dry_run);
    disks.map(|disk| disk.name.clone()).collect()
}

fn guard() -> Known {
    ask_guard().map(|status| status.as_deref().map(as_frame))
}

fn as_frame(status: &Status) -> Guard {
    let paused_s = |left_s: Option<f64>| left_s.unwrap_or(0.0).round() as u64;
    Guard {
        mode: status.mode.clone(),
        dry_run: status.dry_run,
        paused_s: status.paused.as_ref().map(|paused| paused_s(paused.left_s)),
        disks: status.devices.iter().map(disk).collect(),
        left_out: status.left_out.iter().map(|one| format!("{}: {}", one.name, one.why)).collect(),
    }
}

fn disk(device: &Device) -> GuardedDisk {
    let changed = device.held.iter().filter(|knob| knob.is_changed());
    GuardedDisk {
        name: device.name.clone(),
        state: device.state.clone(),
        since_s: device.since_s as u64,
        goal_us: device.goal_us as u64,
        pressure_percent: device.pressure.map(|share| rounded(100.0 * share)),
        levers: device.levers.clone(),
        last: device.last.as_ref().map(|entry| entry.why.clone()),
        held: changed.map(held).chain(device.raised.iter().cloned()).collect(),
    }
}

/// `nr_requests 8 (yours: 64)`.
fn held(knob: &HeldKnob) -> String {
    let HeldKnob { knob, value, own } = knob;
    match own {
        Some(own) => format!("{knob} {value} (yours: {own})"),
        None => format!("{knob} {value}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn a_guard_that_hangs_is_asked_once_and_is_not_taken_for_none() {
        let (hangs, open) = mpsc::sync_channel(1);
        let known = Guard { mode: "protect".into(), ..Guard::default() };
        let last = Some(Some(known.clone()));
        let mut watch = GuardWatch { may_ask: true, asked: Some(open), last };
        watch.ask();
        assert_eq!(watch.by_now().0, Some(&known));
        hangs.send(None).unwrap();
        assert!(matches!(watch.by_now(), (None, Guarded::Known(None))));
        assert!(watch.asked.is_none());
        let is_none = |(guard, steers): (Option<&Guard>, Guarded)| {
            guard.is_none() && steers.by_now() == Some(vec![])
        };
        watch.last = Some(None);
        assert!(is_none(watch.by_now()));
        assert!(is_none(GuardWatch::new(false).by_now()));
    }

    #[test]
    fn a_guard_that_only_rehearses_steers_nothing() {
        let disks = vec![GuardedDisk { name: "sda".into(), ..GuardedDisk::default() }];
        let guard = Guard { disks, ..Guard::default() };
        assert_eq!(steered(&guard), ["sda"]);
        assert!(steered(&Guard { dry_run: true, ..guard }).is_empty());
    }
}
