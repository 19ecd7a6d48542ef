//! Turns wanted values into writes, and gives the administrator's values back.
//!
//! The administrator's value of every written knob is remembered. A knob that is no longer wanted
//! gets that value back. A knob that does not read the written value belongs to another program
//! from then on: the guard neither writes it nor takes it back. A limit or priority that has gone
//! needs nothing back. One that can't be read is still the guard's, and is taken back later.
//!
//! Two knobs move others. A new elevator brings its number of requests and its tunables; bfq also
//! switches writeback throttling off. A new number of requests moves some tunables. Moved knobs are
//! read once the change is in force. They are put back with the knob that moved them.

mod elevator;
mod failures;
mod passing;
mod theirs;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use floodwall_model::plant::{KnobWrite, Plant, PlantError};
use floodwall_model::setting::{is_passing, is_priority};
use floodwall_model::{DeviceId, Setting};

use crate::report::Report;

/// The knob that moves most others, and the other that moves some.
const ELEVATOR: &str = "scheduler";
const REQUESTS: &str = "nr_requests";

/// A device's knobs.
#[derive(Clone, Debug)]
pub(crate) struct Held {
    /// The administrator's values, as they were read first.
    own: Setting,
    /// Written values, until the administrator's value is back.
    written: BTreeMap<String, Written>,
    /// Knobs that moved along with a written one, with the values that they read since. Those are
    /// not the administrator's.
    moved: BTreeMap<String, String>,
    /// A knob that moves others was written, and the moved ones have not been read yet.
    unread: bool,
    /// Knobs that were refused, or that another program has set.
    left_alone: BTreeSet<String>,
    /// Of these, the knobs that another program has set.
    theirs: BTreeSet<String>,
    /// Of these, the knobs that were yielded: they are not taken again, whatever the encounter.
    yielded: BTreeSet<String>,
    /// The administrator's elevator was put back, and the knobs that came with it have not been
    /// read yet.
    elevator_back: bool,
    /// Writes that failed after the plant had accepted them. Their knobs have not been read since.
    failed: Vec<(KnobWrite, PlantError)>,
    /// Knobs whose write failed with [`PlantError::Lost`]: how often, and when it is tried again.
    later: BTreeMap<String, (u32, Duration)>,
    /// How often taking back a knob has failed after the plant had accepted the write.
    late: BTreeMap<String, u32>,
    /// Elevators that this kernel or device does not have.
    unknown: BTreeSet<String>,
    /// Control groups whose limits have been read in this encounter, and when.
    groups: BTreeMap<String, Duration>,
    /// Written limits and priorities that could not be read at the last look at all knobs, and
    /// why.
    unreadable: BTreeMap<String, String>,
    /// When the priorities of processes were last looked for.
    met: Duration,
    /// When the written limits and priorities were last read again.
    checked: Duration,
}

/// A knob that was written.
#[derive(Clone, Debug)]
struct Written {
    value: String,
    /// How often taking it back has failed, and when that is tried again.
    failures: u32,
    again: Duration,
}

/// One write of a knob.
struct Change {
    knob: String,
    value: String,
    /// Whether it gives the administrator's value back.
    back: bool,
}

fn follows_elevator(knob: &str) -> bool {
    knob == REQUESTS || knob == "wbt_lat_usec" || knob.starts_with("iosched.")
}

/// A knob's place among the writes of one moment: the elevator before the knobs that it moves, the
/// limit before it becomes strict.
fn order(knob: &str) -> u32 {
    match knob {
        ELEVATOR => 0,
        REQUESTS => 1,
        // A group's dirty limit before its rate: else its writes fill the machine's limit.
        knob if knob.ends_with(":memory.high") => 1,
        // At once: the elevator's write waits for the queue to run dry.
        knob if is_priority(knob) => 0,
        knob if knob.starts_with("iosched.") => 3,
        "bdi.strict_limit" => 4,
        _ => 2,
    }
}

