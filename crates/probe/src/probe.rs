//! The probe itself: a source of events, what counts them, and the counters of /proc beside.
//!
//! ```text
//! open ─▶ bpf, else perf, else proc            what the one can't do is said, and what the next can't see
//! wait ─▶ rings drained into the tally         as often as they fill
//! snapshot ─▶ tally + /proc/PID/io + /proc/diskstats + PSI ─▶ Snapshot
//! ```

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use floodwall_host::diskstats::{DiskStats, between};
use floodwall_host::memory::read_io_pressure;
use floodwall_host::{SysRoot, block};
use floodwall_model::DeviceId;
use floodwall_model::trial::DeviceSample;
use rustix::time::{ClockId, clock_gettime};

use crate::error::ProbeError;
use crate::files::OpenFiles;
use crate::hash::Fast;
use crate::perf::Perf;
use crate::snapshot::{Blind, DeviceUse, OTHERS, ProcessUse, Snapshot, SourceKind};
use crate::tally::{Counted, Limits, Tally};
use crate::writers::Writers;

/// A call that is under way longer than this is checked to be still there: its end may have been among lost events.
const CHECKED_AFTER: Duration = Duration::from_secs(5);
/// Windows between two looks at which processors run.
const PROCESSORS_EVERY: u32 = 10;
/// Windows for which a thread that wrote synchronously once is watched without doing it again.
const WATCHED_FOR: u32 = 30;

/// Sees who waits and who floods.
#[derive(Debug)]
pub struct Probe {
    root: SysRoot,
    source: Source,
    blind: Vec<Blind>,
    tally: Tally,
    files: OpenFiles,
    writers: Writers,
    origin_ns: u64,
    since_ns: u64,
    lost: u64,
    windows: u32,
    disks: BTreeMap<DeviceId, DeviceSample>,
    names: HashMap<DeviceId, String, Fast>,
    pressure_us: Option<u64>,
    /// Threads whose writes are watched, and the window in which they last deserved it.
    watched: BTreeMap<u32, u32>,
    /// Threads that were found to write to nothing synchronously, and the window of that.
    dismissed: HashMap<u32, u32, Fast>,
}

#[derive(Debug)]
enum Source {
    Proc,
    Perf(Box<Perf>),
    /// And perf events for what it leaves to them.
    #[cfg(feature = "bpf")]
    Bpf(Box<crate::bpf::Bpf>, Option<Box<Perf>>),
}

impl Source {
    fn open(root: &SysRoot, kind: SourceKind) -> Result<(Self, Vec<Blind>), ProbeError> {
        match kind {
            SourceKind::Proc => Ok((Self::Proc, Vec::new())),
            SourceKind::Perf => Perf::open(root).map(|(perf, blind)| (Self::Perf(Box::new(perf)), blind)),
            #[cfg(feature = "bpf")]
            SourceKind::Bpf => {
                let (bpf, mut blind) = crate::bpf::Bpf::open()?;
                let perf = match Perf::open_these(root, crate::tracepoints::BESIDE_BPF, &[]) {
                    Ok((perf, unseen)) => {
                        blind.extend(unseen);
                        Some(Box::new(perf))
                    }
                    Err(e) => {
                        blind.push(Blind::new("throttling", e.to_string()));
                        None
                    }
                };
                Ok((Self::Bpf(Box::new(bpf), perf), blind))
            }
            #[cfg(not(feature = "bpf"))]
            SourceKind::Bpf => Err(ProbeError::Bpf {
                why: "this program is built without the feature bpf".into(),
                remedy: "build it with --features bpf (needs clang), or use --source perf",
            }),
        }
    }

    fn perf(&mut self) -> Option<&mut Perf> {
        match self {
            Self::Proc => None,
            Self::Perf(perf) => Some(perf),
            #[cfg(feature = "bpf")]
            Self::Bpf(_, perf) => perf.as_deref_mut(),
        }
    }
}

