//! The phrases of a sentence: who waits, who wrote, how fast a disk drains.

use floodwall_model::frame::{Disk, Frame, Process};
use floodwall_model::printable::printable;
use floodwall_model::status::DrainSource;
use ratatui::text::Span;

use crate::figures::{self, bytes, micros, millis, per_second, share};
use crate::text::{cut, glued};
use crate::theme::Look;
use crate::who::{call, floods};

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

/// A sentence while it is made.
pub(super) struct Words {
    pub(super) look: Look,
    pub(super) sentence: Sentence,
}

impl Words {
    pub(super) fn new(look: Look) -> Self {
        Self { look, sentence: Sentence::default() }
    }

    /// A sentence that may be left out: of one more, or of several.
    pub(super) fn and_more(&mut self, count: usize, one: &str, several: &str) {
        let text = match count {
            0 => return,
            1 => format!(" {one}"),
            count => format!(" {count} {several}"),
        };
        self.sentence.more.push(Span::raw(text));
    }

    pub(super) fn plain(&mut self, text: &str) {
        self.sentence.said.push(Span::raw(self.look.text(text).into_owned()));
    }

    pub(super) fn strong(&mut self, text: &str) {
        self.sentence
            .said
            .push(Span::styled(self.look.text(text).into_owned(), self.look.strong()));
    }

    /// `● postgres (812, postgresql.service) has waited up to 3.20 s for fsync on sda`.
    pub(super) fn waits(&mut self, process: &Process) {
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

    /// `▲ cp (4711, user@0.service) dirties 400 MB/s`; of one that no longer floods `▲ dd (4711)
    /// wrote 99 % of the backlog`.
    pub(super) fn wrote(&mut self, frame: &Frame, author: &Process) {
        let look = self.look;
        if author.is_author() {
            self.sentence.said.push(Span::styled(format!("{} ", look.flood_mark()), look.flood()));
        }
        self.who(author, if author.is_author() { look.flood() } else { look.strong() });
        match (author.dirtied_bytes, author.backlog_percent) {
            (_, Some(percent)) if author.is_author() && !author.is_flood => {
                self.plain(" wrote ");
                self.strong(&glued(&share(percent)));
                self.plain(" of the backlog");
            }
            (Some(_), _) => {
                self.plain(" dirties ");
                self.strong(&rate(dirtied(author, frame)));
            }
            (None, _) => self.plain(" floods it"),
        }
    }

    /// ` on sda`; after `99 % of the backlog` ` of sda`.
    pub(super) fn on(&mut self, disk: &Disk, author: &Process) {
        self.plain(if author.is_author() && !author.is_flood { " of " } else { " on " });
        self.strong(&printable(&disk.name));
    }

    /// What others than the first author dirty.
    pub(super) fn more_floods(&mut self, frame: &Frame, disk: &Disk, first: &Process) {
        let mut rest = floods(frame, &disk.name);
        rest.retain(|flood| flood.pid != first.pid);
        let sum = rest.iter().map(|flood| dirtied(flood, frame)).fold(0, u64::saturating_add);
        let (dirties, dirty) = if first.is_flood { ("", "") } else { ("dirties ", "dirty ") };
        match rest.len() {
            0 => {}
            1 => self.plain(&format!(" (one more {dirties}{})", rate(sum))),
            more => self.plain(&format!(" ({more} more {dirty}{})", rate(sum))),
        }
    }

    /// ` and sda drains 120 MB/s: 12.0 s of backlog`.
    pub(super) fn drains(&mut self, disk: &Disk) {
        let name = printable(&disk.name);
        match disk.drain_bytes_per_s {
            Some(drain) => self.plain(&format!(" and {name} drains {}", about(disk, drain))),
            None => self.plain(&format!(", and how fast {name} drains is not known")),
        }
        self.backlog(disk);
    }

    /// `, which drains 120 MB/s: 12.0 s of backlog`.
    pub(super) fn which_drains(&mut self, disk: &Disk) {
        match disk.drain_bytes_per_s {
            Some(drain) => self.plain(&format!(", which drains {}", about(disk, drain))),
            None => self.plain(", and how fast it drains is not known"),
        }
        self.backlog(disk);
    }

    pub(super) fn backlog(&mut self, disk: &Disk) {
        let Some(backlog) = disk.backlog_bytes.filter(|bytes| *bytes > 0) else { return };
        self.plain(": ");
        // A time by the kernel's estimate may be far from the truth.
        match disk.drain_ms.filter(|ms| *ms > 0 && disk.drain_from.is_seen()) {
            Some(ms) => {
                self.strong(&millis(ms));
                self.plain(" of backlog");
            }
            None => self.plain(&format!("{} are waiting", bytes(backlog))),
        }
    }

    /// `postgres (812, postgresql.service)`.
    pub(super) fn who(&mut self, process: &Process, style: ratatui::style::Style) {
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
pub(super) fn rate(bytes_per_s: u64) -> String {
    glued(&figures::rate(bytes_per_s))
}

pub(super) fn dirtied(process: &Process, frame: &Frame) -> u64 {
    per_second(process.dirtied_bytes.unwrap_or(0), frame.window_ms)
}

/// A drain rate; one that the kernel estimates from earlier writes says so.
fn about(disk: &Disk, drain: u64) -> String {
    match disk.drain_from {
        DrainSource::KernelEstimate => {
            format!("about {} (the kernel's estimate)", rate(drain))
        }
        _ => rate(drain),
    }
}
