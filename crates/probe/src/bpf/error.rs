//! Errors of loading and attaching.

use crate::error::ProbeError;

/// An error with all its causes: `aya` says only the outermost.
pub(super) fn failed(what: &str, why: &dyn std::error::Error) -> ProbeError {
    let mut text = format!("{what}: {why}");
    let mut cause = why.source();
    while let Some(error) = cause {
        // The verifier's log has many lines.
        let said = error.to_string();
        let said = said.lines().next().unwrap_or_default();
        if !text.contains(said) {
            text += &format!(": {said}");
        }
        cause = error.source();
    }
    refused(text)
}

pub(super) fn refused(why: String) -> ProbeError {
    ProbeError::Bpf {
        why,
        remedy: "it needs root (CAP_BPF, CAP_PERFMON), /sys/kernel/btf/vmlinux and \
            CONFIG_BPF_EVENTS; use --source perf",
    }
}
