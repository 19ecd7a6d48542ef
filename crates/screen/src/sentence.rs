//! The first line of the screen: the victim, its disk, how long it waits, and why.
//!
//! ```text
//! frame ─▶ the worst disk ─▶ its slowest victim, its heaviest flood, its backlog ─▶ a sentence
//! ```
//!
//! The words are those of `floodwall why`. Victims and floods carry the marks of the tables.

use std::cmp::Reverse;
use std::collections::HashMap;

use floodwall_model::diagnosis::Verdict;
use floodwall_model::frame::{Disk, Frame, Process};
use floodwall_model::printable::printable;
use floodwall_model::status::DrainSource;
use ratatui::text::Span;

use crate::figures::{self, bytes, micros, millis, per_second, share};
use crate::text::{cut, glued};
use crate::theme::Look;
use crate::who::{call, floods, on, victims};

/// A backlog that takes this long to drain explains a wait, whoever wrote it (`why` has the same).
const LONG_BACKLOG_MS: u64 = 1000;
/// Cells of the name of a unit or pod.
const LABEL: usize = 40;

/// A sentence, and what may be left out where there is no room for it.
#[derive(Debug, Default)]
pub(crate) struct Sentence {
    /// The sentence.
    pub(crate) said: Vec<Span<'static>>,
    /// How many more processes wait and disks stall.
    pub(crate) more: Vec<Span<'static>>,
}

/// The sentence of a machine, or of one of its disks.
pub(crate) fn of_machine(frame: &Frame, device: Option<&str>, look: Look) -> Sentence {
    let shown =
        || frame.disks.iter().filter(move |disk| device.is_none_or(|device| device == disk.name));
    let mut slowest: HashMap<&str, u64> = HashMap::new();
    for victim in frame.processes.iter().filter(|process| process.is_victim) {
        if let Some(disk) = &victim.disk {
            let longest = slowest.entry(disk).or_default();
            *longest = (*longest).max(victim.slowest_us());
        }
    }
    let badness =
        |disk: &&Disk| (disk.verdict, slowest.get(disk.name.as_str()).copied(), disk.drain_ms);
    let mut words = Words::new(look);
    match shown().max_by_key(badness) {
        Some(disk) => words.disk(frame, disk),
        None => words.quiet(frame, None),
    }
    let stalled = shown().filter(|disk| disk.verdict == Verdict::Stalling).count();
    words.and_more(stalled.saturating_sub(1), "Another disk stalls.", "more disks stall.");
    words.sentence
}

/// The sentence of one disk.
pub(crate) fn of_disk(frame: &Frame, disk: &Disk, look: Look) -> Sentence {
    let mut words = Words::new(look);
    words.disk(frame, disk);
    words.sentence
}

/// The sentence of one process.
pub(crate) fn of_process(frame: &Frame, process: &Process, look: Look) -> Sentence {
    let mut words = Words::new(look);
    let disk = frame.disks.iter().find(|disk| process.disk.as_ref() == Some(&disk.name));
    let slowest = process.slowest_us();
    if slowest > 0 {
        words.waits(process);
        let other = disk.filter(|_| process.is_victim).and_then(|disk| {
            let floods = floods(frame, &disk.name);
            floods.into_iter().find(|flood| flood.pid != process.pid).map(|flood| (disk, flood))
        });
        if let Some((disk, flood)) = other {
            words.because(disk, process);
            words.dirties(frame, flood);
            words.drains(disk);
        }
        words.plain(".");
    }
    // Of a process that waits the table of its figures tells what it writes besides.
    let is_writer = slowest == 0 && process.dirtied_bytes.is_some_and(|bytes| bytes > 0);
    if process.is_flood || is_writer {
        if slowest > 0 {
            words.plain(" ");
        }
        words.dirties(frame, process);
        if let Some(disk) = disk {
            words.plain(" on ");
            words.strong(&printable(&disk.name));
            if process.is_flood {
                words.which_drains(disk);
            }
        }
        words.plain(".");
    }
    if words.sentence.said.is_empty() {
        words.plain("It neither waited nor wrote in this window.");
    }
    words.sentence
}

/// A sentence while it is made.
struct Words {
    look: Look,
    sentence: Sentence,
}

impl Words {
    fn new(look: Look) -> Self {
        Self { look, sentence: Sentence::default() }
    }

    /// A sentence that may be left out: of one more, or of several.
    fn and_more(&mut self, count: usize, one: &str, several: &str) {
        let text = match count {
            0 => return,
            1 => format!(" {one}"),
            count => format!(" {count} {several}"),
        };
        self.sentence.more.push(Span::raw(text));
    }

