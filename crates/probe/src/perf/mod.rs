//! Events through perf_event_open(2): one event a tracepoint and processor, all of a processor in
//! one ring.
//!
//! ```text
//! tracefs format ─▶ Decoder
//! perf events ─▶ ring a processor ─▶ merged by time ─▶ Record
//! switched off again when the descriptors close, even if we are killed
//! ```
//!
//! The events of beginnings have one leader on each processor, and those of ends another: one call
//! switches all of them. Nothing global is written: filters belong to this process's events, and
//! other tracers' events are their own.

mod event;
mod merge;
mod ring;

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use floodwall_host::SysRoot;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::closer::Piece;
use crate::error::ProbeError;
use crate::format::Format;
use crate::snapshot::Blind;
use crate::tracefs::Tracefs;
use crate::tracepoints::{Decoder, Kind, Role, Wanted};
use event::{Events, Kernel};
pub(crate) use ring::Ring;

/// Memory of all rings together. A record takes some 100 bytes, so this is 80,000 events.
const RINGS_BYTES: usize = 8 << 20;
/// One ring's size: enough for 5 ms of 100,000 events a second, and no more than fills before this
/// process is scheduled again.
const RING_BYTES: std::ops::RangeInclusive<usize> = (64 << 10)..=(1 << 20);
/// The most threads whose writes are watched. The filter's text takes up to 25 bytes for each
/// thread and may be a page long (kernel/events/core.c `perf_event_set_filter`). The kernel walks
/// it for every write call of the machine.
const MAX_WATCHED: usize = 128;

/// A tracepoint that this kernel has.
#[derive(Clone, Copy, Debug)]
struct Point {
    number: u16,
    role: Role,
    /// Only records that this holds for are of use.
    filter: Option<&'static str>,
}

/// One processor's events.
#[derive(Debug)]
struct Processor {
    number: u32,
    /// All but the ring's own event, each with its role.
    others: Vec<(Role, OwnedFd)>,
    /// Those of [`crate::tracepoints::WRITES`], while threads' writes are watched.
    writes: Vec<OwnedFd>,
    own_role: Role,
    ring: Ring,
}

impl Processor {
    /// The first event of a role, which leads the others.
    fn leader(&self, role: Role) -> Option<&OwnedFd> {
        if self.own_role == role {
            return Some(self.ring.leader());
        }
        self.others.iter().find(|(of, _)| *of == role).map(|(_, event)| event)
    }

    /// Sees the writes that a filter lets through.
    fn watch_writes(
        &mut self,
        writes: &[Point],
        filter: &str,
        events: &dyn Events,
    ) -> io::Result<()> {
        if !self.writes.is_empty() {
            return self.writes.iter().try_for_each(|write| events.filter(write, filter));
        }
        let open =
            writes.iter().map(|at| events.open(at.number, self.number, 0, self.leader(at.role)));
        let opened: Vec<OwnedFd> = open.collect::<io::Result<_>>()?;
        for write in &opened {
            events.filter(write, filter)?;
            events.send_to(write, self.ring.raw_fd())?;
            events.enable(write)?;
        }
        self.writes = opened;
        Ok(())
    }
}

/// The tracepoints of this machine, flowing.
#[derive(Debug)]
pub(crate) struct Perf {
    decoder: Decoder,
    always: Vec<Point>,
    writes: Vec<Point>,
    /// Which roles' events are on.
    begins: bool,
    ends: bool,
    processors: Vec<Processor>,
    scratch: Vec<u8>,
    /// The threads whose writes are seen, on every processor in `processors`; empty: none.
    watched: Vec<u32>,
    ring_bytes: usize,
    events: Box<dyn Events>,
}

