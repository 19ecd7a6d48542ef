//! The guard at work: one law over one machine, its decisions with their reasons, and its answers.
//! Everything but time and processes, which are given.
//!
//! ```text
//! tick ─▶ Guard::tick over AuditedPlant ─▶ Report ─▶ history: entries, log, counts, unmet goals
//! a device comes ─▶ memory: looked up in the store     an encounter ends, release ─▶ kept there
//! Question ─▶ Answer: status, history, pause, resume, yield, paced
//! Settings ─▶ another configuration
//! ```

mod audit;
mod history;
mod memory;
mod status;

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use floodwall_guard::{Guard, Level, State};
use floodwall_hwdb::Database;
use floodwall_model::DeviceId;
use floodwall_model::plant::PlantError;
use floodwall_model::units::human_duration;
use floodwall_plant::{DeviceIdentity, Yielded};

use self::audit::AuditedPlant;
use crate::config::Settings;
use crate::document::{Counts, Entry, LeftAlone, Paused};
use crate::learnt::Store;
use crate::log::Priority;
use crate::machine::{Gone, Held, Machine};
use crate::metrics;
use crate::pipe::Pause;
use crate::question::{Answer, Question};
use crate::socket::protocol::{Reply, Request};

/// A goal that victims have not met for so long is one that can't be met: every lever has been
/// tried by then.
const UNMET: Duration = Duration::from_secs(30);

/// Entries of the history in one answer: 16 may ask at a time, and what they are told is held in
/// memory. The log has all.
const MOST_TOLD: usize = 1000;

/// A moment, by both clocks: the one that never jumps for durations, the other for people.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    pub(crate) instant: Instant,
    pub(crate) unix_s: f64,
}

/// The facts that do not change while a worker lives.
#[derive(Clone, Debug)]
pub(crate) struct Origin {
    pub(crate) started: Instant,
    pub(crate) parent_pid: u32,
    pub(crate) restarts: u32,
}

/// When a pause ends by itself.
#[derive(Clone, Copy, Debug)]
struct Until(Option<Instant>);

/// What the device has written lately besides the victims' own data. Each look counts for three
/// quarters of the next one, so that about a second counts.
#[derive(Default)]
struct Flooded {
    bytes: f64,
    seconds: f64,
}

impl Flooded {
    fn add(&mut self, bytes: u64, tick: Duration) {
        const KEPT: f64 = 0.75;
        if tick.is_zero() {
            // The time of the bytes is not known.
            *self = Self::default();
            return;
        }
        self.bytes = KEPT * self.bytes + bytes as f64;
        self.seconds = KEPT * self.seconds + tick.as_secs_f64();
    }

    fn bytes_per_s(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.bytes / self.seconds)
    }
}

/// A device's history.
#[derive(Default)]
struct Record {
    since: Option<Instant>,
    state: State,
    decisions: u64,
    knob_writes: u64,
    last: Option<Entry>,
    flooded: Flooded,
    /// Since when its goal has not been met.
    harmed: Option<Instant>,
    /// It was said in this encounter.
    unmet_said: bool,
}

/// See the [module](self).
pub(crate) struct Controller {
    guard: Guard,
    plant: AuditedPlant,
    settings: Settings,
    origin: Origin,
    paused: Option<Until>,
    /// The law has measured its devices since the last pause.
    is_measured: bool,
    /// Since the parent was told.
    pause_changed: bool,
    records: BTreeMap<DeviceId, Record>,
    history: VecDeque<Entry>,
    left_alone: Vec<LeftAlone>,
    counts: Counts,
    said: Vec<(Priority, String)>,
    /// Knobs that machines could not put back when they were closed.
    not_put_back: usize,
    /// The learnt values of devices; `None` on a simulated machine.
    store: Option<Store>,
    /// Findings of others, by device model.
    others: Database,
    /// The devices' identities; of a device that can't be known again, the reason.
    identities: BTreeMap<DeviceId, Result<DeviceIdentity, String>>,
    /// An encounter has ended since the devices' values were kept.
    encounter_ended: bool,
}