/// Whether a knob reads the value that could not be written to it.
fn reads_as<P: Plant + ?Sized>(plant: &mut P, write: &KnobWrite) -> bool {
    let knobs = plant.knobs().ok();
    let device = write.device.and_then(|id| knobs.as_ref()?.devices.get(&id));
    device.and_then(|setting| setting.get(&write.knob)) == Some(write.value.as_str())
}

impl Held {
    pub(crate) fn new(own: Setting) -> Self {
        Self {
            own,
            written: BTreeMap::new(),
            moved: BTreeMap::new(),
            unread: false,
            left_alone: BTreeSet::new(),
            theirs: BTreeSet::new(),
            yielded: BTreeSet::new(),
            elevator_back: false,
            failed: Vec::new(),
            later: BTreeMap::new(),
            late: BTreeMap::new(),
            unknown: BTreeSet::new(),
            groups: BTreeMap::new(),
            unreadable: BTreeMap::new(),
            met: Duration::ZERO,
            checked: Duration::ZERO,
        }
    }

    /// The administrator's values.
    pub(crate) fn own(&self) -> &Setting {
        &self.own
    }

    #[cfg(test)]
    pub(crate) fn put(&mut self, knob: &str, value: &str) {
        let written = Written { value: value.to_owned(), failures: 0, again: Duration::ZERO };
        self.written.insert(knob.to_owned(), written);
    }

    /// Whether any written knob is not back yet.
    pub(crate) fn holds(&self) -> bool {
        !self.written.is_empty() || self.unread
    }

    /// The written value of a knob, while it is in force.
    pub(crate) fn written(&self, knob: &str) -> Option<&str> {
        self.written.get(knob).map(|w| w.value.as_str())
    }

    /// Whether the guard may write a knob: it exists and is not left alone.
    pub(crate) fn has(&self, knob: &str) -> bool {
        self.own.get(knob).is_some() && !self.left_alone.contains(knob)
    }

    /// The device was gone and is back, with these values. Knobs that still read the guard's value
    /// are taken back later. The other values count as the administrator's.
    pub(crate) fn returned(&mut self, reads: &Setting) {
        // A limit or priority that is missing may be unreadable: it is looked at again soon.
        let is_held = |knob: &String, written: &Written| match reads.get(knob) {
            Some(value) => value == written.value,
            None => is_passing(knob),
        };
        self.written.retain(|knob, written| is_held(knob, written));
        self.moved.retain(|knob, value| reads.get(knob) == Some(value.as_str()));
        self.unread = false;
        for (knob, value) in &reads.0 {
            if !self.written.contains_key(knob) && !self.moved.contains_key(knob) {
                self.own.0.insert(knob.clone(), value.clone());
            }
        }
    }

    /// Writes the knobs whose wanted value is not in force. Not to be called while a change of the
    /// queue is pending.
    pub(crate) fn act<P: Plant + ?Sized>(
        &mut self,
        plant: &mut P,
        device: DeviceId,
        now: Duration,
        wanted: &BTreeMap<String, String>,
        report: &mut Report,
    ) -> Result<(), PlantError> {
        self.failed.extend(plant.failures(device));
        if !self.unread && self.failed.is_empty() && self.changes(now, wanted).is_empty() {
            return Ok(());
        }
        let Some(reads) = self.read(plant, device, now, report)? else { return Ok(()) };
        for change in self.changes(now, wanted) {
            self.write(plant, device, now, &reads, change, report);
        }
        Ok(())
    }

    /// Reads a device's knobs and learns from them what became of earlier writes. `None` if the
    /// device is gone.
    fn read<P: Plant + ?Sized>(
        &mut self,
        plant: &mut P,
        device: DeviceId,
        now: Duration,
        report: &mut Report,
    ) -> Result<Option<Setting>, PlantError> {
        let Some(mut reads) = plant.knobs()?.devices.remove(&device) else { return Ok(None) };
        self.find_unreadable(plant, device, &mut reads)?;
        self.learn_failures(now, &reads, report);
        if std::mem::take(&mut self.unread) {
            self.read_what_moved(&reads);
        }
        if let Some(elevator) = reads.get(ELEVATOR).filter(|_| self.theirs.contains(ELEVATOR)) {
            // The program that has it may change it at any time.
            self.own.0.insert(ELEVATOR.to_owned(), elevator.to_owned());
        }
        Ok(Some(reads))
    }

