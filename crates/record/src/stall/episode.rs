//! A time in which victims wait for one disk: who waited, who flooded, how much was dirty.
//!
//! ```text
//! frame with a victim ─▶ victims, writers, backlog
//! frame without       ─▶ kept back; it counts if a victim follows
//! ```

use std::cmp::Reverse;
use std::mem;

use floodwall_model::frame::{Disk, Frame, Process, Waits};
use floodwall_model::stall::{Flood, Stall, Victim};

use super::parties::{Parties, Party, Sums};

/// An episode of one disk.
#[derive(Debug)]
pub(super) struct Episode {
    /// Without its processes.
    stall: Stall,
    victims: Parties<Waited>,
    writers: Parties<Written>,
    slowest_us: u64,
    floor_ms: u64,
    is_stall: bool,
    /// Frames since the last one with a victim, with this disk's part alone.
    quiet: Vec<Frame>,
}

impl Episode {
    /// The disks for which a process of the frame waits too long.
    pub(super) fn stalling(frame: &Frame) -> Vec<&str> {
        let victims = frame.processes.iter().filter(|process| process.is_victim);
        let mut disks: Vec<&str> = victims.filter_map(|process| process.disk.as_deref()).collect();
        disks.sort_unstable();
        disks.dedup();
        disks
    }

    /// One that begins with this frame, which [`Episode::frame`] still has to take. It does not
    /// begin before `floor_ms`.
    pub(super) fn new(disk: &str, frame: &Frame, floor_ms: u64) -> Self {
        let at_ms = frame.at_unix_ms;
        let waited = victims(disk, frame).map(|process| waited_ms(process, frame.window_ms));
        let began_ms = at_ms.saturating_sub(waited.max().unwrap_or(0));
        let stall = Stall {
            began_unix_ms: began_ms.max(floor_ms).min(at_ms),
            ended_unix_ms: at_ms,
            worst_unix_ms: at_ms,
            disk: disk.to_owned(),
            guard: guard(disk, frame),
            ..Stall::default()
        };
        Self {
            stall,
            victims: Parties::default(),
            writers: Parties::default(),
            slowest_us: 0,
            floor_ms,
            is_stall: false,
            quiet: Vec::new(),
        }
    }

    pub(super) fn disk(&self) -> &str {
        &self.stall.disk
    }

    pub(super) fn began_ms(&self) -> u64 {
        self.stall.began_unix_ms
    }

    pub(super) fn ended_ms(&self) -> u64 {
        self.stall.ended_unix_ms
    }

    pub(super) fn lasted_ms(&self) -> u64 {
        self.stall.lasted_ms()
    }

    /// Whether it has counted as a stall.
    pub(super) fn is_stall(&self) -> bool {
        self.is_stall
    }

    /// Counts as a stall from now on; whether that is new.
    pub(super) fn count(&mut self) -> bool {
        !mem::replace(&mut self.is_stall, true)
    }

    /// Takes a frame.
    pub(super) fn frame(&mut self, frame: &Frame) {
        if victims(&self.stall.disk, frame).next().is_none() {
            self.quiet.push(part(&self.stall.disk, frame));
            return;
        }
        for quiet in mem::take(&mut self.quiet) {
            self.add_writers(&quiet);
        }
        self.add_victims(frame);
        self.add_writers(frame);
    }

    /// The stall so far.
    pub(super) fn stall(&self) -> Stall {
        let written = |party: &Party<Written>| party.sums.written_bytes(self.stall.backlog_bytes);
        let mut floods = self.writers.heaviest(|sums| sums.is_author);
        floods.sort_by_key(|party| (party.rank(), Reverse(written(party))));
        Stall {
            victims: self.victims.heaviest(|_| true).into_iter().map(victim).collect(),
            floods: floods.into_iter().map(flood).collect(),
            ..self.stall.clone()
        }
    }

    fn add_victims(&mut self, frame: &Frame) {
        let at_ms = frame.at_unix_ms;
        self.stall.ended_unix_ms = at_ms;
        let slowest = victims(&self.stall.disk, frame).map(Process::slowest_us);
        let slowest_us = slowest.max().unwrap_or(0);
        if slowest_us > self.slowest_us {
            self.slowest_us = slowest_us;
            self.stall.worst_unix_ms = at_ms;
            self.stall.guard = guard(&self.stall.disk, frame);
        }
        // A wait that ended late tells that it began before those that were seen first.
        let began_ms = at_ms.saturating_sub(slowest_us / 1000).max(self.floor_ms);
        self.stall.began_unix_ms = self.stall.began_unix_ms.min(began_ms);
        self.victims.add(victims(&self.stall.disk, frame));
    }

    fn add_writers(&mut self, frame: &Frame) {
        if let Some(disk) = frame.disks.iter().find(|disk| disk.name == self.stall.disk) {
            add_backlog(&mut self.stall, disk);
        }
        self.writers.add(writers(&self.stall.disk, frame));
    }
}

fn add_backlog(stall: &mut Stall, disk: &Disk) {
    if stall.mounts.is_empty() {
        stall.mounts.clone_from(&disk.mounts);
    }
    // `None` is less than any backlog.
    if disk.backlog_bytes > stall.backlog_bytes {
        stall.backlog_bytes = disk.backlog_bytes;
        stall.drain_ms = disk.drain_ms;
        stall.drain_bytes_per_s = disk.drain_bytes_per_s;
    }
}