/// In words, if there is anything to say.
fn levers(level: Level) -> Option<String> {
    (!level.is_free()).then(|| level.to_string())
}

/// Held knobs in words.
fn texts(held: &[Held]) -> Vec<String> {
    held.iter().map(ToString::to_string).collect()
}

impl Controller {
    pub(crate) fn new(
        now: Now,
        machine: Box<dyn Machine>,
        settings: Settings,
        origin: Origin,
    ) -> Self {
        let mut controller = Self {
            guard: Guard::new(settings.law()),
            plant: AuditedPlant::new(machine),
            settings,
            origin,
            paused: None,
            is_measured: false,
            pause_changed: false,
            records: BTreeMap::new(),
            history: VecDeque::new(),
            left_alone: Vec::new(),
            counts: Counts::default(),
            said: Vec::new(),
            not_put_back: 0,
            store: None,
            others: Database::default(),
            identities: BTreeMap::new(),
            encounter_ended: false,
        };
        controller.open_store(now);
        controller
    }

    pub(crate) fn machine(&mut self) -> &mut dyn Machine {
        self.plant.machine.as_mut()
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Log lines since the last call.
    pub(crate) fn take_said(&mut self) -> Vec<(Priority, String)> {
        std::mem::take(&mut self.said)
    }

    /// The guard's own log lines.
    pub(crate) fn say(&mut self, now: Now, priority: Priority, why: impl Into<String>) {
        self.keep(priority, Entry { at_unix_s: now.unix_s, why: why.into(), ..Entry::default() });
    }

    fn keep(&mut self, priority: Priority, entry: Entry) {
        self.said.push((priority, entry.line()));
        self.history.push_back(entry);
        self.trim();
    }

    fn trim(&mut self) {
        while self.history.len() > self.settings.history {
            self.history.pop_front();
        }
    }

    /// One look, one thought, and the writes that follow.
    ///
    /// # Errors
    /// [`PlantError::Lost`] if the sensors are lost.
    pub(crate) fn tick(&mut self, now: Now) -> Result<(), PlantError> {
        if let Some(Until(Some(until))) = self.paused
            && now.instant >= until
        {
            self.resume(now, "the pause is over")?;
        }
        let before = Instant::now();
        if self.paused.is_some() {
            self.guard.look(&mut self.plant)?;
            self.tell_news(now);
            if !self.plant.held().is_empty() {
                // The kernel did not take it back at once.
                let report = self.guard.release(&mut self.plant)?;
                self.note(now, report, "paused");
            }
        } else {
            let report = self.guard.tick(&mut self.plant)?;
            self.is_measured = true;
            // A device has come before it is steered.
            self.tell_news(now);
            self.note(now, report, "the levers follow");
            self.watch_goals(now);
        }
        self.counts.ticks.add(before.elapsed().as_secs_f64());
        self.counts.lost_events = self.plant.machine.lost_events();
        self.recall(now);
        if std::mem::take(&mut self.encounter_ended) {
            self.remember(now);
        }
        self.tend_store(now);
        Ok(())
    }

    fn tell_news(&mut self, now: Now) {
        for (priority, news) in self.plant.machine.news() {
            self.say(now, priority, news);
        }
    }

    /// Takes back what was written.
    ///
    /// # Errors
    /// [`PlantError::Lost`] if the knobs can't be read.
    pub(crate) fn release(&mut self, now: Now, why: &str) -> Result<(), PlantError> {
        self.remember(now);
        let report = self.guard.release(&mut self.plant)?;
        self.note(now, report, why);
        for record in self.records.values_mut() {
            (record.state, record.since) = (State::Free, Some(now.instant));
            (record.harmed, record.unmet_said) = (None, false);
            record.flooded = Flooded::default();
        }
        Ok(())
    }

    /// Ends it. The machine is closed; what is to be logged, and how many knobs could not be put
    /// back, also of machines that were closed before.
    pub(crate) fn close(mut self, now: Now) -> (Vec<(Priority, String)>, usize) {
        self.close_machine(now);
        let store = self.store.take().filter(|_| !self.settings.dry_run);
        let failed = store.and_then(|store| store.close(now.instant));
        failed.into_iter().for_each(|why| self.say(now, Priority::Warning, why));
        (self.said, self.not_put_back)
    }

    /// Its pause.
    pub(crate) fn pause_left(&self, now: Now) -> Pause {
        match self.paused {
            None => Pause::None,
            Some(Until(None)) => Pause::Endless,
            Some(Until(Some(until))) => Pause::For(until.saturating_duration_since(now.instant)),
        }
    }

    /// Whether it was paused or resumed and the parent may not know.
    pub(crate) fn pause_changed(&self) -> bool {
        self.pause_changed
    }

    /// The parent knows.
    pub(crate) fn pause_is_told(&mut self) {
        self.pause_changed = false;
    }

    /// Puts everything back and does nothing, for a time or until it is told to resume. `parent` is
    /// told before the first knob is written: should the worker die at it, the next one is paused,
    /// too.
    ///
    /// # Errors
    /// [`PlantError::Lost`] if the knobs can't be read.
    pub(crate) fn pause(
        &mut self,
        now: Now,
        time: Option<Duration>,
        parent: &mut dyn FnMut(Pause),
    ) -> Result<(), PlantError> {
        let for_so_long = time.map_or_else(
            || "until it is told to resume".into(),
            |t| format!("for {}", human_duration(t)),
        );
        let back = if self.settings.dry_run {
            "a dry run has nothing to put back"
        } else {
            "everything goes back"
        };
        let why = format!("paused {for_so_long}: {back}");
        self.say(now, Priority::Notice, &why);
        self.is_measured = false;
        self.paused = Some(Until(time.and_then(|t| now.instant.checked_add(t))));
        self.pause_changed = true;
        parent(self.pause_left(now));
        self.release(now, "paused")?;
        self.note_last(now, &why);
        Ok(())
    }

    /// Leaves a knob to the program that has asked for it, and says so once.
    fn leave(&mut self, now: Now, device: Option<DeviceId>, knob: String) {
        const WHY: &str = "another command has asked for it";
        self.guard.yield_knob(device, &knob);
        self.plant.leave(device, &knob);
        let left = LeftAlone {
            device: device.map(|id| self.plant.machine.name(id)),
            knob: Some(knob),
            why: format!("{WHY}; restart the guard to have it steered again"),
        };
        if !self.left_alone.contains(&left) {
            let place =
                left.device.iter().chain(&left.knob).map(String::as_str).collect::<Vec<_>>();
            self.say(
                now,
                Priority::Notice,
                format!("{}: {WHY}: left alone from now on", place.join(".")),
            );
            self.left_alone.push(left);
        }
    }

    fn resume(&mut self, now: Now, why: &str) -> Result<(), PlantError> {
        self.paused = None;
        self.pause_changed = true;
        let why = format!("resumed: {why}");
        self.say(now, Priority::Notice, &why);
        self.note_last(now, &why);
        // Events of the pause must not count as those of the first tick after it.
        self.guard.look(&mut self.plant)
    }

    /// Applies new settings from the next tick on; settings that are read only at the start are
    /// kept. Returns whether the machine has to be reopened.
    ///
    /// # Errors
    /// [`PlantError::Lost`] if the knobs can't be read.
    pub(crate) fn configure(&mut self, now: Now, mut new: Settings) -> Result<bool, PlantError> {
        let kept = new.keep_fixed(&self.settings);
        // A machine is opened for a dry run or for writing; it can't become the other.
        let opened_for = |s: &Settings| (s.devices.clone(), s.exclude.clone(), s.dry_run);
        let opens_anew = opened_for(&new) != opened_for(&self.settings);
        if opens_anew {
            self.release(now, "another configuration")?;
        }
        self.guard.configure(new.law());
        self.settings = new;
        self.trim();
        let mut text = "the configuration was read again".to_owned();
        if !kept.is_empty() {
            text.push_str(&format!("; {} is taken at the next start", kept.join(", ")));
        }
        self.say(now, Priority::Notice, text);
        Ok(opens_anew)
    }

    /// Has nothing to steer from now on, until another machine is opened. Everything was put back
    /// before.
    pub(crate) fn close_machine(&mut self, now: Now) {
        let old = std::mem::replace(&mut self.plant, AuditedPlant::new(Box::new(Gone)));
        // The law's values belong to the closed machine.
        self.guard = Guard::new(self.settings.law());
        let left = old.machine.close();
        for why in left.alone {
            self.say(now, Priority::Warning, format!("left as it is: {why}"));
        }
        self.not_put_back += left.failed.len();
        for why in left.failed {
            self.say(now, Priority::Error, format!("could not be put back: {why}"));
        }
    }

    /// Goes on over another machine. Its devices' learnt values are looked up again.
    pub(crate) fn open_machine(&mut self, machine: Box<dyn Machine>) {
        self.plant = AuditedPlant::new(machine);
        self.records.clear();
        self.identities.clear();
    }

    /// Whether no device has a victim or a flood.
    pub(crate) fn is_idle(&self) -> bool {
        self.guard
            .status()
            .all(|s| s.state == State::Free && !s.estimate.victims && !s.estimate.floods)
    }

    /// An answer, at most a tick after the question. `parent` is told of a pause before it begins.
    ///
    /// # Errors
    /// [`PlantError::Lost`] if a pause could not put everything back.
    pub(crate) fn answer(
        &mut self,
        now: Now,
        question: Question,
        parent: &mut dyn FnMut(Pause),
    ) -> Result<Answer, PlantError> {
        let request = match question {
            Question::Metrics => return Ok(Answer::Text(metrics::exposition(&self.status(now)))),
            Question::Request(request) => request,
        };
        Ok(Answer::Reply(match request {
            Request::Status => Reply::Status(Box::new(self.status(now))),
            Request::History { last } => {
                let last = last.unwrap_or(MOST_TOLD).min(MOST_TOLD);
                let skip = self.history.len().saturating_sub(last);
                Reply::History(self.history.iter().skip(skip).cloned().collect())
            }
            Request::Pause { seconds } => {
                self.pause(now, seconds.and_then(|s| Duration::try_from_secs_f64(s).ok()), parent)?;
                let held = texts(&self.plant.machine.still_held());
                if !held.is_empty() {
                    self.say(now, Priority::Warning, format!("still held: {}", held.join(", ")));
                }
                Reply::Paused(Paused { left_s: seconds, held })
            }
            Request::Paced { device, pid } => {
                let device = device.parse::<DeviceId>().map_err(|e| e.to_string());
                match device.and_then(|id| self.plant.machine.paces_itself(pid, id)) {
                    Ok(device) => Reply::Beside(self.beside(now, device)),
                    Err(why) => Reply::Error(why),
                }
            }
            Request::Yield { knobs } => match self.plant.machine.yield_knobs(&knobs) {
                Ok(Yielded { back, waiting, knobs }) => {
                    knobs.into_iter().for_each(|(device, knob)| self.leave(now, device, knob));
                    Reply::Yielded { back, waiting }
                }
                Err(why) => Reply::Error(why),
            },
            Request::Resume => {
                let was_paused = self.paused.is_some();
                if was_paused {
                    self.resume(now, "it was told to")?;
                }
                Reply::Resumed { was_paused }
            }
        }))
    }
}

#[cfg(test)]
mod tests;