impl Perf {
    /// Opens those of these tracepoints that the kernel has, all the time and while writes are
    /// watched, and says what the others would have told. `sparing`: of requests only reads are of
    /// interest, and whose synchronous writes there are.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub(crate) fn open_these(
        root: &SysRoot,
        always: &[Wanted],
        writes: &[Wanted],
        sparing: bool,
    ) -> Result<(Self, Vec<Blind>), ProbeError> {
        let tracefs = Tracefs::open()?;
        let mut decoder = Decoder::default();
        let mut blind = Vec::new();
        let always = learn(&tracefs, always, sparing, &mut decoder, &mut blind)?;
        let writes = learn(&tracefs, writes, sparing, &mut decoder, &mut blind)?;
        if always.is_empty() {
            return Err(ProbeError::NoTracepoints);
        }
        let online = online(root);
        let page = rustix::param::page_size();
        let (least, most) = RING_BYTES.into_inner();
        let share = (RINGS_BYTES / online.len().max(1)).clamp(least, most).max(page);
        let mut perf = Self {
            decoder,
            always,
            writes,
            begins: true,
            ends: true,
            processors: Vec::new(),
            scratch: Vec::new(),
            watched: Vec::new(),
            ring_bytes: 1 << share.ilog2(),
            events: Box::new(Kernel),
        };
        room_for_descriptors(online.len() * (perf.always.len() + perf.writes.len()));
        perf.follow(&online)?;
        Ok((perf, blind))
    }

    /// Whether forks are seen.
    pub(crate) fn sees_forks(&self) -> bool {
        self.decoder.knows(Kind::Forked)
    }

    /// Opens events on processors that came online, and closes those of processors that went.
    fn follow(&mut self, online: &[u32]) -> Result<(), ProbeError> {
        self.processors.retain(|p| online.contains(&p.number));
        for number in online {
            if !self.processors.iter().any(|p| p.number == *number) {
                match self.processor(*number) {
                    Ok(processor) => self.processors.push(processor),
                    // It went offline again meanwhile.
                    Err(ProbeError::PerfEvent { source, .. }) if is_offline(&source) => {}
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(())
    }

    fn processor(&self, number: u32) -> Result<Processor, ProbeError> {
        let watermark = (self.ring_bytes / 2) as u32;
        let events = &*self.events;
        let Some((first, rest)) = self.always.split_first() else {
            return Err(ProbeError::NoTracepoints);
        };
        let own = events.open(first.number, number, watermark, None).map_err(refused)?;
        let mut processor = Processor {
            number,
            others: Vec::new(),
            writes: Vec::new(),
            own_role: first.role,
            ring: Ring::map(own, self.ring_bytes)?,
        };
        for point in rest {
            let leader = if point.role == Role::Rare { None } else { processor.leader(point.role) };
            let event = events.open(point.number, number, watermark, leader).map_err(refused)?;
            events.send_to(&event, processor.ring.raw_fd()).map_err(refused)?;
            processor.others.push((point.role, event));
        }
        let roles = std::iter::once((first.role, processor.ring.leader()));
        let roles = roles.chain(processor.others.iter().map(|(role, event)| (*role, event)));
        for (point, (role, event)) in self.always.iter().zip(roles) {
            if let Some(filter) = point.filter {
                // Without it there is more to read, and nothing else.
                let _ = events.filter(event, filter);
            }
            let is_leader =
                processor.leader(role).is_some_and(|l| l.as_raw_fd() == event.as_raw_fd());
            if !is_leader || self.is_on(role) {
                events.enable(event).map_err(refused)?;
            }
        }
        Ok(processor)
    }

    fn is_on(&self, role: Role) -> bool {
        match role {
            Role::Begin => self.begins,
            Role::End => self.ends,
            Role::Rare => true,
        }
    }

    /// Switches the events of beginnings. Those of ends go on, for what has begun.
    pub(crate) fn count_begins(&mut self, on: bool) {
        if on {
            self.switch(Role::End, true);
        }
        self.switch(Role::Begin, on);
    }

    /// Whether events of ends come.
    pub(crate) fn sees_ends(&self) -> bool {
        self.ends
    }

    /// Switches the events of ends off, until beginnings are switched on again.
    pub(crate) fn ignore_ends(&mut self) {
        self.switch(Role::End, false);
    }

    /// A processor that is offline refuses; it is closed with the next look at processors.
    fn switch(&mut self, role: Role, on: bool) {
        let state = if role == Role::Begin { &mut self.begins } else { &mut self.ends };
        if std::mem::replace(state, on) == on {
            return;
        }
        for leader in self.processors.iter().filter_map(|processor| processor.leader(role)) {
            let _ = if on { self.events.enable(leader) } else { self.events.disable(leader) };
        }
    }

    /// Closes all tracepoints; [`Self::follow_processors`] opens them again. Dropping what it
    /// returns takes half a second (`closer`).
    pub(crate) fn detach(&mut self) -> Vec<Piece> {
        self.switch(Role::Begin, false);
        self.switch(Role::End, false);
        (self.begins, self.ends) = (true, true);
        self.watched.clear();
        let mut pieces: Vec<Piece> = Vec::new();
        for Processor { others, writes, ring, .. } in self.processors.drain(..) {
            let events = writes.into_iter().chain(others.into_iter().rev().map(|(_, event)| event));
            pieces.extend(events.map(Piece::Event));
            pieces.push(Piece::Ring(ring));
        }
        pieces
    }

    /// Follows processors that came or went.
    ///
    /// # Errors
    /// [`ProbeError`] if one that came can't be looked at; the others go on.
    pub(crate) fn follow_processors(&mut self, root: &SysRoot) -> Result<(), ProbeError> {
        self.follow_these(&online(root))
    }

    fn follow_these(&mut self, online: &[u32]) -> Result<(), ProbeError> {
        if online.len() == self.processors.len()
            && self.processors.iter().all(|p| online.contains(&p.number))
        {
            return Ok(());
        }
        let followed = self.follow(online);
        // Those that came have no events for writes yet.
        let watched = std::mem::take(&mut self.watched);
        let seen = self.watch_writes(&watched);
        followed.and(seen)
    }

    /// Whether every request is seen when it is made, in the thread that asks for it.
    pub(crate) fn sees_all_queued(&self) -> bool {
        self.decoder.knows(Kind::Queued)
    }

    /// Sees write calls of these threads from now on, and of no others; of too many, of the first.
    /// A processor that went offline is no longer looked at.
    ///
    /// # Errors
    /// [`ProbeError::PerfEvent`]; no writes are seen then.
    pub(crate) fn watch_writes(&mut self, threads: &[u32]) -> Result<(), ProbeError> {
        let threads = &threads[..threads.len().min(MAX_WATCHED)];
        if threads == self.watched {
            return Ok(());
        }
        self.watched.clear();
        let filter = threads
            .iter()
            .map(|tid| format!("common_pid == {tid}"))
            .collect::<Vec<_>>()
            .join(" || ");
        let Self { processors, writes, events, .. } = self;
        let mut failure = None;
        processors.retain_mut(|processor| {
            let watched = if threads.is_empty() || failure.is_some() {
                processor.writes.clear();
                Ok(())
            } else {
                processor.watch_writes(writes, &filter, &**events)
            };
            match watched {
                Ok(()) => true,
                Err(e) if is_offline(&e) => false,
                Err(e) => {
                    failure = Some(e);
                    true
                }
            }
        });
        if let Some(failure) = failure {
            processors.iter_mut().for_each(|p| p.writes.clear());
            return Err(refused(failure));
        }
        self.watched = threads.to_vec();
        Ok(())
    }

    /// Threads whose writes are seen.
    pub(crate) fn watched(&self) -> &[u32] {
        &self.watched
    }
}

/// Runs a program of the kernel's at a tracepoint, on all processors, until the event is closed.
///
/// # Errors
/// The kernel's.
pub(crate) fn run_at(
    root: &SysRoot,
    tracepoint: u16,
    program: BorrowedFd<'_>,
) -> io::Result<OwnedFd> {
    // The event belongs to one processor, the program to the tracepoint.
    let processor = online(root).first().copied().unwrap_or(0);
    event::run_at(tracepoint, processor, program)
}

/// Reads the format files of tracepoints and returns the numbers of those that the kernel has.
fn learn(
    tracefs: &Tracefs,
    wanted: &[Wanted],
    sparing: bool,
    decoder: &mut Decoder,
    blind: &mut Vec<Blind>,
) -> Result<Vec<Point>, ProbeError> {
    let mut points = Vec::new();
    let mut known = Vec::new();
    for Wanted { path, kind } in wanted {
        // An older kernel's substitute for one that is there.
        if *kind == Kind::Inserted && known.contains(&Kind::Queued) {
            continue;
        }
        let text = tracefs.format(path).map_err(|source| ProbeError::Tracefs {
            place: "/sys/kernel/tracing",
            source,
            remedy: "run as root",
        })?;
        let learned = match text {
            None => Err("this kernel has no such tracepoint".to_owned()),
            Some(text) => Format::parse(&text)
                .and_then(|format| decoder.learn(*kind, &format).map(|()| format.id))
                .map_err(|e| e.to_string()),
        };
        match learned {
            Ok(number) => {
                known.push(*kind);
                let sees_queued = known.contains(&Kind::Queued);
                let filter = kind.filter(sparing, sees_queued);
                points.push(Point { number, role: kind.role(sees_queued), filter });
            }
            // Its substitute comes after it.
            Err(_) if path.ends_with("block_io_start") => {}
            Err(why) => blind.push(Blind::new(*path, why)),
        }
    }
    Ok(points)
}

/// Processors that run: `0-3,8`.
fn online(root: &SysRoot) -> Vec<u32> {
    let text = root.read_line("/sys/devices/system/cpu/online").into_value().unwrap_or_default();
    let listed = ranges(&text);
    if listed.is_empty() { vec![0] } else { listed }
}

fn ranges(text: &str) -> Vec<u32> {
    text.split(',')
        .filter_map(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
            // The kernel's own limit is 8192 (NR_CPUS).
            (last < 1 << 16).then_some(first..=last)
        })
        .flatten()
        .collect()
}

/// An event takes a descriptor on each processor; most shells allow 1024. If the limit can't be
/// raised, opening an event fails.
fn room_for_descriptors(events: usize) {
    let needed = events as u64 + 256;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|now| now < needed) {
        let current = Some(limit.maximum.map_or(needed, |most| most.min(needed)));
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum: limit.maximum });
    }
}

/// Whether a processor went offline since it was listed.
fn is_offline(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENODEV)
}

fn refused(source: io::Error) -> ProbeError {
    let remedy = match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            "it needs CAP_PERFMON (CAP_SYS_ADMIN before Linux 5.8, and on Debian's kernels while \
             kernel.perf_event_paranoid is 3): run as root, not in a container"
        }
        Some(libc::ENOSYS) => "this kernel is built without perf events (CONFIG_PERF_EVENTS)",
        Some(libc::EMFILE) => "raise the limit of open files (ulimit -n)",
        _ => "see the kernel's log (dmesg)",
    };
    ProbeError::PerfEvent { source, remedy }
}

#[cfg(test)]
mod tests;