    /// Takes everything back at once, with the knobs that came with the guard's elevator. Reports
    /// the knobs that could not be taken back.
    pub(crate) fn release<P: Plant + ?Sized>(
        &mut self,
        plant: &mut P,
        device: DeviceId,
        report: &mut Report,
    ) -> Result<(), PlantError> {
        self.failed.extend(plant.failures(device));
        if self.failed.is_empty() && self.moved.is_empty() && !self.holds() {
            return Ok(());
        }
        // A device that is gone has no knobs to take back.
        let Some(reads) = self.read(plant, device, Duration::ZERO, report)? else { return Ok(()) };
        // The number of requests that an earlier release gave back has moved these back.
        self.moved.retain(|knob, _| reads.get(knob) != self.own.get(knob));
        let elevator = self.written.contains_key(ELEVATOR);
        self.written.values_mut().for_each(|w| w.again = Duration::ZERO);
        // The elevator first. Values that another program has set are found before the elevator
        // overwrites them, and are set again.
        let first =
            self.changes(Duration::MAX, &BTreeMap::new()).into_iter().find(|c| c.knob == ELEVATOR);
        if let Some(change) = first {
            self.write(plant, device, Duration::ZERO, &reads, change, report);
        }
        let mut changes = self.changes(Duration::MAX, &BTreeMap::new());
        changes.retain(|c| c.knob != ELEVATOR);
        for (knob, value) in
            self.own.0.iter().filter(|(knob, _)| elevator && follows_elevator(knob))
        {
            if !changes.iter().any(|c| c.knob == *knob) {
                changes.push(Change { knob: knob.clone(), value: value.clone(), back: true });
            }
        }
        changes.sort_by_key(|c| order(&c.knob));
        for change in changes {
            if self.written.contains_key(&change.knob) || self.moved.contains_key(&change.knob) {
                self.write(plant, device, Duration::ZERO, &reads, change, report);
            } else {
                let write =
                    KnobWrite { device: Some(device), knob: change.knob, value: change.value };
                // The guard did not write this knob itself. It is reported only if its value stays
                // wrong.
                match plant.write(&write) {
                    Ok(()) => report.writes.push(write),
                    Err(_) if reads_as(plant, &write) => {}
                    Err(error) => report.left_alone.push(error),
                }
            }
        }
        (self.unread, self.elevator_back) = (false, false);
        Ok(())
    }

    fn write<P: Plant + ?Sized>(
        &mut self,
        plant: &mut P,
        device: DeviceId,
        now: Duration,
        reads: &Setting,
        change: Change,
        report: &mut Report,
    ) {
        let Change { knob, value, back } = change;
        let write = KnobWrite { device: Some(device), knob: knob.clone(), value };
        if knob == ELEVATOR {
            self.find_theirs(device, reads, report);
            if !back && self.would_overwrite() {
                return;
            }
        }
        // An elevator's change before this one may have found that it is theirs.
        if !back && self.theirs.contains(&knob) {
            return;
        }
        if is_passing(&knob) && reads.get(&knob).is_none() {
            let Some(why) = self.unreadable.get(&knob) else {
                self.lose(&knob);
                return;
            };
            let error = PlantError::Lost { what: knob.clone(), why: why.clone() };
            if back {
                self.could_not_take_back(&knob, now, error, report);
            } else {
                self.not_written(write, now, error, report);
            }
            return;
        }
        if let Some(why) = self.somebody_elses(&knob, reads) {
            self.leave_to_them(write, reads, why, report);
            return;
        }
        match plant.write(&write) {
            Ok(()) => {
                self.unread |= knob == ELEVATOR || knob == REQUESTS;
                self.moved.remove(&knob);
                self.later.remove(&knob);
                if back {
                    self.elevator_back |= knob == ELEVATOR;
                    self.written.remove(&knob);
                } else {
                    let written =
                        Written { value: write.value.clone(), failures: 0, again: Duration::ZERO };
                    self.late.remove(&knob);
                    self.written.insert(knob, written);
                }
                report.writes.push(write);
            }
            Err(_) if back && knob == REQUESTS && self.written.contains_key(ELEVATOR) => {
                // The guard's elevator may not take the administrator's number of requests. That
                // number comes back with the administrator's elevator.
                if let Some(written) = self.written.remove(&knob) {
                    self.moved.insert(knob, written.value);
                }
            }
            Err(error) if back => self.could_not_take_back(&knob, now, error, report),
            Err(error) => self.not_written(write, now, error, report),
        }
    }

