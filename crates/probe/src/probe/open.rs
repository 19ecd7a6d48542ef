//! Opens a probe: programs in the kernel, perf events, or the counters of /proc alone.

use std::collections::BTreeMap;

use floodwall_host::SysRoot;
use floodwall_host::memory::read_io_pressure;

use super::source::{Source, Use, own_numbers, unseen_by};
use super::{Probe, SYNC_WRITES, now_ns};
use crate::aggregator::{Aggregator, Limits};
use crate::beyond::Beyond;
use crate::closer::Closer;
use crate::disks::Disks;
use crate::error::ProbeError;
use crate::files::OpenFiles;
use crate::samples::Samples;
use crate::snapshot::{Blind, SourceKind};
use crate::sync_writers::SyncWriters;
use crate::threads::Threads;
use crate::under_way::Committers;
use crate::writers::Writers;

/// A sparing probe takes samples above so many synchronous calls and reads a second. At that rate
/// counting all of them takes some hundredths of a core (perf: 3 µs each).
const SAMPLED_ABOVE: u64 = 5_000;
/// Sources that see waiting processes, the best first.
const SOURCES: &[SourceKind] = &[SourceKind::Bpf, SourceKind::Perf];
impl Probe {
    /// Opens a source; without a wish the best that there is. What better ones could not do is
    /// among [`Self::blind`].
    ///
    /// # Errors
    /// [`ProbeError`] if the source that was wished for can't be used, or none can.
    pub fn open(wish: Option<SourceKind>) -> Result<Self, ProbeError> {
        Self::open_for(wish, Use::All)
    }

    /// The same for a controller, which pays for it day and night. Requests are not counted by
    /// class ([`crate::DeviceUse::requests`] is `None`). Above 5,000 synchronous calls and reads a
    /// second samples are taken ([`Self::sample_above`]).
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_sparing(wish: Option<SourceKind>) -> Result<Self, ProbeError> {
        let mut probe = Self::open_for(wish, Use::Sparing)?;
        probe.sample_above(Some(SAMPLED_ABOVE));
        Ok(probe)
    }

    fn open_for(wish: Option<SourceKind>, what_for: Use) -> Result<Self, ProbeError> {
        let root = SysRoot::live()?;
        let mut blind = Vec::new();
        let source = match wish {
            Some(kind) => {
                let (source, unseen) = Source::open(&root, kind, what_for)?;
                blind = unseen;
                source
            }
            None => Self::best(&root, what_for, &mut blind),
        };
        let mut probe = Self::with(root, source, what_for, blind)?;
        if let Some(bpf) = probe.source.bpf() {
            probe.beyond = Beyond::begin(bpf.dirtied_so_far());
        }
        // The beginning of the first window.
        probe.writers.look(&probe.root, &[]);
        probe.counters = probe.disks.read(&probe.root, None);
        probe.pressure_us = read_io_pressure(&probe.root).into_value().map(|p| p.some_us);
        if let Some(why) = probe.writers.missing() {
            let counted = probe.source.bpf().is_some_and(|bpf| bpf.counts_dirtied());
            let what =
                if counted { "direct writes by process" } else { "bytes dirtied by process" };
            probe.blind.push(Blind::new(what, why));
        }
        if probe.pressure_us.is_none() {
            let why = "the kernel does not say (/proc/pressure/io; boot with psi=1)";
            probe.blind.push(Blind::new("pressure", why));
        }
        Ok(probe)
    }

    /// Opens a source that can [follow](Self::follow): the wished one, or without a wish the best
    /// available. It has separate windows ([`Self::followed`]) and no snapshots.
    ///
    /// # Errors
    /// [`ProbeError`]: the obstacle of the last source that was tried, or its lack of fork events.
    pub fn open_following(wish: Option<SourceKind>) -> Result<Self, ProbeError> {
        let root = SysRoot::live()?;
        if own_numbers() {
            return Err(ProbeError::OwnNumbers);
        }
        let mut failure = ProbeError::NoForks;
        for kind in wish.as_ref().map_or(SOURCES, std::slice::from_ref) {
            match Source::open(&root, *kind, Use::Following) {
                Ok((source, blind)) if source.sees_forks() => {
                    return Self::with(root, source, Use::Following, blind);
                }
                Ok(_) => {}
                Err(e) => failure = e,
            }
        }
        Err(failure)
    }

    fn with(
        root: SysRoot,
        mut source: Source,
        what_for: Use,
        mut blind: Vec<Blind>,
    ) -> Result<Self, ProbeError> {
        if !root.exists("/proc/diskstats") {
            return Err(ProbeError::Proc {
                path: "/proc/diskstats",
                why: "it is not there".into(),
            });
        }
        blind.extend(unseen_by(&source));
        let own_numbers = own_numbers();
        if own_numbers && matches!(source, Source::Perf(_)) {
            let why = "in this container processes have other numbers than the kernel's";
            blind.push(Blind::new(SYNC_WRITES, why));
        }
        let now = now_ns();
        let sparing = what_for == Use::Sparing;
        let sees_calls = !matches!(source, Source::Proc);
        let asked_when_issued = source.perf().is_some_and(|perf| !perf.sees_all_queued());
        Ok(Self {
            files: OpenFiles::new(root.clone()),
            root,
            source,
            blind,
            aggregator: Aggregator::new(Limits::default())
                .asked_when_issued(asked_when_issued)
                .reads_only(sparing),
            writers: Writers::default(),
            beyond: Beyond::default(),
            threads: Threads::default(),
            origin_ns: now,
            since_ns: now,
            lost: 0,
            windows: 0,
            disks: Disks::default(),
            counters: BTreeMap::new(),
            pressure_us: None,
            sync_writers: SyncWriters::default(),
            unwatched: 0,
            own_numbers,
            check_turn: 0,
            sparing,
            samples: Samples::new(now, None, sees_calls),
            committers: Committers::default(),
            closer: Closer::default(),
        })
    }

    /// The best source that there is; what better ones could not do is told.
    fn best(root: &SysRoot, what_for: Use, blind: &mut Vec<Blind>) -> Source {
        for kind in SOURCES {
            match Source::open(root, *kind, what_for) {
                Ok((source, unseen)) => {
                    blind.extend(unseen);
                    return source;
                }
                Err(e) => blind.push(Blind::new(format!("through {}", kind.name()), e.to_string())),
            }
        }
        Source::Proc
    }
}
