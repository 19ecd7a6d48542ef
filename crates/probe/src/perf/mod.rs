//! Events through perf_event_open(2): one event a tracepoint and processor, all of a processor in one ring.
//!
//! ```text
//! tracefs format ─▶ Decoder                             switched off again when the descriptors close,
//! perf events ─▶ ring a processor ─▶ merged by time ─▶ Record   even if we are killed
//! ```
//!
//! Nothing global is written: filters belong to our events, and other tracers' events are their own.

mod event;
mod ring;

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use floodwall_host::SysRoot;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::ProbeError;
use crate::event::Record;
use crate::format::Format;
use crate::snapshot::Blind;
use crate::tracefs::Tracefs;
use crate::tracepoints::{ALWAYS, Decoder, Kind, WRITES, Wanted};
use ring::{Raw, Ring};

/// Memory of all rings together. A record takes some 100 bytes, so this is 80,000 events.
const RINGS_BYTES: usize = 8 << 20;
/// One ring's size: enough for 5 ms of 100,000 events a second, and no more than is filled in the time in which we are scheduled again.
const RING_BYTES: std::ops::RangeInclusive<usize> = (64 << 10)..=(1 << 20);
/// At most so many threads' writes are watched; the filter's text grows with them, and is walked for every write call of the machine.
const MAX_WATCHED: usize = 32;

/// One processor's events.
#[derive(Debug)]
struct Processor {
    number: u32,
    ring: Ring,
    /// All but the ring's own event.
    _others: Vec<OwnedFd>,
    /// Those of [`WRITES`], while threads' writes are watched.
    writes: Vec<OwnedFd>,
}

/// The tracepoints of this machine, flowing.
#[derive(Debug)]
pub(crate) struct Perf {
    decoder: Decoder,
    always: Vec<u16>,
    writes: Vec<u16>,
    processors: Vec<Processor>,
    scratch: Vec<u8>,
    watched: Vec<u32>,
    ring_bytes: usize,
}

/// What one look at the rings brought.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Drained {
    /// Events that had no room.
    pub(crate) lost: u64,
}

impl Perf {
    /// Opens all tracepoints that the kernel has, and says what the others would have told.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub(crate) fn open(root: &SysRoot) -> Result<(Self, Vec<Blind>), ProbeError> {
        Self::open_these(root, ALWAYS, WRITES)
    }

    /// Opens these tracepoints: all the time, and while writes are watched.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub(crate) fn open_these(
        root: &SysRoot,
        always: &[Wanted],
        writes: &[Wanted],
    ) -> Result<(Self, Vec<Blind>), ProbeError> {
        let tracefs = Tracefs::open()?;
        let mut decoder = Decoder::default();
        let mut blind = Vec::new();
        let always = learn(&tracefs, always, &mut decoder, &mut blind)?;
        let writes = learn(&tracefs, writes, &mut decoder, &mut blind)?;
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
            processors: Vec::new(),
            scratch: Vec::new(),
            watched: Vec::new(),
            ring_bytes: 1 << share.ilog2(),
        };
        room_for_descriptors(online.len() * (perf.always.len() + perf.writes.len()));
        perf.follow(&online)?;
        Ok((perf, blind))
    }

    /// Opens events on processors that came online, and closes those of processors that went.
    fn follow(&mut self, online: &[u32]) -> Result<(), ProbeError> {
        self.processors.retain(|p| online.contains(&p.number));
        for number in online {
            if !self.processors.iter().any(|p| p.number == *number) {
                match self.processor(*number) {
                    Ok(processor) => self.processors.push(processor),
                    // It went offline again meanwhile.
                    Err(ProbeError::PerfEvent { source, .. })
                        if source.raw_os_error() == Some(libc::ENODEV) => {}
                    Err(e) => return Err(e),
                }
            }
        }
        Ok(())
    }

    fn processor(&self, number: u32) -> Result<Processor, ProbeError> {
        let watermark = (self.ring_bytes / 2) as u32;
        let mut events = self
            .always
            .iter()
            .map(|id| event::open(*id, number, watermark))
            .collect::<io::Result<Vec<_>>>()
            .map_err(refused)?;
        let others = events.split_off(1);
        let Some(leader) = events.pop() else { return Err(ProbeError::NoTracepoints) };
        let ring = Ring::map(leader, self.ring_bytes)?;
        for other in &others {
            event::send_to(other, ring.raw_fd()).map_err(refused)?;
        }
        for event in std::iter::once(ring.leader()).chain(&others) {
            event::enable(event).map_err(refused)?;
        }
        Ok(Processor { number, ring, _others: others, writes: Vec::new() })
    }

    /// Follows processors that came or went.
    ///
    /// # Errors
    /// [`ProbeError`] if one that came can't be looked at.
    pub(crate) fn follow_processors(&mut self, root: &SysRoot) -> Result<(), ProbeError> {
        let online = online(root);
        if online.len() != self.processors.len()
            || !self.processors.iter().all(|p| online.contains(&p.number))
        {
            self.follow(&online)?;
            let watched = std::mem::take(&mut self.watched);
            self.watch_writes(&watched)?;
        }
        Ok(())
    }

    /// Sees write calls of these threads from now on, and of no others.
    ///
    /// # Errors
    /// [`ProbeError::PerfEvent`].
    pub(crate) fn watch_writes(&mut self, threads: &[u32]) -> Result<(), ProbeError> {
        let threads = &threads[..threads.len().min(MAX_WATCHED)];
        if threads == self.watched {
            return Ok(());
        }
        self.watched = threads.to_vec();
        let filter =
            threads.iter().map(|tid| format!("common_pid == {tid}")).collect::<Vec<_>>().join(" || ");
        for processor in &mut self.processors {
            if threads.is_empty() {
                processor.writes.clear();
                continue;
            }
            let fresh = processor.writes.is_empty();
            if fresh {
                let open = self.writes.iter().map(|id| event::open(*id, processor.number, 0));
                processor.writes = open.collect::<io::Result<_>>().map_err(refused)?;
            }
            for write in &processor.writes {
                event::filter(write, &filter).map_err(refused)?;
                if fresh {
                    event::send_to(write, processor.ring.raw_fd()).map_err(refused)?;
                    event::enable(write).map_err(refused)?;
                }
            }
        }
        Ok(())
    }

    /// Threads whose writes are seen.
    pub(crate) fn watched(&self) -> &[u32] {
        &self.watched
    }

    /// Waits until a ring is half full, the time went by or a signal came.
    ///
    /// # Errors
    /// [`ProbeError::Poll`].
    pub(crate) fn wait(&self, time: Duration) -> Result<(), ProbeError> {
        let mut fds: Vec<PollFd<'_>> =
            self.processors.iter().map(|p| PollFd::new(p.ring.leader(), PollFlags::IN)).collect();
        let timeout = Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(e) => Err(ProbeError::Poll(e.into())),
        }
    }

    /// Hands over what happened up to `until_ns`, in the order of time; what is younger stays for the next look, because an older event of another
    /// processor could still be on its way.
    pub(crate) fn drain(&mut self, until_ns: u64, each: &mut dyn FnMut(&Record)) -> Drained {
        let Self { decoder, processors, scratch, .. } = self;
        let mut drained = Drained::default();
        let mut cursors: Vec<_> = processors.iter().map(|p| p.ring.cursor()).collect();
        loop {
            // The ring with the oldest record, and how far it may be read before another's turn comes.
            let (mut first, mut oldest, mut second) = (usize::MAX, u64::MAX, until_ns);
            for (at, cursor) in cursors.iter().enumerate() {
                if cursor.next_ns < oldest {
                    second = second.min(oldest);
                    (first, oldest) = (at, cursor.next_ns);
                } else {
                    second = second.min(cursor.next_ns);
                }
            }
            if oldest > until_ns || first == usize::MAX {
                return drained;
            }
            let cursor = &mut cursors[first];
            while cursor.next_ns <= second && cursor.next_ns != u64::MAX {
                cursor.read(scratch, |raw| match raw {
                    Raw::Sample { at_ns, pid, tid, data } => {
                        if let Some(event) = decoder.decode(data) {
                            each(&Record { at_ns, pid, tid, event });
                        }
                    }
                    Raw::Lost(events) => drained.lost += events,
                    Raw::Other => {}
                });
            }
        }
    }
}