    /// The value that a knob should read if no other program has set it.
    fn expected(&self, knob: &str) -> Option<&str> {
        self.written(knob).or(self.moved.get(knob).map(String::as_str)).or(self.own.get(knob))
    }

    /// Reads the knobs that moved with a change of the elevator or of the number of requests.
    fn read_what_moved(&mut self, reads: &Setting) {
        self.moved.retain(|knob, _| reads.get(knob).is_some());
        let elevator_back = std::mem::take(&mut self.elevator_back);
        for (knob, value) in reads.0.iter().filter(|(knob, _)| follows_elevator(knob)) {
            // Another program's value comes back with the administrator's elevator alone.
            let is_theirs = self.left_alone.contains(knob) && !elevator_back;
            if self.written.contains_key(knob) || is_theirs {
                continue;
            }
            match self.own.get(knob) {
                Some(own) if own == value => self.moved.remove(knob),
                _ => self.moved.insert(knob.clone(), value.clone()),
            };
        }
    }

    /// Knobs to write, in an order in which each takes effect.
    fn changes(&self, now: Duration, wanted: &BTreeMap<String, String>) -> Vec<Change> {
        let own = |knob: &str| self.own.get(knob).map(str::to_owned);
        let mut changes = Vec::new();
        let mut add = |knob: &str, value: String, back: bool| {
            changes.push(Change { knob: knob.to_owned(), value, back });
        };
        let no_more =
            |(knob, w): &(&String, &Written)| !wanted.contains_key(*knob) && w.again <= now;
        for (knob, _) in self.written.iter().filter(no_more) {
            if let Some(value) = own(knob) {
                add(knob, value, true);
            }
        }
        for (knob, value) in wanted {
            let there = self
                .written(knob)
                .or_else(|| self.own.get(knob).filter(|_| !self.moved.contains_key(knob)));
            let is_later = self.later.get(knob).is_some_and(|(_, again)| *again > now);
            if !self.left_alone.contains(knob) && !is_later && there != Some(value) {
                add(knob, value.clone(), false);
            }
        }
        let elevator =
            changes.iter().find(|c: &&Change| c.knob == ELEVATOR).map(|c| c.value.clone());
        if elevator.is_some() {
            // A new elevator resets the number of requests and throttling: they are written again.
            for knob in [REQUESTS, "wbt_lat_usec"] {
                if let (Some(value), false) =
                    (wanted.get(knob), changes.iter().any(|c| c.knob == knob))
                    && !self.left_alone.contains(knob)
                    && !self.later.contains_key(knob)
                {
                    changes.push(Change {
                        knob: knob.to_owned(),
                        value: value.clone(),
                        back: false,
                    });
                }
            }
        } else if !self.written.contains_key(ELEVATOR) {
            // The administrator's elevator is in force. Moved knobs go back, unless the guard's
            // number of requests is still in force: it would move them again.
            let held = self.written.contains_key(REQUESTS);
            for knob in self
                .moved
                .keys()
                .filter(|knob| !wanted.contains_key(*knob) && (!held || *knob == REQUESTS))
            {
                if let Some(value) = own(knob) {
                    changes.push(Change { knob: knob.clone(), value, back: true });
                }
            }
        }
        // The strict limit is set last, and taken away first.
        changes.sort_by_key(|c| {
            if c.back && c.knob == "bdi.strict_limit" { 0 } else { 1 + order(&c.knob) }
        });
        changes
    }
}