/// How long a process has waited at the end of its first frame, in milliseconds. That is its
/// slowest wait, or the sum of its waits as far as it fits into the window.
fn waited_ms(process: &Process, window_ms: u64) -> u64 {
    (process.slowest_us() / 1000).max((process.waited_us() / 1000).min(window_ms))
}

fn users<'a>(disk: &str, frame: &'a Frame) -> impl Iterator<Item = &'a Process> {
    frame.processes.iter().filter(move |process| process.disk.as_deref() == Some(disk))
}

fn victims<'a>(disk: &str, frame: &'a Frame) -> impl Iterator<Item = &'a Process> {
    users(disk, frame).filter(|process| process.is_victim)
}

/// The processes that may be authors of the stall, now or later.
fn writers<'a>(disk: &str, frame: &'a Frame) -> impl Iterator<Item = &'a Process> {
    users(disk, frame).filter(|process| {
        process.is_author() || process.dirtied_bytes.is_some_and(|bytes| bytes > 0)
    })
}

/// What a frame tells of one disk's backlog and writers.
fn part(disk: &str, frame: &Frame) -> Frame {
    Frame {
        disks: frame.disks.iter().filter(|one| one.name == disk).cloned().collect(),
        processes: writers(disk, frame).cloned().collect(),
        ..Frame::default()
    }
}

fn guard(disk: &str, frame: &Frame) -> Option<String> {
    let guarded = frame.guard.as_ref()?.disks.iter().find(|guarded| guarded.name == disk)?;
    Some(guarded.state.clone())
}

/// A victim's waits.
#[derive(Clone, Debug, Default)]
struct Waited {
    /// The call that took longest of those that are known, and how long.
    call: Option<(u64, String)>,
    slowest_us: u64,
    count: u64,
    /// Time of waits that ended.
    ended_us: u64,
    /// Time of the oldest wait under way at the last frame's end. The next frame counts it again.
    under_way_us: u64,
}

impl Sums for Waited {
    fn add(&mut self, process: &Process) {
        let sum = |of: fn(&Waits) -> u64| process.waits.iter().map(of).fold(0, u64::saturating_add);
        let call = process.slowest_call().map(|call| (process.slowest_us(), call.to_owned()));
        let in_frame = Self {
            call,
            slowest_us: process.slowest_us(),
            count: sum(|waits| waits.count),
            ended_us: sum(|waits| waits.sum_us),
            under_way_us: process.oldest_us,
        };
        self.under_way_us = 0;
        self.take_in(&in_frame);
    }

    fn take_in(&mut self, other: &Self) {
        let us = |call: &Option<(u64, String)>| call.as_ref().map(|(us, _)| *us);
        if us(&other.call) > us(&self.call) {
            self.call.clone_from(&other.call);
        }
        self.slowest_us = self.slowest_us.max(other.slowest_us);
        self.count = self.count.saturating_add(other.count);
        self.ended_us = self.ended_us.saturating_add(other.ended_us);
        self.under_way_us = self.under_way_us.saturating_add(other.under_way_us);
    }

    fn weight(&self) -> (u64, u64) {
        (self.slowest_us, 0)
    }
}

fn victim(party: Party<Waited>) -> Victim {
    let Party { pid, name, workload, sums, .. } = party;
    Victim {
        pid,
        name,
        workload,
        call: sums.call.map(|(_, call)| call),
        slowest_us: sums.slowest_us,
        waited_us: sums.ended_us.saturating_add(sums.under_way_us),
        count: sums.count,
    }
}

/// A writer's part.
#[derive(Clone, Debug, Default)]
struct Written {
    bytes: u64,
    percent: Option<f32>,
    /// It flooded, or held a large part of the backlog.
    is_author: bool,
}

impl Sums for Written {
    fn add(&mut self, process: &Process) {
        self.take_in(&Self {
            bytes: process.dirtied_bytes.unwrap_or(0),
            percent: process.backlog_percent,
            is_author: process.is_author(),
        });
    }

    fn take_in(&mut self, other: &Self) {
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.percent = self.percent.into_iter().chain(other.percent).reduce(f32::max);
        self.is_author |= other.is_author;
    }

    /// Authors by their share: one may hold most of the backlog and no longer write.
    fn weight(&self) -> (u64, u64) {
        let percent = self.percent.filter(|_| self.is_author).unwrap_or(0.0);
        (percent.round() as u64, self.bytes)
    }
}

impl Written {
    /// What it dirtied during the stall, or its part of the backlog if that is more.
    fn written_bytes(&self, backlog_bytes: Option<u64>) -> u64 {
        let (dirtied_bytes, backlog_percent) = (Some(self.bytes), self.percent);
        let process = Process { dirtied_bytes, backlog_percent, ..Process::default() };
        process.written_bytes(backlog_bytes)
    }
}

fn flood(party: Party<Written>) -> Flood {
    let Party { pid, name, workload, sums, .. } = party;
    Flood { pid, name, workload, dirtied_bytes: sums.bytes, backlog_percent: sums.percent }
}