    fn plain(&mut self, text: &str) {
        self.sentence.said.push(Span::raw(self.look.text(text).into_owned()));
    }

    fn strong(&mut self, text: &str) {
        self.sentence
            .said
            .push(Span::styled(self.look.text(text).into_owned(), self.look.strong()));
    }

    fn disk(&mut self, frame: &Frame, disk: &Disk) {
        let victims = victims(frame, &disk.name);
        let floods = floods(frame, &disk.name);
        match (disk.verdict, victims.first(), floods.first()) {
            (Verdict::Stalling, Some(victim), _) => {
                self.stall(frame, disk, victim, &floods);
                let others = victims.len() - 1;
                self.and_more(others, "One more process waits.", "more processes wait.");
            }
            (Verdict::Stalling, None, _) => {
                self.plain("A process waits long for ");
                self.strong(&printable(&disk.name));
                self.plain(", and which one is not known.");
            }
            (Verdict::Flooding, _, Some(flood)) => {
                self.flood(frame, disk, flood, &floods);
                self.plain(" Nothing waits long for it now.");
            }
            (Verdict::Unknown, _, flood) => {
                self.unknown(frame);
                if let Some(flood) = flood {
                    self.plain(" ");
                    self.dirties(frame, flood);
                    self.more_floods(frame, &floods);
                    self.plain(" on ");
                    self.strong(&printable(&disk.name));
                    self.plain(".");
                }
            }
            _ => self.quiet(frame, Some(disk)),
        }
    }

    fn stall(&mut self, frame: &Frame, disk: &Disk, victim: &Process, floods: &[&Process]) {
        self.waits(victim);
        match floods.first() {
            Some(flood) => {
                self.because(disk, victim);
                if flood.pid == victim.pid {
                    self.plain("other threads of it dirty ");
                    self.strong(&rate(dirtied(flood, frame)));
                } else {
                    self.dirties(frame, flood);
                }
                self.more_floods(frame, floods);
                self.drains(disk);
                self.plain(".");
            }
            None if disk.drain_ms.is_some_and(|ms| ms >= LONG_BACKLOG_MS) => {
                self.plain(", because of what was written earlier");
                self.backlog(disk);
                self.plain(". Nothing floods it now.");
            }
            None => self.plain(
                ", and no flood of buffered writes is the cause. The disk itself is slow, or busy \
                 with reads or direct writes.",
            ),
        }
    }

    /// `● postgres (812, postgresql.service) has waited up to 3.20 s for fsync on sda`.
    fn waits(&mut self, process: &Process) {
        let look = self.look;
        if process.is_victim {
            self.sentence
                .said
                .push(Span::styled(format!("{} ", look.victim_mark()), look.victim()));
        }
        self.who(process, if process.is_victim { look.victim() } else { look.strong() });
        self.plain(" has waited up to ");
        self.strong(&micros(process.slowest_us()));
        if let Some(call) = call(process) {
            self.plain(&format!(" for {call}"));
        }
        if let Some(disk) = &process.disk {
            self.plain(" on ");
            self.strong(&printable(disk));
        }
    }

    /// `because`, where flood or backlog explain the wait, else `while`.
    fn because(&mut self, disk: &Disk, victim: &Process) {
        let drained_us = disk.drain_ms.unwrap_or(0).saturating_mul(1000);
        let explains = disk.drain_ms.is_some_and(|ms| ms >= LONG_BACKLOG_MS)
            || disk.drain_bytes_per_s.is_none()
            || drained_us.saturating_mul(2) >= victim.slowest_us();
        self.plain(if explains { ", because " } else { ", while " });
    }

    /// `▲ cp (4711, user@0.service) dirties 400 MB/s`.
    fn dirties(&mut self, frame: &Frame, flood: &Process) {
        let look = self.look;
        if flood.is_flood {
            self.sentence.said.push(Span::styled(format!("{} ", look.flood_mark()), look.flood()));
        }
        self.who(flood, if flood.is_flood { look.flood() } else { look.strong() });
        match flood.dirtied_bytes {
            Some(_) => {
                self.plain(" dirties ");
                self.strong(&rate(dirtied(flood, frame)));
            }
            None => self.plain(" floods it"),
        }
    }

    fn more_floods(&mut self, frame: &Frame, floods: &[&Process]) {
        let rest = floods.get(1..).unwrap_or_default();
        let sum = rest.iter().map(|flood| dirtied(flood, frame)).fold(0, u64::saturating_add);
        match rest.len() {
            0 => {}
            1 => self.plain(&format!(" (one more {})", rate(sum))),
            more => self.plain(&format!(" ({more} more {})", rate(sum))),
        }
    }