/// Nanoseconds of CLOCK_MONOTONIC, the clock of our events.
fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Probe {
    /// Opens a source; without a wish the best that there is. What better ones could not do is among [`Self::blind`].
    ///
    /// # Errors
    /// [`ProbeError`] if the source that was wished for can't be used, or none can.
    pub fn open(wish: Option<SourceKind>) -> Result<Self, ProbeError> {
        let root = SysRoot::live()?;
        let mut blind = Vec::new();
        let source = match wish {
            Some(kind) => {
                let (source, unseen) = Source::open(&root, kind)?;
                blind = unseen;
                source
            }
            None => Self::best(&root, &mut blind),
        };
        if !root.exists("/proc/diskstats") {
            return Err(ProbeError::Proc { path: "/proc/diskstats", why: "it is not there".into() });
        }
        blind.extend(unseen_by(&source));
        let now = now_ns();
        let mut probe = Self {
            files: OpenFiles::new(root.clone()),
            root,
            source,
            blind,
            tally: Tally::new(Limits::default()),
            writers: Writers::default(),
            origin_ns: now,
            since_ns: now,
            lost: 0,
            windows: 0,
            disks: BTreeMap::new(),
            names: HashMap::default(),
            pressure_us: None,
            watched: BTreeMap::new(),
            dismissed: HashMap::default(),
        };
        // The beginning of the first window.
        probe.writers.look(&probe.root, &[]);
        probe.disks = probe.read_disks();
        probe.pressure_us = read_io_pressure(&probe.root).into_value().map(|p| p.some_us);
        if let Some(why) = probe.writers.missing() {
            probe.blind.push(Blind::new("bytes dirtied by process", why));
        }
        if probe.pressure_us.is_none() {
            let why = "the kernel does not say (/proc/pressure/io; boot with psi=1)";
            probe.blind.push(Blind::new("pressure", why));
        }
        Ok(probe)
    }

    /// The best source that there is; what better ones could not do is told.
    fn best(root: &SysRoot, blind: &mut Vec<Blind>) -> Source {
        let built_with: &[SourceKind] =
            if cfg!(feature = "bpf") { &[SourceKind::Bpf, SourceKind::Perf] } else { &[SourceKind::Perf] };
        for kind in built_with {
            match Source::open(root, *kind) {
                Ok((source, unseen)) => {
                    blind.extend(unseen);
                    return source;
                }
                Err(e) => blind.push(Blind::new(format!("through {}", kind.name()), e.to_string())),
            }
        }
        Source::Proc
    }

    /// Where sight comes from.
    #[must_use]
    pub fn source(&self) -> SourceKind {
        match self.source {
            Source::Proc => SourceKind::Proc,
            Source::Perf(_) => SourceKind::Perf,
            #[cfg(feature = "bpf")]
            Source::Bpf(..) => SourceKind::Bpf,
        }
    }

    /// What can't be seen, and why.
    #[must_use]
    pub fn blind(&self) -> &[Blind] {
        &self.blind
    }

    /// Waits, and takes in what happens meanwhile; ends early when `stop` is raised, at the latest after a tenth of a second.
    ///
    /// # Errors
    /// [`ProbeError`] if the source is lost.
    pub fn wait(&mut self, time: Duration, stop: &AtomicBool) -> Result<(), ProbeError> {
        let end = now_ns().saturating_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
        while !stop.load(Ordering::Relaxed) {
            let left = Duration::from_nanos(end.saturating_sub(now_ns()));
            if left.is_zero() {
                break;
            }
            let nap = left.min(Duration::from_millis(100));
            match self.source.perf() {
                Some(perf) => {
                    perf.wait(nap)?;
                    // Often enough to learn the names of processes that do not live long.
                    self.drain(now_ns());
                }
                None => std::thread::sleep(nap),
            }
        }
        Ok(())
    }

    /// What was seen since the last call, or since the probe was opened.
    ///
    /// # Errors
    /// [`ProbeError`] if the source is lost.
    pub fn snapshot(&mut self) -> Result<Snapshot, ProbeError> {
        let now = now_ns();
        self.drain(now);
        self.forget_lost_calls(now);
        let disks = self.read_disks();
        self.tally.in_flight(|id| disks.get(&id).map(|d| d.in_flight));
        let counted = self.counted(now);
        let mut processes = counted.processes;
        self.add_dirtied(&mut processes);
        for process in &mut processes {
            process.name =
                if process.pid == OTHERS { "others" } else { self.files.name(process.pid) }.to_owned();
        }
        processes.sort_by_key(|p| (p.pid, p.device));
        let mut requests = counted.devices;
        let sees_requests = self.source() != SourceKind::Proc;
        let devices = disks.iter().map(|(id, after)| DeviceUse {
            id: *id,
            name: self.names.get(id).cloned().unwrap_or_else(|| id.to_string()),
            counters: self.disks.get(id).map(|before| between(before, after)),
            requests: sees_requests.then(|| requests.remove(id).unwrap_or_default()),
        });
        let devices = devices.collect();
        self.disks = disks;
        let pressure_us = read_io_pressure(&self.root).into_value().map(|p| p.some_us);
        let pressure =
            self.pressure_us.zip(pressure_us).map(|(a, b)| Duration::from_micros(b.saturating_sub(a)));
        self.pressure_us = pressure_us;
        let snapshot = Snapshot {
            at: Duration::from_nanos(now.saturating_sub(self.origin_ns)),
            window: Duration::from_nanos(now.saturating_sub(self.since_ns)),
            source: self.source(),
            lost_events: std::mem::take(&mut self.lost),
            folded_operations: counted.folded,
            pressure,
            devices,
            processes,
        };
        self.since_ns = now;
        self.windows = self.windows.wrapping_add(1);
        self.files.next_window();
        self.watch_writers()?;
        Ok(snapshot)
    }

    fn drain(&mut self, until_ns: u64) {
        let Self { source, tally, files, lost, .. } = self;
        if let Some(perf) = source.perf() {
            let drained = perf.drain(until_ns, &mut |record| tally.count(record, files));
            if drained.lost > 0 {
                *lost += drained.lost;
                tally.events_lost();
            }
        }
    }

    /// What was counted in this window, in the kernel and here.
    fn counted(&mut self, now: u64) -> Counted {
        let here = self.tally.take(now, &mut self.files);
        #[cfg(feature = "bpf")]
        if let Source::Bpf(bpf, _) = &mut self.source {
            let mut counted = bpf.take(now, &mut self.files);
            for process in here.processes {
                let same = |p: &&mut ProcessUse| (p.pid, p.device) == (process.pid, process.device);
                match counted.processes.iter_mut().find(same) {
                    Some(known) => known.throttled = process.throttled,
                    None => counted.processes.push(process),
                }
            }
            return counted;
        }
        here
    }

    /// Calls whose end was lost would be waited for for ever.
    fn forget_lost_calls(&mut self, now: u64) {
        let long = match &self.source {
            #[cfg(feature = "bpf")]
            Source::Bpf(bpf, _) => bpf.long_calls(now, CHECKED_AFTER),
            _ => self.tally.long_calls(now, CHECKED_AFTER),
        };
        for (pid, tid) in long {
            // `running`, or the number of the call; the thread may be gone.
            let path = format!("/proc/{pid}/task/{tid}/syscall");
            let inside = self.root.read_line(&path).into_value().is_some_and(|text| {
                text.split(' ').next().is_some_and(|n| n.parse::<i64>().is_ok_and(|n| n >= 0))
            });
            if !inside {
                self.tally.forget(tid);
                #[cfg(feature = "bpf")]
                if let Source::Bpf(bpf, _) = &self.source {
                    bpf.forget(pid, tid);
                }
            }
        }
    }

    /// Adds what processes dirtied, to the device that they are believed to write to.
    fn add_dirtied(&mut self, processes: &mut Vec<ProcessUse>) {
        let throttled: Vec<u32> =
            processes.iter().filter(|p| !p.throttled.is_zero()).map(|p| p.pid).collect();
        let dirtied = self.writers.look(&self.root, &throttled);
        if self.writers.missing().is_none() {
            processes.iter_mut().for_each(|p| p.dirtied_bytes = Some(0));
        }
        for (pid, bytes) in dirtied {
            let of = |p: &ProcessUse| p.pid == pid && p.device.is_some();
            // Where it was made to sleep it writes; else where all its open files are; else where it was seen at all.
            let slept = processes
                .iter()
                .filter(|p| of(p))
                .max_by_key(|p| p.throttled)
                .filter(|p| !p.throttled.is_zero());
            let device = slept
                .and_then(|p| p.device)
                .or_else(|| self.files.target(pid))
                .or_else(|| processes.iter().find(|p| of(p)).and_then(|p| p.device));
            match processes.iter_mut().find(|p| p.pid == pid && p.device == device) {
                Some(process) => process.dirtied_bytes = Some(bytes),
                None => processes.push(ProcessUse {
                    pid,
                    device,
                    dirtied_bytes: Some(bytes),
                    ..ProcessUse::default()
                }),
            }
        }
    }

    /// Counters of all whole disks that were ever used.
    fn read_disks(&mut self) -> BTreeMap<DeviceId, DeviceSample> {
        let stats = DiskStats::read(&self.root);
        let names = self.root.list("/sys/block").into_value().unwrap_or_default();
        let known: HashMap<&String, DeviceId, Fast> =
            self.names.iter().map(|(id, name)| (name, *id)).collect();
        let mut found = HashMap::default();
        let mut disks = BTreeMap::new();
        for name in names {
            // A name's number changes only with the device; one that came back under its name is rare, and noticed when its counters are gone.
            let listed = known.get(&name).copied().filter(|id| stats.device(*id).into_value().is_some());
            let Some(id) = listed.or_else(|| self.root.parse(&format!("/sys/block/{name}/dev")).into_value())
            else {
                continue;
            };
            if let Some(sample) = stats.device(id).into_value()
                && was_used(&sample)
            {
                disks.insert(id, sample);
            }
            found.insert(id, name);
        }
        self.names = found;
        disks
    }

    /// Follows processors, and threads that write synchronously.
    fn watch_writers(&mut self) -> Result<(), ProbeError> {
        let window = self.windows;
        let recent = |since: &u32| window.wrapping_sub(*since) < WATCHED_FOR;
        if self.windows.is_multiple_of(PROCESSORS_EVERY)
            && let Some(perf) = self.source.perf()
        {
            perf.follow_processors(&self.root)?;
        }
        #[cfg(feature = "bpf")]
        if let Source::Bpf(bpf, _) = &mut self.source {
            // One that is watched is no suspect, and is not told again: it is watched on as long as it has such files open.
            for pid in bpf.take_suspects() {
                if self.files.writes_synchronously(pid) {
                    self.watched.insert(pid, window);
                }
            }
            for (pid, since) in &mut self.watched {
                if !recent(since) && self.files.writes_synchronously(*pid) {
                    *since = window;
                }
            }
            self.watched.retain(|_, since| recent(since));
            let processes: Vec<u32> = self.watched.keys().copied().collect();
            bpf.watch_writes(&processes)?;
            return Ok(());
        }
        let Source::Perf(perf) = &mut self.source else { return Ok(()) };
        for (pid, tid) in self.tally.take_writers() {
            if self.watched.contains_key(&tid) || self.dismissed.contains_key(&tid) {
                self.watched.entry(tid).and_modify(|since| *since = window);
            } else if self.files.writes_synchronously(pid) {
                self.watched.insert(tid, window);
            } else {
                self.dismissed.insert(tid, window);
            }
        }
        self.watched.retain(|_, since| recent(since));
        self.dismissed.retain(|_, since| recent(since));
        let threads: Vec<u32> = self.watched.keys().copied().collect();
        if threads != perf.watched() {
            perf.watch_writes(&threads)?;
        }
        Ok(())
    }
}

