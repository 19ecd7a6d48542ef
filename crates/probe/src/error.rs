//! What keeps a probe from looking.

use std::io;

use floodwall_host::root::RootError;

/// A source can't be used, or was lost.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// Tracepoints can't be looked at.
    #[error("can't read the kernel's tracepoints in {place}: {source}; {remedy}")]
    Tracefs {
        /// Where they should be.
        place: &'static str,
        /// Why not.
        source: io::Error,
        /// What would help.
        remedy: &'static str,
    },
    /// The kernel has none of the tracepoints that are needed.
    #[error(
        "this kernel has none of the tracepoints that are needed (CONFIG_FTRACE_SYSCALLS, \
         CONFIG_BLOCK)"
    )]
    NoTracepoints,
    /// Forks can't be seen.
    #[error("this kernel does not tell who starts whom (tracepoint sched:sched_process_fork)")]
    NoForks,
    /// Processes have other numbers here than the kernel's.
    #[error("in this container processes have other numbers than the kernel's; run it on the host")]
    OwnNumbers,
    /// perf_event_open(2) is refused.
    #[error("can't open a perf event: {source}; {remedy}")]
    PerfEvent {
        /// Why not.
        source: io::Error,
        /// What would help.
        remedy: &'static str,
    },
    /// A ring buffer can't be mapped.
    #[error(
        "can't map a perf event's ring buffer of {bytes} bytes: {source}; raise \
         kernel.perf_event_mlock_kb or run as root"
    )]
    Ring {
        /// How large it would have been.
        bytes: usize,
        /// Why not.
        source: io::Error,
    },
    /// Programs can't be loaded into the kernel.
    #[error("can't look with BPF: {why}; {remedy}")]
    Bpf {
        /// Why not.
        why: String,
        /// What would help.
        remedy: &'static str,
    },
    /// /proc can't be read.
    #[error("can't read {path}: {why}; mount /proc")]
    Proc {
        /// What.
        path: &'static str,
        /// Why not.
        why: String,
    },
    /// The root directory can't be used.
    #[error(transparent)]
    Root(#[from] RootError),
    /// Waiting for events failed.
    #[error("can't wait for perf events: {0}")]
    Poll(io::Error),
}

impl ProbeError {
    /// Whether a privilege or a kernel feature is missing.
    #[must_use]
    pub fn is_missing_requirement(&self) -> bool {
        !matches!(self, Self::Root(_) | Self::Poll(_))
    }
}
