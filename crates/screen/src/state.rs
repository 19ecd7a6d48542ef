//! What the screen remembers between frames and keys.
//!
//! ```text
//! History (frames) + Shown (what the user has chosen) ─▶ view   draws them
//!                         ▲                              keys   changes what is chosen
//! ```

use floodwall_model::frame::{Frame, Process};
use floodwall_model::workload::Workload;
use jiff::tz::TimeZone;

use crate::actions::Question;
use crate::cursor::Cursor;
use crate::disks::{DiskField, DiskRow, Line};
use crate::fields::Field;
use crate::history::History;
use crate::lists::{Filter, ProcessKey, Scope};
use crate::theme::Look;
use crate::who;

/// Where the frames come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// This machine, now.
    Live,
    /// A simulated machine. No action runs: it would change the real one.
    Simulated,
    /// A recording. No action runs.
    Replay,
}

/// What a screen is made with.
#[derive(Clone, Debug)]
pub struct Options {
    /// What the terminal can show.
    pub look: Look,
    /// The zone of the times that are shown.
    pub zone: TimeZone,
    /// Where the frames come from.
    pub mode: Mode,
    /// Show this disk alone: the kernel's name, or the number (`8:0`).
    pub device: Option<String>,
    /// Whether the user is root: only root can take the actions.
    pub is_root: bool,
}

impl Options {
    /// The name that the disk which is shown alone has in a frame.
    pub(crate) fn device_in<'a>(&'a self, frame: &'a Frame) -> Option<&'a str> {
        let device = self.device.as_deref()?;
        let found = frame.disks.iter().find(|disk| disk.name == device || disk.id == device);
        Some(found.map_or(device, |disk| &disk.name))
    }
}

/// A table of the main view.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pane {
    /// Disks.
    Disks,
    /// Processes that wait.
    #[default]
    Waits,
    /// Processes that write.
    Writes,
    /// Findings.
    Findings,
}

impl Pane {
    /// All, in the order of Tab.
    pub(crate) const ALL: [Self; 4] = [Self::Disks, Self::Waits, Self::Writes, Self::Findings];

    /// The next one, or with -1 the one before.
    pub(crate) fn next(self, by: isize) -> Self {
        let at = Self::ALL.iter().position(|pane| *pane == self).unwrap_or(0);
        let to = (at as isize + by).rem_euclid(Self::ALL.len() as isize);
        Self::ALL.get(to as usize).copied().unwrap_or_default()
    }
}

/// A table of processes: its order and its selection.
#[derive(Clone, Debug)]
pub(crate) struct Processes {
    /// The field that orders it.
    pub(crate) order: Field,
    /// The selected process.
    pub(crate) cursor: Cursor<ProcessKey>,
}

impl Processes {
    /// In the order of a field, with none chosen.
    pub(crate) fn by(order: Field) -> Self {
        Self { order, cursor: Cursor::default() }
    }
}

impl Default for Processes {
    fn default() -> Self {
        Self::by(Field::Mark)
    }
}

/// What the user has chosen in the main view.
#[derive(Clone, Debug)]
pub(crate) struct Main {
    /// The table that has the keys.
    pub(crate) focus: Pane,
    /// The field that orders the disks.
    pub(crate) disk_order: DiskField,
    /// The selected disk, by name.
    pub(crate) disk: Cursor<String>,
    /// Processes that wait.
    pub(crate) waits: Processes,
    /// Processes that write.
    pub(crate) writes: Processes,
    /// The selected finding, by its place.
    pub(crate) finding: Cursor<usize>,
}

/// A view above the main one.
#[derive(Clone, Debug)]
pub(crate) enum View {
    /// A disk, by name, and its processes.
    Device(String, Processes),
    /// A process. The number is the first of its files on the screen.
    Process(ProcessKey, usize),
    /// What processes run in, and these processes.
    Workload(Workload, Processes),
    /// Keys and columns. The number is the first line on the screen.
    Help(usize),
    /// A text with its title, and its first line on the screen.
    Page(String, String, usize),
}