/// Reads the format files of tracepoints and returns the numbers of those that the kernel has.
fn learn(
    tracefs: &Tracefs,
    wanted: &[Wanted],
    decoder: &mut Decoder,
    blind: &mut Vec<Blind>,
) -> Result<Vec<u16>, ProbeError> {
    let mut numbers = Vec::new();
    let mut known = Vec::new();
    for Wanted { path, kind } in wanted {
        // An older kernel's substitute for one that is there.
        if *kind == Kind::Queued && known.contains(kind) {
            continue;
        }
        let text = tracefs.format(path).map_err(|source| ProbeError::Tracefs {
            place: "/sys/kernel/tracing",
            source,
            remedy: "run as root, or use --source proc",
        })?;
        let learned = match text {
            None => Err("this kernel has no such tracepoint".to_owned()),
            Some(text) => Format::parse(&text)
                .and_then(|format| decoder.learn(*kind, &format).map(|()| format.id))
                .map_err(|e| e.to_string()),
        };
        match learned {
            Ok(id) => {
                numbers.push(id);
                known.push(*kind);
            }
            // Its substitute comes after it.
            Err(_) if path.ends_with("block_io_start") => {}
            Err(why) => blind.push(Blind::new(*path, why)),
        }
    }
    Ok(numbers)
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

/// An event takes a descriptor on each processor; most shells allow 1024. What can't be raised is met when an event is opened.
fn room_for_descriptors(events: usize) {
    let needed = events as u64 + 256;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|now| now < needed) {
        let current = Some(limit.maximum.map_or(needed, |most| most.min(needed)));
        let _ = setrlimit(Resource::Nofile, Rlimit { current, maximum: limit.maximum });
    }
}

fn refused(source: io::Error) -> ProbeError {
    let remedy = match source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            "it needs CAP_PERFMON (CAP_SYS_ADMIN before Linux 5.8): run as root, not in a container, or use --source proc"
        }
        Some(libc::ENOSYS) => {
            "this kernel is built without perf events (CONFIG_PERF_EVENTS); use --source proc"
        }
        Some(libc::EMFILE) => "raise the limit of open files (ulimit -n)",
        _ => "use --source proc",
    };
    ProbeError::PerfEvent { source, remedy }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read_as_the_kernel_writes_them() {
        assert_eq!(ranges("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(ranges("0"), [0]);
        assert_eq!(ranges(""), [0u32; 0]);
        assert_eq!(ranges("3-1,x,0-99999999999,7"), [7]);
    }
}
