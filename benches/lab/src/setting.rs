//! A setting for as long as a measurement lasts, through the journal: whatever ends this process,
//! `floodwall rollback` undoes it.

use std::path::Path;

use anyhow::Context;
use floodwall_host::SysRoot;
use floodwall_knobs::journal::DiskStore;
use floodwall_knobs::{Change, KernelFiles, Session, SystemClock, Who, journal};

/// Where journals are.
const JOURNAL: &str = "/var/lib/floodwall/journal";

/// Runs `body` with knobs set, and puts them back.
pub(crate) fn with<T>(
    knobs: &[&str],
    body: impl FnOnce() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    if knobs.is_empty() {
        return body();
    }
    let root = SysRoot::live()?;
    let files = KernelFiles::new(&root)?;
    let who = Who::this_process(&files);
    let store = DiskStore::open(Path::new(JOURNAL), &who.describe())?;
    let session = Session {
        files: &files,
        store: &store,
        clock: &SystemClock,
        boot_id: journal::boot_id(&files),
        who,
    };
    let changes =
        knobs.iter().map(|knob| Change::parse(&root, None, knob)).collect::<Result<Vec<_>, _>>()?;
    let applied = session.apply(&changes, "the experiment of 2010")?;
    let result = body();
    let before = applied.id.map_or(0, |id| id - 1);
    session
        .rollback(before)
        .context("the setting could not be put back: run floodwall rollback")?;
    result
}