/// A line that the user types.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Prompt {
    /// The filter, with what it was before.
    Filter(Filter),
    /// A moment to jump to.
    Jump(String),
}

/// What the user has chosen, and what waits for an answer.
#[derive(Debug)]
pub(crate) struct Shown {
    /// The main view.
    pub(crate) main: Main,
    /// Views above it; the last one is on top.
    pub(crate) views: Vec<View>,
    /// The filter in force.
    pub(crate) filter: Filter,
    /// The line that is typed.
    pub(crate) prompt: Option<Prompt>,
    /// The question that waits for its answer.
    pub(crate) question: Option<Question>,
    /// A line until the next key. Safe to show.
    pub(crate) message: Option<String>,
    /// The files that a process has open, as the program has told them.
    pub(crate) files: Option<(u32, Result<Vec<String>, String>)>,
    /// Whether the user has stopped the screen.
    pub(crate) is_paused: bool,
}

/// Everything.
#[derive(Debug)]
pub(crate) struct State {
    /// The options that it was made with.
    pub(crate) options: Options,
    /// The frames.
    pub(crate) history: History,
    /// What the user has chosen.
    pub(crate) shown: Shown,
}

impl State {
    /// A screen without a frame.
    pub(crate) fn new(options: Options) -> Self {
        let main = Main {
            focus: Pane::default(),
            disk_order: DiskField::Mark,
            disk: Cursor::default(),
            waits: Processes::default(),
            writes: Processes::by(Field::FloodMark),
            finding: Cursor::default(),
        };
        let shown = Shown {
            main,
            views: Vec::new(),
            filter: Filter::default(),
            prompt: None,
            question: None,
            message: None,
            files: None,
            is_paused: false,
        };
        Self { options, history: History::default(), shown }
    }
}

/// What a frame lists under the user's choices.
#[derive(Clone, Copy)]
pub(crate) struct Lists<'a> {
    scope: Scope<'a>,
    history: &'a History,
    frame: &'a Frame,
}

impl<'a> Lists<'a> {
    /// Those of the shown frame; absent without one.
    pub(crate) fn of(
        options: &'a Options,
        history: &'a History,
        filter: &'a Filter,
    ) -> Option<Self> {
        let frame = history.shown()?;
        let scope = Scope { device: options.device_in(frame), filter };
        Some(Self { scope, history, frame })
    }

    /// The frame.
    pub(crate) fn frame(self) -> &'a Frame {
        self.frame
    }

    /// The frames.
    pub(crate) fn history(self) -> &'a History {
        self.history
    }

    /// What the timelines of disks show.
    pub(crate) fn line(self) -> Line {
        let is_known = self.frame.disks.iter().any(|disk| disk.drain_ms.is_some());
        if is_known { Line::DrainTime } else { Line::Writes }
    }

    /// The disks.
    pub(crate) fn disks(self, order: DiskField) -> Vec<DiskRow<'a>> {
        let last = self.history.frames().next_back();
        let slowest = |at| last.and_then(|past| past.slowest_us(at));
        self.scope.disks(self.frame, slowest, order, self.line())
    }

    /// The processes that wait.
    pub(crate) fn waits(self, order: Field) -> Vec<&'a Process> {
        self.scope.processes(self.frame, who::waits, order)
    }

    /// The processes that write.
    pub(crate) fn writes(self, order: Field) -> Vec<&'a Process> {
        self.scope.processes(self.frame, who::writes, order)
    }

    /// The processes of a disk.
    pub(crate) fn of_disk(self, disk: &str, order: Field) -> Vec<&'a Process> {
        let is_on = |process: &Process| process.disk.as_deref() == Some(disk);
        self.scope.processes(self.frame, is_on, order)
    }

    /// The processes of a unit, pod or container.
    pub(crate) fn of_workload(self, workload: &Workload, order: Field) -> Vec<&'a Process> {
        self.scope.processes(self.frame, |process| process.workload == *workload, order)
    }
}