/// Whether a device did anything since it appeared.
fn was_used(sample: &DeviceSample) -> bool {
    sample.read_ops > 0
        || sample.write_ops > 0
        || sample.in_flight > 0
        || sample.flush_ops.is_some_and(|n| n > 0)
}

/// What a source can't see by its nature.
fn unseen_by(source: &Source) -> Vec<Blind> {
    match source {
        Source::Proc => vec![
            Blind::new(
                "who waits",
                "counters do not tell how long a process waited; needs tracepoints (root)",
            ),
            Blind::new("requests", "only their sums are known (/proc/diskstats); needs tracepoints (root)"),
            Blind::new("throttling", "needs tracepoints (root)"),
        ],
        _ => {
            vec![Blind::new("syncs through io_uring", "they are no system calls; their requests are seen")]
        }
    }
}

/// The whole disk that a name, a path below /dev or a number means.
///
/// # Errors
/// Why it is none.
pub fn device(root: &SysRoot, text: &str) -> Result<DeviceId, String> {
    let id = match text.parse() {
        Ok(id) => id,
        Err(_) => {
            let path = if text.contains('/') { text.to_owned() } else { format!("/dev/{text}") };
            block::by_path(root, &path).into_value().ok_or_else(|| {
                format!("'{text}' is no block device; name one as in lsblk, such as sda, or by its number, such as 8:0")
            })?
        }
    };
    block::whole_disk(root, id).into_value().ok_or_else(|| format!("there is no block device {id}"))
}
