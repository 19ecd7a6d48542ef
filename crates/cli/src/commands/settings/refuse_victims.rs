//! Refuses to limit a control group that holds a victim: the limit would slow it down with the
//! flood.
//!
//! ```text
//! plan ─▶ groups held to less ─┬▶ raised threads in them (plan, journal) ─┬▶ refusal
//!                              └▶ a second of a probe ─▶ victim_in ───────┘
//! ```

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use floodwall_host::findings::{DiskUser, victim_in};
use floodwall_host::status::{Observation, status};
use floodwall_host::workload::Workloads;
use floodwall_knobs::journal::{Transaction, log};
use floodwall_knobs::limited::{Limited, limited, raised_in};
use floodwall_knobs::{Plan, PlanError};
use floodwall_model::status::Status;
use floodwall_probe::{Probe, SourceKind};

use super::Place;
use crate::commands::probe::disk_users;
use crate::output::{message, notice};

/// The option that limits such a group all the same.
const OVERRIDE: &str = "--allow-victims";
/// How long a probe looks on: as long as `floodwall status` does by itself.
const WINDOW: Duration = Duration::from_secs(1);

/// Refuses a plan that holds a group with a victim to less. Says so where it can't look.
pub(super) fn refuse(place: &Place, plan: &Plan) -> anyhow::Result<()> {
    let groups = limited(plan);
    if place.allow_victims || groups.is_empty() {
        return Ok(());
    }
    let journal = read_journal(place).unwrap_or_else(|error| {
        notice(&format!("note: can't see which priorities were raised ({})", message(&error)));
        Vec::new()
    });
    for group in &groups {
        if let Some(why) = raised_in(group, plan, &journal, &place.files) {
            return Err(refusal(group, &why));
        }
    }
    // A captured tree has no processes that run.
    if !place.root.is_live() {
        return Ok(());
    }
    let (status, users) = match look(place) {
        Ok(seen) => seen,
        Err(why) => {
            let paths: Vec<&str> = groups.iter().map(|group| group.path).collect();
            notice(&format!("note: can't see whether {} holds a victim ({why})", paths.join(", ")));
            return Ok(());
        }
    };
    match groups.iter().find_map(|group| Some((group, victim_in(group.path, &status, &users)?))) {
        Some((group, why)) => Err(refusal(group, &why)),
        None => Ok(()),
    }
}

fn read_journal(place: &Place) -> anyhow::Result<Vec<Transaction>> {
    let Some(store) = place.read_journal()? else { return Ok(Vec::new()) };
    Ok(log(&store)?.into_iter().filter_map(|logged| logged.transaction.ok()).collect())
}

fn refusal(group: &Limited<'_>, why: &str) -> anyhow::Error {
    let why = format!("{why}; {OVERRIDE} sets it all the same");
    PlanError::Refused { label: group.label.clone(), why }.into()
}

/// Looks on for a window; or why that can't be.
fn look(place: &Place) -> Result<(Status, Vec<DiskUser>), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("that needs root".to_owned());
    }
    let mut probe = Probe::open(None).map_err(|e| e.to_string())?;
    if probe.source() == SourceKind::Proc {
        return Err(probe.blind().first().map_or_else(String::new, ToString::to_string));
    }
    // A signal ends the process, as everywhere before the first write.
    let never = AtomicBool::new(false);
    probe.warm_up(&never).map_err(|e| e.to_string())?;
    let before = Observation::read(&place.root);
    probe.wait(WINDOW, &never).map_err(|e| e.to_string())?;
    let seen = probe.snapshot().map_err(|e| e.to_string())?;
    let after = before.read_again(&place.root);
    // Processes are judged by the probe's window; a slow machine observes later.
    let status = status(&place.root, &before, &after, seen.window.as_secs_f64(), true);
    Ok((status, disk_users(&place.root, &seen, &mut Workloads::new(&place.root))))
}
