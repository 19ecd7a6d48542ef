//! The first line of the screen: the victim, its disk, how long it waits, and why.
//!
//! ```text
//! frame ─▶ the worst disk ─▶ its slowest victim, its heaviest author, its backlog ─▶ a sentence
//! ```
//!
//! The words are those of `floodwall why`. Victims and floods carry the marks of the tables. The
//! author of a backlog is named after it has ended, too.

mod phrases;

use std::cmp::Reverse;
use std::collections::HashMap;

use floodwall_model::diagnosis::{Verdict, has_authors};
use floodwall_model::frame::{Disk, Frame, Process};
use floodwall_model::printable::printable;
use floodwall_model::status::{DrainSource, FIRST_GUESS};

use crate::figures::{bytes, micros, millis, share};
use crate::text::glued;
use crate::theme::Look;
use crate::who::{authors, call, floods, victims};
pub(crate) use phrases::Sentence;
use phrases::{Words, dirtied, rate};

/// The sentence of a machine, or of one of its disks.
pub(crate) fn of_machine(frame: &Frame, device: Option<&str>, look: Look) -> Sentence {
    let shown =
        || frame.disks.iter().filter(move |disk| device.is_none_or(|device| device == disk.name));
    let (mut slowest, mut flooded) = (HashMap::new(), HashMap::new());
    for process in &frame.processes {
        let Some(disk) = process.disk.as_deref() else { continue };
        if process.is_victim {
            let longest: &mut u64 = slowest.entry(disk).or_default();
            *longest = (*longest).max(process.slowest_us());
        }
        if process.is_flood && !process.is_kernel_worker() {
            let most: &mut u64 = flooded.entry(disk).or_default();
            *most = (*most).max(process.dirtied_bytes.unwrap_or(0));
        }
    }
    let badness = |disk: &&Disk| {
        let name = disk.name.as_str();
        let flooded = flooded.get(name).copied().unwrap_or(0);
        (disk.verdict, slowest.get(name).copied(), burden_ms(disk, flooded))
    };
    let mut words = Words::new(look);
    match shown().max_by_key(badness).filter(|disk| !is_quiet(disk)) {
        Some(disk) => words.disk(frame, disk),
        None => words.quiet(frame, device),
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
        let author = disk.and_then(|disk| authors(frame, disk).into_iter().next());
        let is_its_own = author.is_some_and(|author| author.pid == process.pid);
        if let Some(disk) = disk.filter(|_| process.is_victim && !is_its_own) {
            words.cause(frame, disk, process);
        }
        words.plain(".");
    }
    // Of a process that waits the table of its figures tells what it writes besides.
    let is_writer = slowest == 0 && process.dirtied_bytes.is_some_and(|bytes| bytes > 0);
    if process.is_author() || is_writer {
        if slowest > 0 {
            words.plain(" ");
        }
        words.wrote(frame, process);
        if let Some(disk) = disk {
            words.on(disk, process);
            if process.is_author() {
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

impl Words {
    fn disk(&mut self, frame: &Frame, disk: &Disk) {
        let victims = victims(frame, &disk.name);
        let authors = authors(frame, disk);
        match (disk.verdict, victims.first(), authors.first()) {
            (Verdict::Stalling, Some(victim), _) => {
                self.waits(victim);
                self.cause(frame, disk, victim);
                self.plain(".");
                let others = victims.len() - 1;
                self.and_more(others, "One more process waits.", "more processes wait.");
            }
            (Verdict::Stalling, None, _) => {
                self.plain("A process waits long for ");
                self.strong(&printable(&disk.name));
                self.plain(", and which one is not known.");
            }
            (Verdict::Flooding, _, Some(author)) => {
                self.wrote(frame, author);
                // `cp dirties 9 MB/s (one more …) on sda`, `dd wrote 9 % of the backlog of sda`.
                if author.is_flood {
                    self.more_floods(frame, disk, author);
                }
                self.on(disk, author);
                if !author.is_flood {
                    self.more_floods(frame, disk, author);
                }
                self.which_drains(disk);
                self.plain(". Nothing waits long for it now.");
            }
            (Verdict::Unknown, _, author) => {
                self.unknown(frame);
                if let Some(author) = author.filter(|author| author.is_flood) {
                    self.plain(" ");
                    self.wrote(frame, author);
                    self.more_floods(frame, disk, author);
                    self.plain(" on ");
                    self.strong(&printable(&disk.name));
                    self.plain(".");
                }
            }
            _ if !is_quiet(disk) => {
                self.plain("Nothing waits long for ");
                self.strong(&printable(&disk.name));
                self.plain(" now");
                self.backlog(disk);
                self.plain(". Who wrote it was not seen.");
            }
            _ => self.quiet(frame, Some(&disk.name)),
        }
    }

    /// Why a victim waits: `, because ▲ cp (4711) dirties 400 MB/s and sda drains 120 MB/s: 12.0 s
    /// of backlog`.
    fn cause(&mut self, frame: &Frame, disk: &Disk, victim: &Process) {
        let authors = authors(frame, disk);
        let explains = explains(frame, disk, victim);
        let has_drained = disk.backlog_bytes.is_some_and(|bytes| !has_authors(bytes));
        match authors.first() {
            Some(author) if author.is_flood || explains => {
                self.plain(if explains { ", because " } else { ", while " });
                if author.pid != victim.pid {
                    self.wrote(frame, author);
                } else if author.is_flood {
                    self.plain("other threads of it dirty ");
                    self.strong(&rate(dirtied(author, frame)));
                } else {
                    self.plain("other threads of it wrote most of the backlog");
                }
                if has_drained && !author.is_flood {
                    self.plain(", which has drained by now");
                } else {
                    self.more_floods(frame, disk, author);
                    self.drains(disk);
                }
            }
            _ if explains => {
                self.plain(", because of what was written earlier");
                self.backlog(disk);
                self.plain(". Who wrote it was not seen");
            }
            _ if disk.backlog_bytes.is_none() => self.plain(
                ", and how much is waiting is not known. The disk is slow, busy with reads or \
                 direct writes, or flooded by a program that was not seen",
            ),
            _ if disk.has_unknown_backlog() => {
                self.plain(", and nothing was seen to flood it");
                self.backlog(disk);
                self.plain(". Whether they are the cause is not known");
            }
            _ => self.plain(
                ", and no flood of buffered writes is the cause. The disk itself is slow, or busy \
                 with reads or direct writes",
            ),
        }
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

    /// Of a machine, or of one disk.
    fn quiet(&mut self, frame: &Frame, disk: Option<&str>) {
        self.strong("Nothing waits long for a disk, and nothing floods one.");
        let is_shown = |name: &str| disk.is_none_or(|disk| disk == name);
        let used = frame
            .processes
            .iter()
            .filter(|process| disk.is_none() || process.disk.as_deref().is_some_and(is_shown));
        let slowest = used.max_by_key(|process| process.slowest_us());
        if let Some(process) = slowest.filter(|process| process.slowest_us() > 0) {
            let wait = micros(process.slowest_us());
            let window = glued(&millis(frame.window_ms));
            self.plain(&format!(" The slowest wait of the last {window} is "));
            self.strong(&wait);
            self.plain(": ");
            self.who(process, self.look.strong());
            let for_call = call(process).map_or_else(String::new, |call| format!(", {call}"));
            let on = process.disk.as_deref().filter(|_| disk.is_none());
            let on = on.map_or_else(String::new, |disk| format!(" on {}", printable(disk)));
            self.plain(&format!("{for_call}{on}."));
        }
        let could = frame
            .disks
            .iter()
            .filter(|one| is_shown(&one.name))
            .max_by_key(|one| (one.hard_limit_ms, Reverse(&one.name)));
        if let Some((one, ms)) = could.and_then(|one| one.hard_limit_ms.map(|ms| (one, ms))) {
            let name = printable(&one.name);
            self.plain(" If a flood came, ");
            match (one.drain_from, frame.machine.hard_limit_bytes) {
                (DrainSource::KernelEstimate, Some(limit)) => {
                    self.strong(&glued(&bytes(limit)));
                    self.plain(&format!(
                        " could pile up for {name}; how fast it drains under load was not seen yet."
                    ));
                }
                _ => {
                    self.strong(&millis(ms));
                    self.plain(&format!(" of writes could pile up for {name}."));
                }
            }
        }
    }
}

/// How long a disk takes for its backlog, or for what its heaviest flood dirtied in the window, in
/// milliseconds. Where its rate was not seen, at the kernel's first guess: its estimate
/// may be far too low.
fn burden_ms(disk: &Disk, flooded: u64) -> u64 {
    let bytes = disk.backlog_bytes.unwrap_or(0).max(flooded);
    let seen = disk.drain_bytes_per_s.filter(|rate| *rate > 0 && disk.drain_from.is_seen());
    (bytes as f64 / seen.map_or(FIRST_GUESS, |rate| rate as f64) * 1e3) as u64
}

/// Whether nothing waits long for a disk, nothing floods it, and it has no long backlog.
fn is_quiet(disk: &Disk) -> bool {
    disk.verdict == Verdict::Quiet && !disk.is_backlogged()
}

/// Whether backlog or floods explain a wait, as in the diagnosis
/// ([`is_outrun`](floodwall_model::diagnosis::Disk::is_outrun)). The largest backlog is known for
/// the time of the slowest wait alone.
fn explains(frame: &Frame, disk: &Disk, victim: &Process) -> bool {
    let slowest_us = victims(frame, &disk.name).iter().map(|one| one.slowest_us()).max();
    let slowest_us = slowest_us.unwrap_or(0);
    let is_slowest = victim.slowest_us() >= slowest_us;
    let drain_ms = if is_slowest { disk.peak_drain_ms() } else { disk.drain_ms };
    let is_long = drain_ms.unwrap_or(0).saturating_mul(2_000) >= victim.slowest_us();
    let floods = floods(frame, &disk.name);
    let flooded = floods.iter().map(|flood| dirtied(flood, frame)).fold(0, u64::saturating_add);
    disk.is_draining() && (disk.is_backlogged() || is_long)
        || !floods.is_empty() && disk.drain_bytes_per_s.is_none_or(|drain| flooded >= drain)
}

#[cfg(test)]
#[path = "sentence_tests.rs"]
mod tests;
