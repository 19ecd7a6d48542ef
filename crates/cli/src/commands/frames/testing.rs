//! Windows without anything in them, for tests.

use std::time::Duration;

use floodwall_model::Reading;
use floodwall_model::diagnosis::{Diagnosis, Verdict, Whole};
use floodwall_probe::{Snapshot, SourceKind};

/// A second in which nothing happened.
pub(super) fn snapshot(source: SourceKind) -> Snapshot {
    let window = Duration::from_secs(1);
    Snapshot {
        at: window,
        window,
        attached: window,
        sampled_by: None,
        source,
        lost_events: 0,
        folded_operations: 0,
        unwatched_threads: 0,
        pressure: None,
        devices: Vec::new(),
        processes: Vec::new(),
    }
}

/// Nothing waits and nothing floods.
pub(super) fn quiet() -> Diagnosis {
    Diagnosis {
        verdict: Verdict::Quiet,
        window_s: 1.0,
        source: "bpf",
        about: None,
        disks: Vec::new(),
        outlook: None,
        machine: Whole {
            backlog_bytes: Reading::Value(0),
            waited_percent: Reading::Value(0.0),
            written: Vec::new(),
        },
        actions: Vec::new(),
        actions_need_root: false,
        unseen: Vec::new(),
        root_would_add: Vec::new(),
    }
}
