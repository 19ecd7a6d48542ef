//! A change for a time that may be kept: what `floodwall fix` puts in force.
//!
//! ```text
//! settings ─▶ apply for a time (shown, asked) ─▶ Trial ─┬─ nothing more ─▶ the timer puts it back
//!                                                       └─ keep ─▶ persist (asked)
//!                                                               ─▶ put back, applied for good
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use floodwall_knobs::{Change, Fate, Intention};
use floodwall_report::repeat::quoted;

use super::apply::{self, Made, Terms};
use super::persist::{self, PersistArgs};
use super::{Place, PlaceArgs, ask, sources, text};
use crate::exit::Exit;
use crate::output::notice;
use crate::signals;

/// How it is applied.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct TrialArgs {
    /// Put everything back after this time, even if the terminal is gone
    #[arg(long = "for", value_name = "TIME", default_value = "10m", value_parser = apply::time)]
    time: Duration,
    /// Do not ask; nothing is kept across boots then
    #[arg(long, short)]
    yes: bool,
    /// Print the exact writes and make none
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Set limits also where they could hang a process that serves a block device of this machine
    /// (FW045).
    #[arg(long)]
    allow_userspace_servers: bool,
    /// Where journals are kept; /var/lib/floodwall/journal if not given
    #[arg(long, value_name = "DIR")]
    journal: Option<std::path::PathBuf>,
}

/// A change that its timer puts back, unless it is kept.
pub(crate) struct Trial {
    place: Place,
    settings: Vec<String>,
    device: Option<String>,
    changes: Vec<Change>,
    why: String,
    id: u64,
    args: TrialArgs,
    /// Raised while a signal may end this process: the timer puts the change back.
    may_end: Arc<AtomicBool>,
}

/// What became of a trial.
pub(crate) enum Begun {
    /// It is in force.
    Trial(Box<Trial>),
    /// It is not, with the status of that.
    Not(Exit),
}

impl Trial {
    /// Shows what would change, asks, and applies it for a time. `device` is meant where a
    /// setting's knob names none.
    ///
    /// # Errors
    /// What could not be done; [`Exit::of`] turns it into a status.
    pub(crate) fn begin(
        settings: Vec<String>,
        device: Option<String>,
        why: String,
        args: TrialArgs,
    ) -> anyhow::Result<Begun> {
        let place = place(&args).open()?.rehearses(args.dry_run);
        let place = place.allow_userspace_servers(args.allow_userspace_servers);
        let of = place.device(device.as_deref())?;
        let changes = sources::read(&place, of.as_ref(), &settings)?.changes;
        let made = apply::make(&place, &changes, &why, &args.terms(Some(args.time)))?;
        Ok(match made {
            Made::Applied(id) => {
                let may_end = signals::end_at_once()?;
                let trial = Self { place, settings, device, changes, why, id, args, may_end };
                Begun::Trial(Box::new(trial))
            }
            other => Begun::Not(other.exit()),
        })
    }

    /// The change that ends it: all changes after this one stay.
    pub(crate) fn before(&self) -> u64 {
        self.id.saturating_sub(1)
    }

    /// Asks, and keeps it: across boots, and from now on. Without a terminal or with `--yes`
    /// there is no question, and nothing is kept.
    ///
    /// # Errors
    /// What could not be done. Until it is kept it is put back by itself.
    pub(crate) fn keep(self) -> anyhow::Result<Exit> {
        if self.args.yes || !ask::is_possible() {
            notice(&format!("to keep it across boots: {}", self.persists()));
            return Ok(Exit::Done);
        }
        if !ask::confirm("Keep this across boots?")? {
            return Ok(Exit::Done);
        }
        persist::run(&PersistArgs::of(
            self.settings.clone(),
            self.device.clone(),
            place(&self.args),
            self.args.allow_userspace_servers,
        ))?;
        self.make_permanent().context(
            "it is kept for the next boot, and undone by itself until then; floodwall apply with \
             the same settings puts it in force",
        )
    }

    /// The command that keeps it.
    fn persists(&self) -> String {
        let device = self.device.as_ref().map(|name| format!(" --device {}", quoted(name)));
        let settings: Vec<String> = self.settings.iter().map(|one| quoted(one)).collect();
        format!("floodwall persist{} {}", device.unwrap_or_default(), settings.join(" "))
    }

    /// The same values again, without an end. Values that another program has set meanwhile are
    /// left alone.
    fn make_permanent(&self) -> anyhow::Result<Exit> {
        self.may_end.store(false, Ordering::Relaxed);
        let clock = self.place.clock(None);
        let store = self.place.lock_for(Intention::RollbackOne(self.id))?;
        let (recovery, undone) = self.place.session(&store, &clock)?.rollback_one(self.id)?;
        drop(store);
        let mut undone = recovery.expired.iter().chain(&undone).filter(|one| one.id == self.id);
        let is_ours = |fate: &Fate| matches!(fate, Fate::Restored { .. } | Fate::Unchanged);
        if let Some(foreign) = undone.find(|one| !one.entries.iter().all(|(_, f)| is_ours(f))) {
            notice(text::undone(foreign).trim_end());
            anyhow::bail!("another program has changed a value meanwhile: see floodwall diff");
        }
        let terms = Terms { yes: true, ..self.args.terms(None) };
        Ok(apply::make(&self.place, &self.changes, &self.why, &terms)?.exit())
    }
}

impl TrialArgs {
    /// Whether the user wants it, who may have said so beforehand.
    ///
    /// # Errors
    /// [`UsageError`](crate::exit::UsageError) without a terminal to ask at.
    pub(crate) fn agrees(&self, question: &str) -> anyhow::Result<bool> {
        Ok(self.yes || ask::confirm(question)?)
    }

    fn terms(&self, time: Option<Duration>) -> Terms {
        Terms {
            time,
            yes: self.yes,
            dry_run: self.dry_run,
            allow_userspace_servers: self.allow_userspace_servers,
        }
    }
}

/// This machine, with that journal.
fn place(args: &TrialArgs) -> PlaceArgs {
    PlaceArgs { root: "/".into(), journal: args.journal.clone() }
}
