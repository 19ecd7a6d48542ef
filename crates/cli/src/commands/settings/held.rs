//! Asks a guard for knobs that it holds and that are to be changed or put back.

use floodwall_daemon::DaemonError;
use floodwall_daemon::socket::ask_to_yield;
use floodwall_knobs::journal::{DiskStore, JournalError};
use floodwall_knobs::{InTheWay, Intention};
use floodwall_model::message;
use floodwall_report::repeat::quoted;

use super::Place;

/// How often a guard is asked for knobs that it has taken again meanwhile.
const ATTEMPTS: u32 = 3;
/// Knobs that a message names.
const NAMED: usize = 3;

/// A process does not yield knobs. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[error("nothing was changed: {0}")]
pub(crate) struct StillHeld(String);

/// Has a guard put knobs back and leave them alone.
///
/// # Errors
/// Which knobs it does not yield, why, and what to do.
pub(crate) fn ask(held: &InTheWay) -> Result<(), String> {
    let Some(socket) = &held.socket else {
        return Err(format!(
            "{}, which can't be asked, because it has no socket; stop it first",
            told(held)
        ));
    };
    let socket_name = socket.display();
    ask_to_yield(socket, &held.knobs, &held.labels).map_err(|e| {
        let why = match &e {
            DaemonError::NoAnswer { source, .. } => {
                format!("which does not answer at '{socket_name}' ({source})")
            }
            other => format!("which does not yield: {}", message::line(other)),
        };
        format!(
            "{}, {why}; run floodwall guard pause --socket {}, or stop that guard",
            told(held),
            quoted(&socket_name.to_string())
        )
    })
}

/// `sda.nr_requests is held by pid 4711 (floodwall guard)`.
pub(super) fn told(held: &InTheWay) -> String {
    let labels = message::first_of(&held.labels, NAMED);
    let verb = if held.labels.len() == 1 { "is" } else { "are" };
    format!("{labels} {verb} held by {}", held.by)
}

impl Place {
    /// The knobs that another process holds in the way, by the journal as it reads now.
    pub(super) fn in_the_way(&self, of: Intention<'_>) -> anyhow::Result<Option<InTheWay>> {
        let Some(store) = self.read_journal()? else { return Ok(None) };
        Ok(self.session(&store, &self.clock(None))?.in_the_way(of)?)
    }

    /// The journal with its lock, once no other process holds a knob in the way.
    pub(super) fn lock_for(&self, of: Intention<'_>) -> anyhow::Result<DiskStore> {
        for _ in 0..ATTEMPTS {
            let store = self.lock()?;
            let Some(held) = self.session(&store, &self.clock(None))?.in_the_way(of)? else {
                return Ok(store);
            };
            drop(store);
            ask(&held).map_err(StillHeld)?;
        }
        let store = self.lock()?;
        match self.session(&store, &self.clock(None))?.in_the_way(of)? {
            Some(held) => {
                Err(StillHeld(format!("{}, which takes them again; stop it first", told(&held)))
                    .into())
            }
            None => Ok(store),
        }
    }
}

/// Whether an error passes by itself: another process is at the journal, or does not yield a knob.
pub(super) fn passes(error: &anyhow::Error) -> bool {
    error.is::<StillHeld>() || matches!(error.downcast_ref(), Some(JournalError::Held { .. }))
}