    /// ` and sda drains 120 MB/s: 12.0 s of backlog`.
    fn drains(&mut self, disk: &Disk) {
        let name = printable(&disk.name);
        match disk.drain_bytes_per_s {
            Some(drain) => self.plain(&format!(" and {name} drains {}", about(disk, drain))),
            None => self.plain(&format!(", and how fast {name} drains is not known")),
        }
        self.backlog(disk);
    }

    /// `, which drains 120 MB/s: 12.0 s of backlog`.
    fn which_drains(&mut self, disk: &Disk) {
        match disk.drain_bytes_per_s {
            Some(drain) => self.plain(&format!(", which drains {}", about(disk, drain))),
            None => self.plain(", and how fast it drains is not known"),
        }
        self.backlog(disk);
    }

    fn backlog(&mut self, disk: &Disk) {
        let Some(backlog) = disk.backlog_bytes.filter(|bytes| *bytes > 0) else { return };
        self.plain(": ");
        match disk.drain_ms.filter(|ms| *ms > 0) {
            Some(ms) => {
                self.strong(&millis(ms));
                self.plain(" of backlog");
            }
            None => self.plain(&format!("{} are waiting", bytes(backlog))),
        }
    }

    fn flood(&mut self, frame: &Frame, disk: &Disk, flood: &Process, floods: &[&Process]) {
        self.dirties(frame, flood);
        self.more_floods(frame, floods);
        self.plain(" on ");
        self.strong(&printable(&disk.name));
        self.which_drains(disk);
        self.plain(".");
    }

    fn unknown(&mut self, frame: &Frame) {
        self.strong("Which process waits for a disk is not seen");
        let without_root = frame.source == "proc" && !frame.root_would_add.is_empty();
        self.plain(if without_root { " without root." } else { "." });
        if let Some(percent) = frame.machine.waited_percent {
            let window = glued(&millis(frame.window_ms));
            let share = glued(&share(percent));
            self.plain(&format!(" Some process waited for I/O {share} of the last {window}."));
        }
    }

    fn quiet(&mut self, frame: &Frame, disk: Option<&Disk>) {
        self.strong("Nothing waits long for a disk, and nothing floods one.");
        let used = disk.into_iter().flat_map(|disk| on(frame, &disk.name));
        let slowest = used.max_by_key(|process| process.slowest_us());
        if let Some(process) = slowest.filter(|process| process.slowest_us() > 0) {
            let wait = micros(process.slowest_us());
            let window = glued(&millis(frame.window_ms));
            self.plain(&format!(" The slowest wait of the last {window} is "));
            self.strong(&wait);
            self.plain(": ");
            self.who(process, self.look.strong());
            let for_call = call(process).map_or_else(String::new, |call| format!(", {call}"));
            self.plain(&format!("{for_call}."));
        }
        let could = frame
            .disks
            .iter()
            .filter(|one| disk.is_none_or(|disk| disk.name == one.name))
            .max_by_key(|one| (one.hard_limit_ms, Reverse(&one.name)));
        if let Some((one, ms)) = could.and_then(|one| one.hard_limit_ms.map(|ms| (one, ms))) {
            self.plain(" If a flood came, ");
            self.strong(&millis(ms));
            let name = printable(&one.name);
            self.plain(&format!(" of writes could pile up for {name}."));
        }
    }

    /// `postgres (812, postgresql.service)`.
    fn who(&mut self, process: &Process, style: ratatui::style::Style) {
        let name = printable(&process.name);
        let label = process.workload.label();
        let label = label.as_deref().map(|label| printable(label).into_owned());
        let label = label.as_deref().map(|label| cut(label, LABEL, self.look.cut_mark()));
        let told = match (process.pid, label) {
            (0, None) => String::new(),
            (0, Some(label)) => format!(" ({label})"),
            (pid, None) => format!(" ({pid})"),
            (pid, Some(label)) => format!(" ({pid}, {label})"),
        };
        self.sentence.said.push(Span::styled(name.into_owned(), style));
        self.sentence.said.push(Span::raw(told));
    }
}

/// A rate that no line breaks.
fn rate(bytes_per_s: u64) -> String {
    glued(&figures::rate(bytes_per_s))
}

fn dirtied(process: &Process, frame: &Frame) -> u64 {
    per_second(process.dirtied_bytes.unwrap_or(0), frame.window_ms)
}

/// A drain rate; one that the kernel estimates from earlier writes says so.
fn about(disk: &Disk, drain: u64) -> String {
    match disk.drain_from {
        DrainSource::KernelEstimate => {
            format!("about {} (the kernel's estimate)", rate(drain))
        }
        DrainSource::Seen | DrainSource::Unknown => rate(drain),
    }
}

#[cfg(test)]
#[path = "sentence_tests.rs"]
mod tests;
