//! The waiters and writers of a probe's window, for a status. Processes that are no users of a disk
//! (`look::own`) are not among them.

use floodwall_host::SysRoot;
use floodwall_model::Reading;
use floodwall_model::status::Status;
use floodwall_probe::{Snapshot, SourceKind};

use crate::commands::look::own;
use crate::commands::probe::{waiters, writers};

/// Adds them; the probe leaves kernel workers out, which write for others. Counters alone tell
/// neither waiters nor disks: then the status keeps its writers.
pub(super) fn add(root: &SysRoot, status: &mut Status, snapshot: &Snapshot) {
    let own = own(root, &snapshot.processes);
    status.writers.top.retain(|writer| !own.contains(&writer.pid));
    if snapshot.source == SourceKind::Proc {
        return;
    }
    let waiters = waiters(snapshot).into_iter().filter(|one| !own.contains(&one.pid));
    status.waiters = Reading::Value(waiters.collect());
    let before = std::mem::take(&mut status.writers.top);
    let mut writers = writers(snapshot);
    writers.retain(|one| !own.contains(&one.pid));
    for old in before {
        // Bytes taken back are the process's, whatever disk they were for.
        if let Some(one) = writers.iter_mut().find(|one| one.pid == old.pid) {
            one.cancelled_bytes_per_s = old.cancelled_bytes_per_s;
        }
    }
    writers.sort_by(|a, b| b.dirtied_bytes_per_s.total_cmp(&a.dirtied_bytes_per_s));
    (status.writers.top, status.writers.missing) = (writers, None);
}
