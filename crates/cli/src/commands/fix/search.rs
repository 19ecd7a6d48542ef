//! `floodwall fix DIR --tune`: a search in the place of the first guess.

use std::time::Instant;

use floodwall_model::units::human_duration;

use super::FixArgs;
use crate::commands::settings::trial::{Begun, Trial};
use crate::commands::tune;
use crate::exit::{Exit, UsageError};
use crate::output::notice;

/// Asks, searches, and puts the recommended setting in force for a time.
pub(super) fn run(args: &FixArgs, origin: Instant) -> anyhow::Result<Exit> {
    let directory = args.about.as_deref().unwrap_or_default();
    if !std::path::Path::new(directory).is_dir() {
        let why = format!("'{directory}' is no directory: a search needs one on the disk");
        return Err(UsageError(why).into());
    }
    let question = format!(
        "Search for {}? It makes the stall that it measures, on the disk below '{directory}'",
        human_duration(args.search_time)
    );
    if !args.trial.agrees(&question)? {
        notice("nothing was changed");
        return Ok(Exit::Failed);
    }
    let time = format!("{}ms", args.search_time.as_millis());
    let found = tune::recommend(&["--time", &time, "--", directory], origin)?;
    let Some(found) = found.setting else { return Ok(found.exit) };
    let why = "floodwall fix --tune".to_owned();
    match Trial::begin(found.words, found.device, why, args.trial.clone())? {
        Begun::Trial(trial) => trial.keep(),
        Begun::Not(exit) => Ok(exit),
    }
}
