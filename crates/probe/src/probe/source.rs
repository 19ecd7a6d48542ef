//! Where a probe's counts come from: programs in the kernel, perf events, or the counters of /proc
//! alone.

use floodwall_host::SysRoot;

use crate::bpf::Bpf;
use crate::error::ProbeError;
use crate::perf::Perf;
use crate::snapshot::{Blind, SourceKind};
use crate::tracepoints::{ALWAYS, BESIDE_BPF, FORKS, WRITES, Wanted};

/// The inode number of the first namespace of processes (include/linux/proc_ns.h
/// `PROC_PID_INIT_INO`).
const FIRST_PID_NAMESPACE: u64 = 0xEFFF_FFFC;

/// What a probe is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// To see everything.
    All,
    /// To follow processes.
    Following,
    /// To see victims and floods.
    Sparing,
}

/// Where a probe's counts come from.
#[derive(Debug)]
pub(crate) enum Source {
    Proc,
    Perf(Box<Perf>),
    /// Beside them perf events, for the rest.
    Bpf(Box<Bpf>, Option<Box<Perf>>),
}

impl Source {
    pub(super) fn open(
        root: &SysRoot,
        kind: SourceKind,
        what_for: Use,
    ) -> Result<(Self, Vec<Blind>), ProbeError> {
        let forks: &[Wanted] = if what_for == Use::Following { FORKS } else { &[] };
        let sparing = what_for == Use::Sparing;
        match kind {
            SourceKind::Proc => Ok((Self::Proc, Vec::new())),
            SourceKind::Perf => Perf::open_these(root, &[ALWAYS, forks].concat(), WRITES, sparing)
                .map(|(perf, blind)| (Self::Perf(Box::new(perf)), blind)),
            SourceKind::Bpf => {
                if own_numbers() {
                    return Err(ProbeError::Bpf {
                        why: "in this container processes have other numbers than the kernel's"
                            .into(),
                        remedy: "run it on the host, or use --source perf",
                    });
                }
                let (bpf, mut blind) = Bpf::open(root, sparing, what_for == Use::All)?;
                let beside = [BESIDE_BPF, forks].concat();
                let perf = match Perf::open_these(root, &beside, &[], sparing) {
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
        }
    }

    /// Whether forks are seen.
    pub(super) fn sees_forks(&self) -> bool {
        match self {
            Self::Proc => false,
            Self::Perf(perf) => perf.sees_forks(),
            Self::Bpf(_, perf) => perf.as_ref().is_some_and(|perf| perf.sees_forks()),
        }
    }

    pub(crate) fn bpf(&mut self) -> Option<&mut Bpf> {
        match self {
            Self::Bpf(bpf, _) => Some(bpf),
            _ => None,
        }
    }

    pub(crate) fn perf(&mut self) -> Option<&mut Perf> {
        match self {
            Self::Proc => None,
            Self::Perf(perf) => Some(perf),
            Self::Bpf(_, perf) => perf.as_deref_mut(),
        }
    }
}

/// What a source can't see by its nature.
pub(super) fn unseen_by(source: &Source) -> Vec<Blind> {
    match source {
        Source::Proc => vec![
            Blind::new(
                "who waits",
                "counters do not tell how long a process waited; needs tracepoints (root)",
            ),
            Blind::new(
                "requests",
                "only their sums are known (/proc/diskstats); needs tracepoints (root)",
            ),
            Blind::new("throttling", "needs tracepoints (root)"),
        ],
        _ => {
            vec![Blind::new(
                "syncs through io_uring",
                "they are no system calls; their requests are seen",
            )]
        }
    }
}

/// Whether processes are numbered otherwise here than by the kernel itself: a container.
pub(super) fn own_numbers() -> bool {
    rustix::fs::stat("/proc/self/ns/pid").is_ok_and(|stat| stat.st_ino != FIRST_PID_NAMESPACE)
}
