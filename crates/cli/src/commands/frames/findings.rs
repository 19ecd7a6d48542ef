//! Findings, looked for now and then in the background. That reads ordinary files, such as the
//! journal's. A page of one may have to come from the very disk that is flooded.

use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use floodwall_host::SysRoot;
use floodwall_host::workload::Workloads;
use floodwall_model::frame::Finding;
use floodwall_model::status::Status;
use floodwall_probe::Snapshot;

use crate::commands::look::in_background;
use crate::commands::status::Surroundings;

/// How often they are looked for.
const EVERY: Duration = Duration::from_secs(60);

/// The last findings.
#[derive(Default)]
pub(super) struct Findings {
    begun: Option<Duration>,
    open: Option<Receiver<Vec<Finding>>>,
    last: Vec<Finding>,
}

impl Findings {
    /// The last ones. Looks for new ones if that is due, in this window's status. `now` is any
    /// clock that only goes forward.
    pub(super) fn by_now(
        &mut self,
        root: &SysRoot,
        now: Duration,
        unix_s: u64,
        status: &Status,
        snapshot: &Snapshot,
    ) -> &[Finding] {
        match self.open.as_ref().map(Receiver::try_recv) {
            Some(Ok(found)) => (self.last, self.open) = (found, None),
            Some(Err(TryRecvError::Disconnected)) => self.open = None,
            Some(Err(TryRecvError::Empty)) | None => {}
        }
        let is_due = self.begun.is_none_or(|begun| now.saturating_sub(begun) >= EVERY);
        if is_due && self.open.is_none() {
            self.begun = Some(now);
            let (root, mut status, snapshot) = (root.clone(), status.clone(), snapshot.clone());
            self.open = Some(in_background(move || {
                let surroundings = Surroundings::read(&root);
                let mut workloads = Workloads::new(&root);
                surroundings.judge(&mut status, unix_s, Some(&snapshot), &mut workloads);
                status.findings.iter().map(finding).collect()
            }));
        }
        &self.last
    }
}

fn finding(finding: &floodwall_model::Finding) -> Finding {
    Finding {
        id: finding.id.to_owned(),
        severity: finding.severity,
        title: finding.title.to_owned(),
        subjects: finding.subjects.clone(),
    }
}
